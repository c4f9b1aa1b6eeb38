"""`messaging dead-letter ...`: sends without attempts left and messages nobody could process, seen and settled."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from messaging.cli.acting import acting_as_platform, print_json, refused
from messaging.cli.records import MAX_PAGE
from messaging.cli.values import MAX_ID, AsJson, member, whole_number
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.errors import MessagingError

if TYPE_CHECKING:
    from messaging.delivery.triage import DeadLetter, DeadLetterLine

dead_letter = typer.Typer(help="What was given up: sends without attempts left, messages that no worker could process.")

_id = whole_number(1, MAX_ID)
DeadLetterIds = Annotated[list[int], typer.Argument(parser=_id, metavar="ID...", help="Ids of dead letters.")]
Remark = Annotated[str | None, typer.Option(help="For whoever reads it later.")]


@dead_letter.command("list")
def list_dead_letters(
    status: Annotated[
        DeadLetterStatus | None,
        typer.Option(parser=member(DeadLetterStatus), metavar="STATUS", help="pending, resolved or discarded."),
    ] = None,
    source: Annotated[
        DeadLetterSource | None,
        typer.Option(parser=member(DeadLetterSource), metavar="SOURCE", help="send-exhausted or broker-poison."),
    ] = None,
    record: Annotated[
        int | None, typer.Option(parser=_id, metavar="ID", help="Those that are about this send record.")
    ] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 50,
    before: Annotated[
        int | None, typer.Option(parser=_id, metavar="ID", help="Go on below this one, the last one shown.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters of all tenants, newest first."""
    from messaging import api

    with acting_as_platform():
        lines = api.list_dead_letters(status=status, source=source, record_id=record, limit=limit, before=before)
    next_before = lines[-1].id if len(lines) == limit else None
    if as_json:
        print_json({"dead_letters": [asdict(line) for line in lines], "next_before": next_before})
    else:
        _print_list(lines, next_before)


@dead_letter.command()
def show(
    dead_letter_id: Annotated[int, typer.Argument(parser=_id, metavar="ID", help="The dead letter's id.")],
    as_json: AsJson = False,
) -> None:
    """Tell all of a dead letter, with what it holds."""
    from messaging import api

    with acting_as_platform():
        found = api.get_dead_letter(dead_letter_id)
    if as_json:
        print_json(asdict(found))
    else:
        _print_one(found)


@dead_letter.command()
def resolve(dead_letter_ids: DeadLetterIds, remark: Remark = None) -> int:
    """Say that they were seen to; `messaging retry` sends a record again. Those that cannot be are named, exit 2."""
    from messaging import api

    return _each(dead_letter_ids, lambda one: api.resolve_dead_letter(one, remark=remark), "resolved")


@dead_letter.command()
def discard(dead_letter_ids: DeadLetterIds, remark: Remark = None) -> int:
    """Say that nothing is to come of them. Those that cannot be are named, exit 2."""
    from messaging import api

    return _each(dead_letter_ids, lambda one: api.discard_dead_letter(one, remark=remark), "discarded")


def _each(ids: Sequence[int], settle: Callable[[int], None], word: str) -> int:
    code = 0
    with acting_as_platform():
        for dead_letter_id in ids:
            try:
                settle(dead_letter_id)
            except MessagingError as exc:
                code = refused(str(exc))
            else:
                typer.echo(f"{dead_letter_id} is {word}")
    return code


def _print_list(lines: Sequence["DeadLetterLine"], next_before: int | None) -> None:
    from rich.text import Text

    from messaging.terminal import console_for_people, table, time_text

    console = console_for_people()
    if not lines:
        console.print("no dead letters")
        return
    shown = table("id", "at", "status", "what", "tenant", "queue", "record", "error")
    for line in lines:
        shown.add_row(
            str(line.id),
            time_text(line.created_at),
            line.status,
            line.event_type or "",
            "" if line.source_tenant_id is None else str(line.source_tenant_id),
            Text(line.original_queue),
            str(line.event_id or ""),
            Text((line.last_error_msg or "").splitlines()[0] if line.last_error_msg else ""),
        )
    console.print(shown)
    if next_before is not None:
        console.print(f"older ones: --before {next_before}")


def _print_one(found: "DeadLetter") -> None:
    import json

    from rich.text import Text

    from messaging.terminal import console_for_people, time_text

    console = console_for_people()
    console.print(Text(f"dead letter {found.id}  ", style="bold"), f"{found.event_type}  {found.status}", sep="")
    told = {
        "at": time_text(found.created_at),
        "tenant": found.source_tenant_id,
        "record": found.event_id,
        "queue": found.original_queue,
        "task": found.task_name,
        "task id": found.task_id,
        "worker": found.worker_name,
        "error": found.last_error_msg,
        "settled": None if found.status is DeadLetterStatus.PENDING else time_text(found.updated_at),
        "by": found.updated_by,
        "remark": found.resolved_remark,
    }
    for label, value in told.items():
        if value not in (None, ""):
            console.print(Text(f"{label:>10}  ", style="dim"), Text(str(value)), sep="", soft_wrap=True)
    console.print()
    console.print(Text(json.dumps(found.payload, ensure_ascii=False, indent=2)), soft_wrap=True)
