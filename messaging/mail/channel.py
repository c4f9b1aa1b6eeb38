"""MailChannel: preparation, message building and the SMTP transport in the shape that delivery wants."""

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from sqlalchemy import Engine, Table

from messaging.category import MARKER_CATEGORY, MarkerCode
from messaging.clock import Clock, Ticker
from messaging.config_cache import Config, ConfigCache
from messaging.delivery.channel import Claim, RateLimits
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult
from messaging.errors import DeliveryError, PreparationError
from messaging.files import FileStore, readable_by
from messaging.mail.addresses import from_canonical
from messaging.mail.attached_files import AttachedFile
from messaging.mail.attachments import Opened, open_all
from messaging.mail.message import Message, SourceFailed
from messaging.mail.mime import MailContent, MessageBuildError, build
from messaging.mail.models import MAIL_SEND_RECORD, MAIL_SEND_SERVER_CONFIG, MAIL_TEMPLATE
from messaging.mail.preparation import PREPARED_COLUMNS, Sources, has_template, prepare_mail
from messaging.mail.redirecting import redirected
from messaging.mail.servers import find_visible_by_id, smtp_server, tiers
from messaging.mail.signing import is_signing, signed
from messaging.mail.smtp import Envelope, SmtpServer, SmtpTransport
from messaging.mail.smtp_replies import FaultCode
from messaging.mail.templates import find_template
from messaging.requests import BodyMode, Priority
from messaging.sandbox.captured import Composed
from messaging.settings import Settings
from messaging.suppression import Subject, mail_address
from messaging.templates.lookup import TemplateCache
from messaging.templates.render import Renderer

#: The channel's label, and that of who takes its messages.
NAME, PROVIDER = "mail", "smtp"

#: Servers whose decrypted form is kept.
MAX_KEPT_SERVERS = 1000


class MailChannel:
    """One per worker process; its transport keeps connections."""

    name = NAME
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
        ttl_seconds = settings.config_cache_ttl_seconds
        self._configs = ConfigCache(engine, MAIL_SEND_SERVER_CONFIG, ttl_seconds=ttl_seconds, ticker=ticker)
        self._templates = TemplateCache(engine, MAIL_TEMPLATE, ttl_seconds=ttl_seconds, ticker=ticker)
        #: By the configuration's id, with the configuration it was made from.
        self._servers: dict[int, tuple[Config, SmtpServer]] = {}
        self._files = FileStore(engine, settings)
        self._sources = Sources(
            configs=self._configs,
            templates=self._templates,
            renderer=Renderer(max_chars=settings.mail.max_body_chars, ticker=ticker),
            max_body_chars=settings.mail.max_body_chars,
            public_base_url=settings.public_base_url,
        )

    def provider(self, content: Mapping[str, Any]) -> str:
        """Every mail goes out by SMTP."""
        return PROVIDER

    def load(self, claims: Sequence[Claim]) -> None:
        """Read the templates these records name, then the servers that they and their templates name or default to."""
        unprepared = [claim for claim in claims if not claim.is_prepared]
        ids: set[Any] = {claim.content["server_config_id"] for claim in claims} | self._load_templates(unprepared)
        tenants = {tenant for claim in unprepared for tenant in tiers(claim.content["scope"], claim.tenant_id)}
        self._configs.ensure(ids - {None}, tenants)

    def _load_templates(self, claims: Sequence[Claim]) -> set[Any]:
        """Read what templates they name; answers the ids of the servers that those prefer."""
        records = [claim.content for claim in claims if has_template(claim.content)]
        if not records:
            return set()
        self._templates.ensure(
            {record["template_id"] for record in records} - {None},
            {
                (tiers(record["scope"], record["tenant_id"])[0], record["template_code"])
                for record in records
                if record["template_id"] is None
            },
        )
        preferred = set()
        for record in records:
            with suppress(PreparationError):  # told when it is prepared
                preferred.add(find_template(record, self._templates)["preferred_server_config_id"])
        return preferred

    def subject(self, content: Mapping[str, Any]) -> Subject:
        """All envelope recipients, and the mailing list that the mail is of."""
        addresses = {address: mail_address(address) for address in envelope_recipients(content)}
        return Subject(addresses, content["unsubscribe_list"] or "")

    def prepare(self, claim: Claim) -> Mapping[str, Any]:
        """See `messaging.mail.preparation`."""
        return prepare_mail(claim.content, self._sources, now=self._clock())

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
        """Read the attachments, build and sign the message, and hand it to the server of the record."""
        record = claim.content
        config = find_visible_by_id(record, self._configs)
        if not record["attachments"]:
            return self._send(record, config, (), recipients, gate)
        with closing(self._opened(record, gate)) as opened:
            return self._send(record, config, opened.files, recipients, gate)

    def compose(self, claim: Claim, gate: Gate) -> Composed:
        """The message as `send` would hand it over, signature and attachments included."""
        record = claim.content
        config = find_visible_by_id(record, self._configs)
        try:
            if not record["attachments"]:
                raw = b"".join(_message(record, config, ()).chunks())
            else:
                with closing(self._opened(record, gate)) as opened:
                    raw = b"".join(_message(record, config, opened.files).chunks())
        except SourceFailed as exc:
            marker = MarkerCode.ATTACHMENT_UNAVAILABLE
            raise DeliveryError(MARKER_CATEGORY[marker], marker, str(exc)) from exc
        return Composed(
            sender=record["from_address"],
            subject=record["subject"],
            raw=raw,
            details={"envelope_sender": record["envelope_sender"], "server_config_id": config["id"]},
        )

    def redirected(self, content: Mapping[str, Any], recipients: Sequence[str], to: str) -> Mapping[str, Any]:
        """See `messaging.mail.redirecting`."""
        return redirected(content, recipients, to)

    def _opened(self, record: Mapping[str, Any], gate: Gate) -> Opened:
        tenants = readable_by(record["tenant_id"], record["scope"])
        limit = self._settings.mail.max_attachment_bytes
        return open_all(record["attachments"], self._files, tenants, max_bytes=limit, gate=gate)

    def _send(
        self,
        record: Mapping[str, Any],
        config: Config,
        files: Sequence[AttachedFile],
        recipients: Sequence[str],
        gate: Gate,
    ) -> Mapping[str, RecipientResult]:
        server = self._server(config)
        message = _message(record, config, files)
        return self._transport.send(server, Envelope(record["envelope_sender"], recipients), message, gate)

    def _server(self, config: Config) -> SmtpServer:
        """As `smtp_server`; kept until the configuration is read again, as its secret takes longer than a message."""
        kept = self._servers.get(config["id"])
        if kept is None or kept[0] is not config:
            if len(self._servers) >= MAX_KEPT_SERVERS:
                self._servers.clear()
            kept = self._servers[config["id"]] = config, smtp_server(config)
        return kept[1]


def _message(record: Mapping[str, Any], config: Config, files: Sequence[AttachedFile]) -> Message:
    """A prepared record's message, signed where its server wants that."""
    try:
        message = build(content_of(record), files)
    except MessageBuildError as exc:
        raise DeliveryError(FaultCode.SMTP_MESSAGE.category, FaultCode.SMTP_MESSAGE, f"build: {exc}") from exc
    return signed(message, config, signed_at=record["prepared_at"]) if is_signing(config) else message


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
