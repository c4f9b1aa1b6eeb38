"""What became of the shop's text messages, by their records and the provider's journal, against what ought to be."""

from collections.abc import Sequence
from dataclasses import dataclass

from messaging import api
from messaging.api import SmsStatus
from messaging.delivery.status import SendStatus
from messaging.demo.evidence import Journal
from messaging.demo.shop import Accepted, Fate, Order, TextFate
from messaging.errors import RecordNotFound
from messaging.sms.models import DeliveryStatus, Encoding

#: What the records of taken messages ought to say once their receipts are in.
_RECEIPTS = {
    TextFate.DELIVERED: DeliveryStatus.DELIVERED,
    TextFate.THROTTLED: DeliveryStatus.DELIVERED,
    TextFate.UNDELIVERED: DeliveryStatus.UNDELIVERED,
}
#: Twilio's code for a number whose owner wants nothing more.
OPTED_OUT_CODE = "21610"


@dataclass(frozen=True, slots=True)
class TextEnding:
    """What one order's text message became, and what is wrong with that."""

    accepted: Accepted
    #: None: there is no record.
    status: SmsStatus | None
    #: Messages the provider took for this number.
    copies: int
    #: Empty when all is as it ought to be.
    wrong: str


def conclude_texts(accepted: Sequence[Accepted], journal: Journal) -> list[TextEnding]:
    """What every order's text message became."""
    endings = []
    for each in accepted:
        if each.text_id is None:
            continue
        status = _status(each.order, each.text_id)
        sids = journal.texts_for.get(each.order.phone_number, [])
        wrong = what_is_wrong_with_text(each.order, status, len(sids))
        if not wrong and status is not None and status.provider_message_id not in {*sids, None}:
            wrong = f"its record has {status.provider_message_id}, which the provider does not know"
        endings.append(TextEnding(each, status, len(sids), wrong))
    return endings


def strange_texts(endings: Sequence[TextEnding], journal: Journal) -> list[str]:
    """Numbers that the provider took messages for and no order is of."""
    return sorted(journal.texts_for.keys() - {ending.accepted.order.phone_number for ending in endings})


def what_is_wrong_with_text(order: Order, status: SmsStatus | None, copies: int) -> str:
    """What is wrong with an ending, by record and by messages taken; empty when nothing is."""
    if order.fate is Fate.ROLLED_BACK:
        if status is not None:
            return f"its order was rolled back, yet it is {status.status}"
        return f"its order was rolled back, yet {copies} were sent" if copies else ""
    if status is None:
        return "its record is gone"
    assert order.text_fate is not None
    if order.text_fate is TextFate.REFUSED:
        if status.status is not SendStatus.FAILED or status.error_code != OPTED_OUT_CODE:
            return f"its number has opted out, yet it is {status.status}: {status.error_code}"
        return f"refused, yet {copies} were taken" if copies else ""
    if status.status is not SendStatus.SENT:
        return f"is {status.status}, not {SendStatus.SENT}: {status.error_code}"
    if status.delivery_status is not _RECEIPTS[order.text_fate]:
        return f"its receipts say {status.delivery_status}, not {_RECEIPTS[order.text_fate]}"
    # Any other may be tried again, too, where a busy machine answers late: what counts is how many were taken.
    if order.text_fate is TextFate.THROTTLED and not status.retry_count:
        return "was throttled, yet sent at the first attempt"
    if (status.encoding, status.segments) != (Encoding.GSM7, 1):
        return f"{status.segments} segments of {status.encoding}, not 1 of {Encoding.GSM7}"
    return "" if copies == 1 else f"{copies} were taken, not 1"


def _status(order: Order, record_id: int) -> SmsStatus | None:
    with order.seller.acting():
        try:
            found = api.status(record_id)
        except RecordNotFound:
            return None
    assert isinstance(found, SmsStatus)
    return found
