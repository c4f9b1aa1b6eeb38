"""What templates are as configurations, whatever their channel: by code, of which a tenant has one each."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.config_kinds import Kind, LineT, Twin, no_references
from messaging.errors import TemplateRejected
from messaging.templates import versions  # noqa: F401 - keeps what is saved


def template_kind(
    what: str,
    model: type[Any],
    line: type[LineT],
    *,
    fields: tuple[str, ...],
    defaults: Mapping[str, Any],
    check: Callable[[Mapping[str, Any]], dict[str, Any]],
    check_references: Callable[[Session, Mapping[str, Any]], None] = no_references,
) -> Kind[LineT]:
    """Templates of one table; arguments as `Kind` has them. A copy gets a code of its own."""

    def of_its_code(row: Mapping[str, Any]) -> Twin:
        same = select(model).where(model.code == row["code"])
        return Twin(same, "code", "this tenant has a template of this code")

    return Kind(
        what=what,
        model=model,
        line=line,
        fields=fields,
        defaults=defaults,
        not_copied=frozenset({"code"}),
        check=check,
        check_references=check_references,
        order=("code", "tenant_id"),
        searched=("code", "name"),
        twin=of_its_code,
        rejected=TemplateRejected,
    )
