"""MailChannel: preparation, message building and the SMTP transport in the shape that delivery wants."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, Table

from messaging.clock import Clock, Ticker
from messaging.config_cache import ConfigCache
from messaging.delivery.channel import Claim, RateLimits
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult
from messaging.errors import DeliveryError
from messaging.mail.addresses import from_canonical
from messaging.mail.mime import MailContent, MessageBuildError, build
from messaging.mail.models import MAIL_SEND_RECORD, MAIL_SEND_SERVER_CONFIG
from messaging.mail.preparation import PREPARED_COLUMNS, prepare_mail
from messaging.mail.servers import find_visible_by_id, smtp_server, tiers
from messaging.mail.smtp import Envelope, SmtpTransport
from messaging.mail.smtp_replies import FaultCode
from messaging.requests import BodyMode, Priority
from messaging.settings import Settings

#: The channel's label, and that of who takes its messages.
NAME, PROVIDER = "mail", "smtp"


class MailChannel:
    """One per worker process; its transport keeps connections."""

    name = NAME
    provider = PROVIDER
    table: Table = MAIL_SEND_RECORD
    prepared_columns = PREPARED_COLUMNS

    def __init__(
        self, engine: Engine, settings: Settings, transport: SmtpTransport, *, clock: Clock, ticker: Ticker
    ) -> None:
        self.queue = settings.queues.mail_send
        self.monthly_default = settings.quota.mail_monthly_default
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._configs = ConfigCache(
            engine, MAIL_SEND_SERVER_CONFIG, ttl_seconds=settings.config_cache_ttl_seconds, ticker=ticker
        )

    def load(self, claims: Sequence[Claim]) -> None:
        """Read the servers these records name or default to."""
        ids: set[int] = set()
        tenants: set[int] = set()
        for claim in claims:
            if claim.content["server_config_id"] is not None:
                ids.add(claim.content["server_config_id"])
            if not claim.is_prepared:
                tenants.update(tiers(claim.content["scope"], claim.tenant_id))
        self._configs.ensure(ids, tenants)

    def prepare(self, claim: Claim) -> Mapping[str, Any]:
        """See `messaging.mail.preparation`."""
        return prepare_mail(
            claim.content, self._configs, now=self._clock(), max_body_chars=self._settings.mail.max_body_chars
        )

    def recipients(self, content: Mapping[str, Any]) -> Sequence[str]:
        """Addresses of `to`, `cc` and `bcc`, each once."""
        return envelope_recipients(content)

    def config_id(self, claim: Claim) -> int | None:
        """The server the record was prepared with."""
        config_id: int | None = claim.content["server_config_id"]
        return config_id

    def rate_limits(self, claim: Claim) -> RateLimits | None:
        """Those of the server the record was prepared with."""
        config = find_visible_by_id(claim.content, self._configs)
        daily, per_minute = config["daily_send_limit"], config["rate_limit_per_minute"]
        if (daily or 0) < 1 and (per_minute or 0) < 1:
            return None
        return RateLimits(config["tenant_id"], config["id"], daily, per_minute)

    def send(self, claim: Claim, recipients: Sequence[str], gate: Gate) -> Mapping[str, RecipientResult]:
        """Build the message and hand it to the server of the record."""
        record = claim.content
        server = smtp_server(find_visible_by_id(record, self._configs))
        try:
            message = build(content_of(record))
        except MessageBuildError as exc:
            raise DeliveryError(FaultCode.SMTP_MESSAGE.category, FaultCode.SMTP_MESSAGE, f"build: {exc}") from exc
        return self._transport.send(server, Envelope(record["envelope_sender"], recipients), message, gate)


def envelope_recipients(record: Mapping[str, Any]) -> list[str]:
    """Envelope recipients of a record in order, without repetition."""
    stored = (*record["to_addresses"], *record["cc_addresses"], *record["bcc_addresses"])
    return list(dict.fromkeys(from_canonical(mailbox).address for mailbox in stored))


def content_of(record: Mapping[str, Any]) -> MailContent:
    """What a prepared record's message is made from."""
    return MailContent(
        message_id=record["message_id"],
        date=record["prepared_at"],
        from_address=record["from_address"],
        from_name=record["from_name"],
        to=record["to_addresses"],
        cc=record["cc_addresses"],
        reply_to=record["reply_to"],
        subject=record["subject"],
        body_mode=BodyMode(record["body_mode"]),
        body_html=record["body_html"],
        body_text=record["body_text"],
        priority=Priority(record["priority"]) if record["priority"] in Priority.__members__ else None,
        read_receipt=bool(record["read_receipt_requested"]),
        auto_submitted=record["auto_submitted"],
        headers=record["headers"] or {},
    )
