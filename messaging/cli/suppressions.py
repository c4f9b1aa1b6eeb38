"""`messaging suppression ...`: addresses and numbers that get nothing, seen, put on, lifted, moved as files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer

from messaging.cli.acting import acting_for, print_json, refused
from messaging.cli.records import MAX_PAGE
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, member, whole_number
from messaging.errors import ConfigurationError, MessagingError
from messaging.requests import SuppressionReason

MAIL, SMS = "mail", "sms"

suppression = typer.Typer(help="Addresses and numbers that get nothing.")


def _channel(text: str) -> str:
    if text.lower() not in (MAIL, SMS):
        raise typer.BadParameter(f"{text!r} is none of {MAIL}, {SMS}")
    return text.lower()


Channel = Annotated[str | None, typer.Option(parser=_channel, metavar=f"{MAIL}|{SMS}")]
Reason = Annotated[SuppressionReason, typer.Option(parser=member(SuppressionReason), metavar="REASON")]


@suppression.command("list")
def list_entries(
    channel: Channel = None,
    search: Annotated[str | None, typer.Option(help="A part of the address or number.")] = None,
    reason: Annotated[
        SuppressionReason | None, typer.Option(parser=member(SuppressionReason), metavar="REASON")
    ] = None,
    lifted: Annotated[bool, typer.Option("--lifted", help="Those that were lifted, too.")] = False,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 50,
    before: Annotated[
        int | None,
        typer.Option(parser=whole_number(1, MAX_ID), metavar="ID", help="Go on below this entry, as told at the end."),
    ] = None,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List entries, newest first."""
    from messaging import api
    from messaging.terminal import print_suppressions

    with acting_for(tenant, may_be_all=True):
        lines = api.list_suppressions(
            channel=channel, search=search, reason=reason, with_lifted=lifted, limit=limit, before=before
        )
    next_before = lines.next_before
    if as_json:
        print_json({"entries": [asdict(line) for line in lines], "next_before": next_before})
    else:
        print_suppressions(lines, next_before)


@suppression.command()
def add(
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS...", help="Mail addresses, numbers in E.164.")],
    reason: Reason = SuppressionReason.MANUAL,
    only_list: Annotated[
        str, typer.Option("--only-list", metavar="NAME", help="Mails of this mailing list only.")
    ] = "",
    only_sender: Annotated[
        str, typer.Option("--only-sender", metavar="SENDER", help="Text messages of this number or name only.")
    ] = "",
    note: Annotated[str | None, typer.Option(help="For whoever reads the list.")] = None,
    tenant: Tenant = None,
) -> None:
    """Put addresses or numbers on the list, all or none; what is there already stays as it is."""
    from messaging import api
    from messaging.db.session import transaction

    with acting_for(tenant) as engine, transaction(engine) as session:
        for address in addresses:
            entry_id = api.add_suppression(
                address,
                channel=SMS if address.lstrip().startswith("+") and "@" not in address else MAIL,
                reason=reason,
                list_name=only_list,
                sender=only_sender,
                note=note,
                session=session,
            )
            typer.echo(f"{entry_id}  {address}")


@suppression.command()
def lift(
    entry_ids: Annotated[
        list[int], typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID...", help="Ids of entries.")
    ],
    note: Annotated[str, typer.Option(help="Why; kept with the entry.")],
    tenant: Tenant = None,
) -> int:
    """Lift entries, saying why. Those that there are none of are named, and the exit is 2."""
    from messaging import api

    code = 0
    with acting_for(tenant):
        for entry_id in entry_ids:
            try:
                is_lifted = api.lift_suppression(entry_id, note=note)
            except MessagingError as exc:
                code = refused(str(exc))
            else:
                typer.echo(f"{entry_id} is lifted" if is_lifted else f"{entry_id} was lifted before")
    return code


@suppression.command("import")
def import_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV with a header line; `-` reads standard input.")],
    channel: Channel = None,
    reason: Reason = SuppressionReason.MANUAL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at everything, write nothing.")] = False,
    tenant: Tenant = None,
) -> None:
    """Put the entries of a CSV file on the list, all or none; bad lines are named.

    --channel (mail) and --reason are for lines that do not say theirs.
    """
    from messaging import api

    with acting_for(tenant), _opened(file) as source:
        done = api.import_suppressions(source, name=file, channel=channel or MAIL, reason=reason, dry_run=dry_run)
    verb = "would be added" if dry_run else "added"
    typer.echo(f"{done.added} {verb}, {done.known} known before, {done.lifted} left out as lifted")


@suppression.command("export")
def export_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="`-` writes standard output.")] = "-",
    lifted: Annotated[bool, typer.Option("--lifted", help="Those that were lifted, too.")] = False,
    tenant: Tenant = None,
) -> None:
    """Write the list as a CSV file that `import` reads."""
    from messaging import api

    with acting_for(tenant), _opened(file, "w") as target:
        count = api.export_suppressions(target, with_lifted=lifted)
    typer.echo(f"{count} entries", err=True)


@contextmanager
def _opened(file: str, mode: str = "r") -> Iterator[TextIO]:
    """A file as text, or the standard stream of that direction. Raises: ConfigurationError."""
    if file == "-":
        yield sys.stdin if mode == "r" else sys.stdout
        return
    try:
        with Path(file).open(mode, encoding="utf-8", newline="") as opened:
            yield cast("TextIO", opened)
    except OSError as exc:
        if exc.filename is None:
            raise
        raise ConfigurationError(f"{file}: {exc.strerror}") from exc
