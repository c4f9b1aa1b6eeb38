"""Endings of text messages that are not as they ought to be are told."""

from dataclasses import replace

import pytest

from messaging.api import SmsStatus
from messaging.delivery.status import SendStatus
from messaging.demo.evidence import Row, is_final
from messaging.demo.shop import Accepted, Fate, Order, TextFate, first_order, further_orders
from messaging.demo.text_evidence import what_is_wrong_with_text
from messaging.sms.models import DeliveryStatus, Encoding

ORDERS = [first_order(), *further_orders()]
ORDER = next(order for order in ORDERS if order.text_fate is TextFate.DELIVERED)
ROLLED_BACK = replace(ORDER, fate=Fate.ROLLED_BACK)
THROTTLED, REFUSED, UNDELIVERED = (
    replace(ORDER, text_fate=fate) for fate in (TextFate.THROTTLED, TextFate.REFUSED, TextFate.UNDELIVERED)
)
DELIVERED = SmsStatus(
    **dict.fromkeys(SmsStatus.__dataclass_fields__)  # type: ignore[arg-type]
    | {
        "id": 1,
        "status": SendStatus.SENT,
        "retry_count": 0,
        "encoding": Encoding.GSM7,
        "segments": 1,
        "delivery_status": DeliveryStatus.DELIVERED,
    }
)
FAILED = replace(DELIVERED, status=SendStatus.FAILED, error_code="21610", delivery_status=DeliveryStatus.UNKNOWN)
NOT_REACHED = replace(DELIVERED, delivery_status=DeliveryStatus.UNDELIVERED)
AGAIN = replace(DELIVERED, retry_count=1)


@pytest.mark.parametrize(
    ("order", "status", "copies"),
    [
        (ORDER, DELIVERED, 1),
        (ORDER, AGAIN, 1),
        (THROTTLED, AGAIN, 1),
        (UNDELIVERED, NOT_REACHED, 1),
        (REFUSED, FAILED, 0),
        (ROLLED_BACK, None, 0),
    ],
)
def test_what_ought_to_be_is_right(order: Order, status: SmsStatus | None, copies: int) -> None:
    assert what_is_wrong_with_text(order, status, copies) == ""


@pytest.mark.parametrize(
    ("order", "status", "copies", "told"),
    [
        (ORDER, None, 0, "gone"),
        (ORDER, DELIVERED, 2, "2 were taken"),
        (ORDER, DELIVERED, 0, "0 were taken"),
        (ORDER, FAILED, 0, "is FAILED"),
        (ORDER, NOT_REACHED, 1, "say UNDELIVERED"),
        (ORDER, replace(DELIVERED, delivery_status=DeliveryStatus.UNKNOWN), 1, "say UNKNOWN"),
        (ORDER, AGAIN, 2, "2 were taken"),
        (ORDER, replace(DELIVERED, encoding=Encoding.UCS2, segments=2), 1, "2 segments of UCS2"),
        (THROTTLED, DELIVERED, 1, "first attempt"),
        (UNDELIVERED, DELIVERED, 1, "say DELIVERED"),
        (REFUSED, DELIVERED, 1, "is SENT"),
        (REFUSED, replace(FAILED, error_code="HTTP_500"), 0, "HTTP_500"),
        (REFUSED, FAILED, 1, "1 were taken"),
        (ROLLED_BACK, DELIVERED, 1, "is SENT"),
        (ROLLED_BACK, None, 1, "1 were sent"),
    ],
)
def test_what_ought_not_to_be_is_told(order: Order, status: SmsStatus | None, copies: int, told: str) -> None:
    assert told in what_is_wrong_with_text(order, status, copies)


def test_a_text_message_has_ended_when_its_last_receipt_has_come() -> None:
    accepted = [Accepted(ORDER, 1, 2)]
    mail = Row(SendStatus.SENT, 0)
    assert not is_final(accepted, {1: mail})
    for receipt in DeliveryStatus:
        row = Row(SendStatus.SENT, 0, None, receipt)
        assert is_final(accepted, {1: mail, 2: row}) is (receipt is not DeliveryStatus.UNKNOWN)
    assert is_final(accepted, {1: mail, 2: Row(SendStatus.FAILED, 0, "21610", DeliveryStatus.UNKNOWN)})


def test_a_few_orders_have_text_messages_of_every_fate() -> None:
    texted = [order for order in ORDERS if order.text_fate is not None]
    assert {order.text_fate for order in texted} == set(TextFate)
    assert Fate.ROLLED_BACK in {order.fate for order in texted}
    assert len({order.phone_number for order in texted}) == len(texted)
