"""What a provider of text messages is, and what all of them share: configuration, refusals, classification.

A provider is one file: its error table, its request, its reply, its receipts. `Provider` holds what most have in
common, so that one of an application's own is a type, a label, a `send` and a table. Source: `sms.md` section 6.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, ClassVar, Protocol, TypeVar
from urllib.parse import urlsplit

from messaging.category import ErrorCategory, MarkerCode
from messaging.delivery.error_words import classify_words
from messaging.errors import DeliveryError, PreparationError, ReceiptUnreadable
from messaging.http.client import HttpClient, HttpReply
from messaging.sms.models import DeliveryStatus

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: `error_code` of a reply that says the message was taken and cannot be read.
BAD_RESPONSE = "BAD_RESPONSE"
#: Longest code and longest text kept of a refusal, in characters: the columns `error_code` and `error_message`.
MAX_CODE_CHARS = 100
MAX_TEXT_CHARS = 1000
#: Longest message id: the column `provider_message_id`.
MAX_ID_CHARS = 255

#: The zone of times that Chinese providers tell without one; no summer time since 1991.
CHINA = timezone(timedelta(hours=8))

#: What an HTTP status says when the provider's own code says nothing.
HTTP_STATUS: dict[int, ErrorCategory] = {
    400: ErrorCategory.INVALID_INPUT,  # bad request
    401: ErrorCategory.AUTH,  # credentials
    402: ErrorCategory.AUTH,  # payment required
    403: ErrorCategory.AUTH,  # forbidden
    404: ErrorCategory.AUTH,  # wrong account or endpoint
    405: ErrorCategory.INVALID_INPUT,  # method not allowed
    406: ErrorCategory.INVALID_INPUT,  # not acceptable
    408: ErrorCategory.TRANSIENT,  # request time-out
    409: ErrorCategory.TRANSIENT,  # conflict
    413: ErrorCategory.INVALID_INPUT,  # content too large
    415: ErrorCategory.INVALID_INPUT,  # media type
    422: ErrorCategory.INVALID_INPUT,  # unprocessable
    425: ErrorCategory.TRANSIENT,  # too early
    429: ErrorCategory.QUOTA,  # too many requests
}

#: The same by class: a redirect is a wrong endpoint.
HTTP_CLASS: dict[int, ErrorCategory] = {3: ErrorCategory.AUTH, 5: ErrorCategory.TRANSIENT}

#: Words in a code that no table knows, upper-cased and without separators, first row first. LIMIT stands behind LENGTH
#: and BLACK: `PARAM_LENGTH_LIMIT` and `BLACK_KEY_CONTROL_LIMIT` are no rates.
CODE_WORDS: tuple[tuple[str, ErrorCategory], ...] = (
    (r"SIGNATURE.*DOESNOTMATCH", ErrorCategory.AUTH),
    (r"AUTH|FORBIDDEN|PERMISSION|SECRET|BALANCE|ARREARS", ErrorCategory.AUTH),
    (r"BLACK|BLOCK|OPTOUT", ErrorCategory.PERMANENT),
    (r"INVALID|ILLEGAL|MALFORM|MISSING|PARAM|LENGTH", ErrorCategory.INVALID_INPUT),
    (r"THROTTL|RATELIMIT|LIMIT|QUOTA|FREQUENCY", ErrorCategory.QUOTA),
    (r"TIMEOUT|UNAVAILABLE|INTERNAL|SYSTEMERROR", ErrorCategory.TRANSIENT),
)
_CODE_WORDS = tuple((re.compile(pattern), category) for pattern, category in CODE_WORDS)
_SEPARATORS = re.compile(r"[^A-Z0-9]+")

#: What may stand between two digits of a phone number within prose.
_GAP = "[ ().-]{0,2}"


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """An account at a provider, secrets decrypted: for the process that sends, never logged."""

    id: int
    tenant_id: int
    #: A name of the registry, e.g. `TWILIO`.
    provider_type: str
    api_key: str | None = field(default=None, repr=False)
    api_secret: str | None = field(default=None, repr=False)
    #: None or blank: the provider's own.
    api_endpoint: str | None = None
    account_id: str | None = None
    #: What only this provider knows: an object, or whatever else a JSON column holds. Read it by `ext`.
    ext_config: Any = field(default=None, repr=False)
    sender_number: str | None = None
    sender_id: str | None = None
    #: The public address of its receipts with us; None where the application has no public address.
    receipt_url: str | None = field(default=None, repr=False)

    @property
    def callback(self) -> str | None:
        """Where receipts shall go to: what `ext_config.statusCallbackUrl` says, else to us; None: nowhere."""
        return self.ext("statusCallbackUrl") or self.receipt_url

    @property
    def sender(self) -> str | None:
        """Who the message is from: the number if there is one, else the name; None without either."""
        return (self.sender_number or "").strip() or (self.sender_id or "").strip() or None

    def ext(self, key: str) -> str | None:
        """A text (or number, as text) of `ext_config`; None where it is missing, blank or of another type."""
        if self.ext_config is None:
            return None
        if not isinstance(self.ext_config, Mapping):
            logger.warning("ext_config is no object", extra={"provider_config_id": self.id, "key": key})
            return None
        value = self.ext_config.get(key)
        if value is None or isinstance(value, bool) or not isinstance(value, str | int):
            return None
        return str(value).strip() or None


@dataclass(frozen=True, slots=True)
class OutgoingSms:
    """One prepared message, the same at every attempt."""

    record_id: int
    #: E.164 with the plus.
    phone_number: str = field(repr=False)
    content: str = field(repr=False)
    #: ISO 3166-1 alpha-2, `001`, or None where it was not needed.
    region_code: str | None = None
    sign_name: str | None = None
    external_template_id: str | None = None
    #: Values by position.
    template_params: Sequence[str] = field(default=(), repr=False)
    #: Values by name, in the caller's order.
    template_variables: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def reference(self) -> str:
        """What a provider that echoes a client's reference is given: the record id."""
        return str(self.record_id)

    @property
    def digits(self) -> str:
        """The number without its plus."""
        return self.phone_number.removeprefix("+")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider took the message."""

    #: What its receipts will name; None from a provider that names nothing.
    provider_message_id: str | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The provider refused the message."""

    #: The provider's own code, else `HTTP_<status>`.
    code: str
    #: The provider's words.
    text: str
    #: None: `SmsProvider.classify` of the code and the words.
    category: ErrorCategory | None = None
    #: A wait the provider asked for; None when it asked for none.
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a provider says became of one message."""

    provider_message_id: str
    status: DeliveryStatus
    #: When it happened, timezone-aware; None where the provider does not say.
    at: datetime | None
    #: The provider's own word.
    raw_status: str


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message somebody sent to one of our numbers."""

    #: E.164 with the plus.
    from_number: str
    #: The number, short code or name it was sent to, as the provider writes it.
    to: str
    text: str = field(repr=False)
    #: When it was sent or received, timezone-aware; None where the provider does not say.
    at: datetime | None


class SmsProvider(Protocol):
    """One provider. Holds no state of a message: one object serves all threads."""

    @property
    def type(self) -> str:
        """The registry's name, e.g. `TWILIO`."""

    @property
    def label(self) -> str:
        """The label in metrics, logs and addresses of receipts, e.g. `twilio`."""

    @property
    def can_find_sent(self) -> bool:
        """Whether `find_sent` can answer."""

    @property
    def takes_callback(self) -> bool:
        """Whether each message says where its receipts go to; else that is set in the provider's console."""

    @property
    def can_try_account(self) -> bool:
        """Whether it has a documented call that needs the account and changes nothing."""

    @property
    def finds_by_reference(self) -> bool:
        """Whether what `find_sent` answers names our reference, and so is no other record's."""

    @property
    def opted_out_codes(self) -> Set[str]:
        """Codes by which it refuses a message because the recipient answered STOP."""

    @property
    def receives_by_get(self) -> bool:
        """Whether its requests to us may be GETs, which hold all they say in the address; POSTs are always taken."""

    def check_config(self, config: ProviderConfig) -> None:
        """What can be said of a configuration without calling anybody.

        Raises: PreparationError, SENDER_REQUIRED or PROVIDER_CONFIG_INVALID.
        """

    def check(self, config: ProviderConfig, message: OutgoingSms) -> None:
        """What can be said of this message at this account without calling anybody; `check_config` is part of it.

        Raises: PreparationError, as `check_config` or EXTERNAL_TEMPLATE_REQUIRED.
        """

    def send(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, before_body: Callable[[], None]
    ) -> Accepted | Rejected:
        """One call, no repetition. `before_body` is called right before the body is written; what it raises passes.

        Raises:
            DeliveryError: nothing or nothing readable came back (`sms.md` section 6.2).
            PreparationError: as `check`.
        """

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        """What the provider took at or after `since` (timezone-aware) that may be this very message, oldest first.

        Several where the same was said to the same number; unless `finds_by_reference`, the caller finds out which of
        them are other records'. Without an id where the provider lists none. Only if `can_find_sent`.

        Raises: DeliveryError, when it could not be asked.
        """

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        """Read something that only the account may read; answers the refusal, None when it was read.

        Costs nothing and sends nothing. Only if `can_try_account`.

        Raises: DeliveryError, when there was no answer; PreparationError, as `check_config`.
        """

    def classify(self, code: str, http_status: int | None, text: str) -> ErrorCategory:
        """What a refusal says about trying again."""

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        """The receipts of one request to the receipt address; pure.

        Raises: ReceiptUnreadable.
        """

    def check_receipt(
        self, config: ProviderConfig, url: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]
    ) -> bool | None:
        """Whether the provider signed this request; None where it signs nothing or no key is configured.

        `url` is the full public address the provider called, query included.
        """

    def receipt_reply(self) -> tuple[int, str, bytes]:
        """Status, media type and body of the answer that the provider takes as received."""

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        """The messages of one request to the inbound address; pure.

        Raises: ReceiptUnreadable.
        """


class Provider:
    """What most providers have in common; each fills in its type, its tables and `send`."""

    type: ClassVar[str]
    label: ClassVar[str]
    #: Codes and what they say about trying again.
    codes: ClassVar[Mapping[str, ErrorCategory]] = {}
    #: Beginnings of codes, first row first; looked at after `codes`.
    prefixes: ClassVar[Sequence[tuple[str, ErrorCategory]]] = ()
    #: Fields of the configuration it cannot work without.
    required: ClassVar[Sequence[str]] = ("api_key",)
    needs_sender: ClassVar[bool] = False
    can_find_sent: ClassVar[bool] = False
    finds_by_reference: ClassVar[bool] = False
    takes_callback: ClassVar[bool] = False
    can_try_account: ClassVar[bool] = False
    opted_out_codes: ClassVar[Set[str]] = frozenset()
    receives_by_get: ClassVar[bool] = False

    def check_config(self, config: ProviderConfig) -> None:
        for name in self.required:
            if not (getattr(config, name) or "").strip():
                raise PreparationError(MarkerCode.PROVIDER_CONFIG_INVALID, f"{self.label}: {name} is missing")
        base_url(config, self.label)
        if self.needs_sender and config.sender is None:
            raise PreparationError(
                MarkerCode.SENDER_REQUIRED, f"{self.label}: neither sender_number nor sender_id is set"
            )

    def check(self, config: ProviderConfig, message: OutgoingSms) -> None:
        self.check_config(config)

    def find_sent(
        self, config: ProviderConfig, message: OutgoingSms, client: HttpClient, since: datetime
    ) -> Sequence[Accepted]:
        return ()

    def try_account(self, config: ProviderConfig, client: HttpClient) -> Rejected | None:
        return None

    def classify(self, code: str, http_status: int | None, text: str) -> ErrorCategory:
        return classify(code, http_status, text, self.codes, self.prefixes)

    def parse_receipts(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Receipt]:
        return []

    def check_receipt(
        self, config: ProviderConfig, url: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]
    ) -> bool | None:
        return None

    def receipt_reply(self) -> tuple[int, str, bytes]:
        return 200, "text/plain", b""

    def parse_inbound(self, headers: Mapping[str, str], body: bytes, query: Mapping[str, str]) -> list[Inbound]:
        return []

    def reject(
        self,
        config: ProviderConfig,
        message: OutgoingSms | None,
        reply: HttpReply,
        code: object = None,
        text: object = None,
        category: ErrorCategory | None = None,
    ) -> Rejected:
        """The refusal a reply states; `code` and `text` as found in it, of whatever type, None where it has none.

        `message` is what the call was about; None of a call about the account.
        """
        shown = str(code).strip() if isinstance(code, str | int) and not isinstance(code, bool) else ""
        words = text if isinstance(text, str) and text.strip() else f"HTTP status {reply.status}"
        if category is None:
            category = self.classify(shown or f"HTTP_{reply.status}", reply.status, words)
        # Whoever answers at the address of a provider may repeat in any field what we sent.
        shown = refusal_text(shown, config, message)[:MAX_CODE_CHARS] or f"HTTP_{reply.status}"
        logger.info(
            "provider refused a text message" if message is not None else "provider refused to read an account",
            extra={"provider": self.label, "http_status": reply.status, "code": shown},
        )
        return Rejected(shown, refusal_text(words, config, message), category, reply.retry_after_seconds)

    def accept(self, reply: HttpReply, message_id: object) -> Accepted:
        """The success a reply states, by the id found in it.

        Raises: DeliveryError, BAD_RESPONSE, when that is none that could be stored and compared.
        """
        if not isinstance(message_id, str) or not 0 < len(message_id) <= MAX_ID_CHARS or not message_id.isprintable():
            raise self.bad_response(reply)
        return Accepted(message_id)

    def bad_response(self, reply: HttpReply, *, is_uncertain: bool = True) -> DeliveryError:
        """The error of a reply that does not say whether the message was taken, or of a look-up's that says nothing."""
        return DeliveryError(
            ErrorCategory.UNKNOWN,
            BAD_RESPONSE,
            f"{self.label}: HTTP status {reply.status} with a body that cannot be read",
            is_uncertain=is_uncertain,
        )


def classify(
    code: str,
    http_status: int | None,
    text: str,
    codes: Mapping[str, ErrorCategory],
    prefixes: Sequence[tuple[str, ErrorCategory]] = (),
) -> ErrorCategory:
    """The provider's table (exact, then prefix), the HTTP status, words in the code, words in the text, UNKNOWN."""
    if code in codes:
        return codes[code]
    for prefix, category in prefixes:
        if code.startswith(prefix):
            return category
    if http_status is not None:
        by_status = HTTP_STATUS.get(http_status) or HTTP_CLASS.get(http_status // 100)
        if by_status is not None:
            return by_status
    squeezed = _SEPARATORS.sub("", code.upper())
    for pattern, category in _CODE_WORDS:
        if pattern.search(squeezed):
            return category
    return classify_words(text)


def refusal(provider: SmsProvider, rejected: Rejected) -> DeliveryError:
    """A refusal as delivery records it.

    Raises: TypeError or ValueError, for what an adapter of an application's own should not have put into it.
    """
    said: tuple[object, ...] = (rejected.code, rejected.text)
    if not all(isinstance(one, str) for one in said):
        raise TypeError(f"{provider.label} refuses with a code or words that are no text")
    category = rejected.category
    if category is None:
        category = provider.classify(rejected.code, None, rejected.text)
    wait = rejected.retry_after_seconds
    return DeliveryError(
        ErrorCategory(category),
        rejected.code,
        rejected.text,
        retry_after_seconds=None if wait is None else float(wait),
    )


def refusal_text(words: str, config: ProviderConfig, message: OutgoingSms | None) -> str:
    """A provider's words on one line, without what they may repeat of ours: secrets, number and text."""
    for secret in (config.api_secret, config.api_key):
        if secret:
            words = words.replace(secret, "***")
    if message is not None:
        words = _without(words, message)
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())[:MAX_TEXT_CHARS]


def _without(words: str, message: OutgoingSms) -> str:
    content = message.content.strip()
    # A text of a few letters is found in any prose; a code of a few digits is not.
    if len(content) >= 7 or (len(content) >= 4 and content.isdigit()):
        words = words.replace(content, "(text)")
    # With or without its country, with zeros before it, in groups, or as we wrote it.
    own = _GAP.join(message.digits[-7:])
    return re.sub(rf"(?:[0-9]{_GAP}){{0,10}}{own}(?![0-9])", "(number)", words)


def base_url(config: ProviderConfig, label: str, default: str = "") -> str:
    """`api_endpoint` if it is not blank, else the default; without a slash at its end.

    Raises: PreparationError, PROVIDER_CONFIG_INVALID, when it is no HTTP address.
    """
    endpoint = (config.api_endpoint or "").strip().rstrip("/")
    if endpoint and not _is_address(endpoint):
        raise PreparationError(
            MarkerCode.PROVIDER_CONFIG_INVALID, f"{label}: api_endpoint is no http:// or https:// address"
        )
    return endpoint or default


@lru_cache(maxsize=256)
def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    has_more = parts.query or parts.fragment or "@" in parts.netloc
    return is_whole and not has_more and endpoint.isascii() and endpoint.isprintable() and " " not in endpoint


def header_of(headers: Mapping[str, str], name: str) -> str | None:
    """A header whatever the case of its name."""
    found = headers.get(name.lower())
    if found is None:
        wanted = name.lower()
        found = next((value for key, value in headers.items() if key.lower() == wanted), None)
    return found


def json_of(body: bytes) -> Any:
    """What a body says as JSON; None where it is none, or nested too deeply."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def entry(value: Any, *path: str | int) -> Any:
    """What stands at a path within JSON; None where a step leads nowhere."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and -len(value) <= step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def e164_of(value: object) -> str | None:
    """A number as providers write it (with plus, with 00, digits alone), with the plus; None where it is none."""
    digits = str(value).strip() if isinstance(value, str | int) else ""
    digits = digits.removeprefix("+") if digits.startswith("+") else digits.removeprefix("00")
    return f"+{digits}" if digits.isascii() and digits.isdigit() else None


def word_of(value: Any, *path: str | int) -> str | None:
    """The text or number at a path within JSON, as text without blanks around it; None where there is none."""
    found = entry(value, *path)
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return str(found).strip() or None


def readable(label: str, entries: Sequence[Any], read: Callable[[Any], T | None]) -> list[T]:
    """What can be read of a batch: an entry of an unknown shape does not cost the others.

    Raises: ReceiptUnreadable, when there are entries and none can be read.
    """
    found = [one for one in map(read, entries) if one is not None]
    if entries and not found:
        raise ReceiptUnreadable(label, "the body has an unknown shape")
    return found


def time_of(value: object, zone: tzinfo = UTC) -> datetime | None:
    """An ISO 8601 time, in UTC; one that names no zone is of `zone`. None where it is none."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value.strip())
        return (at.replace(tzinfo=zone) if at.tzinfo is None else at).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
