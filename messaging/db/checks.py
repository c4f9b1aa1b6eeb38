"""CHECK constraints that tables of several parts have in common."""

from collections.abc import Iterable

from sqlalchemy import CheckConstraint


def one_of(column: str, values: Iterable[str], name: str) -> CheckConstraint:
    """A CHECK that a text column holds one of an enum's values, or null."""
    allowed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({allowed})", name=name)
