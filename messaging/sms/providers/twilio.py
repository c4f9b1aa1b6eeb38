"""Twilio, Programmable Messaging: https://www.twilio.com/docs/messaging/api/message-resource (`sms.md` section 7.1).

The account: https://www.twilio.com/docs/iam/api/account. Messages are sent and listed, and signatures checked, by
Twilio's own package, which is imported when the first of them is; its HTTP client is ours, so that time-outs, kept
connections and "was it written" are as with every other provider.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from messaging.category import ErrorCategory
from messaging.errors import ReceiptUnreadable
from messaging.http.client import HttpClient, HttpReply, nothing
from messaging.sms.models import DeliveryStatus
from messaging.sms.providers.base import (
    Accepted,
    Inbound,
    OutgoingSms,
    Provider,
    ProviderConfig,
    Receipt,
    Rejected,
    base_url,
    e164_of,
    entry,
    header_of,
    refusal,
)

if TYPE_CHECKING:
    from twilio.http.response import Response
    from twilio.rest.api.v2010.account.message import MessageInstance, MessageList

BASE = "https://api.twilio.com/2010-04-01"
#: What a messaging service's id begins with: it chooses the sender itself.
MESSAGING_SERVICE = "MG"
#: Statuses of a message that was not taken after all.
NOT_TAKEN = frozenset({"failed", "undelivered", "canceled"})
#: Newest messages to one number that a look-up reads.
MAX_LISTED = 50
#: Its times are whole seconds, and its clock is not ours.
SINCE_MARGIN = timedelta(seconds=2)

#: Of a resource, what its package or we compare or take apart as text.
TEXTS = ("sid", "status", "direction", "to", "body", "error_message", "date_created", "date_sent", "date_updated")

SIGNATURE = "X-Twilio-Signature"
SIGNATURE_SETTINGS = "X-Twilio-Webhooks-Signature-Settings"

#: https://www.twilio.com/docs/api/errors
ERROR_CATEGORY: dict[str, ErrorCategory] = {
    "20003": ErrorCategory.AUTH,  # authentication
    "20404": ErrorCategory.AUTH,  # no such account
    "10001": ErrorCategory.AUTH,  # account not active
    "20005": ErrorCategory.AUTH,  # account not active
    "21606": ErrorCategory.AUTH,  # From cannot send text messages
    "21659": ErrorCategory.AUTH,  # From is not a number of the account
    "21660": ErrorCategory.AUTH,  # From is another account's
    "21608": ErrorCategory.AUTH,  # trial account, To not verified
    "21408": ErrorCategory.AUTH,  # country not enabled
    "21211": ErrorCategory.INVALID_INPUT,  # invalid To
    "21212": ErrorCategory.INVALID_INPUT,  # invalid From
    "21602": ErrorCategory.INVALID_INPUT,  # no body
    "21603": ErrorCategory.INVALID_INPUT,  # no From
    "21604": ErrorCategory.INVALID_INPUT,  # no To
    "21617": ErrorCategory.INVALID_INPUT,  # over 1,600 characters
    "21610": ErrorCategory.PERMANENT,  # the recipient opted out
    "21612": ErrorCategory.PERMANENT,  # no route from From to To
    "21614": ErrorCategory.PERMANENT,  # To is no mobile number
    "20429": ErrorCategory.QUOTA,  # too many requests
    "14107": ErrorCategory.QUOTA,  # rate of messages exceeded
    "21611": ErrorCategory.QUOTA,  # the sender's queue is full
    "30001": ErrorCategory.QUOTA,  # queue overflow
    "30022": ErrorCategory.QUOTA,  # the carrier's rate limit
    "20500": ErrorCategory.TRANSIENT,  # internal error
    "20503": ErrorCategory.TRANSIENT,  # unavailable
    "21730": ErrorCategory.TRANSIENT,  # maintenance
    "30008": ErrorCategory.TRANSIENT,  # unknown error
    "30003": ErrorCategory.PERMANENT,  # handset unreachable
    "30004": ErrorCategory.PERMANENT,  # blocked
    "30005": ErrorCategory.PERMANENT,  # unknown handset
    "30006": ErrorCategory.PERMANENT,  # landline or unreachable carrier
    "30007": ErrorCategory.PERMANENT,  # filtered
}

RECEIPT_STATUS: dict[str, DeliveryStatus] = {
    "queued": DeliveryStatus.UNKNOWN,
    "accepted": DeliveryStatus.UNKNOWN,
    "scheduled": DeliveryStatus.UNKNOWN,
    "sending": DeliveryStatus.UNKNOWN,
    "sent": DeliveryStatus.UNKNOWN,
    "delivered": DeliveryStatus.DELIVERED,
    "read": DeliveryStatus.DELIVERED,
    "undelivered": DeliveryStatus.UNDELIVERED,
    "failed": DeliveryStatus.FAILED,
    "canceled": DeliveryStatus.FAILED,
}


class Twilio(Provider):
    """`api_key` is the account's SID and `api_secret` its auth token; with `account_id` set they are a key pair of it.

    A key pair signs nothing: requests to us are then checked by `ext_config.authToken`, if that is set.
    """

    type = "TWILIO"
    label = "twilio"
    codes = ERROR_CATEGORY
    required = ("api_key", "api_secret")
    needs_sender = True
    can_find_sent = True
    takes_callback = True
    can_try_account = True
    opted_out_codes = frozenset({"21610"})

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        from twilio.base.exceptions import TwilioException

        self.check(config, message)
        sender = config.sender or ""
        asked = {
            "messaging_service_sid" if sender.startswith(MESSAGING_SERVICE) else "from_": sender,
            "body": message.content,
        }
        if config.callback is not None:
            asked["status_callback"] = config.callback
        calls = _Calls(self, client, before_body)
        try:
            created = _messages(config, calls).create(message.phone_number, **cast(Any, asked))
        except TwilioException:
            said = calls.reply.json()
            return self.reject(config, message, calls.reply, entry(said, "code"), entry(said, "message"))
        if created.status in NOT_TAKEN:
            return self.reject(config, message, calls.reply, created.error_code, created.error_message)
        return self.accept(calls.reply, created.sid)

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        """By number, date and text: Twilio keeps no reference of ours.

        The date is compared here: the list's own filter knows when a message left, which one in the queue has not.
        """
        from twilio.base.exceptions import TwilioException

        calls = _Calls(self, client)
        try:
            listed = _messages(config, calls).list(to=message.phone_number, limit=MAX_LISTED, page_size=MAX_LISTED)
        except TwilioException as exc:
            said = calls.reply.json()
            refused = self.reject(config, message, calls.reply, entry(said, "code"), entry(said, "message"))
            raise refusal(self, refused) from exc
        return [Accepted(found.sid) for found in reversed(listed) if _is_it(found, message, since - SINCE_MARGIN)]

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        self.check_config(config)
        reply = client.get(
            f"{base_url(config, self.label, BASE)}/Accounts/{_account(config)}.json",
            headers={"Authorization": _basic(config.api_key or "", config.api_secret or "")},
        )
        said = reply.json()
        if reply.is_success and entry(said, "sid") is not None:
            return None
        return self.reject(config, None, reply, entry(said, "code"), entry(said, "message"))

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        said = _form(body)
        message_id = said.get("MessageSid") or said.get("SmsSid")
        status = said.get("MessageStatus") or said.get("SmsStatus")
        if not message_id or not status:
            raise ReceiptUnreadable(self.label, "no MessageSid or no MessageStatus")
        known = RECEIPT_STATUS.get(status.lower(), DeliveryStatus.UNKNOWN)
        return [Receipt(message_id, known, _done_at(said.get("RawDlrDoneDate")), status)]

    def check_receipt(
        self, config: ProviderConfig, url: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]
    ) -> bool | None:
        from twilio.request_validator import RequestValidator, get_signature_algorithm

        is_key_pair = config.account_id and config.account_id != config.api_key
        token = config.ext("authToken") or (None if is_key_pair else config.api_secret)
        if not token:
            return None
        signature = header_of(headers, SIGNATURE)
        if not signature:
            return False
        text = body.decode("utf-8", "replace")
        # A body that is no form has a hash in the address, which is signed.
        is_hashed = "bodySHA256" in parse_qs(urlsplit(url).query)
        signed = text if is_hashed else _Form(parse_qs(text, keep_blank_values=True))
        algorithm = get_signature_algorithm(header_of(headers, SIGNATURE_SETTINGS))
        return bool(RequestValidator(token).validate(url, signed, signature, algorithm))

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        said = _form(body)
        number, words = e164_of(said.get("From")), said.get("Body")
        if "From" not in said or words is None:
            raise ReceiptUnreadable(self.label, "no From or no Body")
        # A short code or another channel's address cannot be written to.
        return [] if number is None else [Inbound(number, said.get("To", ""), words, None)]


class _Calls:
    """What Twilio's package takes for an HTTP client: one call, over ours."""

    def __init__(self, twilio: Twilio, client: HttpClient, before_body: Callable[[], None] | None = None) -> None:
        self._twilio = twilio
        self._client = client
        self._before_body = before_body
        self._reply: HttpReply | None = None

    @property
    def reply(self) -> HttpReply:
        assert self._reply is not None
        return self._reply

    def request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float | None = None,
        allow_redirects: bool = False,
    ) -> "Response":
        from twilio.http.response import Response

        sent = {**(headers or {}), "Authorization": _basic(*(auth or ("", "")))}
        if method == "POST":
            body = urlencode(_pairs(data)).encode("ascii")
            before_body = self._before_body or nothing
            reply = self._client.post(url, headers=sent, body=body, before_body=before_body)
        else:
            asked = urlencode(_pairs(params))
            reply = self._client.get(f"{url}?{asked}" if asked else url, headers=sent)
        self._reply = reply
        if reply.is_success and not _has_shape(method, reply.json()):
            raise self._twilio.bad_response(reply, is_uncertain=method == "POST")
        return Response(reply.status, reply.text, dict(reply.headers))


class _Form(dict[str, list[str]]):
    """A form in the shape the validator asks: all values of a name."""

    def getlist(self, name: str) -> list[str]:
        return self[name]


def _account(config: ProviderConfig) -> str:
    return (config.account_id or "").strip() or (config.api_key or "")


def _messages(config: ProviderConfig, calls: _Calls) -> "MessageList":
    from twilio.rest import Client
    from twilio.rest.api.v2010.account.message import MessageList

    account = _account(config)
    client = Client(
        config.api_key,
        config.api_secret,
        account,
        http_client=cast(Any, calls),
        # Else a region of the environment would change the address; an empty mapping means the environment, too.
        environment={"TWILIO_REGION": "", "TWILIO_EDGE": ""},
    )
    version = client.api.v2010
    # The version is part of `api_endpoint`.
    version.domain.base_url = base_url(config, Twilio.label, BASE)
    version.version = ""
    return MessageList(version, account)


def _is_it(found: "MessageInstance", message: OutgoingSms, since: datetime) -> bool:
    at = found.date_created or found.date_sent
    if not found.sid or at is None or at.replace(tzinfo=at.tzinfo or UTC) < since:
        return False
    is_ours = found.direction != "inbound" and found.to == message.phone_number and found.body == message.content
    return is_ours and found.status not in NOT_TAKEN


def _has_shape(method: str, said: Any) -> bool:
    """Whether the package can read a success: a resource, or a list of them."""
    listed = [said] if method == "POST" else entry(said, "messages")
    return isinstance(listed, list) and all(map(_is_resource, listed))


def _is_resource(said: Any) -> bool:
    if not isinstance(said, dict) or not isinstance(said.get("error_code"), int | str | None):
        return False
    return all(isinstance(said.get(name), str | None) for name in TEXTS)


def _basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode('ascii')}"


def _pairs(values: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in (values or {}).items()]


def _form(body: bytes) -> dict[str, str]:
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _done_at(stated: str | None) -> datetime | None:
    """`RawDlrDoneDate` of the carrier, `YYMMDDhhmm` in UTC."""
    try:
        return datetime.strptime((stated or "")[:10], "%y%m%d%H%M").replace(tzinfo=UTC)
    except ValueError:
        return None
