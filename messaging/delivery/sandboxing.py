"""Sandbox mode in front of every transport: a channel around the channel, whose `send` asks the rules first.

Everything else is the channel's own: what is kept or sent elsewhere was prepared, checked against the suppression list
and charged like any other message, and its record ends as it would. Where the mode is off there is no such channel.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine, Table

from messaging.delivery.channel import Channel, Claim, RateLimits
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.sandbox import captured
from messaging.sandbox.rules import SandboxRules
from messaging.settings import SandboxSettings
from messaging.suppression import Subject

logger = logging.getLogger(__name__)

#: Label of who took a message that nobody was sent.
PROVIDER = "sandbox"

#: Codes of recipients that did not get what they are recorded to have got.
CAPTURED_CODE, REDIRECTED_CODE = "SANDBOX_CAPTURED", "SANDBOX_REDIRECTED"


def sandboxed(channel: Channel, settings: SandboxSettings, engine: Engine) -> Channel:
    """The channel itself where sandbox mode is off; `engine` autocommits."""
    rules = SandboxRules(settings)
    if not rules.is_on:
        return channel
    logger.warning("sandbox mode is on", extra={"channel": channel.name, "mode": settings.mode})
    return SandboxedChannel(channel, rules, engine)


class SandboxedChannel:
    """A channel that sends what the rules let through, and keeps or redirects the rest."""

    def __init__(self, channel: Channel, rules: SandboxRules, engine: Engine) -> None:
        self._channel = channel
        self._rules = rules
        self._engine = engine

    @property
    def name(self) -> str:
        return self._channel.name

    @property
    def queue(self) -> str:
        return self._channel.queue

    @property
    def table(self) -> Table:
        return self._channel.table

    @property
    def prepared_columns(self) -> tuple[str, ...]:
        return self._channel.prepared_columns

    @property
    def monthly_default(self) -> int | None:
        return self._channel.monthly_default

    def provider(self, content: Mapping[str, Any]) -> str:
        return self._channel.provider(content)

    def load(self, claims: Sequence[Claim]) -> None:
        self._channel.load(claims)

    def subject(self, content: Mapping[str, Any]) -> Subject:
        return self._channel.subject(content)

    def prepare(self, claim: Claim) -> Mapping[str, Any]:
        return self._channel.prepare(claim)

    def recipients(self, content: Mapping[str, Any]) -> Sequence[str]:
        return self._channel.recipients(content)

    def config_id(self, claim: Claim) -> int | None:
        return self._channel.config_id(claim)

    def rate_limits(self, claim: Claim) -> RateLimits | None:
        """None also where nothing would reach the server: what is kept uses up no window."""
        limits = self._channel.rate_limits(claim)
        ruling = self._rules.rule(self.name, self.recipients(claim.content))
        return limits if ruling.sent or ruling.redirected else None

    def compose(self, claim: Claim, gate: Gate) -> captured.Composed:
        return self._channel.compose(claim, gate)

    def redirected(self, content: Mapping[str, Any], recipients: Sequence[str], to: str) -> Mapping[str, Any]:
        return self._channel.redirected(content, recipients, to)

    def send(self, claim: Claim, recipients: Sequence[str], gate: Gate) -> Mapping[str, RecipientResult]:
        """Keep before anything is sent: a message that was sent must not be repeated because it could not be kept."""
        ruling = self._rules.rule(self.name, recipients)
        if ruling.redirect_to is not None:
            return self._redirect(claim, ruling.redirected, ruling.redirect_to, gate)
        results: dict[str, RecipientResult] = {}
        if ruling.captured:
            self._capture(claim, ruling.captured, gate)
            results = dict.fromkeys(ruling.captured, _CAPTURED)
        if ruling.sent:
            results |= self._channel.send(claim, ruling.sent, gate)
        else:
            claim.provider = PROVIDER
        return results

    def _capture(self, claim: Claim, recipients: Sequence[str], gate: Gate) -> None:
        captured.keep(
            self._engine,
            tenant_id=claim.tenant_id,
            channel=self.name,
            record_id=claim.record_id,
            recipients=recipients,
            composed=self._channel.compose(claim, gate),
        )

    def _redirect(self, claim: Claim, recipients: Sequence[str], to: str, gate: Gate) -> Mapping[str, RecipientResult]:
        """One message to `to` in place of them all; what becomes of it becomes of each of them."""
        changed = self._channel.redirected(claim.content, recipients, to)
        # What an earlier attempt sent is not looked for at its provider: it would be looked for by the record.
        content = {**claim.content, "uncertain": False, **changed}
        result = self._channel.send(replace(claim, content=content), (to,), gate)[to]
        if result.status is RecipientStatus.ACCEPTED:
            result = replace(result, code=REDIRECTED_CODE, text=f"sandbox mode: redirected; {result.text}")
        return dict.fromkeys(recipients, result)


_CAPTURED = RecipientResult(RecipientStatus.ACCEPTED, CAPTURED_CODE, "sandbox mode: kept and sent to nobody")
