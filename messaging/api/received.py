"""Received mails: looked at, read, archived."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, known_id, member, member_if_given, number, number_if_given
from messaging.api.process import environment
from messaging.db.newest import Page
from messaging.errors import RecordNotFound, shown_value
from messaging.receive import received
from messaging.receive.received import ReceivedLine, ReceivedMail
from messaging.receive.vocabulary import LinkStatus, MailType, ReceivedFlag, ReceivedStatus, TruncationReason


def list_received(
    *,
    mail_type: MailType | None = None,
    status: ReceivedStatus | None = None,
    link_status: LinkStatus | None = None,
    flags: Collection[ReceivedFlag] = (),
    truncation: TruncationReason | None = None,
    mailbox_id: int | None = None,
    record_id: int | None = None,
    limit: int = 50,
    before: int | None = None,
    session: Session | None = None,
) -> Page[ReceivedLine]:
    """Received mails of this tenant, newest first, as a list that knows where the next page begins.

    Without a `status` all but those marked deleted. `flags`: those that have all of them. `record_id`: those about this
    send record. `before` is the `next_before` of the page before.

    Raises:
        TypeError: A value of another type.
        ValueError: One that cannot be. In both cases nothing was asked, and the transaction is still usable.
    """
    if isinstance(flags, str | bytes):
        raise TypeError(f"flags is {shown_value(flags)}; it is a list of flags")
    checked: dict[str, Any] = {
        "mail_type": member_if_given("mail_type", mail_type, MailType),
        "status": member_if_given("status", status, ReceivedStatus),
        "link_status": member_if_given("link_status", link_status, LinkStatus),
        "flags": [member("flags", flag, ReceivedFlag) for flag in flags],
        "truncation_reason": member_if_given("truncation", truncation, TruncationReason),
        "server_config_id": number_if_given("mailbox_id", mailbox_id),
        "record_id": number_if_given("record_id", record_id),
        "limit": number("limit", limit),
        "before": number_if_given("before", before),
    }
    environment()
    with in_session(session) as s:
        return received.page(s, **checked)


def get_received(received_id: int, *, with_bodies: bool = True, session: Session | None = None) -> ReceivedMail:
    """One received mail as a whole.

    Raises:
        RecordNotFound: No such mail in this tenant.
    """
    received_id = known_id(received_id, what="received mail")
    environment()
    with in_session(session) as s:
        return received.get(s, received_id, with_bodies=with_bodies)


def mark_received_read(received_id: int, *, session: Session | None = None) -> bool:
    """Mark a received mail read; answers whether it was UNREAD, any other stays as it is.

    Raises:
        RecordNotFound: No such mail in this tenant.
    """
    received_id = known_id(received_id, what="received mail")
    environment()
    with in_session(session) as s:
        return received.mark_read(s, received_id)


def mark_received_read_batch(received_ids: Sequence[int], *, session: Session | None = None) -> int:
    """As `mark_received_read` for many; ids of none in this tenant are left out. Answers how many became READ."""
    ids = []
    for received_id in received_ids:
        with suppress(RecordNotFound):
            ids.append(known_id(received_id, what="received mail"))
    environment()
    with in_session(session) as s:
        return received.mark_read_batch(s, ids)


def archive_received(received_id: int, *, session: Session | None = None) -> bool:
    """Archive a received mail; answers whether it was UNREAD or READ, any other stays as it is.

    Raises:
        RecordNotFound: No such mail in this tenant.
    """
    received_id = known_id(received_id, what="received mail")
    environment()
    with in_session(session) as s:
        return received.archive(s, received_id)


def mark_received_deleted(received_id: int, *, session: Session | None = None) -> bool:
    """Mark a received mail deleted: it leaves the lists and stays stored. Answers whether it was not marked before.

    Raises:
        RecordNotFound: No such mail in this tenant.
    """
    received_id = known_id(received_id, what="received mail")
    environment()
    with in_session(session) as s:
        return received.mark_deleted(s, received_id)
