"""What would become of a text message if it were handed in now: acceptance and preparation without a trace.

Reads in the caller's transaction, and so with what that has written; no provider is called, nothing is written or
charged. Which provider a number takes and why, step by step: `messaging.sms.explaining`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from messaging.clock import Ticker
from messaging.config_cache import Config
from messaging.db.connects import InTransaction
from messaging.delivery.checking import (
    CHECK_SECONDS,
    NO_ID,
    Checked,
    Findings,
    as_read,
    look_at_quota,
    look_at_sandbox,
    look_at_suppressions,
)
from messaging.errors import MessageRejected, PreparationError
from messaging.requests import SendSms
from messaging.settings import Settings
from messaging.sms.acceptance import CHANNEL, MAX_CONTENT_CHARS, acceptable
from messaging.sms.models import SMS_TEMPLATE, SmsSendRecord
from messaging.sms.numbers import region_of
from messaging.sms.planning import BindingCache, plan
from messaging.sms.preparation import FindProvider, Sources, prepare_sms
from messaging.sms.providers import registry
from messaging.sms.routing import RouteCache, suppression_subject
from messaging.sms.templates import find_template, text_of
from messaging.templates.lookup import Template, TemplateCache
from messaging.templates.render import Renderer


@dataclass(frozen=True, slots=True)
class SmsCheck(Checked):
    """What a check of a text message answers; None stands for what could not be settled."""

    #: E.164.
    phone_number: str | None
    #: ISO 3166-1 alpha-2, or `001`.
    region_code: str | None
    content: str | None
    #: GSM7 or UCS2.
    encoding: str | None
    #: Messages that are charged.
    segments: int | None
    provider_config_id: int | None
    provider_name: str | None
    provider_type: str | None
    external_template_id: str | None
    sign_name: str | None


def check_sms(
    session: Session,
    request: SendSms,
    *,
    settings: Settings,
    now: datetime,
    ticker: Ticker,
    find_provider: FindProvider = registry.provider,
) -> SmsCheck:
    """Check a text message in the caller's transaction; answers everything that was found, not the first alone."""
    findings = Findings()
    try:
        tenant_id, accepted = acceptable(request, settings=settings, now=now)
    except MessageRejected as exc:
        findings.rejected(exc)
        return SmsCheck(False, findings.all, None, [], [], None, None, *(None,) * 10)
    connection = session.connection(bind_arguments={"mapper": SmsSendRecord})
    number = accepted.phone_number
    record = as_read(accepted._asdict(), ("template_variables",))
    record |= {"id": NO_ID, "tenant_id": tenant_id, "region_code": region_of(number)}
    sources = _sources(connection, settings, ticker, find_provider)
    template, prepared = _prepared(record, sources, findings, now)
    config = _provider(record, sources, template, findings, prepared)
    chosen = record | {"provider_config_id": None if config is None else config["id"]}
    subject = suppression_subject(chosen, sources.routes)
    suppressed = look_at_suppressions(connection, CHANNEL, tenant_id, subject, findings)
    bucket, left = look_at_quota(session, CHANNEL, record["scope"], tenant_id, settings, findings)
    look_at_sandbox(CHANNEL, [number], settings, findings)
    missing = prepared.get("missing_variables") or []
    findings.missing(missing)
    return SmsCheck(
        is_sendable=not findings.has_error,
        findings=findings.all,
        template_id=None if template is None else template["id"],
        missing_variables=missing,
        suppressed=suppressed,
        quota_tenant_id=bucket,
        quota_remaining=left,
        phone_number=number,
        region_code=record["region_code"],
        content=prepared.get("content") or record["content"],
        encoding=prepared.get("encoding"),
        segments=prepared.get("segments"),
        provider_config_id=None if config is None else config["id"],
        provider_name=None if config is None else config["name"],
        provider_type=None if config is None else config["provider_type"],
        external_template_id=prepared.get("external_template_id"),
        sign_name=prepared.get("sign_name"),
    )


def _sources(connection: Connection, settings: Settings, ticker: Ticker, find_provider: FindProvider) -> Sources:
    """Read afresh, each row once: as workers read, a transaction's own rows included."""
    here = InTransaction(connection)
    return Sources(
        templates=TemplateCache(here, SMS_TEMPLATE, ttl_seconds=CHECK_SECONDS, ticker=ticker),
        renderer=Renderer(max_chars=MAX_CONTENT_CHARS, ticker=ticker),
        routes=RouteCache(here, ttl_seconds=CHECK_SECONDS, ticker=ticker, public_base_url=settings.public_base_url),
        bindings=BindingCache(here, ttl_seconds=CHECK_SECONDS, ticker=ticker),
        find_provider=find_provider,
    )


def _prepared(
    record: Mapping[str, Any], sources: Sources, findings: Findings, now: datetime
) -> tuple[Template | None, Mapping[str, Any]]:
    """The template, and what preparation would fill in; of a failed one, text alone where that is what could be."""
    try:
        template = find_template(record, sources.templates)
    except PreparationError as exc:
        findings.unprepared(exc)
        return None, {}
    try:
        return template, prepare_sms(record, sources, now=now)
    except PreparationError as exc:
        findings.unprepared(exc)
    try:
        text = text_of(record, template, sources.renderer)
    except PreparationError as exc:
        findings.unprepared(exc)
        return template, {}
    told = {"encoding": text.size.encoding, "segments": text.size.segments}
    return template, told | {"content": text.content, "missing_variables": list(text.missing)}


def _provider(
    record: Mapping[str, Any],
    sources: Sources,
    template: Template | None,
    findings: Findings,
    prepared: Mapping[str, Any],
) -> Config | None:
    """The provider it would go out by, which is looked for also where the template fails."""
    config_id = prepared.get("provider_config_id")
    if config_id is not None:
        return sources.routes.find(config_id)
    try:
        return plan(record, template, sources.routes, sources.bindings).config
    except PreparationError as exc:
        findings.unprepared(exc)
        return None
