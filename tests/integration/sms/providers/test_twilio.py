"""Twilio beyond the conformance suite: sms.md section 7.1, test points P1 to P5."""

import base64
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.base import Accepted, ProviderConfig, Rejected
from messaging.sms.providers.twilio import Twilio
from tests.far_end import twilio_api
from tests.far_end.provider_server import Fault, ProviderServer, Reply, serving
from tests.far_end.twilio_api import TwilioApi
from tests.integration.sms.providers.subjects import NUMBER, TEXT, TWILIO

MESSAGE = TWILIO.message
SERVICE = "MG" + "0" * 31 + "1"


class Desk:
    """One account at its far end."""

    def __init__(self, server: ProviderServer, api: TwilioApi, client: HttpClient) -> None:
        self.server = server
        self.api = api
        self.client = client

    def config(self, **changes: Any) -> ProviderConfig:
        return TWILIO.config_at(self.server.url, **changes)

    def send(self, **changes: Any) -> Accepted | Rejected:
        return Twilio().send(self.config(**changes), MESSAGE, self.client, lambda: None)

    def form(self) -> dict[str, str]:
        return self.server.requests[-1].form()


@pytest.fixture
def desk(authorities: ssl.SSLContext) -> Iterator[Desk]:
    api = TwilioApi()
    client = HttpClient(HttpLimits(5, 5, 5), verify=authorities)
    with serving(api) as server:
        yield Desk(server, api, client)
    client.close()


def test_the_request_is_a_form_with_basic_authorisation(desk: Desk) -> None:  # P1
    desk.server.next.append(Reply(201, {"sid": "SM1234567890", "status": "queued"}))

    assert desk.send() == Accepted("SM1234567890")
    request = desk.server.requests[0]
    pair = f"{twilio_api.ACCOUNT}:{twilio_api.AUTH_TOKEN}".encode()
    assert request.headers["authorization"] == f"Basic {base64.b64encode(pair).decode()}"
    assert request.media_type == "application/x-www-form-urlencoded"
    assert request.form() == {"To": NUMBER, "From": "+14155550100", "Body": TEXT}
    assert request.headers["host"] == desk.server.host
    assert request.headers["user-agent"].startswith("twilio-python/")


def test_an_invalid_number_is_refused_with_its_code(desk: Desk) -> None:  # P2
    desk.server.next.append(Reply(400, {"code": 21211, "message": f"Invalid 'To' Phone Number: {NUMBER}"}))

    result = desk.send()

    assert result == Rejected("21211", "Invalid 'To' Phone Number: +(number)", ErrorCategory.INVALID_INPUT)


def test_wrong_credentials_are_for_an_operator(desk: Desk) -> None:  # P3
    result = desk.send(api_secret="another-token-0000")

    assert result == Rejected("20003", "Authenticate", ErrorCategory.AUTH)


def test_a_sender_id_alone_is_the_sender(desk: Desk) -> None:  # P4
    assert isinstance(desk.send(sender_number=None, sender_id="MySite"), Accepted)
    assert desk.form()["From"] == "MySite"


def test_a_number_beats_a_sender_id(desk: Desk) -> None:
    desk.send(sender_id="MySite")

    assert desk.form()["From"] == "+14155550100"


def test_an_account_id_is_the_account_of_a_key_pair(desk: Desk) -> None:  # P5
    result = desk.send(
        account_id=twilio_api.ACCOUNT, api_key=twilio_api.KEY, api_secret=twilio_api.KEY_SECRET
    )  # fmt: skip

    assert isinstance(result, Accepted)
    assert desk.server.requests[0].path == f"/2010-04-01/Accounts/{twilio_api.ACCOUNT}/Messages.json"


def test_a_messaging_service_takes_the_place_of_a_sender(desk: Desk) -> None:
    assert isinstance(desk.send(sender_number=None, sender_id=SERVICE), Accepted)
    form = desk.form()
    assert form["MessagingServiceSid"] == SERVICE
    assert "From" not in form


def test_receipts_go_to_the_configured_address(desk: Desk) -> None:
    desk.send(ext_config={"statusCallbackUrl": "https://example.com/hooks/sms/twilio/token"})

    assert desk.form()["StatusCallback"] == "https://example.com/hooks/sms/twilio/token"


@pytest.mark.parametrize("field", ["api_key", "api_secret"])
def test_both_halves_of_the_credentials_are_needed(desk: Desk, field: str) -> None:
    with pytest.raises(PreparationError) as raised:
        desk.send(**{field: ""})

    assert raised.value.marker is MarkerCode.PROVIDER_CONFIG_INVALID
    assert not desk.server.requests


@pytest.mark.parametrize("sender", [None, "", " "])
def test_a_sender_is_needed(desk: Desk, sender: str | None) -> None:
    with pytest.raises(PreparationError) as raised:
        desk.send(sender_number=sender, sender_id=sender)

    assert raised.value.marker is MarkerCode.SENDER_REQUIRED
    assert not desk.server.requests


@pytest.mark.parametrize(
    ("number", "code"),
    [(twilio_api.OPTED_OUT, "21610"), (twilio_api.NOT_MOBILE, "21614"), (twilio_api.UNROUTABLE, "21612")],
)
def test_what_no_repetition_cures_is_permanent(desk: Desk, number: str, code: str) -> None:  # class-03
    message = replace(MESSAGE, phone_number=number)

    result = Twilio().send(desk.config(), message, desk.client, lambda: None)

    assert isinstance(result, Rejected)
    assert (result.code, result.category) == (code, ErrorCategory.PERMANENT)


@pytest.mark.parametrize("status", ["failed", "undelivered"])
def test_a_message_that_failed_at_once_is_refused(desk: Desk, status: str) -> None:
    desk.server.next.append(Reply(201, {"sid": "SM1", "status": status, "error_code": 30003, "error_message": "gone"}))

    assert desk.send() == Rejected("30003", "gone", ErrorCategory.PERMANENT)


@pytest.mark.parametrize("odd", [{"date_created": 5}, {"status": ["queued"]}, {"error_code": float("inf")}])
def test_a_success_that_the_package_cannot_read_may_have_been_sent(desk: Desk, odd: dict[str, Any]) -> None:
    desk.server.next.append(Reply(201, {"sid": "SM1", "status": "queued", **odd}))

    with pytest.raises(DeliveryError) as raised:
        desk.send()

    assert (raised.value.code, raised.value.is_uncertain) == ("BAD_RESPONSE", True)


def test_the_newer_shape_of_errors_is_read(desk: Desk) -> None:
    problem = {"type": "https://x/20429", "title": "Too Many Requests", "status": 429, "code": 20429, "message": "slow"}
    desk.server.next.append(Reply(429, problem, {"Retry-After": "600"}))

    assert desk.send() == Rejected("20429", "slow", ErrorCategory.QUOTA, 600)


@pytest.mark.parametrize("name", ["TWILIO_REGION", "TWILIO_EDGE", "TWILIO_ACCOUNT_SID", "TWILIO_AUTH_TOKEN"])
def test_the_environment_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "elsewhere")

    assert isinstance(desk.send(), Accepted)


class TestLookUp:
    """`find_sent`: by number, date and text."""

    def test_a_message_whose_reply_was_lost_is_found(self, desk: Desk) -> None:  # P37
        since = datetime.now(UTC)
        taken = desk.send()
        desk.server.next.append(Fault.RESET_AFTER)
        with pytest.raises(DeliveryError):
            desk.send()

        found = Twilio().find_sent(desk.config(), MESSAGE, desk.client, since)

        assert found == [taken]
        assert desk.server.requests[-1].method == "GET"
        assert desk.server.requests[-1].query["To"] == NUMBER
        assert len(desk.server.requests) == 3

    def test_a_message_to_another_number_is_not(self, desk: Desk) -> None:
        since = datetime.now(UTC)
        Twilio().send(desk.config(), replace(MESSAGE, phone_number="+14155550188"), desk.client, lambda: None)

        assert Twilio().find_sent(desk.config(), MESSAGE, desk.client, since) == []

    def test_another_text_is_not(self, desk: Desk) -> None:
        since = datetime.now(UTC)
        Twilio().send(desk.config(), replace(MESSAGE, content="another"), desk.client, lambda: None)

        assert Twilio().find_sent(desk.config(), MESSAGE, desk.client, since) == []

    def test_an_older_message_is_not(self, desk: Desk) -> None:
        desk.send()
        desk.api.resources[0]["date_created"] = format_datetime(datetime.now(UTC) - timedelta(minutes=2))

        assert Twilio().find_sent(desk.config(), MESSAGE, desk.client, datetime.now(UTC) - timedelta(minutes=1)) == []

    def test_a_message_of_the_same_second_is(self, desk: Desk) -> None:
        desk.send()
        now = datetime.now(UTC)
        desk.api.resources[0]["date_created"] = format_datetime(now.replace(microsecond=0))

        found = Twilio().find_sent(desk.config(), MESSAGE, desk.client, now.replace(microsecond=999_999))
        assert len(found) == 1

    @pytest.mark.parametrize("status", ["failed", "undelivered", "canceled"])
    def test_one_that_failed_is_not(self, desk: Desk, status: str) -> None:
        desk.send()
        desk.api.resources[0]["status"] = status

        since = datetime.now(UTC) - timedelta(minutes=1)
        assert Twilio().find_sent(desk.config(), MESSAGE, desk.client, since) == []

    def test_what_the_number_sent_us_is_not(self, desk: Desk) -> None:
        desk.send()
        desk.api.resources[0]["direction"] = "inbound"

        since = datetime.now(UTC) - timedelta(minutes=1)
        assert Twilio().find_sent(desk.config(), MESSAGE, desk.client, since) == []

    def test_it_is_one_call_however_much_there_is(self, desk: Desk) -> None:
        for _ in range(60):
            desk.send()
        del desk.server.requests[:]

        since = datetime.now(UTC) - timedelta(minutes=1)
        assert len(Twilio().find_sent(desk.config(), MESSAGE, desk.client, since)) == 50
        assert len(desk.server.requests) == 1

    def test_the_oldest_comes_first(self, desk: Desk) -> None:
        since = datetime.now(UTC)
        sent = [desk.send() for _ in range(3)]

        assert Twilio().find_sent(desk.config(), MESSAGE, desk.client, since) == sent

    @pytest.mark.parametrize(
        ("reply", "code", "category"),
        [
            (Reply(503, "busy"), "HTTP_503", ErrorCategory.TRANSIENT),
            (Reply(401, {"code": 20003, "message": "Authenticate"}), "20003", ErrorCategory.AUTH),
            (Reply(302, b"", {"Location": "https://example.com"}), "HTTP_302", ErrorCategory.AUTH),
            (Reply(200, "<html>"), "BAD_RESPONSE", ErrorCategory.UNKNOWN),
            (Reply(200, {}), "BAD_RESPONSE", ErrorCategory.UNKNOWN),
            (Reply(200, {"messages": [{"sid": "SM1", "date_created": 5}]}), "BAD_RESPONSE", ErrorCategory.UNKNOWN),
        ],
    )
    def test_a_question_without_an_answer_is_an_error(
        self, desk: Desk, reply: Reply, code: str, category: ErrorCategory
    ) -> None:
        desk.server.next.append(reply)

        with pytest.raises(DeliveryError) as raised:
            Twilio().find_sent(desk.config(), MESSAGE, desk.client, datetime.now(UTC))

        assert (raised.value.code, raised.value.category) == (code, category)
        assert not raised.value.is_uncertain

    def test_a_question_that_is_lost_has_sent_nothing(self, desk: Desk) -> None:
        desk.server.next.append(Fault.RESET_AFTER)

        with pytest.raises(DeliveryError) as raised:
            Twilio().find_sent(desk.config(), MESSAGE, desk.client, datetime.now(UTC))

        assert (raised.value.code, raised.value.is_uncertain) == ("HTTP_CONNECT", False)


def test_the_package_is_not_imported_before_it_is_needed() -> None:
    program = (
        "import sys, messaging.sms.providers.registry as r, messaging.sms.providers.twilio;"
        "r.provider('TWILIO'); print('twilio' in sys.modules)"
    )

    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={**os.environ}
    )

    assert shown.stdout.strip() == "False"
