"""Acceptance: check requests, then write them as PENDING in the caller's transaction (`send.md` 2 and 3).

Nothing is looked up but idempotency keys: whether a server exists is found out at preparation. All checks come before
the first statement, so a rejection leaves the caller's transaction as it was.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from messaging import metrics, nudge, tenancy
from messaging.delivery.record import LANE_HIGH, LANE_LOW, LANE_NORMAL
from messaging.errors import MessageRejected
from messaging.files import FileStore
from messaging.files.store import MAX_DATABASE_BYTES
from messaging.mail import attachments
from messaging.mail.addresses import AddressError, canonical_mailbox, parse_reply_to
from messaging.mail.bodies import BodyModeError, NoBody, resolve_direct
from messaging.mail.headers import HeaderError, check_headers, clean_text
from messaging.mail.insertion import AcceptedMail, KeyConflict, Origin, write
from messaging.mail.models import MailSendRecord
from messaging.request_fields import RequestFields
from messaging.requests import BodyMode, MessageScope, Priority, SendMail
from messaging.settings import Settings
from messaging.templates.given import VariableError, to_json

CHANNEL = "mail"

#: Characters of a subject once cleaned.
MAX_SUBJECT_CHARS = 500
#: Characters of an idempotency key.
MAX_KEY_CHARS = 255
#: Characters of a body whatever the setting says: PostgreSQL holds 1 GB in a field, and a character has 4 octets.
MAX_STORABLE_CHARS = 100_000_000
#: Characters of a template's code and of the name of a list.
MAX_CODE_CHARS, MAX_LIST_CHARS = 100, 50
#: Characters of a trace id and of a user's name that the record keeps.
MAX_TRACE_CHARS, MAX_USER_NAME_CHARS = 32, 100

_LANES = {None: LANE_NORMAL, Priority.HIGH: LANE_HIGH, Priority.NORMAL: LANE_NORMAL, Priority.LOW: LANE_LOW}
_NOTHING = "[]"

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def accept_mails(
    session: Session,
    requests: Sequence[SendMail | None] | None,
    *,
    settings: Settings,
    now: datetime,
    single: bool,
    files: FileStore | None = None,
) -> list[int]:
    """Write one record for each request into the session's transaction; answers their ids in order.

    One multi-row INSERT, after the files that requests bring along. A request whose idempotency key is stored already
    answers that record's id and writes nothing; a key that another open transaction is writing is waited for, at most
    the lock time-out. With `single` the one request is named without an index.

    Raises:
        MessageRejected: the first request that is refused; nothing is written, and the transaction is still usable.
        IdempotencyKeyBusy: another transaction holds a key and does not end; as above.
        PreparationError: the file store did not take a file; as above.
    """
    given = _check_batch(requests, settings, single)
    check = _Check(settings, now)
    mails = [check.mail(request, None if single else index) for index, request in enumerate(given)]
    context = tenancy.current()
    origin = Origin(
        check.tenant_id,
        _storable(context.trace_id, MAX_TRACE_CHARS),
        context.user_id,
        _storable(context.user_name, MAX_USER_NAME_CHARS),
    )
    connection = session.connection(bind_arguments={"mapper": MailSendRecord})

    def store(file: attachments.GivenFile) -> int:
        return (files or FileStore(connection.engine, settings)).store(
            connection,
            file.content or b"",
            file_name=file.file_name,
            content_type=file.content_type,
            tenant_id=origin.tenant_id,
        )

    try:
        written = write(
            connection, mails, origin, store=store, lock_timeout_seconds=settings.database.lock_timeout_seconds
        )
    except KeyConflict as exc:
        raise MessageRejected(
            CHANNEL,
            "idempotency_key",
            mails[exc.position].idempotency_key,
            "was used before with another content",
            index=None if single else exc.position,
        ) from None
    if written.inserted:
        metrics.accepted(CHANNEL, written.inserted)
        nudge.after_commit(session, settings)
    return written.ids


def _check_batch(requests: object, settings: Settings, single: bool) -> Sequence[SendMail]:
    """The requests, each there and of the right kind."""
    if requests is None:
        raise MessageRejected(CHANNEL, "requests", None, "is missing")
    if not isinstance(requests, Sequence) or isinstance(requests, str | bytes | bytearray):
        raise MessageRejected(CHANNEL, "requests", requests, "is not a list of requests")
    if not requests:
        raise MessageRejected(CHANNEL, "requests", requests, "is empty")
    if len(requests) > settings.batch_max:
        raise MessageRejected(CHANNEL, "requests", len(requests), f"are more than {settings.batch_max}")
    for index, request in enumerate(requests):
        if not isinstance(request, SendMail):
            reason = "is missing" if request is None else "is not a SendMail"
            raise MessageRejected(CHANNEL, "request", request, reason, index=None if single else index)
    return requests


def _storable(text: str | None, max_chars: int) -> str | None:
    """What an audit column can hold of a text that the context brings: it is no reason to refuse a mail."""
    if text is None:
        return None
    return text.replace("\x00", "").encode("utf-8", "replace").decode()[:max_chars]


class _Check(RequestFields):
    """Turns requests into rows, or refuses them. One for each call."""

    def __init__(self, settings: Settings, now: datetime) -> None:
        super().__init__(CHANNEL)
        self._now = now
        self._max_recipients = settings.mail.max_recipients
        self._max_attachment_bytes = settings.mail.max_attachment_bytes
        self._max_file_bytes = MAX_DATABASE_BYTES if settings.file_store_url == "db:" else self._max_attachment_bytes
        self._has_store = settings.file_store_url != "none:"
        self._max_body_chars = min(settings.mail.max_body_chars, MAX_STORABLE_CHARS)
        self._is_multi_tenancy = settings.multi_tenancy
        #: Owner of all records of this call, known once a request was checked.
        self.tenant_id = tenancy.SINGLE_TENANT_ID

    def mail(self, request: SendMail, index: int | None) -> AcceptedMail:
        """The row of one request.

        Raises: MessageRejected, naming the index.
        """
        self._index = index
        to, cc, bcc = self._recipients(request)
        reply_to = self._reply_to(request.reply_to)
        html = self._body("html_body", request.html_body)
        text = self._body("text_body", request.text_body)
        declared = self._member("body_mode", request.body_mode, BodyMode)
        template_id = self._id("template_id", request.template_id)
        template_code = self._template_code(request.template_code)
        try:
            mode, body_html, body_text = resolve_direct(declared, html, text)
        except BodyModeError as exc:
            if not isinstance(exc, NoBody) or (template_id is None and template_code is None):
                raise self._refused(exc.field, getattr(request, exc.field), exc.reason) from exc
            mode, body_html, body_text = None, None, None
        subject = self._subject(request.subject)
        send_at, expires_at = self._times(request)
        headers = self._headers(request.headers)
        priority = self._member("priority", request.priority, Priority)
        scope = self._member("scope", request.scope, MessageScope)
        if scope is None:
            raise self._refused("scope", None, "is missing")
        self.tenant_id = self._owner(scope)
        key = self._key(request.idempotency_key)
        receipt = self._flag("read_receipt_requested", request.read_receipt_requested, is_optional=True)
        row = AcceptedMail(
            scope=scope.value,
            server_config_id=self._id("server_config_id", request.server_config_id),
            to_addresses=_to_json(to),
            cc_addresses=_to_json(cc) if cc else _NOTHING,
            bcc_addresses=_to_json(bcc) if bcc else _NOTHING,
            subject=subject,
            body_mode=None if mode is None else mode.value,
            body_html=body_html,
            body_text=body_text,
            reply_to=reply_to,
            priority=None if priority is None else priority.value,
            lane=_LANES[priority],
            read_receipt_requested=receipt,
            auto_submitted=bool(self._flag("auto_submitted", request.auto_submitted, is_optional=False)),
            headers=_to_json(headers) if headers else None,
            idempotency_key=key,
            request_hash=None,
            send_at=send_at,
            expires_at=expires_at,
            template_id=template_id,
            template_code=template_code,
            template_variables=self._variables(request.template_variables),
            unsubscribe_list=self._unsubscribe_list(request.unsubscribe_list, len(to) + len(cc) + len(bcc)),
            files=self._files(request.attachments),
        )
        if key is None:
            return row
        return row._replace(request_hash=_request_hash(row, declared, html, text))

    def _recipients(self, request: SendMail) -> tuple[list[str], list[str], list[str]]:
        to = self._entries("to", request.to)
        if not to:
            raise self._refused("to", request.to, "is empty")
        cc = self._entries("cc", request.cc)
        bcc = self._entries("bcc", request.bcc)
        count = len(to) + len(cc) + len(bcc)
        if count > self._max_recipients:
            raise self._refused("to", count, f"with cc and bcc has more than {self._max_recipients} recipients")
        return self._mailboxes("to", to), self._mailboxes("cc", cc), self._mailboxes("bcc", bcc)

    def _entries(self, field: str, value: Any) -> Sequence[Any]:
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
            raise self._refused(field, value, "is not a list of addresses")
        return value

    def _mailboxes(self, field: str, entries: Sequence[Any]) -> list[str]:
        mailboxes = []
        for entry in entries:
            if not isinstance(entry, str):
                raise self._refused(field, entry, "is not text")
            try:
                mailboxes.append(canonical_mailbox(str.__str__(entry)))
            except AddressError as exc:
                raise self._refused(field, entry, str(exc)) from exc
        return mailboxes

    def _reply_to(self, value: Any) -> str | None:
        text = self._text("reply_to", value)
        try:
            return parse_reply_to(text)
        except AddressError as exc:
            raise self._refused("reply_to", value, str(exc)) from exc

    def _body(self, field: str, value: Any) -> str | None:
        if value is None:
            return None
        text = self._text(field, value)
        if text is not None and len(text) > self._max_body_chars:
            # A body is not repeated in an error, which may be logged.
            raise self._refused(field, len(text), f"is longer than {self._max_body_chars} characters")
        if text is not None and "\x00" in text:
            raise self._refused(field, text.index("\x00"), "holds a NUL character, at position")
        return text

    def _template_code(self, value: Any) -> str | None:
        code = self._line("template_code", value, MAX_CODE_CHARS)
        return code if code and not code.isspace() else None

    def _variables(self, value: Any) -> str | None:
        if value is None or value == {}:
            return None
        try:
            variables = to_json(value)
        except VariableError as exc:
            raise self._refused("template_variables", exc.path, exc.reason) from exc
        if len(variables) > MAX_STORABLE_CHARS:
            raise self._refused("template_variables", len(variables), "are too large, in characters of JSON")
        return variables

    def _files(self, value: Any) -> Sequence[attachments.GivenFile]:
        if value is None or value == ():
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str | bytes | bytearray):
            raise self._refused("attachments", type(value).__name__, "is not a list of attachments")
        try:
            return attachments.check(
                value,
                max_bytes=self._max_attachment_bytes,
                max_file_bytes=self._max_file_bytes,
                has_store=self._has_store,
            )
        except attachments.AttachmentError as exc:
            raise self._refused("attachments", exc.value, exc.reason) from exc

    def _unsubscribe_list(self, value: Any, recipients: int) -> str | None:
        name = self._line("unsubscribe_list", value, MAX_LIST_CHARS)
        if name is None:
            return None
        if not name.strip():
            raise self._refused("unsubscribe_list", value, "is blank")
        if recipients != 1:
            raise self._refused("unsubscribe_list", value, f"needs exactly one recipient, and there are {recipients}")
        return name

    def _subject(self, value: Any) -> str | None:
        text = self._text("subject", value)
        if text is None:
            return None
        subject = clean_text(text)
        if len(subject) > MAX_SUBJECT_CHARS:
            raise self._refused(
                "subject", value, f"is {len(subject)} characters long; at most {MAX_SUBJECT_CHARS} are allowed"
            )
        return subject or None

    def _key(self, value: Any) -> str | None:
        key = self._text("idempotency_key", value)
        if key is None:
            return None
        if not key.strip():
            raise self._refused("idempotency_key", value, "is blank")
        if "\x00" in key:
            raise self._refused("idempotency_key", value, "holds a NUL character")
        if len(key) > MAX_KEY_CHARS:
            raise self._refused("idempotency_key", value, f"is longer than {MAX_KEY_CHARS} characters")
        return key

    def _times(self, request: SendMail) -> tuple[datetime | None, datetime | None]:
        send_at = self._time("send_at", request.send_at)
        expires_at = self._time("expires_at", request.expires_at)
        if expires_at is not None:
            if expires_at <= self._now:
                raise self._refused("expires_at", request.expires_at, "is not later than now")
            if send_at is not None and expires_at <= send_at:
                raise self._refused("expires_at", request.expires_at, "is not later than send_at")
        return send_at, expires_at

    def _headers(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._refused("headers", value, "is not a mapping")
        if not value:
            return {}
        try:
            return check_headers(value)
        except HeaderError as exc:
            raise self._refused("headers", exc.name, exc.reason) from exc

    def _owner(self, scope: MessageScope) -> int:
        if not self._is_multi_tenancy:
            return tenancy.SINGLE_TENANT_ID
        tenant_id = tenancy.current().tenant_id
        if tenant_id is not None:
            return tenant_id
        if scope is MessageScope.PLATFORM:
            return tenancy.PLATFORM_TENANT_ID
        raise self._refused("scope", scope.value, "needs a current tenant and none is set")


def _request_hash(row: AcceptedMail, declared: BodyMode | None, html: str | None, text: str | None) -> str:
    """SHA-256 over what was asked, in hex.

    Bodies as given, not as derived, and nothing that was left out: neither a change of how text is derived nor a new
    field may make a repeat look like another request.
    """
    asked = row._asdict() | {
        "body_mode": declared,
        "body_html": html,
        "body_text": text,
        "send_at": row.send_at and row.send_at.isoformat(),
        "expires_at": row.expires_at and row.expires_at.isoformat(),
        "headers": row.headers and sorted(json.loads(row.headers).items()),
        "template_variables": row.template_variables and json.loads(row.template_variables),
        "attachments": [file.described() for file in row.files] or None,
    }
    for name in ("lane", "idempotency_key", "request_hash", "files"):
        del asked[name]
    content = json.dumps({name: value for name, value in asked.items() if value is not None}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
