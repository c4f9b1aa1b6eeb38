"""CM.com over real sockets, at a server that refuses what the real one refuses."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.base import Accepted, OutgoingSms, ProviderConfig, Rejected
from messaging.sms.providers.cm import Cm
from tests.far_end.cm_api import PRODUCT_TOKEN, CmApi, accepted, outcome
from tests.far_end.provider_server import ProviderServer, Reply, serving


class Desk:
    """An account at the server, and a client."""

    def __init__(self, server: ProviderServer, api: CmApi) -> None:
        self.server = server
        self.api = api
        self.client = HttpClient(HttpLimits(2, 2, 2))
        self.config = ProviderConfig(1, 7, "CM", api_key=PRODUCT_TOKEN, api_endpoint=f"{server.url}/", sender_id="Shop")
        self.message = OutgoingSms(17, "+447911123456", "Your code is 1234: 测试", region_code="GB")

    def send(self, **changed: Any) -> Accepted | Rejected:
        return Cm().send(self.config, replace(self.message, **changed), self.client, lambda: None)

    def answered(self, status: int, body: Any) -> Accepted | Rejected:
        self.server.next.append(Reply(status, body))
        return self.send()


@pytest.fixture
def desk() -> Iterator[Desk]:
    api = CmApi()
    with serving(api) as server:
        made = Desk(server, api)
        yield made
        made.client.close()


def test_a_message_is_accepted_and_known_by_our_reference(desk: Desk) -> None:
    # sms.md P33, P36
    assert desk.send() == Accepted("17")
    [taken] = desk.api.taken
    assert (taken.number, taken.text, taken.sender) == ("447911123456", "Your code is 1234: 测试", "Shop")
    assert desk.server.requests[0].json() == {
        "messages": {
            "authentication": {"producttoken": PRODUCT_TOKEN},
            "msg": [
                {
                    "from": "Shop",
                    "to": [{"number": "00447911123456"}],
                    "body": {"type": "AUTO", "content": "Your code is 1234: 测试"},
                    "allowedChannels": ["SMS"],
                    "reference": "17",
                }
            ],
        }
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",  # sms.md P32
        b"\r\n",
        {"status": "accepted"},  # sms.md P32
        {},
        accepted("00447911123456", "17"),  # sms.md P33
        {"details": "Created 1 message(s)", "errorCode": 0},
        {"details": None, "errorCode": 0, "messages": [{"messageErrorCode": 0}]},
        {"messages": [{"status": "Accepted"}]},
        # "Not all were created", and this one was.
        {"details": "Created 1 message(s)", "errorCode": 201, "messages": [outcome("00", "17", 0, None)]},
        {"details": None, "errorCode": 201, "messages": [{"messageErrorCode": 0}]},
    ],
)
@pytest.mark.parametrize("status", [200, 201])
def test_what_counts_as_accepted(desk: Desk, status: int, body: Any) -> None:
    assert desk.answered(status, body) == Accepted("17")


@pytest.mark.parametrize(
    ("status", "body", "code", "text", "category"),
    [
        (  # sms.md P34
            200,
            {"details": "x", "errorCode": 201, "messages": [outcome("00", "17", 304, "The body is invalid")]},
            "304",
            "The body is invalid",
            ErrorCategory.INVALID_INPUT,
        ),
        (  # sms.md P35
            400,
            {"details": "No account found", "errorCode": 101, "messages": []},
            "101",
            "No account found",
            ErrorCategory.AUTH,
        ),
        (401, {"details": "Authentication failed"}, "HTTP_401", "Authentication failed", ErrorCategory.AUTH),
        (200, {"details": "Invalid product token"}, "HTTP_200", "Invalid product token", ErrorCategory.AUTH),
        (
            200,
            {"details": "Invalid product token", "errorCode": None, "messages": None},
            "HTTP_200",
            "Invalid product token",
            ErrorCategory.AUTH,
        ),
        (200, {"details": "Something else"}, "HTTP_200", "Something else", ErrorCategory.UNKNOWN),
        (200, {"details": "x", "errorCode": 201, "messages": []}, "201", "x", ErrorCategory.UNKNOWN),
        (
            200,
            {"errorCode": 201, "messages": [{"status": "Rejected", "messageErrorCode": 0}]},
            "Rejected",
            "HTTP status 200",
            ErrorCategory.UNKNOWN,
        ),
        (
            200,
            {"errorCode": 0, "messages": [{"status": "Rejected", "messageErrorCode": 0}]},
            "Rejected",
            "HTTP status 200",
            ErrorCategory.UNKNOWN,
        ),
        (500, b"oops", "HTTP_500", "HTTP status 500", ErrorCategory.TRANSIENT),
        (503, {"details": "busy", "errorCode": 500, "messages": []}, "500", "busy", ErrorCategory.TRANSIENT),
    ],
)
def test_what_counts_as_refused(
    desk: Desk, status: int, body: Any, code: str, text: str, category: ErrorCategory
) -> None:
    assert desk.answered(status, body) == Rejected(code, text, category)


@pytest.mark.parametrize("body", ["<html>", [1], {"errorCode": 0, "messages": []}, {"errorCode": 0, "messages": [{}]}])
def test_a_success_that_says_nothing_of_the_message_is_none(desk: Desk, body: Any) -> None:
    with pytest.raises(DeliveryError) as caught:
        desk.answered(200, body)
    assert (caught.value.code, caught.value.category) == ("BAD_RESPONSE", ErrorCategory.UNKNOWN)
    assert caught.value.is_uncertain


@pytest.mark.parametrize(
    ("config", "message", "code", "category"),
    [
        ({"api_key": "other"}, {}, "103", ErrorCategory.AUTH),
        ({"sender_id": "Much too long a name"}, {}, "301", ErrorCategory.INVALID_INPUT),
        ({}, {"phone_number": "+44"}, "303", ErrorCategory.INVALID_INPUT),
        ({}, {"content": ""}, "304", ErrorCategory.INVALID_INPUT),
    ],
)
def test_the_real_refusals_have_their_codes(
    desk: Desk, config: dict[str, Any], message: dict[str, Any], code: str, category: ErrorCategory
) -> None:
    desk.config = replace(desk.config, **config)
    refused = desk.send(**message)
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.category) == (code, category)


def test_without_a_sender_nobody_is_called(desk: Desk) -> None:
    desk.config = replace(desk.config, sender_id=None)
    with pytest.raises(PreparationError) as caught:
        desk.send()
    assert caught.value.marker is MarkerCode.SENDER_REQUIRED
    assert desk.server.requests == []


def test_neither_token_nor_number_nor_text_reach_a_log_or_a_refusal(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    words = f"00447911123456 {PRODUCT_TOKEN} {desk.message.content}"
    refused = desk.answered(400, {"details": words, "errorCode": 303, "messages": []})
    said = json.dumps([str(refused), caplog.text, repr(desk.config)], ensure_ascii=False)
    for secret in ("447911123456", PRODUCT_TOKEN, desk.message.content):
        assert secret not in said
