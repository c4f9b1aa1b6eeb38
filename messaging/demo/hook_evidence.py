"""Which events the shop's application was told, against those that its messages' records ask for: each once."""

from collections import Counter
from collections.abc import Iterator, Sequence

from messaging.api import SmsStatus
from messaging.category import MarkerCode
from messaging.delivery.announcing import EventType
from messaging.delivery.status import SendStatus
from messaging.demo.evidence import Ending, Journal
from messaging.demo.shop import SHOP
from messaging.demo.text_evidence import TextEnding
from messaging.mail.records import Story
from messaging.sms.models import DeliveryStatus

#: A record's id, and what is told of it.
Event = tuple[int, str]

_ENDS = {
    SendStatus.SENT: EventType.SENT,
    SendStatus.FAILED: EventType.FAILED,
    SendStatus.DEAD_LETTER: EventType.DEAD_LETTER,
}
_RECEIPTS = {DeliveryStatus.DELIVERED: EventType.DELIVERED, DeliveryStatus.UNDELIVERED: EventType.UNDELIVERED}


def expected_events(endings: Sequence[Ending], texts: Sequence[TextEnding]) -> Counter[Event]:
    """What the one shop that has an endpoint is to be told."""
    events: Counter[Event] = Counter()
    for ending in endings:
        if ending.accepted.order.seller is SHOP and ending.story is not None:
            events.update((ending.story.id, kind) for kind in _of_mail(ending.story))
    for text in texts:
        if text.accepted.order.seller is SHOP and text.status is not None:
            events.update((text.status.id, kind) for kind in _of_text(text.status))
    return events


def wrong_events(expected: Counter[Event], journal: Journal) -> list[str]:
    """Events that were not told, or that did not happen."""
    told = Counter(journal.told.values())
    wrong = [f"the shop was not told {kind} of {record_id}" for record_id, kind in sorted((expected - told).elements())]
    wrong += [f"the shop was told {kind} of {record_id}" for record_id, kind in sorted((told - expected).elements())]
    if journal.unsigned:
        wrong.append(f"the shop was told {journal.unsigned} events without a signature of ours")
    return wrong


def _of_mail(story: Story) -> Iterator[EventType]:
    if story.status is SendStatus.FAILED and story.error_code == MarkerCode.BOUNCED:
        yield from (EventType.SENT, EventType.BOUNCED)
    elif story.status in _ENDS:
        yield _ENDS[story.status]
    if story.read_receipt_received_at is not None:
        yield EventType.READ


def _of_text(status: SmsStatus) -> Iterator[EventType]:
    if status.status in _ENDS:
        yield _ENDS[status.status]
    if status.delivery_status in _RECEIPTS:
        yield _RECEIPTS[status.delivery_status]
