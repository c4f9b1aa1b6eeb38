"""Bird beyond the conformance suite: sms.md section 7.6, test points P30 and P31."""

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.base import Accepted, Rejected
from messaging.sms.providers.bird import Bird
from tests.far_end.bird_api import BirdApi, created
from tests.far_end.provider_server import ProviderServer, Reply, serving
from tests.integration.sms.providers.subjects import BIRD, TEXT


class Desk:
    """One account at its far end."""

    def __init__(self, server: ProviderServer, client: HttpClient) -> None:
        self.server = server
        self.client = client

    def send(self, **changes: Any) -> Accepted | Rejected:
        config = BIRD.config_at(self.server.url, **changes)
        return Bird().send(config, BIRD.message, self.client, lambda: None)


@pytest.fixture
def desk(authorities: ssl.SSLContext) -> Iterator[Desk]:
    client = HttpClient(HttpLimits(5, 5, 5), verify=authorities)
    with serving(BirdApi()) as server:
        yield Desk(server, client)
    client.close()


def test_a_message_sent_to_somebody_is_accepted(desk: Desk) -> None:  # P30
    desk.server.next.extend(
        [
            Reply(201, created("b-1", "MySite", "x", 14155550199, sent=1)),
            Reply(200, {"recipients": {"totalSentCount": 1}}),
            Reply(201, {"id": "b-3"}),
        ]
    )

    assert [desk.send() for _ in range(3)] == [Accepted("b-1"), Accepted(None), Accepted("b-3")]


def test_a_message_sent_to_nobody_is_refused(desk: Desk) -> None:  # P30
    desk.server.next.append(Reply(201, created("b-1", "MySite", "x", 14155550199, sent=0)))

    assert desk.send() == Rejected("NOT_SENT", "sent to nobody", ErrorCategory.PERMANENT)


def test_a_refusal_has_the_code_of_its_first_error(desk: Desk) -> None:  # P31
    error = {"code": 9, "description": "no (correct) recipients found", "parameter": "recipients"}
    desk.server.next.append(Reply(422, {"errors": [error, {"code": 2}]}))

    assert desk.send() == Rejected("9", "no (correct) recipients found", ErrorCategory.INVALID_INPUT)


def test_the_request_names_reference_and_receipts(desk: Desk) -> None:
    desk.send(ext_config={"statusCallbackUrl": "https://example.com/hooks/sms/bird/token"})

    assert desk.server.requests[0].json() == {
        "originator": "MySite",
        "body": TEXT,
        "recipients": ["14155550199"],
        "reference": "4711",
        "datacoding": "auto",
        "reportUrl": "https://example.com/hooks/sms/bird/token",
    }


def test_a_sender_is_needed(desk: Desk) -> None:
    with pytest.raises(PreparationError) as raised:
        desk.send(sender_id=None)

    assert raised.value.marker is MarkerCode.SENDER_REQUIRED
    assert not desk.server.requests


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (2, ErrorCategory.AUTH),
        (9, ErrorCategory.INVALID_INPUT),
        (10, ErrorCategory.INVALID_INPUT),
        (20, ErrorCategory.AUTH),
        (21, ErrorCategory.INVALID_INPUT),
        (25, ErrorCategory.AUTH),
        (98, ErrorCategory.AUTH),
        (99, ErrorCategory.TRANSIENT),
    ],
)
@pytest.mark.parametrize("status", [400, 422, 500])
def test_refusals_row_by_row(desk: Desk, status: int, code: int, category: ErrorCategory) -> None:  # section 7.6
    desk.server.next.append(Reply(status, {"errors": [{"code": code, "description": "x", "parameter": None}]}))

    assert desk.send() == Rejected(str(code), "x", category)
