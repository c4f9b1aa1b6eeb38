"""What comes back of the mails that were sent, as a provider tells an application: bounces and read receipts."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, known_id
from messaging.api.process import environment
from messaging.errors import RecordNotFound
from messaging.mail import receipts
from messaging.mail.receipts import Effect
from messaging.receive import provider_reports
from messaging.webhooks.announcing import AT_HAND

#: Where suppression entries say that they come from.
_ORIGIN = "told by the application"


def mark_bounced(
    *,
    record_id: int | None = None,
    message_id: str | None = None,
    recipients: Sequence[str] | None = None,
    reply_code: str | None = None,
    status: str | None = None,
    permanent: bool,
    text: str | None = None,
    session: Session | None = None,
) -> bool:
    """A provider says that a mail was not delivered: what a received bounce does to its record, in the current tenant.

    The mail is named by its record's id or by its Message-ID, with its angle brackets or without. `recipients` are
    those it failed for, as the provider spells them; None or empty: the only one, if there is only one. `reply_code`
    and `status` are codes such as `550` and `5.1.1`, `text` the other side's words. SENT becomes FAILED with `BOUNCED`
    whether or not it is `permanent`, and a manual `retry` goes to those recipients alone. An address that is of no use
    by what is told (unknown user or host), and permanently so, goes on the suppression list.

    Answers whether the record says so now. False: there is no such mail in this tenant, or it is PENDING, SENDING or
    RETRY; tell it again later then.

    Raises:
        TypeError: Not exactly one of the two ids, or a value of another type.
        ValueError: A code of another form. In both cases nothing was written and the transaction is still usable.
    """
    told = provider_reports.reported(
        recipients=recipients, reply_code=reply_code, status=status, permanent=permanent, text=text
    )
    suppresses = environment().settings.suppression.hard_bounces
    named = _named(record_id, message_id)
    with in_session(session) as s:
        found = _find(s, named)
        if found is None:
            return False
        effect = receipts.mark_bounced(s, found, told, origin=_ORIGIN, suppresses=suppresses, announcer=AT_HAND)
        return effect is Effect.RECORDED


def mark_read_receipt(
    *,
    record_id: int | None = None,
    message_id: str | None = None,
    at: datetime | None,
    session: Session | None = None,
) -> bool:
    """A provider says that a recipient opened a mail: what a read receipt (RFC 8098) does to its record.

    The mail is named as in `mark_bounced`. `at` is when, timezone-aware; None, and what is not between the sending and
    now, is now. The first one's time stands, and the record's status.

    Answers and raises: as `mark_bounced`; ValueError for a time without a zone.
    """
    read_at = provider_reports.moment(at)
    named = _named(record_id, message_id)
    with in_session(session) as s:
        found = _find(s, named)
        if found is None:
            return False
        return receipts.mark_read(s, found, at=read_at, announcer=AT_HAND) is Effect.RECORDED


def _named(record_id: int | None, message_id: str | None) -> int | str | None:
    """The one id that is given; None for a number that no id can be. Raises: TypeError, ValueError."""
    if (record_id is None) == (message_id is None):
        raise TypeError("exactly one of record_id and message_id names the mail")
    if message_id is not None:
        return provider_reports.message_id(message_id)
    with suppress(RecordNotFound):
        return known_id(record_id)
    return None


def _find(session: Session, named: int | str | None) -> int | None:
    return receipts.find_record(session, named) if isinstance(named, str) else named
