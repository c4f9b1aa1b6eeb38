"""SmsChannel: preparation, providers and the look for what was sent already, in the shape that delivery wants."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from sqlalchemy import Engine, Table

from messaging.clock import Clock, Ticker
from messaging.config_cache import Config
from messaging.delivery.channel import UNKNOWN_PROVIDER, Claim, RateLimits
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient
from messaging.sandbox.captured import Composed
from messaging.settings import Settings
from messaging.sms.acceptance import CHANNEL, MAX_CONTENT_CHARS
from messaging.sms.look_up import take_found
from messaging.sms.models import SMS_SEND_RECORD, SMS_TEMPLATE
from messaging.sms.numbers import region_of
from messaging.sms.opt_outs import note_opted_out
from messaging.sms.planning import BindingCache
from messaging.sms.preparation import PREPARED_COLUMNS, FindProvider, Sources, outgoing, prepare_sms
from messaging.sms.providers import registry
from messaging.sms.providers.base import Accepted, OutgoingSms, ProviderConfig, Rejected, SmsProvider, refusal
from messaging.sms.routing import RouteCache, find_visible_by_id, suppression_subject
from messaging.sms.templates import template_tier
from messaging.suppression import Subject
from messaging.templates.lookup import TemplateCache
from messaging.templates.render import Renderer

NAME = CHANNEL

#: `code` of an accepted recipient: providers have no code of success in common.
ACCEPTED_CODE = "ACCEPTED"

#: By so much a provider's clock may be behind ours.
PROVIDER_CLOCK_MARGIN = timedelta(seconds=30)


class SmsChannel:
    """One per worker process; its client keeps connections."""

    name = NAME
    table: Table = SMS_SEND_RECORD
    prepared_columns = PREPARED_COLUMNS

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        client: HttpClient,
        *,
        clock: Clock,
        ticker: Ticker,
        find_provider: FindProvider = registry.provider,
    ) -> None:
        self.queue = settings.queues.sms_send
        self.monthly_default = settings.quota.sms_monthly_default
        self._engine = engine
        self._client = client
        self._clock = clock
        self._find_provider = find_provider
        ttl_seconds = settings.config_cache_ttl_seconds
        self._templates = TemplateCache(engine, SMS_TEMPLATE, ttl_seconds=ttl_seconds, ticker=ticker)
        self._routes = RouteCache(
            engine, ttl_seconds=ttl_seconds, ticker=ticker, public_base_url=settings.public_base_url
        )
        self._bindings = BindingCache(engine, ttl_seconds=ttl_seconds, ticker=ticker)
        self._sources = Sources(
            templates=self._templates,
            renderer=Renderer(max_chars=MAX_CONTENT_CHARS, ticker=ticker),
            routes=self._routes,
            bindings=self._bindings,
            find_provider=find_provider,
        )

    def provider(self, content: Mapping[str, Any]) -> str:
        """The label of the provider that preparation chose."""
        provider_type = content["provider_type"]
        if provider_type is None:
            return UNKNOWN_PROVIDER
        with suppress(PreparationError):
            return self._find_provider(provider_type).label
        return str(provider_type).lower()

    def load(self, claims: Sequence[Claim]) -> None:
        """Read the templates and bindings that these records name, and the routes and providers they may go by."""
        unprepared = [claim.content for claim in claims if not claim.is_prepared]
        codes = {(template_tier(record), record["template_code"]) for record in unprepared if record["template_code"]}
        self._templates.ensure((), codes)
        found = [self._templates.by_code(*code) for code in codes]
        self._bindings.ensure([template["id"] for template in found if template is not None])
        routed = [record for record in unprepared if record["provider_config_id"] is None]
        for record in routed:
            record["region_code"] = region_of(record["phone_number"])
        self._routes.ensure(
            {record["tenant_id"] for record in routed},
            {record["region_code"] or "" for record in routed},
            {claim.content["provider_config_id"] for claim in claims} - {None},
        )

    def subject(self, content: Mapping[str, Any]) -> Subject:
        """The number, and the sender of the provider that it goes out by; the platform's may be shared."""
        return suppression_subject(content, self._routes)

    def prepare(self, claim: Claim) -> Mapping[str, Any]:
        """See `messaging.sms.preparation`."""
        return prepare_sms(claim.content, self._sources, now=self._clock())

    def recipients(self, content: Mapping[str, Any]) -> Sequence[str]:
        """The one number."""
        return recipients(content)

    def config_id(self, claim: Claim) -> int | None:
        """The provider the record was prepared with."""
        config_id: int | None = claim.content["provider_config_id"]
        return config_id

    def rate_limits(self, claim: Claim) -> RateLimits | None:
        """Those of the provider the record was prepared with."""
        config = self._config(claim)
        daily, per_minute = config["daily_send_limit"], config["rate_limit_per_minute"]
        if (daily or 0) < 1 and (per_minute or 0) < 1:
            return None
        return RateLimits(config["tenant_id"], config["id"], daily, per_minute)

    def send(self, claim: Claim, recipients: Sequence[str], gate: Gate) -> Mapping[str, RecipientResult]:
        """One call of the record's provider; where an earlier one may have been taken, it is asked about that first."""
        [number] = recipients
        record = claim.content
        config = self._routes.account(self._config(claim))
        provider = self._find_provider(config.provider_type)
        message = outgoing(record)
        gate.check_start()
        if record["uncertain"] and provider.can_find_sent:
            found = self._find_sent(claim, provider, config, message)
            if found is not None:
                return {number: _accepted(found, "found at the provider: an earlier attempt was taken")}
            gate.check_start()
        answer: object = provider.send(config, message, self._client, gate.check_last_byte)
        if isinstance(answer, Rejected):
            if answer.code in provider.opted_out_codes:
                note_opted_out(self._engine, record, config, f"{provider.label} refuses it with {answer.code}")
            raise refusal(provider, answer)
        if not isinstance(answer, Accepted):
            raise TypeError(f"the adapter of {config.provider_type} answered neither Accepted nor Rejected")
        return {number: _accepted(answer, f"taken by {provider.label}")}

    def compose(self, claim: Claim, gate: Gate) -> Composed:
        """The text, and what else the provider would be told."""
        record, config = claim.content, self._config(claim)
        told = ("provider_type", "provider_config_id", "region_code", "sign_name", "external_template_id")
        return Composed(
            sender=config["sender_number"] or config["sender_id"],
            content=record["content"],
            details={name: record[name] for name in (*told, "template_params", "encoding", "segments")},
        )

    def redirected(self, content: Mapping[str, Any], recipients: Sequence[str], to: str) -> Mapping[str, Any]:
        """By the provider of the number it is for; a provider that has the text itself sends that as it is."""
        [number] = recipients
        text = f"(to {number}) {content['content'] or ''}".rstrip()
        return {"phone_number": to, "region_code": region_of(to), "content": text[:MAX_CONTENT_CHARS]}

    def _config(self, claim: Claim) -> Config:
        try:
            return find_visible_by_id(claim.content, self._routes)
        except PreparationError:
            claim.provider = UNKNOWN_PROVIDER
            raise

    def _find_sent(
        self, claim: Claim, provider: SmsProvider, config: ProviderConfig, message: OutgoingSms
    ) -> Accepted | None:
        """What the provider took of an earlier attempt; None when it took none.

        Raises: as `take_found`; DeliveryError, when it could not be asked: what may be there twice is not sent.
        """
        since = claim.content["prepared_at"] - PROVIDER_CLOCK_MARGIN
        try:
            found = provider.find_sent(config, message, self._client, since)
        except DeliveryError as exc:
            words = f"{provider.label} could not be asked what it took of an earlier attempt: {exc.text}"
            raise DeliveryError(exc.category, exc.code, words, retry_after_seconds=exc.retry_after_seconds) from exc
        nameless = next((one for one in found if one.provider_message_id is None), None)
        if nameless is not None or provider.finds_by_reference:
            return nameless or next(iter(found), None)
        return take_found(self._engine, claim, config.id, found)


def recipients(content: Mapping[str, Any]) -> list[str]:
    """The number of a record, as the one envelope recipient."""
    return [content["phone_number"]]


def _accepted(answer: Accepted, text: str) -> RecipientResult:
    # An adapter of an application's own may pass on a number as it stands in JSON; what was taken is taken.
    message_id = None if answer.provider_message_id is None else str(answer.provider_message_id)
    return RecipientResult(RecipientStatus.ACCEPTED, ACCEPTED_CODE, text, message_id=message_id)
