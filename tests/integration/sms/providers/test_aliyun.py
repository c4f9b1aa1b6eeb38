"""Aliyun over real sockets, at a server that checks parameters and signature as the real one does."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.aliyun import Aliyun
from messaging.sms.providers.base import Accepted, OutgoingSms, ProviderConfig, Rejected
from tests.far_end.aliyun_api import ACCESS_KEY_ID, ACCESS_KEY_SECRET, SIGN_NAME, TEMPLATE_CODE, AliyunApi
from tests.far_end.provider_server import ProviderServer, Reply, serving


class Desk:
    """An account at the server, and a client."""

    def __init__(self, server: ProviderServer, api: AliyunApi) -> None:
        self.server = server
        self.api = api
        self.client = HttpClient(HttpLimits(2, 2, 2))
        self.config = ProviderConfig(
            1, 7, "ALIYUN", api_key=ACCESS_KEY_ID, api_secret=ACCESS_KEY_SECRET, api_endpoint=f"{server.url}/"
        )
        self.message = OutgoingSms(
            17,
            "+8613800138000",
            "the local text",
            region_code="CN",
            sign_name=SIGN_NAME,
            external_template_id=TEMPLATE_CODE,
            template_variables={"code": "12 34*~"},
        )

    def send(self, adapter: Aliyun | None = None, **changed: Any) -> Accepted | Rejected:
        message = replace(self.message, **changed)
        return (adapter or Aliyun()).send(self.config, message, self.client, lambda: None)


@pytest.fixture
def desk() -> Iterator[Desk]:
    api = AliyunApi()
    with serving(api) as server:
        made = Desk(server, api)
        yield made
        made.client.close()


def test_a_signed_message_is_accepted_by_its_biz_id(desk: Desk) -> None:
    # sms.md P11, P17, P19, P36
    accepted = desk.send()
    assert accepted == Accepted(desk.api.taken[0].id)
    asked = desk.api.asked
    assert (asked["PhoneNumbers"], asked["OutId"], asked["RegionId"]) == ("8613800138000", "17", "cn-hangzhou")
    assert asked["TemplateParam"] == '{"code":"12 34*~"}'
    assert "the local text" not in desk.server.requests[0].body.decode()


def test_what_a_reply_must_say_to_be_a_success(desk: Desk) -> None:
    # sms.md P11
    desk.server.next.append(Reply(200, {"Code": "OK", "BizId": "b1"}))
    assert desk.send() == Accepted("b1")
    bodies: list[Any] = [{"Code": "OK"}, {"BizId": "b1"}, "<html>", [], b""]
    for body in bodies:
        desk.server.next.append(Reply(200, body))
        with pytest.raises(DeliveryError) as caught:
            desk.send()
        assert (caught.value.code, caught.value.category) == ("BAD_RESPONSE", ErrorCategory.UNKNOWN)
        assert caught.value.is_uncertain


def test_every_attempt_has_a_nonce_of_its_own_and_the_same_values(desk: Desk) -> None:
    desk.send(template_variables={"b": 1, "code": 123456})
    first = dict(desk.api.asked)
    desk.send(template_variables={"b": 1, "code": 123456})
    # sms.md P16; L9
    assert first["TemplateParam"] == desk.api.asked["TemplateParam"] == '{"b":"1","code":"123456"}'
    assert first["SignatureNonce"] != desk.api.asked["SignatureNonce"]


def test_without_variables_there_is_no_parameter_for_them(desk: Desk) -> None:
    refused = desk.send(template_variables={})
    assert "TemplateParam" not in desk.api.asked
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.category) == ("isv.TEMPLATE_MISSING_PARAMETERS", ErrorCategory.INVALID_INPUT)


def test_without_a_template_nobody_is_called(desk: Desk) -> None:
    # sms.md P12
    with pytest.raises(PreparationError) as caught:
        desk.send(external_template_id=None)
    assert caught.value.marker is MarkerCode.EXTERNAL_TEMPLATE_REQUIRED
    assert desk.server.requests == []


@pytest.mark.parametrize("ext_config", [None, "{broken", [], {}, {"regionId": 3.5}, {"regionId": " "}])
def test_an_ext_config_that_cannot_be_read_leaves_the_region(desk: Desk, ext_config: Any) -> None:
    # sms.md P18
    desk.config = replace(desk.config, ext_config=ext_config)
    assert isinstance(desk.send(), Accepted)
    assert desk.api.asked["RegionId"] == "cn-hangzhou"


def test_a_region_of_ones_own_is_signed_too(desk: Desk) -> None:
    desk.config = replace(desk.config, ext_config={"regionId": "ap-southeast-1"})
    assert isinstance(desk.send(), Accepted)
    assert desk.api.asked["RegionId"] == "ap-southeast-1"


@pytest.mark.parametrize(
    ("code", "category"),
    [
        ("isv.BUSINESS_LIMIT_CONTROL", ErrorCategory.QUOTA),  # sms.md P13
        ("isv.PARAM_LENGTH_LIMIT", ErrorCategory.INVALID_INPUT),  # sms.md P14
        ("isv.BLACK_KEY_CONTROL_LIMIT", ErrorCategory.PERMANENT),
    ],
)
def test_a_refusal_has_the_providers_code_and_words(desk: Desk, code: str, category: ErrorCategory) -> None:
    for status in (200, 400):
        desk.server.next.append(Reply(status, {"Code": code, "Message": "触发天级流控Permits:10"}))
        assert desk.send() == Rejected(code, "触发天级流控Permits:10", category)


@pytest.mark.parametrize(
    ("changed", "code", "category"),
    [
        ({"api_key": "other"}, "InvalidAccessKeyId.NotFound", ErrorCategory.AUTH),
        ({"api_secret": "other"}, "SignatureDoesNotMatch", ErrorCategory.AUTH),
    ],
)
def test_wrong_credentials_are_for_an_operator(
    desk: Desk, changed: dict[str, Any], code: str, category: ErrorCategory
) -> None:
    desk.config = replace(desk.config, **changed)
    refused = desk.send()
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.category) == (code, category)


def test_a_clock_that_is_wrong_is_told(desk: Desk) -> None:
    refused = desk.send(Aliyun(clock=lambda: datetime(2021, 1, 1, tzinfo=UTC)))
    assert isinstance(refused, Rejected)
    assert refused.code == "InvalidTimeStamp.Expired"


def test_a_server_error_without_a_code_has_the_status(desk: Desk) -> None:
    # sms.md P15
    desk.server.next.append(Reply(500, "<html>Internal</html>"))
    refused = desk.send()
    assert isinstance(refused, Rejected)
    assert (refused.code, refused.category) == ("HTTP_500", ErrorCategory.TRANSIENT)


def test_neither_secret_nor_number_reach_a_log_or_a_refusal(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    words = f"13800138000 8613800138000 {ACCESS_KEY_SECRET} {ACCESS_KEY_ID} the local text"
    desk.server.next.append(Reply(400, {"Code": "isv.X", "Message": words}))
    refused = desk.send()
    desk.config = replace(desk.config, ext_config=[ACCESS_KEY_SECRET])
    desk.send()
    said = json.dumps([str(refused), caplog.text, repr(desk.config), repr(desk.message)])
    for secret in ("13800138000", ACCESS_KEY_SECRET, ACCESS_KEY_ID, "the local text", "12 34*~"):
        assert secret not in said
