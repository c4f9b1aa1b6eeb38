"""What the command line takes as values: parsers that name what they refuse, and arguments of several commands."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import typer

#: Largest id of a bigint column.
MAX_ID = 2**63 - 1
#: What `--tenant` takes for all of them.
ALL_TENANTS = "all"

_Member = TypeVar("_Member", bound=StrEnum)


def whole_number(low: int, high: int) -> Any:
    """A parser of whole numbers within these bounds."""

    def parse(text: str | int) -> int:
        try:
            number = int(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a whole number") from None
        if not low <= number <= high:
            raise typer.BadParameter(f"{number} is not within {low} to {high}")
        return number

    return parse


def member(kind: type[_Member]) -> Any:
    """A parser of an enum's values, in any case."""

    def parse(text: str | _Member) -> _Member:
        try:
            return kind(str(text).upper().replace("-", "_"))
        except ValueError:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(kind)}") from None

    return parse


def time_value(text: str | datetime) -> datetime:
    """A time; acceptance asks for its zone."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time such as 2030-01-31T08:00:00+01:00") from None


def tenant_value(text: str | int) -> str:
    """A tenant's id, or `ALL_TENANTS`."""
    if text == ALL_TENANTS:
        return ALL_TENANTS
    return str(whole_number(-1, MAX_ID)(text))


def given(**fields: Any) -> Any:
    """The fields that an option was given for."""
    return {name: value for name, value in fields.items() if value is not None}


RecordId = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID", help="The record's id.")]
#: Of a command that finds its records otherwise, too.
RecordIds = Annotated[
    list[int] | None, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID...", help="Ids of records.")
]
Tenant = Annotated[
    str | None,
    typer.Option(
        parser=tenant_value, metavar="ID", help="On whose behalf, where multi-tenancy is on; -1 is the platform."
    ),
]
AnyTenant = Annotated[
    str | None,
    typer.Option(
        parser=tenant_value, metavar="ID|all", help="On whose behalf, where multi-tenancy is on; -1 is the platform."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
