"""Every setting, by area. The only reader of the environment (prefix `MESSAGING_`, area and field joined by `__`).

Handed in as arguments, never looked up in the depths. Contradictions are refused by `load_settings` with the name of
the setting, what was given and what is allowed; the inequalities are those of the protocol, section 4.
"""

import re
import socket
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from cryptography.fernet import Fernet
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from messaging.errors import ConfigurationError


def _split_list(value: Any) -> Any:
    """A comma list, blanks dropped."""
    if isinstance(value, str):
        return tuple(part for part in (p.strip() for p in value.split(",")) if part)
    return value


CommaList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_list)]
#: Ten years. What is added to a time must stay within the calendars of Python and PostgreSQL.
MAX_SECONDS = 315_360_000
#: Rows, and counts of attempts: well within an integer column.
MAX_COUNT = 1_000_000
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
#: Largest value of a bigint column.
MAX_STORABLE_COUNT = 2**63 - 1
#: Goes into command lines and comma lists.
QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]


class _Area(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class DispatchSettings(_Area):
    """Beat ticks: promote, lease, publish."""

    #: False: ticks do nothing.
    enabled: bool = True
    #: Seconds between two beat ticks.
    interval_seconds: Seconds = 0.5
    #: Seconds until a record that was handed out and not claimed is due again.
    lease_seconds: Seconds = 120
    #: Rows one promote statement takes from each end of what is overdue.
    promote_limit: Count = 1000
    #: Seconds of work a tick keeps in a channel's queue; what lies there delays every newcomer.
    queue_seconds: Seconds = 2
    #: At most so many records in a channel's queue.
    queue_target: Count = 1000
    #: Seconds after which a tick that no worker has begun is dropped.
    tick_expires_seconds: Seconds = 15
    #: Rows one lease statement takes.
    batch_limit: Count = 500
    #: Records in one task.
    chunk_max: int = Field(default=50, ge=1, le=50)
    #: `module:function` called with the channel's name after an accepting commit; empty switches the nudge off.
    nudge: str = "tasks.dispatch:nudge"
    #: Seconds a due record may wait before a worker warns that it is stranded.
    stranded_warn_seconds: Seconds = 300

    @field_validator("nudge")
    @classmethod
    def _nudge_names_a_function(cls, value: str) -> str:
        module, colon, function = value.partition(":")
        if value and not (colon and function.isidentifier() and all(p.isidentifier() for p in module.split("."))):
            raise ValueError(f"is {value!r}; allowed: module:function, or empty")
        return value


class SweeperSettings(_Area):
    """The stuck-send sweep."""

    #: False: no sweep (read-only replicas).
    enabled: bool = True
    #: Seconds after which a claim without an outcome is taken back.
    stale_seconds: Seconds = 300
    #: Seconds between two sweeps.
    interval_seconds: Seconds = 60
    #: Rows one sweep statement takes; repeated until it is not full.
    batch_limit: Count = 200
    #: Seconds a swept record waits at first, doubling with its retry count: a late outcome may still come.
    cooldown_seconds: Seconds = 30


class RetrySettings(_Area):
    """Back-off between attempts."""

    #: Retries, not counting the first attempt.
    max_retries: int = Field(default=5, ge=0, le=MAX_COUNT)
    #: Seconds before the first retry.
    base_seconds: Seconds = 30
    #: Seconds no nominal delay exceeds (jitter comes on top).
    max_seconds: Seconds = 3600
    #: Growth of the delay from one retry to the next.
    multiplier: float = Field(default=2.0, ge=1, allow_inf_nan=False)
    #: Share by which a delay is spread up and down, 0 to 1.
    jitter: float = Field(default=0.5, ge=0, le=1)
    #: Seconds a rate-limit error waits at least.
    quota_floor_seconds: Seconds = 300

    @model_validator(mode="after")
    def _base_within_max(self) -> Self:
        if self.base_seconds > self.max_seconds:
            raise ValueError(
                f"RETRY__BASE_SECONDS is {self.base_seconds:g};"
                f" allowed: at most RETRY__MAX_SECONDS, {self.max_seconds:g}"
            )
        return self


class DeadLetterSettings(_Area):
    """The dead-letter store."""

    #: Whether messages that no worker could process are archived.
    poison_enabled: bool = True
    #: Deliveries of one mail request after which it is archived instead of run: it may be what ends its workers.
    max_redeliver: Count = 5
    #: Mail addresses that are told of a message that no worker could process; comma list.
    alert_recipients: CommaList = ()

    @field_validator("alert_recipients")
    @classmethod
    def _are_addresses(cls, recipients: tuple[str, ...]) -> tuple[str, ...]:
        for one in recipients:
            if not _MAIL_ADDRESS.fullmatch(one):
                raise ValueError(f"has {one!r}; allowed: mail addresses such as operations@example.com")
        return recipients


def _is_time_zone(name: str) -> str:
    # The machine's own (`localtime`) is none that PostgreSQL knows, which counts the month.
    if name not in available_timezones() - {"localtime"}:
        raise ValueError(f"is {name!r}; allowed: a name of the time zone database, such as Europe/Berlin")
    return name


class QuotaSettings(_Area):
    """Monthly quotas and the calendar of all quotas and windows."""

    #: Mails a month of a tenant without a limit of its own; None is unlimited, 0 lets nothing out.
    mail_monthly_default: int | None = Field(default=None, ge=0, le=MAX_STORABLE_COUNT)
    #: Text messages a month, likewise.
    sms_monthly_default: int | None = Field(default=None, ge=0, le=MAX_STORABLE_COUNT)
    #: Time zone in which months, days and minutes begin.
    timezone: Annotated[str, AfterValidator(_is_time_zone)] = "UTC"


class MailTransportSettings(_Area):
    """Connections to mail servers."""

    #: Seconds for a TCP connection, name look-up included.
    connection_timeout_seconds: Seconds = 5
    #: Seconds for each reply but the last.
    read_timeout_seconds: Seconds = 30
    #: Seconds after which a kept connection that idles is closed.
    max_idle_seconds: Seconds = 30
    #: Messages over one connection.
    max_messages: int = Field(default=100, ge=1)


class MailFetchSettings(_Area):
    """Fetching mailboxes."""

    #: Seconds between two fetches of a mailbox that names no interval of its own.
    interval_seconds: int = Field(default=300, ge=15, le=MAX_SECONDS)
    #: Messages of one folder in one fetch.
    batch_limit: Count = 100
    #: Seconds after which the holder of a folder is presumed dead.
    lease_timeout_seconds: Seconds = 3600
    #: Seconds one fetch of a mailbox may take, looked at between messages.
    time_budget_seconds: Seconds = 3000
    #: Bytes of a message that is stored whole.
    max_message_bytes: int = Field(default=104_857_600, ge=1)
    #: Bytes of one attachment that is kept.
    max_attachment_bytes: int = Field(default=20_971_520, ge=1)
    #: Whether the raw source of every mail is kept as a file.
    archive_eml: bool = False
    #: Depth of nested parts, the root is 0.
    max_mime_depth: int = Field(default=10, ge=1, le=100)
    #: Parts of one message, attachments among them.
    max_mime_parts: int = Field(default=100, ge=1, le=10_000)

    @model_validator(mode="after")
    def _budget_within_lease(self) -> Self:
        if self.time_budget_seconds >= self.lease_timeout_seconds:
            raise ValueError(
                f"MAIL__FETCH__TIME_BUDGET_SECONDS is {self.time_budget_seconds:g};"
                f" allowed: less than MAIL__FETCH__LEASE_TIMEOUT_SECONDS, {self.lease_timeout_seconds:g}"
            )
        return self


def _is_domain(name: str) -> bool:
    return len(name) <= 255 and all(
        len(label) <= 63
        and label.isascii()
        and label.replace("-", "a").isalnum()
        and not label.startswith("-")
        and not label.endswith("-")
        for label in name.split(".")
    )


def default_ehlo_name(host_name: str) -> str:
    """The host's full name, else an address literal (RFC 5321, 4.1.4).

    A host may be called what no server takes as a domain, `shop_web_1.internal` or `büro.example` by name.
    """
    if "." in host_name and _is_domain(host_name) and not host_name.endswith(".localdomain"):
        return host_name
    return "[127.0.0.1]"


class MailSettings(_Area):
    """The mail channel."""

    #: Protocol trace in the log; never with credentials, and refused in production all the same.
    debug: bool = False
    #: Characters of one body, each body by itself.
    max_body_chars: int = Field(default=1_048_576, ge=1)
    #: Bytes of all attachments of one mail together.
    max_attachment_bytes: int = Field(default=20_971_520, ge=1)
    #: Recipients of one mail, `to`, `cc` and `bcc` together (RFC 5321, 4.5.3.1.8).
    max_recipients: int = Field(default=100, ge=1)
    #: What EHLO says; empty takes the host's full name, else an address literal.
    ehlo_name: str = ""
    transport: MailTransportSettings = MailTransportSettings()
    fetch: MailFetchSettings = MailFetchSettings()

    @field_validator("ehlo_name")
    @classmethod
    def _ehlo_name_fits_a_command(cls, value: str) -> str:
        is_literal = value.startswith("[") and value.endswith("]")
        if is_literal and "%" not in value:  # what follows a zone's sign may be anything
            ip_address(value[1:-1].removeprefix("IPv6:"))
        elif value and not _is_domain(value):
            raise ValueError(f"is {value!r}; allowed: a domain name or an address literal such as [192.0.2.1]")
        return value

    @property
    def resolved_ehlo_name(self) -> str:
        """What EHLO says."""
        return self.ehlo_name or default_ehlo_name(socket.gethostname())


class SmsTransportSettings(_Area):
    """Connections to providers of text messages."""

    #: Seconds for a TCP connection with TLS, name look-up included.
    connection_timeout_seconds: Seconds = 5
    #: Seconds between two pieces of a reply.
    read_timeout_seconds: Seconds = 30


class SmsSettings(_Area):
    """The SMS channel."""

    transport: SmsTransportSettings = SmsTransportSettings()


class WebhookTransportSettings(_Area):
    """Connections to the endpoints of webhooks."""

    #: Seconds for a TCP connection with TLS, name look-up included.
    connection_timeout_seconds: Seconds = 5
    #: Seconds to write an event, and to wait for the whole answer.
    read_timeout_seconds: Seconds = 15
    #: Whether endpoints may lie in private networks or on this host, and be called without TLS.
    allow_private: bool = False


class WebhookSettings(_Area):
    """The webhook channel."""

    transport: WebhookTransportSettings = WebhookTransportSettings()


#: What sandbox mode knows recipients by.
_MAIL_ADDRESS = re.compile(r"[^@\s,<>\"]+@[^@\s,<>\"]+")
_PHONE_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")
_DOMAIN = re.compile(r"[^\W_](?:[\w-]*[^\W_])?(?:\.[^\W_](?:[\w-]*[^\W_])?)*")


class SandboxSettings(_Area):
    """What happens to messages instead of being sent."""

    #: `capture` keeps them, `redirect` sends them to `redirect_to`, `allowlist` sends those to `allow` and keeps the
    #: others.
    mode: Literal["off", "capture", "redirect", "allowlist"] = "off"
    #: A mail address and a number (E.164), either or both; comma list. A channel without one is captured.
    redirect_to: CommaList = ()
    #: Domains, mail addresses and numbers (E.164); comma list.
    allow: CommaList = ()

    @field_validator("redirect_to")
    @classmethod
    def _one_a_channel(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        allowed = "a mail address and a number such as +4915112345678, at most one of each"
        kinds = [_recipient_kind(entry, allowed) for entry in value]
        if "domain" in kinds or len(set(kinds)) < len(kinds):
            raise ValueError(f"is {', '.join(value)!r}; allowed: {allowed}")
        return value

    @field_validator("allow")
    @classmethod
    def _recipients(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            _recipient_kind(entry, "domains, mail addresses, and numbers such as +4915112345678")
        return value


def _recipient_kind(entry: str, allowed: str) -> str:
    for kind, pattern in (("mail", _MAIL_ADDRESS), ("number", _PHONE_NUMBER), ("domain", _DOMAIN)):
        if pattern.fullmatch(entry) and not (kind == "domain" and entry.isdigit()):
            return kind
    raise ValueError(f"has {entry!r}; allowed: {allowed}")


#: An age in days; None keeps for ever.
Days = Annotated[float, Field(gt=0, le=36_500)] | None


class RetentionSettings(_Area):
    """After how many days what is deleted; None keeps it for ever. Usage rows and the audit log are always kept."""

    #: Bodies, variables, headers and attachments of final send records are emptied; the record stays.
    bodies_days: Days = None
    #: Final send records go, with their attempts.
    records_days: Days = None
    #: The attempt log of final records.
    attempts_days: Days = None
    #: Received mail, with its files.
    received_days: Days = None
    #: Stored files that nothing refers to.
    files_days: Days = None
    #: Notifications.
    notifications_days: Days = None
    #: Messages that sandbox mode kept.
    captured_days: Days = None
    #: Dead letters that were resolved or discarded.
    dead_letters_days: Days = None
    #: Receipts of providers that were applied or are of no use.
    receipts_days: Days = None
    #: Rows of one transaction.
    batch_limit: int = Field(default=500, ge=1, le=10_000)
    #: The hour (UTC) at which the nightly run begins.
    hour: int = Field(default=3, ge=0, le=23)
    #: Seconds after which a run stops, to go on the next night.
    time_budget_seconds: Seconds = 3600


class ApiSettings(_Area):
    """The HTTP API."""

    #: Whether callers must prove who they are; false is refused when `ENV=production`.
    require_auth: bool = True
    #: Hours from signing in to the end of a session.
    session_hours: float = Field(default=12, gt=0, le=720)
    #: Minutes without a request after which a session ends.
    session_idle_minutes: float = Field(default=60, gt=0, le=43_200)
    #: Requests a second of one token or operator, in each process.
    rate_per_second: float = Field(default=100, gt=0)
    #: Octets of a request's body.
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    #: Origins of browsers' scripts that may call, such as `https://app.example.com`; comma list, empty: none.
    cors_origins: CommaList = ()
    #: Whether the OpenAPI document is shown, at `/api/v1/openapi.json`.
    docs: bool = True


class SuppressionSettings(_Area):
    """What received mail puts on the suppression list."""

    #: Addresses that a bounce says are of no use.
    hard_bounces: bool = True
    #: Addresses that complain (feedback reports).
    complaints: bool = True


class QueueSettings(_Area):
    """Names of the worker queues."""

    #: Deliveries of mail.
    mail_send: QueueName = "mail_send"
    #: Deliveries of text messages.
    sms_send: QueueName = "sms_send"
    #: Deliveries of webhooks.
    webhook_send: QueueName = "webhook_send"
    #: Fetches of mailboxes.
    mail_fetch: QueueName = "mail_fetch"
    #: Mails asked for by other services.
    mail_request: QueueName = "mail_request"
    #: Ticks, sweeps and heartbeats.
    control: QueueName = "control"
    #: The nightly run of pruning, which may take an hour.
    maintenance: QueueName = "maintenance"

    @model_validator(mode="after")
    def _each_has_its_own(self) -> Self:
        used: dict[str, str] = {}
        for field, name in self:
            other = used.setdefault(name, field)
            if other != field:
                raise ValueError(
                    f"QUEUES__{other.upper()} and QUEUES__{field.upper()} are both {name!r}; allowed: a name for each,"
                    " or one waits behind the other"
                )
        return self


class CelerySettings(_Area):
    """What only Celery needs."""

    #: Seconds until the broker repeats a message it still holds unacknowledged.
    visibility_timeout_seconds: int = Field(default=300, ge=1)


class DeliverySettings(_Area):
    """How long each part of an attempt may take (protocol, section 4)."""

    #: Seconds a claim's age may reach before its send has ended.
    send_budget_seconds: Seconds = 240
    #: Seconds of one send, from connect to reply.
    send_max_seconds: Seconds = 120
    #: Seconds to wait for the reply to the last byte.
    reply_wait_seconds: Seconds = 60
    #: Seconds of one preparation.
    prepare_max_seconds: Seconds = 15
    #: Seconds a chunk is worked on before its rest is given back.
    chunk_hold_seconds: Seconds = 10
    #: Seconds of one statement that commits outcomes.
    commit_timeout_seconds: Seconds = 5
    #: Seconds by which clocks may disagree.
    clock_margin_seconds: Seconds = 5
    #: Seconds from SIGTERM to the end of the process.
    stop_grace_seconds: Seconds = 75
    #: Seconds an outcome waits for others while a commit runs.
    group_window_seconds: Seconds = 0.05
    #: Seconds beyond the send budget after which a send that hangs ends its process.
    watchdog_seconds: Seconds = 60


class DatabaseSettings(_Area):
    """Time-outs of this package's own connections."""

    #: Seconds to connect.
    connect_timeout_seconds: Seconds = 5
    #: Seconds to wait for a lock.
    lock_timeout_seconds: Seconds = 2
    #: Seconds of one statement.
    statement_timeout_seconds: Seconds = 5


class MetricsSettings(_Area):
    """Prometheus."""

    #: Port on which the first worker that gets it shows the metrics of all processes; None shows none.
    port: int | None = Field(default=None, ge=1, le=65535)
    #: Directory shared by the processes of a host; empty takes a temporary one.
    directory: str = ""


class Settings(BaseSettings):
    """All settings. Required: `DATABASE_URL`, `REDIS_URL`, `SECRETS_KEYS`."""

    model_config = SettingsConfigDict(
        env_prefix="MESSAGING_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        nested_model_default_partial_update=True,
    )

    #: SQLAlchemy URL of PostgreSQL with psycopg: `postgresql+psycopg://...`; plain `postgresql://` is taken as that.
    database_url: str = Field(repr=False)
    #: `redis://...`, for counters and hints.
    redis_url: str = Field(repr=False)
    #: Celery's broker; empty is `REDIS_URL`.
    broker_url: str = Field(default="", repr=False)
    #: `production` refuses what is unsafe there.
    env: Literal["development", "production"] = "development"
    #: Whether rows belong to tenants; off: one tenant, 0, and scope is ignored.
    multi_tenancy: bool = False
    #: Fernet keys, comma list: the first encrypts, all decrypt.
    secrets_keys: CommaList = Field(repr=False)
    #: Where attached files are kept: `db:` (PostgreSQL), any fsspec URL (`file:///srv/files`, `s3://bucket/folder`), or
    #: `none:`, which allows no attachments.
    file_store_url: str = Field(default="db:", repr=False)
    #: Where the HTTP application is reached from outside, e.g. `https://mail.example.com`: unsubscribe links,
    #: addresses that providers sign.
    public_base_url: str | None = None
    #: Where Flower is reached by operators' browsers; the console links there.
    flower_url: str | None = None
    #: Records in one batch of acceptance.
    batch_max: int = Field(default=500, ge=1, le=500)
    #: Seconds a server configuration is kept in a process, 0 to 1.
    config_cache_ttl_seconds: float = Field(default=1, ge=0, le=1)
    dispatch: DispatchSettings = DispatchSettings()
    sweeper: SweeperSettings = SweeperSettings()
    retry: RetrySettings = RetrySettings()
    dead_letter: DeadLetterSettings = DeadLetterSettings()
    quota: QuotaSettings = QuotaSettings()
    mail: MailSettings = MailSettings()
    sms: SmsSettings = SmsSettings()
    webhooks: WebhookSettings = WebhookSettings()
    sandbox: SandboxSettings = SandboxSettings()
    retention: RetentionSettings = RetentionSettings()
    api: ApiSettings = ApiSettings()
    suppression: SuppressionSettings = SuppressionSettings()
    queues: QueueSettings = QueueSettings()
    celery: CelerySettings = CelerySettings()
    delivery: DeliverySettings = DeliverySettings()
    database: DatabaseSettings = DatabaseSettings()
    metrics: MetricsSettings = MetricsSettings()

    @field_validator("database_url")
    @classmethod
    def _database_is_postgresql(cls, value: str) -> str:
        scheme, separator, rest = value.partition("://")
        if not separator:
            raise ValueError("is no address; allowed: postgresql+psycopg://user:password@host:port/database")
        if scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
            raise ValueError(f"has the scheme {scheme[:20]!r}; allowed: postgresql+psycopg://")
        url = f"postgresql+psycopg://{rest}"
        try:
            options = make_url(url).query
        except (ArgumentError, ValueError):
            # Their own words repeat the address, password and all.
            raise ValueError("is no address; allowed: postgresql+psycopg://user:password@host:port/database") from None
        for name in options:
            if not _is_libpq_option(name):
                raise ValueError(f"has the option {name[:50]!r}; allowed: those of libpq, such as sslmode=require")
        return url

    @field_validator("file_store_url")
    @classmethod
    def _file_store_is_a_url(cls, value: str) -> str:
        scheme, separator, rest = value.partition(":")
        if not separator or not scheme.replace("+", "a").isalnum() or (scheme in ("db", "none") and rest):
            raise ValueError("is no address; allowed: db:, none:, or an fsspec URL such as file:///srv/files")
        return value

    @field_validator("public_base_url", "flower_url")
    @classmethod
    def _base_is_an_http_url(cls, value: str | None) -> str | None:
        if not value:
            return None
        parts = urlsplit(value)
        # It stands in a header field between angle brackets, as it is.
        is_plain = re.fullmatch("[!-;=?-~]+", value) is not None
        is_base = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        if not (is_plain and is_base):
            raise ValueError(f"is {value!r}; allowed: an address such as https://mail.example.com")
        return value.rstrip("/")

    @field_validator("redis_url")
    @classmethod
    def _redis_is_redis(cls, value: str) -> str:
        return _redis_address(value, ("redis", "rediss", "unix"))

    @field_validator("broker_url")
    @classmethod
    def _broker_is_redis(cls, value: str) -> str:
        return value and _redis_address(value, _BROKER_SCHEMES)

    @field_validator("secrets_keys")
    @classmethod
    def _keys_are_fernet_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("is empty; allowed: one or more Fernet keys, the first of which encrypts")
        for position, key in enumerate(value):
            try:
                Fernet(key)
            except ValueError as exc:
                raise ValueError(
                    f"key {position} is not a Fernet key;"
                    " allowed: 32 bytes in URL-safe base64, as Fernet.generate_key() makes"
                ) from exc
        return value

    @model_validator(mode="after")
    def _broker_is_named(self) -> Self:
        if not self.broker_url and self.redis_url.startswith("unix:"):
            raise ValueError("BROKER_URL is not set; beside a REDIS_URL of unix:// allowed: redis+socket:///path")
        return self

    @model_validator(mode="after")
    def _safe_in_production(self) -> Self:
        if self.env == "production" and self.mail.debug:
            raise ValueError("MAIL__DEBUG is true; allowed with ENV=production: false, a protocol trace shows mail")
        if self.env == "production" and not self.api.require_auth:
            raise ValueError("API__REQUIRE_AUTH is false; allowed with ENV=production: true")
        return self

    @model_validator(mode="after")
    def _sandbox_is_whole(self) -> Self:
        sandbox = self.sandbox
        needed = {"redirect": ("REDIRECT_TO", sandbox.redirect_to), "allowlist": ("ALLOW", sandbox.allow)}
        name, given = needed.get(sandbox.mode, ("", ("none is needed",)))
        if not given:
            raise ValueError(f"SANDBOX__{name} is empty; with SANDBOX__MODE={sandbox.mode} allowed: at least one")
        return self

    @model_validator(mode="after")
    def _times_fit_together(self) -> Self:
        problems = [text for holds, text in _inequalities(self) if not holds]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def resolved_broker_url(self) -> str:
        """Celery's broker."""
        return self.broker_url or self.redis_url

    @property
    def shown_database_url(self) -> str:
        """The database's address without its passwords, for people."""
        url = make_url(self.database_url).difference_update_query(["password", "sslpassword"])
        return url.render_as_string(hide_password=True)


#: Celery's names for what `REDIS_URL` calls redis, rediss and unix.
_BROKER_SCHEMES = ("redis", "rediss", "redis+socket")


def _redis_address(value: str, schemes: tuple[str, ...]) -> str:
    scheme, separator, _ = value.partition("://")
    if separator and scheme not in schemes:
        raise ValueError(f"has the scheme {scheme[:20]!r}; allowed: {', '.join(f'{name}://' for name in schemes)}")
    try:
        _ = urlsplit(value).port
    except ValueError:
        separator = ""
    if not separator:
        raise ValueError("is no address; allowed: redis://:password@host:port/number")
    return value


def _is_libpq_option(name: str) -> bool:
    # Most addresses have no options, and few programs that read settings ask the database.
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    try:
        make_conninfo(**{name: "0"})
    except ProgrammingError:
        return False
    return True


#: Seconds between two tries of an outcome commit.
COMMIT_RETRY_SECONDS = 1.0
#: Host clocks may differ by so many seconds; C15 warns above it, I6 expects ticks to live longer.
CLOCK_SKEW_SECONDS = 1.0
#: Shortest dispatch lease, seconds.
LEASE_FLOOR_SECONDS = 30.0


def _inequalities(s: Settings) -> list[tuple[bool, str]]:
    """I1 to I9 of the protocol: whether each holds, and what to say when it does not."""
    d, sw, di, db, t, http = s.delivery, s.sweeper, s.dispatch, s.database, s.mail.transport, s.sms.transport
    committed = d.send_budget_seconds + d.group_window_seconds + d.commit_timeout_seconds + d.clock_margin_seconds
    attempt = d.chunk_hold_seconds + d.prepare_max_seconds + d.send_max_seconds
    send = t.connection_timeout_seconds + t.read_timeout_seconds + d.reply_wait_seconds
    call = http.connection_timeout_seconds + http.read_timeout_seconds + d.reply_wait_seconds
    hook = s.webhooks.transport
    told = hook.connection_timeout_seconds + hook.read_timeout_seconds
    told += min(hook.read_timeout_seconds, d.reply_wait_seconds)
    reconnected = db.connect_timeout_seconds + 2 * COMMIT_RETRY_SECONDS + d.commit_timeout_seconds
    stopped = d.reply_wait_seconds + d.group_window_seconds + d.commit_timeout_seconds + 5
    return [
        (
            committed <= sw.stale_seconds,
            f"I1: DELIVERY__SEND_BUDGET_SECONDS + GROUP_WINDOW + COMMIT_TIMEOUT + CLOCK_MARGIN is {committed:g};"
            f" allowed: at most SWEEPER__STALE_SECONDS, {sw.stale_seconds:g}",
        ),
        (
            attempt <= d.send_budget_seconds,
            f"I2: DELIVERY__CHUNK_HOLD_SECONDS + PREPARE_MAX + SEND_MAX is {attempt:g};"
            f" allowed: at most DELIVERY__SEND_BUDGET_SECONDS, {d.send_budget_seconds:g}",
        ),
        (
            send <= d.send_max_seconds,
            "I3: MAIL__TRANSPORT__CONNECTION_TIMEOUT_SECONDS + READ_TIMEOUT + DELIVERY__REPLY_WAIT_SECONDS"
            f" is {send:g}; allowed: at most DELIVERY__SEND_MAX_SECONDS, {d.send_max_seconds:g}",
        ),
        (
            call <= d.send_max_seconds,
            "I3: SMS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS + READ_TIMEOUT + DELIVERY__REPLY_WAIT_SECONDS"
            f" is {call:g}; allowed: at most DELIVERY__SEND_MAX_SECONDS, {d.send_max_seconds:g}",
        ),
        (
            told <= d.send_max_seconds,
            "I3: WEBHOOKS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS + 2 x READ_TIMEOUT"
            f" is {told:g}; allowed: at most DELIVERY__SEND_MAX_SECONDS, {d.send_max_seconds:g}",
        ),
        (
            sw.cooldown_seconds >= reconnected,
            f"I4: SWEEPER__COOLDOWN_SECONDS is {sw.cooldown_seconds:g};"
            " allowed: at least DATABASE__CONNECT_TIMEOUT_SECONDS"
            f" + 2 x the commit retry + DELIVERY__COMMIT_TIMEOUT_SECONDS, {reconnected:g}",
        ),
        (
            4 * di.queue_seconds <= di.lease_seconds,
            f"I5: 4 x DISPATCH__QUEUE_SECONDS is {4 * di.queue_seconds:g};"
            f" allowed: at most DISPATCH__LEASE_SECONDS, {di.lease_seconds:g}",
        ),
        (
            di.lease_seconds >= LEASE_FLOOR_SECONDS,
            f"I5: DISPATCH__LEASE_SECONDS is {di.lease_seconds:g}; allowed: at least {LEASE_FLOOR_SECONDS:g}",
        ),
        (
            di.tick_expires_seconds >= 10 * di.interval_seconds and di.tick_expires_seconds > CLOCK_SKEW_SECONDS,
            f"I6: DISPATCH__TICK_EXPIRES_SECONDS is {di.tick_expires_seconds:g}; allowed: at least 10 x"
            f" DISPATCH__INTERVAL_SECONDS, {10 * di.interval_seconds:g}, and more than the clock skew between hosts,"
            f" {CLOCK_SKEW_SECONDS:g}",
        ),
        (
            d.stop_grace_seconds >= stopped,
            f"I7: DELIVERY__STOP_GRACE_SECONDS is {d.stop_grace_seconds:g}; allowed: at least REPLY_WAIT + GROUP_WINDOW"
            f" + COMMIT_TIMEOUT + 5, {stopped:g}",
        ),
        (
            db.lock_timeout_seconds < db.statement_timeout_seconds <= d.chunk_hold_seconds,
            f"I8: DATABASE__STATEMENT_TIMEOUT_SECONDS is {db.statement_timeout_seconds:g}; allowed: more than"
            f" DATABASE__LOCK_TIMEOUT_SECONDS, {db.lock_timeout_seconds:g}, and at most"
            f" DELIVERY__CHUNK_HOLD_SECONDS, {d.chunk_hold_seconds:g}",
        ),
        (
            sw.interval_seconds <= sw.stale_seconds / 2,
            f"I9: SWEEPER__INTERVAL_SECONDS is {sw.interval_seconds:g};"
            f" allowed: at most SWEEPER__STALE_SECONDS / 2, {sw.stale_seconds / 2:g}",
        ),
    ]


def load_settings(**overrides: Any) -> Settings:
    """Read the environment; `overrides` win over it.

    Raises: ConfigurationError, naming each setting at fault, never a secret's value.
    """
    try:
        return Settings(**overrides)
    except ValidationError as exc:
        raise ConfigurationError("\n".join(_describe(error) for error in exc.errors(include_input=True))) from None
    except SettingsError as exc:
        # A whole area in one variable; the words name it and repeat no value.
        found = re.search(r'field "(\w+)"', str(exc))
        name = f"MESSAGING_{found[1].upper()}" if found else "MESSAGING_*"
        raise ConfigurationError(f"{name} is no JSON object; allowed: one variable a field, {name}__...") from None


#: Settings whose value no error may repeat.
_SECRET_FIELDS = frozenset({"database_url", "redis_url", "broker_url", "secrets_keys", "file_store_url"})


def _describe(error: Any) -> str:
    """One line for one error of pydantic: the variable's name, what was given, what is allowed."""
    location = [str(part) for part in error["loc"]]
    name = "MESSAGING_" + "__".join(part.upper() for part in location) if location else "MESSAGING_*"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing":
        return f"{name} is not set; it is required"
    if error["type"] == "extra_forbidden":
        return f"{name} is no setting of this version"
    if error["type"] == "value_error" or (location and location[0] in _SECRET_FIELDS):
        return f"{name}: {message}" if not location else f"{name} {message}"
    return f"{name} is {error['input']!r}; {message[0].lower()}{message[1:]}"
