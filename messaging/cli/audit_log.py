"""`messaging audit list`: who did what, with what stood before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messaging.cli.acting import acting_for, print_json
from messaging.cli.records import MAX_PAGE
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, time_value, whole_number
from messaging.errors import ConfigurationError

if TYPE_CHECKING:
    from messaging.audit.trail import AuditLine

audit = typer.Typer(help="The audit log: what operators did.")

_id = whole_number(1, MAX_ID)
#: Characters of a value in a table; `--json` has all of it.
_MAX_SHOWN_CHARS = 60


@audit.command("list")
def list_entries(
    actor: Annotated[
        str | None, typer.Option(metavar="WHO", help="Such as operator:5, token:7, 'command line'.")
    ] = None,
    action: Annotated[str | None, typer.Option(metavar="VERB", help="Such as create, update, retry.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TABLE[:ID]", help="Such as mail_template or mail_template:12.")
    ] = None,
    since: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Not before.")] = None,
    until: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Before.")] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 50,
    before: Annotated[
        int | None, typer.Option(parser=_id, metavar="ID", help="Go on below this entry, the last one shown.")
    ] = None,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List what was done, newest first. Secrets are noted as changed, never with their value."""
    from messaging import api

    for name, at in (("--since", since), ("--until", until)):
        if at is not None and at.utcoffset() is None:
            raise ConfigurationError(f"{name} is {at.isoformat()}; it needs a zone, such as Z or +01:00")
    target_type, _, target_id = (target or "").partition(":")
    with acting_for(tenant, may_be_all=True):
        lines = api.list_audit_entries(
            actor=actor,
            action=action,
            target_type=target_type or None,
            target_id=_id(target_id) if target_id else None,
            since=since,
            until=until,
            limit=limit,
            before=before,
        )
    next_before = lines[-1].id if len(lines) == limit else None
    if as_json:
        print_json({"entries": [asdict(line) for line in lines], "next_before": next_before})
    else:
        _print_list(lines, next_before)


def _print_list(lines: Sequence["AuditLine"], next_before: int | None) -> None:
    from rich.text import Text

    from messaging.terminal import console_for_people, table, time_text

    console = console_for_people()
    if not lines:
        console.print("no entries")
        return
    shown = table("id", "at", "who", "action", "what", "change")
    for line in lines:
        who = line.actor if line.actor_name is None else f"{line.actor} ({line.actor_name})"
        what = line.target_type if line.target_id is None else f"{line.target_type} {line.target_id}"
        shown.add_row(str(line.id), time_text(line.at), Text(who), line.action, what, Text(_change(line)))
    console.print(shown)
    if next_before is not None:
        console.print(f"older ones: --before {next_before}")


def _change(line: "AuditLine") -> str:
    """One column a line: `port: 25 -> 587`."""
    before, after = line.before or {}, line.after or {}
    told = [f"{name}: {_was(before, name)}{_is(after, name)}" for name in {**before, **after}]
    return "\n".join([*told, *([f"note: {line.note}"] if line.note else [])])


def _was(before: Mapping[str, Any], name: str) -> str:
    return f"{_short(before[name])} -> " if name in before else ""


def _is(after: Mapping[str, Any], name: str) -> str:
    return _short(after[name]) if name in after else "gone"


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _MAX_SHOWN_CHARS else text[:_MAX_SHOWN_CHARS] + "…"
