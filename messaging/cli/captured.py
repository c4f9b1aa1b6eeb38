"""`messaging captured ...`: messages that sandbox mode kept, listed, shown and cleared away."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from messaging.cli.acting import acting_for, print_json
from messaging.cli.records import MAX_PAGE
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, whole_number

captured = typer.Typer(help="Messages that sandbox mode kept.")

CapturedId = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID", help="The message's id.")]
_MaybeId = typer.Option(parser=whole_number(1, MAX_ID), metavar="ID")


@captured.command("list")
def list_messages(
    channel: Annotated[str | None, typer.Option(metavar="CHANNEL", help="mail, sms or webhook.")] = None,
    record: Annotated[int | None, _MaybeId] = None,
    recipient: Annotated[str | None, typer.Option(metavar="ADDRESS", help="An address or a number.")] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 50,
    before: Annotated[
        int | None,
        typer.Option(parser=whole_number(1, MAX_ID), metavar="ID", help="Go on below this one, the last one shown."),
    ] = None,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List captured messages, newest first."""
    from messaging import api
    from messaging.cli.captured_tables import print_captured
    from messaging.errors import ConfigurationError

    with acting_for(tenant, may_be_all=True):
        try:
            lines = api.list_captured(
                channel=channel, record_id=record, recipient=recipient, limit=limit, before=before
            )
        except ValueError as exc:
            raise ConfigurationError(f"--{exc}") from exc
    next_before = lines[-1].id if len(lines) == limit else None
    if as_json:
        print_json({"messages": [asdict(line) for line in lines], "next_before": next_before})
    else:
        print_captured(lines, next_before)


@captured.command()
def show(
    captured_id: CapturedId,
    raw: Annotated[bool, typer.Option("--raw", help="Only the mail, as it would have gone over the wire.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """Tell all of a captured message; --raw writes the mail to standard output."""
    from messaging import api
    from messaging.cli.captured_tables import print_captured_message
    from messaging.errors import RecordNotFound

    with acting_for(tenant, may_be_all=True):
        message = api.get_captured(captured_id)
    if raw:
        if message.raw is None:
            raise RecordNotFound(f"captured message {captured_id} is no mail")
        sys.stdout.buffer.write(message.raw)
        sys.stdout.flush()
    elif as_json:
        print_json({name: value for name, value in asdict(message).items() if name != "raw"})
    else:
        print_captured_message(message)


@captured.command()
def clear(tenant: Tenant = None) -> None:
    """Delete all captured messages."""
    from messaging import api

    with acting_for(tenant):
        typer.echo(api.clear_captured())
