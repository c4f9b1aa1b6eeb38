"""Each provider of the registry as the conformance suite sees it: an account at its far end, and what that says."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from messaging.category import ErrorCategory
from messaging.http.client import HttpClient
from messaging.sms.providers.base import Accepted, OutgoingSms, Provider, ProviderConfig, Rejected, base_url, entry
from tests.far_end import aliyun_api, bird_api, carrier_api, cm_api, infobip_api, sinch_api, tencent_api, twilio_api
from tests.far_end.aliyun_api import AliyunApi
from tests.far_end.bird_api import BirdApi
from tests.far_end.carrier_api import CarrierApi
from tests.far_end.cm_api import CmApi
from tests.far_end.infobip_api import InfobipApi
from tests.far_end.provider_server import Api, Reply
from tests.far_end.sinch_api import SinchApi
from tests.far_end.tencent_api import TencentApi
from tests.far_end.twilio_api import TwilioApi

#: Sent by most subjects; long enough to be found if it leaks.
TEXT = "Your code is 123456, good for ten minutes €"
NUMBER = "+14155550199"
#: Well formed for us, refused by each far end as a wrong number.
BAD_NUMBER = "+14155550001"

#: What the column may hold beside what a provider asks of it.
ODD_EXT_CONFIGS: tuple[Any, ...] = (None, {}, [], "text", 7, {"region": None}, {"region": ["us"]})


@dataclass(frozen=True)
class Refusal:
    """A reply in the provider's own shape, and what it must be taken for."""

    name: str
    reply: Reply
    code: str
    category: ErrorCategory
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Subject:
    """One provider."""

    type: str
    api: Callable[[], Api]
    #: Fields of a complete configuration but for `api_endpoint`.
    config: Mapping[str, Any]
    #: The field whose value the far end checks, and the path it serves.
    key_field: str = "api_key"
    path: str = ""
    message: OutgoingSms = field(default_factory=lambda: OutgoingSms(4711, NUMBER, TEXT))
    #: The far end's text of an accepted message: the template's id where texts are not sent.
    text: str = TEXT
    #: What a provider that is given our reference echoes.
    reference: str | None = "4711"
    bad_number_code: str = ""
    can_find_sent: bool = True
    #: Whether what a look-up lists has the id that receipts name.
    finds_id: bool = True
    can_try_account: bool = True
    refusals: Sequence[Refusal] = ()
    #: Those of `ODD_EXT_CONFIGS` without which it cannot work; all where a key is mandatory.
    refused_ext_configs: Sequence[Any] = ()
    #: Replies of success that name no message; none for a provider that names none.
    unreadable: Sequence[Reply] = (
        Reply(200, b""),
        Reply(200, "<html>ok</html>"),
        Reply(200, b"[]"),
        Reply(200, {}),
        Reply(201, b'{"a":' * 5000),
    )

    def config_at(self, url: str, **changes: Any) -> ProviderConfig:
        """The account at a server; `url` is without the path."""
        return ProviderConfig(
            **{
                "id": 7,
                "tenant_id": 3,
                "provider_type": self.type,
                "api_endpoint": f"{url}{self.path}",
                **self.config,
                **changes,
            }
        )

    def message_to(self, number: str) -> OutgoingSms:
        """The message to another number."""
        return replace(self.message, phone_number=number)

    @property
    def secrets(self) -> list[str]:
        """What must stand in no log and no error."""
        found = [self.config.get("api_key"), self.config.get("api_secret")]
        return [secret for secret in found if secret]


TWILIO = Subject(
    type="TWILIO",
    api=TwilioApi,
    config={
        "api_key": twilio_api.ACCOUNT,
        "api_secret": twilio_api.AUTH_TOKEN,
        "sender_number": twilio_api.OWN_NUMBERS[0],
    },
    key_field="api_secret",
    path="/2010-04-01",
    reference=None,
    bad_number_code="21211",
    refusals=(
        Refusal(
            "throttled",  # class-04
            Reply(429, {"code": 20429, "message": "Too Many Requests", "status": 429}, {"Retry-After": "600"}),
            "20429",
            ErrorCategory.QUOTA,
            600,
        ),
        Refusal(
            "opted out",  # class-03
            Reply(400, {"code": 21610, "message": "Attempt to send to unsubscribed recipient", "status": 400}),
            "21610",
            ErrorCategory.PERMANENT,
        ),
        Refusal(
            "201 with an error inside",
            Reply(201, {"sid": "SM1", "status": "failed", "error_code": 30007, "error_message": "Carrier violation"}),
            "30007",
            ErrorCategory.PERMANENT,
        ),
        Refusal(
            "unavailable",
            Reply(503, {"code": 20503, "message": "Service unavailable", "status": 503}),
            "20503",
            ErrorCategory.TRANSIENT,
        ),
    ),
)

INFOBIP = Subject(
    type="INFOBIP",
    api=InfobipApi,
    config={"api_key": infobip_api.API_KEY, "sender_id": "MySite"},
    bad_number_code="REJECTED_DESTINATION",
    refusals=(
        Refusal(
            "throttled",
            Reply(
                429,
                {"requestError": {"serviceException": {"messageId": "TOO_MANY_REQUESTS", "text": "Too many requests"}}},
                {"Retry-After": "12"},
            ),
            "TOO_MANY_REQUESTS",
            ErrorCategory.QUOTA,
            12,
        ),
        Refusal(
            "200 with an error inside",
            Reply(
                200,
                {
                    "messages": [
                        {
                            "messageId": "m-1",
                            "status": {
                                "groupId": 5,
                                "groupName": "REJECTED",
                                "id": 11,
                                "name": "REJECTED_NOT_ENOUGH_CREDITS",
                                "description": "Not enough credits",
                            },
                        }
                    ]
                },
            ),
            "REJECTED_NOT_ENOUGH_CREDITS",
            ErrorCategory.AUTH,
        ),
        Refusal(
            "internal error",
            Reply(500, {"errorCode": "E500", "description": "Internal server error"}),
            "E500",
            ErrorCategory.TRANSIENT,
        ),
    ),
)

SINCH = Subject(
    type="SINCH",
    api=SinchApi,
    config={"api_key": sinch_api.API_TOKEN, "sender_number": "+14155550100"},
    path=f"/xms/v1/{sinch_api.SERVICE_PLAN}",
    bad_number_code="syntax_invalid_parameter_format",
    refusals=(
        Refusal(
            "throttled",
            Reply(429, {"code": "too_many_requests", "text": "Slow down"}, {"Retry-After": "3"}),
            "too_many_requests",
            ErrorCategory.QUOTA,
            3,
        ),
        Refusal(
            "forbidden",
            Reply(403, {"code": "forbidden", "text": "Invalid API token"}),
            "forbidden",
            ErrorCategory.AUTH,
        ),
        Refusal("internal error", Reply(500, {"message": "oops"}), "HTTP_500", ErrorCategory.TRANSIENT),
    ),
)

BIRD = Subject(
    type="BIRD",
    api=BirdApi,
    config={"api_key": bird_api.ACCESS_KEY, "sender_id": "MySite"},
    bad_number_code="10",
    refusals=(
        Refusal(
            "throttled",
            Reply(429, {"errors": []}, {"Retry-After": "1"}),
            "HTTP_429",
            ErrorCategory.QUOTA,
            1,
        ),
        Refusal(
            "201 sent to nobody",
            Reply(201, bird_api.created("b-1", "MySite", "x", 14155550199, sent=0)),
            "NOT_SENT",
            ErrorCategory.PERMANENT,
        ),
        Refusal(
            "internal error",
            Reply(500, {"errors": [{"code": 99, "description": "internal error", "parameter": None}]}),
            "99",
            ErrorCategory.TRANSIENT,
        ),
    ),
)

ALIYUN = Subject(
    type="ALIYUN",
    api=AliyunApi,
    finds_id=False,
    config={"api_key": aliyun_api.ACCESS_KEY_ID, "api_secret": aliyun_api.ACCESS_KEY_SECRET},
    key_field="api_secret",
    message=OutgoingSms(
        4711,
        NUMBER,
        TEXT,
        sign_name=aliyun_api.SIGN_NAME,
        external_template_id=aliyun_api.TEMPLATE_CODE,
        template_variables={"code": "123456 €"},
    ),
    text=aliyun_api.TEMPLATE_CODE,
    bad_number_code="isv.MOBILE_NUMBER_ILLEGAL",
    refusals=(
        Refusal(
            "throttled",
            Reply(400, {"Code": "Throttling.User", "Message": "Request was denied due to user flow control."}),
            "Throttling.User",
            ErrorCategory.QUOTA,
        ),
        Refusal(
            "200 with an error inside",
            Reply(200, {"Code": "isv.BUSINESS_LIMIT_CONTROL", "Message": "触发小时级流控Permits:5"}),
            "isv.BUSINESS_LIMIT_CONTROL",
            ErrorCategory.QUOTA,
        ),
        Refusal(
            "unavailable",
            Reply(503, {"Code": "ServiceUnavailable", "Message": "The request has failed."}),
            "ServiceUnavailable",
            ErrorCategory.TRANSIENT,
        ),
    ),
)

TENCENT = Subject(
    type="TENCENT",
    api=TencentApi,
    config={
        "api_key": tencent_api.SECRET_ID,
        "api_secret": tencent_api.SECRET_KEY,
        "ext_config": {"sdkAppId": tencent_api.SDK_APP_ID},
        "sender_id": "MySite",
    },
    message=OutgoingSms(
        4711,
        NUMBER,
        TEXT,
        region_code="US",
        external_template_id=tencent_api.TEMPLATE_ID,
        template_params=("123456", "ten minutes €"),
    ),
    text=tencent_api.TEMPLATE_ID,
    bad_number_code="InvalidParameterValue.IncorrectPhoneNumber",
    refused_ext_configs=ODD_EXT_CONFIGS,
    refusals=(
        Refusal(
            "throttled, with status 200",
            Reply(200, tencent_api.error("RequestLimitExceeded", "Your current request times equals to `3001`")),
            "RequestLimitExceeded",
            ErrorCategory.QUOTA,
        ),
        Refusal(
            "200 with an error inside",
            Reply(200, tencent_api.sent(NUMBER, "FailedOperation.InsufficientBalanceInSmsPackage", "insufficient", "")),
            "FailedOperation.InsufficientBalanceInSmsPackage",
            ErrorCategory.AUTH,
        ),
        Refusal(
            "internal error",
            Reply(200, tencent_api.error("InternalError.Timeout", "request timeout")),
            "InternalError.Timeout",
            ErrorCategory.TRANSIENT,
        ),
    ),
)

CM = Subject(
    type="CM",
    api=CmApi,
    can_find_sent=False,
    can_try_account=False,
    config={"api_key": cm_api.PRODUCT_TOKEN, "sender_id": "MySite"},
    bad_number_code="303",
    # It names no message: a body without a word is a success.
    unreadable=(Reply(200, "<html>ok</html>"), Reply(200, b"[]"), Reply(201, b'{"a":' * 5000)),
    refusals=(
        Refusal(
            "throttled",
            Reply(429, {"details": "Too many requests"}, {"Retry-After": "5"}),
            "HTTP_429",
            ErrorCategory.QUOTA,
            5,
        ),
        Refusal(
            "200 with an error inside",
            Reply(
                200,
                {
                    "details": "Created 0 message(s)",
                    "errorCode": 201,
                    "messages": [cm_api.outcome("0014155550199", "4711", 402, "Blocked")],
                },
            ),
            "402",
            ErrorCategory.PERMANENT,
        ),
        Refusal(
            "internal error",
            Reply(500, {"details": "Internal error", "errorCode": 500, "messages": []}),
            "500",
            ErrorCategory.TRANSIENT,
        ),
    ),
)


class Carrier(Provider):
    """A provider of an application's own: all it takes."""

    type = "CARRIER"
    label = "carrier"
    codes = {"bad_number": ErrorCategory.INVALID_INPUT, "over_rate": ErrorCategory.QUOTA}

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        self.check(config, message)
        reply = client.post(
            f"{base_url(config, self.label, 'https://api.carrier.example')}/v1/texts",
            headers={"X-Token": config.api_key or "", "Content-Type": "application/json"},
            body=json.dumps(
                {"number": message.phone_number, "text": message.content, "ref": message.reference}
            ).encode(),
            before_body=before_body,
        )
        said = reply.json()
        if reply.is_success:
            return self.accept(reply, entry(said, "id"))
        return self.reject(config, message, reply, entry(said, "code"), entry(said, "text"))


CARRIER = Subject(
    type="CARRIER",
    api=CarrierApi,
    can_find_sent=False,
    can_try_account=False,
    config={"api_key": carrier_api.TOKEN},
    bad_number_code="bad_number",
    refusals=(
        Refusal(
            "throttled",
            Reply(429, {"code": "over_rate", "text": "slow down"}, {"Retry-After": "30"}),
            "over_rate",
            ErrorCategory.QUOTA,
            30,
        ),
    ),
)

#: Those of the product's own, and the application's.
SUBJECTS = (TWILIO, INFOBIP, SINCH, BIRD, ALIYUN, TENCENT, CM, CARRIER)
