"""What would become of a mail if it were handed in now: all that acceptance and preparation would do, without a trace.

Reads in the caller's transaction, and so with what that has written; no server is called, nothing is written or
charged.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session

from messaging.category import MarkerCode
from messaging.clock import Ticker
from messaging.config_cache import Config, ConfigCache
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
from messaging.files import STORED_FILE, readable_by
from messaging.mail.acceptance import CHANNEL, acceptable
from messaging.mail.addresses import from_canonical
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG, MAIL_TEMPLATE, MailSendRecord
from messaging.mail.preparation import Sources, has_template, prepare_mail
from messaging.mail.servers import resolve_server, smtp_server
from messaging.mail.templates import find_template
from messaging.requests import SendMail
from messaging.settings import Settings
from messaging.suppression import Subject, mail_address
from messaging.templates.lookup import Template, TemplateCache
from messaging.templates.render import Renderer


@dataclass(frozen=True, slots=True)
class MailCheck(Checked):
    """What a check of a mail answers; None stands for what could not be settled."""

    subject: str | None
    body_mode: str | None
    from_address: str | None
    server_config_id: int | None
    server_name: str | None
    #: Octets of all attachments; those that are not there left out.
    attachment_bytes: int


def check_mail(session: Session, request: SendMail, *, settings: Settings, now: datetime, ticker: Ticker) -> MailCheck:
    """Check a mail in the caller's transaction; answers everything that was found, not the first thing alone."""
    findings = Findings()
    try:
        tenant_id, accepted = acceptable(request, settings=settings, now=now)
    except MessageRejected as exc:
        findings.rejected(exc)
        return MailCheck(False, findings.all, None, [], [], None, None, None, None, None, None, None, 0)
    connection = session.connection(bind_arguments={"mapper": MailSendRecord})
    row = as_read(accepted._asdict(), _JSON_COLUMNS)
    record = row | {"id": NO_ID, "tenant_id": tenant_id, "attachments": _references(row)}
    sources = _sources(connection, settings, ticker)
    template = _template(record, sources, findings)
    prepared = _prepared(record, sources, template, findings, now)
    config = _server(record, sources, template, findings)
    files = prepared.get("attachments") or record["attachments"]
    attachment_bytes = _look_at_files(connection, files, row, tenant_id, settings, findings)
    subject = Subject(_addresses(record), record["unsubscribe_list"] or "")
    suppressed = look_at_suppressions(connection, CHANNEL, tenant_id, subject, findings)
    bucket, left = look_at_quota(session, CHANNEL, record["scope"], tenant_id, settings, findings)
    look_at_sandbox(CHANNEL, list(subject.addresses), settings, findings)
    missing = prepared.get("missing_variables") or []
    findings.missing(missing)
    return MailCheck(
        is_sendable=not findings.has_error,
        findings=findings.all,
        template_id=None if template is None else template["id"],
        missing_variables=missing,
        suppressed=suppressed,
        quota_tenant_id=bucket,
        quota_remaining=left,
        subject=prepared.get("subject") or record["subject"],
        body_mode=prepared.get("body_mode") or record["body_mode"],
        from_address=prepared.get("from_address"),
        server_config_id=None if config is None else config["id"],
        server_name=None if config is None else config["name"],
        attachment_bytes=attachment_bytes,
    )


#: What acceptance writes as JSON text.
_JSON_COLUMNS = ("to_addresses", "cc_addresses", "bcc_addresses", "headers", "template_variables")


def _sources(connection: Connection, settings: Settings, ticker: Ticker) -> Sources:
    """Read afresh, each row once: as workers read, a transaction's own rows included."""
    here = InTransaction(connection)
    return Sources(
        configs=ConfigCache(here, MAIL_SEND_SERVER_CONFIG, ttl_seconds=CHECK_SECONDS, ticker=ticker),
        templates=TemplateCache(here, MAIL_TEMPLATE, ttl_seconds=CHECK_SECONDS, ticker=ticker),
        renderer=Renderer(max_chars=settings.mail.max_body_chars, ticker=ticker),
        max_body_chars=settings.mail.max_body_chars,
        public_base_url=settings.public_base_url,
    )


def _template(record: Mapping[str, Any], sources: Sources, findings: Findings) -> Template | None:
    if not has_template(record):
        return None
    try:
        return find_template(record, sources.templates)
    except PreparationError as exc:
        findings.unprepared(exc)
        return None


def _prepared(
    record: Mapping[str, Any], sources: Sources, template: Template | None, findings: Findings, now: datetime
) -> Mapping[str, Any]:
    """What preparation would fill in; nothing where it fails."""
    if template is None and has_template(record):
        return {}
    try:
        return prepare_mail(record, sources, now=now)
    except PreparationError as exc:
        findings.unprepared(exc)
        return {}


def _server(
    record: Mapping[str, Any], sources: Sources, template: Template | None, findings: Findings
) -> Config | None:
    """The server it would go out by, which is looked for also where the template fails; its secret must be readable."""
    preferred_id = None if template is None else template["preferred_server_config_id"]
    try:
        config = resolve_server(record, sources.configs, preferred_id=preferred_id)
    except PreparationError as exc:
        findings.unprepared(exc)
        return None
    try:
        smtp_server(config)
    except PreparationError as exc:
        findings.unprepared(exc)
    return config


def _references(row: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The request's files as a record refers to them; one that it brings along has no id yet."""
    return [{"file_id": file.file_id} for file in row["files"]] or None


def _look_at_files(
    connection: Connection,
    references: Collection[Mapping[str, Any]] | None,
    row: Mapping[str, Any],
    tenant_id: int,
    settings: Settings,
    findings: Findings,
) -> int:
    """Whether what is stored already is there, and fits together with what is brought along; answers octets."""
    total = sum(len(file.content) for file in row["files"] if file.content is not None)
    ids = [reference["file_id"] for reference in references or () if reference["file_id"] is not None]
    if ids:
        t = STORED_FILE.c
        known = select(t.id, t.size).where(t.id.in_(ids), t.tenant_id.in_(readable_by(tenant_id, row["scope"])))
        sizes = {found.id: found.size for found in connection.execute(known)}
        for file_id in ids:
            if file_id in sizes:
                total += sizes[file_id]
            else:
                findings.error(
                    MarkerCode.ATTACHMENT_NOT_FOUND,
                    f"stored file {file_id} is not there, or not the tenant's",
                    "attachments",
                )
    limit = settings.mail.max_attachment_bytes
    if total > limit:
        findings.error(
            MarkerCode.ATTACHMENT_TOO_LARGE,
            f"the attachments have {total} bytes together; allowed: {limit}",
            "attachments",
        )
    return total


def _addresses(record: Mapping[str, Any]) -> dict[str, str]:
    """Envelope recipient -> its address as the suppression list spells it."""
    mailboxes = (*record["to_addresses"], *record["cc_addresses"], *record["bcc_addresses"])
    return {address: mail_address(address) for address in (from_canonical(one).address for one in mailboxes)}
