"""Acceptance: check requests, then write them as PENDING in the caller's transaction (`sms.md` sections 1 and 3).

Nothing is looked up but idempotency keys: template, route, provider and quota are found out at preparation.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from messaging.delivery.acceptance import check_batch, request_hash, write_accepted
from messaging.delivery.request_fields import LANES, RequestFields
from messaging.requests import Priority, SendSms
from messaging.settings import Settings
from messaging.sms.insertion import SMS_INSERTION, AcceptedSms
from messaging.sms.models import SmsSendRecord
from messaging.sms.numbers import NumberError, parse_number

CHANNEL = "sms"

#: Characters of a text, whether the caller's or rendered.
MAX_CONTENT_CHARS = 2000
#: The record's columns.
MAX_SIGN_NAME_CHARS, MAX_EXTERNAL_TEMPLATE_CHARS = 50, 100


def accept_sms(
    session: Session, requests: Sequence[SendSms | None] | None, *, settings: Settings, now: datetime, single: bool
) -> list[int]:
    """Write one record for each request into the session's transaction; answers their ids in order.

    With `single` the one request is named without an index. The insert: `messaging.delivery.acceptance`.

    Raises:
        MessageRejected: the first request that is refused; nothing is written, and the transaction is still usable.
        IdempotencyKeyBusy: another transaction holds a key and does not end; as above.
    """
    given = check_batch(requests, SendSms, channel=CHANNEL, settings=settings, single=single)
    check = _Check(CHANNEL, settings, now)
    rows = [check.sms(request, None if single else index) for index, request in enumerate(given)]
    return write_accepted(
        session,
        SMS_INSERTION,
        rows,
        tenant_id=check.tenant_id,
        channel=CHANNEL,
        mapper=SmsSendRecord,
        settings=settings,
        single=single,
    )


def acceptable(request: SendSms, *, settings: Settings, now: datetime) -> tuple[int, AcceptedSms]:
    """Whose record a request would be, and its row; writes nothing.

    Raises: MessageRejected.
    """
    check = _Check(CHANNEL, settings, now)
    sms = check.sms(request, None)
    return check.tenant_id, sms


class _Check(RequestFields):
    """Turns requests into rows, or refuses them. One for each call."""

    def sms(self, request: SendSms, index: int | None) -> AcceptedSms:
        """The row of one request.

        Raises: MessageRejected, naming the index.
        """
        self._index = index
        phone_number = self._phone_number(request.phone_number)
        content = self._content(request.content)
        template_code = self._template_code(request.template_code)
        if content is None and template_code is None:
            raise self._refused(
                "content", request.content, "is missing, and so is template_code; one of them is needed"
            )
        send_at, expires_at = self._times(request.send_at, request.expires_at)
        priority = self._member("priority", request.priority, Priority)
        row = AcceptedSms(
            scope=self._scope(request.scope).value,
            phone_number=phone_number,
            content=content,
            priority=None if priority is None else priority.value,
            lane=LANES[priority],
            idempotency_key=self._key(request.idempotency_key),
            request_hash=None,
            send_at=send_at,
            expires_at=expires_at,
            template_code=template_code,
            template_variables=self._variables(request.template_variables),
            provider_config_id=self._id("provider_config_id", request.provider_config_id),
            sign_name=self._name("sign_name", request.sign_name, MAX_SIGN_NAME_CHARS),
            external_template_id=self._name(
                "external_template_id", request.external_template_id, MAX_EXTERNAL_TEMPLATE_CHARS
            ),
        )
        if row.idempotency_key is None:
            return row
        return row._replace(request_hash=request_hash(row._asdict()))

    def _phone_number(self, value: Any) -> str:
        text = self._text("phone_number", value)
        try:
            return parse_number(text)
        except NumberError as exc:
            raise self._refused("phone_number", value, str(exc)) from exc

    def _content(self, value: Any) -> str | None:
        """The caller's text as it is; None where it is blank."""
        text = self._text("content", value)
        if text is None or not text.strip():
            return None
        if len(text) > MAX_CONTENT_CHARS:
            # A text is not repeated in an error, which may be logged.
            raise self._refused("content", len(text), f"is longer than {MAX_CONTENT_CHARS} characters")
        if "\x00" in text:
            raise self._refused("content", text.index("\x00"), "holds a NUL character, at position")
        return text

    def _name(self, field: str, value: Any, max_chars: int) -> str | None:
        """A name that the provider knows, without blanks around it; None where it is blank."""
        name = self._line(field, value, max_chars)
        return (name or "").strip() or None
