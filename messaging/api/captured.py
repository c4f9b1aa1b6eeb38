"""Captured messages: what sandbox mode kept instead of sending it, looked at and cleared away."""

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, known_id, number, number_if_given
from messaging.api.process import environment
from messaging.channels import CHANNELS
from messaging.errors import shown_value
from messaging.sandbox import captured
from messaging.sandbox.captured import Captured, CapturedLine


def list_captured(
    *,
    channel: str | None = None,
    record_id: int | None = None,
    recipient: str | None = None,
    limit: int = 50,
    before: int | None = None,
    session: Session | None = None,
) -> list[CapturedLine]:
    """Captured messages of this tenant, newest first, a page at a time; `before` is the id of the last one before it.

    `recipient`: an envelope address or a number, as the list shows it.

    Raises:
        TypeError: A value of another type.
        ValueError: One that cannot be. In both cases nothing was asked, and the transaction is still usable.
    """
    if channel is not None and channel not in CHANNELS:
        raise ValueError(f"channel is {shown_value(channel)}; allowed: {', '.join(CHANNELS)}")
    if recipient is not None and "\x00" in recipient:
        raise ValueError(f"recipient is {shown_value(recipient)}; it is a text without U+0000")
    record_id, limit = number_if_given("record_id", record_id), number("limit", limit)
    before = number_if_given("before", before)
    environment()
    with in_session(session) as s:
        return captured.page(s, channel=channel, record_id=record_id, recipient=recipient, limit=limit, before=before)


def get_captured(captured_id: int, *, session: Session | None = None) -> Captured:
    """One captured message with what it says, a mail as it would have gone over the wire.

    Raises:
        RecordNotFound: No such message in this tenant.
    """
    captured_id = known_id(captured_id, what="captured message")
    environment()
    with in_session(session) as s:
        return captured.get(s, captured_id)


def clear_captured(*, session: Session | None = None) -> int:
    """Delete all captured messages of this tenant; answers how many there were."""
    environment()
    with in_session(session) as s:
        return captured.clear(s)
