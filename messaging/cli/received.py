"""`messaging received ...`: received mails seen, marked read, archived, marked deleted."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from messaging.cli.acting import acting_for, print_json, refused
from messaging.cli.records import MAX_PAGE
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, member, whole_number
from messaging.errors import MessagingError, RecordNotFound
from messaging.receive.vocabulary import LinkStatus, MailType, ReceivedFlag, ReceivedStatus

if TYPE_CHECKING:
    from messaging.api import MailStatus

received = typer.Typer(help="Received mails.")

ReceivedId = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID", help="The mail's id.")]
ReceivedIds = Annotated[
    list[int], typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID...", help="Ids of received mails.")
]
_MaybeId = typer.Option(parser=whole_number(1, MAX_ID), metavar="ID")


@received.command("list")
def list_mails(
    mail_type: Annotated[
        MailType | None,
        typer.Option("--type", parser=member(MailType), metavar="TYPE", help="bounce, read-receipt, auto-reply, ..."),
    ] = None,
    status: Annotated[
        ReceivedStatus | None,
        typer.Option(parser=member(ReceivedStatus), metavar="STATUS", help="By default all but deleted."),
    ] = None,
    link: Annotated[
        LinkStatus | None,
        typer.Option(parser=member(LinkStatus), metavar="LINK", help="pending, linked, unmatched or none."),
    ] = None,
    flag: Annotated[
        list[ReceivedFlag] | None,
        typer.Option(parser=member(ReceivedFlag), metavar="FLAG", help="spam, bulk, ...; of several all."),
    ] = None,
    mailbox: Annotated[int | None, _MaybeId] = None,
    record: Annotated[int | None, _MaybeId] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 50,
    before: Annotated[
        int | None,
        typer.Option(parser=whole_number(1, MAX_ID), metavar="ID", help="Go on below this mail, as told at the end."),
    ] = None,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List received mails, newest first; --record: those about this send record."""
    from messaging import api
    from messaging.cli.received_tables import print_received

    with acting_for(tenant, may_be_all=True):
        lines = api.list_received(
            mail_type=mail_type,
            status=status,
            link_status=link,
            flags=flag or (),
            mailbox_id=mailbox,
            record_id=record,
            limit=limit,
            before=before,
        )
    next_before = lines.next_before
    if as_json:
        print_json({"mails": [asdict(line) for line in lines], "next_before": next_before})
    else:
        print_received(lines, next_before)


@received.command()
def show(
    received_id: ReceivedId,
    bodies: Annotated[bool, typer.Option("--bodies", help="The bodies too.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """Tell all of a received mail: what it is, what it says of whom, which mail of ours it is about."""
    from messaging import api
    from messaging.cli.received_tables import print_received_mail

    with acting_for(tenant, may_be_all=True):
        mail = api.get_received(received_id, with_bodies=bodies)
        record = None if mail.linked_send_record_id is None else _linked(mail.linked_send_record_id)
    if as_json:
        told = asdict(mail)
        if not bodies:
            told = {name: value for name, value in told.items() if name not in ("body_text", "body_html")}
        print_json(told | {"linked_record": record and asdict(record)})
    else:
        print_received_mail(mail, record)


@received.command()
def read(received_ids: ReceivedIds, tenant: Tenant = None) -> int:
    """Mark mails read. Those that there are none of are named, and the exit is 2."""
    from messaging import api

    return _each(received_ids, tenant, api.mark_received_read, "is read", "was not unread")


@received.command()
def archive(received_ids: ReceivedIds, tenant: Tenant = None) -> int:
    """Archive mails. Those that there are none of are named, and the exit is 2."""
    from messaging import api

    return _each(received_ids, tenant, api.archive_received, "is archived", "was archived or deleted before")


@received.command()
def delete(received_ids: ReceivedIds, tenant: Tenant = None) -> int:
    """Mark mails deleted: they leave the lists and stay stored. Those that there are none of are named."""
    from messaging import api

    return _each(received_ids, tenant, api.mark_received_deleted, "is deleted", "was deleted before")


def _linked(record_id: int) -> "MailStatus | None":
    """Where the record stands; None where it is another tenant's, as in the platform's mailbox."""
    from messaging import api

    try:
        found = api.status(record_id)
    except RecordNotFound:
        return None
    return found if isinstance(found, api.MailStatus) else None


def _each(ids: list[int], tenant: str | None, act: Callable[[int], bool], done: str, unchanged: str) -> int:
    code = 0
    with acting_for(tenant):
        for received_id in ids:
            try:
                is_changed = act(received_id)
            except MessagingError as exc:
                code = refused(str(exc))
            else:
                typer.echo(f"{received_id} {done if is_changed else unchanged}")
    return code
