"""What comes back: bounces and read receipts of the mails that were sent."""

from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy.orm import Session

from messaging.api.calls import in_connection, known_id
from messaging.errors import RecordNotFound
from messaging.mail import receipts


def mark_bounced(record_id: int, *, code: str, recipients: Sequence[str] = (), session: Session | None = None) -> bool:
    """A bounce came back for a SENT mail: FAILED with `BOUNCED`; answers whether that took effect."""
    with suppress(RecordNotFound):
        record_id = known_id(record_id)
        with in_connection(session) as connection:
            return receipts.mark_bounced(connection, record_id, code=code, recipients=recipients)
    return False


def mark_read_receipt(record_id: int, *, session: Session | None = None) -> bool:
    """A read receipt came back for a SENT mail (RFC 8098); answers whether that took effect."""
    with suppress(RecordNotFound):
        record_id = known_id(record_id)
        with in_connection(session) as connection:
            return receipts.mark_read_receipt(connection, record_id)
    return False
