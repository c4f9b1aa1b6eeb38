"""Infobip beyond the conformance suite: sms.md section 7.2, test points P6 to P10."""

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.base import Accepted, Rejected
from messaging.sms.providers.infobip import Infobip
from tests.far_end.infobip_api import InfobipApi
from tests.far_end.provider_server import ProviderServer, Reply, serving
from tests.integration.sms.providers.subjects import INFOBIP, TEXT


class Desk:
    """One account at its far end."""

    def __init__(self, server: ProviderServer, client: HttpClient) -> None:
        self.server = server
        self.client = client

    def send(self, **changes: Any) -> Accepted | Rejected:
        config = INFOBIP.config_at(self.server.url, **changes)
        return Infobip().send(config, INFOBIP.message, self.client, lambda: None)

    def answers(self, **status: Any) -> None:
        self.server.next.append(Reply(200, {"messages": [{"messageId": "m-1", "status": status}]}))


@pytest.fixture
def desk(authorities: ssl.SSLContext) -> Iterator[Desk]:
    client = HttpClient(HttpLimits(5, 5, 5), verify=authorities)
    with serving(InfobipApi()) as server:
        yield Desk(server, client)
    client.close()


def test_the_request_has_the_shape_of_version_3(desk: Desk) -> None:
    desk.send(ext_config={"statusCallbackUrl": "https://example.com/hooks/sms/infobip/token"})

    (request,) = desk.server.requests
    assert request.json() == {
        "messages": [
            {
                "sender": "MySite",
                "destinations": [{"to": "14155550199"}],
                "content": {"text": TEXT},
                "webhooks": {
                    "delivery": {"url": "https://example.com/hooks/sms/infobip/token"},
                    "contentType": "application/json",
                    "callbackData": "4711",
                },
            }
        ]
    }


@pytest.mark.parametrize(
    "status",
    [
        {"groupId": 0, "groupName": "OK"},
        {"groupId": 1, "groupName": "PENDING"},
        {"groupId": 3, "groupName": "DELIVERED"},
        {"groupName": "PENDING"},
        {"groupName": "SENT"},
        {"groupName": "DELIVERED"},
    ],
)
def test_these_groups_are_accepted(desk: Desk, status: dict[str, Any]) -> None:  # P6
    desk.answers(**status)

    assert desk.send() == Accepted("m-1")


def test_a_missing_prefix_is_a_wrong_number(desk: Desk) -> None:  # P7
    desk.answers(groupId=5, groupName="REJECTED", id=8, name="REJECTED_PREFIX_MISSING", description="Prefix missing")

    assert desk.send() == Rejected("REJECTED_PREFIX_MISSING", "Prefix missing", ErrorCategory.INVALID_INPUT)


@pytest.mark.parametrize(
    "said", [{"messages": []}, {"messages": [{}]}, {"messages": [{"status": {"groupId": 1}}]}, {"messages": [{
        "messageId": "m-1", "status": {"groupId": 77}}]}]
)  # fmt: skip
def test_an_answer_without_a_message_is_unreadable(desk: Desk, said: Any) -> None:  # P8
    desk.server.next.append(Reply(200, said))

    with pytest.raises(DeliveryError) as raised:
        desk.send()

    assert (raised.value.code, raised.value.category) == ("BAD_RESPONSE", ErrorCategory.UNKNOWN)


def test_both_shapes_of_errors_are_read(desk: Desk) -> None:  # P9
    older = {"requestError": {"serviceException": {"messageId": "UNAUTHORIZED", "text": "Invalid login details"}}}
    newer = {"errorCode": "E401", "description": "Invalid login details", "action": "", "violations": []}
    desk.server.next.extend([Reply(401, older), Reply(401, newer)])

    assert desk.send() == Rejected("UNAUTHORIZED", "Invalid login details", ErrorCategory.AUTH)
    assert desk.send() == Rejected("E401", "Invalid login details", ErrorCategory.AUTH)


@pytest.mark.parametrize("endpoint", [None, "", "  "])
def test_an_endpoint_is_needed(desk: Desk, endpoint: str | None) -> None:  # P10
    with pytest.raises(PreparationError) as raised:
        desk.send(api_endpoint=endpoint)

    assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID
    assert not desk.server.requests


def test_a_sender_is_not_needed(desk: Desk) -> None:
    assert isinstance(desk.send(sender_id=None), Accepted)
    assert "sender" not in desk.server.requests[0].json()["messages"][0]


@pytest.mark.parametrize(
    ("group", "name", "category"),
    [
        (5, "REJECTED_NOT_ENOUGH_CREDITS", ErrorCategory.AUTH),
        (5, "REJECTED_SENDER", ErrorCategory.AUTH),
        (5, "REJECTED_SENDER_NOT_REGISTERED", ErrorCategory.AUTH),
        (5, "REJECTED_NOT_ALLOWED_COUNTRY", ErrorCategory.AUTH),
        (5, "REJECTED_PREFIX_MISSING", ErrorCategory.INVALID_INPUT),
        (5, "REJECTED_DESTINATION", ErrorCategory.INVALID_INPUT),
        (5, "REJECTED_INVALID_UDH", ErrorCategory.INVALID_INPUT),
        (5, "REJECTED_FLOODING_FILTER", ErrorCategory.QUOTA),
        (5, "REJECTED_DAILY_LIMIT", ErrorCategory.QUOTA),
        (5, "REJECTED_NETWORK", ErrorCategory.TRANSIENT),
        (5, "REJECTED_SYSTEM_ERROR", ErrorCategory.TRANSIENT),
        (5, "REJECTED_ROUTE_NOT_AVAILABLE", ErrorCategory.TRANSIENT),
        (5, "REJECTED_DND", ErrorCategory.PERMANENT),
        (5, "MISSING_TEXT", ErrorCategory.PERMANENT),
        (2, "UNDELIVERABLE_REJECTED_OPERATOR", ErrorCategory.PERMANENT),
        (4, "EXPIRED_EXPIRED", ErrorCategory.TRANSIENT),
    ],
)
def test_refusals_row_by_row(desk: Desk, group: int, name: str, category: ErrorCategory) -> None:  # section 7.2
    desk.answers(groupId=group, name=name, description="words")

    assert desk.send() == Rejected(name, "words", category)
