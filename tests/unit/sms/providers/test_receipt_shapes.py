"""Whatever comes to a receipt or inbound address is read or is unreadable, and what is read can be stored."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.errors import ReceiptUnreadable
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers import registry
from messaging.sms.providers.base import Inbound, Receipt

#: The names that any provider's receipt or inbound message has.
NAMES = (
    "results messageId status groupId groupName id name doneAt sentAt receivedAt from to text body type batch_id code"
    " statuses count at MessageSid MessageStatus From To Body reference recipient statusDatetime originator"
    " phone_number success biz_id report_time send_time content dest_code err_code Status MessageId ReceiveDate"
    " ErrorCode sid report_status user_receive_time nationcode mobile sign time messages msg received number message"
    " timeUtc channel"
)
KEYS = NAMES.split()

TIMES = ["2026-01-01 08:00:00", "2026-01-01T08:00:00Z", "Thu, 25 Nov 2021 10:27:33 +0800", "0001-01-01 00:00:00", "x"]
WORDS = ["1", "2", "5", "delivered", "SUCCESS", "Delivered", "+14155550199", "0014155550199", *TIMES]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=12),
    st.sampled_from(WORDS),
)
SHAPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=8)
    ),
    max_leaves=25,
)


@pytest.mark.parametrize("type_", registry.BUILT_IN)
@settings(max_examples=80, deadline=None)
@given(shape=SHAPES, flat=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(WORDS), max_size=8))
def test_any_body_is_read_or_unreadable(type_: str, shape: Any, flat: dict[str, str]) -> None:
    adapter = registry.provider(type_)
    body = json.dumps(shape).encode()
    headers = {"content-type": "application/json"}
    found: list[Receipt | Inbound] = []
    for parse in (adapter.parse_receipts, adapter.parse_inbound):
        with suppress(ReceiptUnreadable):
            found += parse(headers, body, flat)
    for one in found:
        assert one.at is None or one.at.tzinfo is not None
        if isinstance(one, Receipt):
            assert isinstance(one.provider_message_id, str)
            assert one.provider_message_id
            assert isinstance(one.status, DeliveryStatus)
            assert isinstance(one.raw_status, str)
        else:
            assert one.from_number.startswith("+")
            assert isinstance(one.text, str)
            assert isinstance(one.to, str)


@pytest.mark.parametrize("type_", registry.BUILT_IN)
@settings(max_examples=30, deadline=None)
@given(body=st.binary(max_size=200))
def test_any_bytes_are_read_or_unreadable(type_: str, body: bytes) -> None:
    adapter = registry.provider(type_)
    for content_type in ("application/json", "application/x-www-form-urlencoded", ""):
        for parse in (adapter.parse_receipts, adapter.parse_inbound):
            with suppress(ReceiptUnreadable):
                parse({"content-type": content_type}, body, {})


def test_times_are_told_in_utc() -> None:
    told = [{"sid": "1", "report_status": "SUCCESS", "user_receive_time": "2026-01-01 00:30:00"}]
    [receipt] = registry.provider("TENCENT").parse_receipts({}, json.dumps(told).encode(), {})
    assert receipt.at == datetime(2025, 12, 31, 16, 30, tzinfo=UTC)
    assert receipt.at.utcoffset() == timedelta(0)
