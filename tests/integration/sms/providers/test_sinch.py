"""Sinch beyond the conformance suite: sms.md section 7.5, test points P28 and P29."""

import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.base import Accepted, ProviderConfig, Rejected
from messaging.sms.providers.sinch import Sinch
from tests.far_end.provider_server import ProviderServer, Reply, serving
from tests.far_end.sinch_api import SinchApi
from tests.integration.sms.providers.subjects import SINCH, TEXT


class Desk:
    """One service plan at its far end."""

    def __init__(self, server: ProviderServer, client: HttpClient) -> None:
        self.server = server
        self.client = client

    def send(self, **changes: Any) -> Accepted | Rejected:
        config = SINCH.config_at(self.server.url, **changes)
        return Sinch().send(config, SINCH.message, self.client, lambda: None)


@pytest.fixture
def desk(authorities: ssl.SSLContext) -> Iterator[Desk]:
    client = HttpClient(HttpLimits(5, 5, 5), verify=authorities)
    with serving(SinchApi()) as server:
        yield Desk(server, client)
    client.close()


@pytest.mark.parametrize(
    ("ext_config", "region"),
    [
        (None, "us"),
        ({}, "us"),
        ({"region": "eu"}, "eu"),
        ({"region": " AU "}, "au"),
        ({"region": "br"}, "br"),
        ({"region": "ca"}, "ca"),
        ({"region": ""}, "us"),
        ({"region": 7.5}, "us"),
        ("broken", "us"),
        (["eu"], "us"),
    ],
)
def test_the_region_is_part_of_the_address(ext_config: Any, region: str) -> None:  # P28
    config = ProviderConfig(7, 3, "SINCH", api_key="k", account_id="plan-1", ext_config=ext_config)

    assert Sinch().base(config) == f"https://{region}.sms.api.sinch.com/xms/v1/plan-1"


def test_an_endpoint_replaces_the_plan_too(desk: Desk) -> None:  # P28
    assert isinstance(desk.send(account_id="ignored", ext_config={"region": "nowhere"}), Accepted)
    assert desk.server.requests[0].path == f"{SINCH.path}/batches"


@pytest.mark.parametrize("changes", [{"ext_config": {"region": "mars"}, "account_id": "p"}, {"account_id": " "}])
def test_without_an_endpoint_plan_and_a_known_region_are_needed(changes: dict[str, Any]) -> None:
    with pytest.raises(PreparationError) as raised:
        Sinch().check_config(ProviderConfig(7, 3, "SINCH", api_key="k", **changes))

    assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID


def test_a_refused_token_keeps_its_words(desk: Desk) -> None:  # P29
    desk.server.next.append(Reply(403, {"code": "forbidden", "text": "Invalid API token"}))

    assert desk.send() == Rejected("forbidden", "Invalid API token", ErrorCategory.AUTH)


def test_a_refusal_without_a_body_is_told_by_its_status(desk: Desk) -> None:
    assert desk.send(api_key="wrong") == Rejected("HTTP_401", "HTTP status 401", ErrorCategory.AUTH)


def test_the_request_asks_for_the_final_receipt(desk: Desk) -> None:
    desk.send(ext_config={"statusCallbackUrl": "https://example.com/hooks/sms/sinch/token"})

    assert desk.server.requests[0].json() == {
        "from": "+14155550100",
        "to": ["+14155550199"],
        "body": TEXT,
        "client_reference": "4711",
        "delivery_report": "per_recipient_final",
        "callback_url": "https://example.com/hooks/sms/sinch/token",
    }


def test_the_plans_own_sender_is_used_where_none_is_set(desk: Desk) -> None:
    assert isinstance(desk.send(sender_number=None), Accepted)
    assert "from" not in desk.server.requests[0].json()


@pytest.mark.parametrize(
    ("status", "said", "code", "category"),
    [
        (400, {"code": "syntax_invalid_json", "text": "x"}, "syntax_invalid_json", ErrorCategory.INVALID_INPUT),
        (
            400,
            {"code": "syntax_invalid_parameter_format", "text": "x"},
            "syntax_invalid_parameter_format",
            ErrorCategory.INVALID_INPUT,
        ),
        (
            400,
            {"code": "syntax_constraint_violation", "text": "x"},
            "syntax_constraint_violation",
            ErrorCategory.INVALID_INPUT,
        ),
        (401, {"code": "any", "text": "x"}, "any", ErrorCategory.AUTH),
        (403, {"code": "any", "text": "x"}, "any", ErrorCategory.AUTH),
        (404, {"message": "x"}, "HTTP_404", ErrorCategory.AUTH),
        (429, {"text": "x"}, "HTTP_429", ErrorCategory.QUOTA),
        (500, {"text": "x"}, "HTTP_500", ErrorCategory.TRANSIENT),
        (503, {"text": "x"}, "HTTP_503", ErrorCategory.TRANSIENT),
    ],
)
def test_refusals_row_by_row(
    desk: Desk, status: int, said: Any, code: str, category: ErrorCategory
) -> None:  # section 7.5
    desk.server.next.append(Reply(status, said))

    assert desk.send() == Rejected(code, "x", category)


def test_a_batch_without_an_id_is_unreadable(desk: Desk) -> None:
    desk.server.next.append(Reply(201, {"to": ["1"]}))

    with pytest.raises(DeliveryError) as raised:
        desk.send()

    assert raised.value.code == "BAD_RESPONSE"
