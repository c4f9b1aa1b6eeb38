"""Acceptance: check requests, then write them as PENDING in the caller's transaction (`send.md` 2 and 3).

Nothing is looked up but idempotency keys: whether a server exists is found out at preparation. All checks come before
the first statement, so a rejection leaves the caller's transaction as it was.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from messaging.delivery.acceptance import check_batch, request_hash, write_accepted
from messaging.delivery.request_fields import LANES, MAX_STORABLE_CHARS, RequestFields
from messaging.files import FileStore
from messaging.files.store import MAX_DATABASE_BYTES
from messaging.mail import attachments
from messaging.mail.addresses import AddressError, canonical_mailbox, parse_reply_to
from messaging.mail.bodies import BodyModeError, NoBody, resolve_direct
from messaging.mail.headers import HeaderError, check_headers, clean_text
from messaging.mail.insertion import MAIL_INSERTION, AcceptedMail, FilesAhead
from messaging.mail.models import MailSendRecord
from messaging.requests import BodyMode, Priority, SendMail
from messaging.settings import Settings

CHANNEL = "mail"

#: Characters of a subject once cleaned.
MAX_SUBJECT_CHARS = 500
#: Characters of the name of a list.
MAX_LIST_CHARS = 50

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
    given = check_batch(requests, SendMail, channel=CHANNEL, settings=settings, single=single)
    check = _Check(settings, now)
    mails = [check.mail(request, None if single else index) for index, request in enumerate(given)]

    def store_of(connection: Connection) -> attachments.Store:
        store = files or FileStore(connection.engine, settings)
        return lambda file: store.store(
            connection,
            file.content or b"",
            file_name=file.file_name,
            content_type=file.content_type,
            tenant_id=check.tenant_id,
        )

    return write_accepted(
        session,
        MAIL_INSERTION,
        mails,
        tenant_id=check.tenant_id,
        channel=CHANNEL,
        mapper=MailSendRecord,
        settings=settings,
        single=single,
        ahead=FilesAhead(store_of),
    )


def acceptable(request: SendMail, *, settings: Settings, now: datetime) -> tuple[int, AcceptedMail]:
    """Whose record a request would be, and its row; writes nothing.

    Raises: MessageRejected.
    """
    check = _Check(settings, now)
    mail = check.mail(request, None)
    return check.tenant_id, mail


class _Check(RequestFields):
    """Turns requests into rows, or refuses them. One for each call."""

    def __init__(self, settings: Settings, now: datetime) -> None:
        super().__init__(CHANNEL, settings, now)
        self._max_recipients = settings.mail.max_recipients
        self._max_attachment_bytes = settings.mail.max_attachment_bytes
        self._max_file_bytes = MAX_DATABASE_BYTES if settings.file_store_url == "db:" else self._max_attachment_bytes
        self._has_store = settings.file_store_url != "none:"
        self._max_body_chars = min(settings.mail.max_body_chars, MAX_STORABLE_CHARS)

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
        send_at, expires_at = self._times(request.send_at, request.expires_at)
        headers = self._headers(request.headers)
        priority = self._member("priority", request.priority, Priority)
        scope = self._scope(request.scope)
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
            lane=LANES[priority],
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
        return row._replace(request_hash=_hash_of(row, declared, html, text))

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


def _hash_of(row: AcceptedMail, declared: BodyMode | None, html: str | None, text: str | None) -> str:
    """Of bodies as given, not as derived: a change of how text is derived makes no repeat look like another request."""
    asked = row._asdict() | {
        "body_mode": declared,
        "body_html": html,
        "body_text": text,
        "headers": row.headers and sorted(json.loads(row.headers).items()),
        "attachments": [file.described() for file in row.files] or None,
    }
    del asked["files"]
    return request_hash(asked)
