"""What a provider tells an application of a mail, checked, as a received report would say it (`receive.md` 13)."""

import re
from collections.abc import Sequence
from datetime import datetime

from messaging.errors import shown_value
from messaging.mail.reported_recipients import ReportedRecipient, bounce_code
from messaging.receive.charsets import storable
from messaging.receive.message_ids import spelled
from messaging.receive.vocabulary import USELESS_ADDRESS

#: What a delivery that failed may be told by: class 4 or 5 (RFC 5321, 4.2.1; RFC 3463, 2).
_REPLY_CODE = re.compile(r"[45][0-9]{2}", re.ASCII)
_STATUS = re.compile(r"[45]\.[0-9]{1,3}\.[0-9]{1,3}", re.ASCII)


def reported(
    *,
    recipients: Sequence[str] | None,
    reply_code: str | None,
    status: str | None,
    permanent: bool,
    text: str | None,
) -> list[ReportedRecipient]:
    """Each recipient that it failed for; one without a name where none is told.

    Raises: TypeError, ValueError; they name the argument.
    """
    _check_type("permanent", permanent, bool)
    reply_code = _code("reply_code", reply_code, _REPLY_CODE, "three digits such as 550, the first 4 or 5")
    status = _code("status", status, _STATUS, "a code such as 5.1.1, the first digit 4 or 5")
    words = None if text is None else storable(_text("text", text)).strip() or None
    told = ReportedRecipient(
        code=bounce_code(reply_code, status),
        text=words,
        is_permanent=permanent,
        is_useless=_is_useless(words, status, reply_code),
    )
    names = _names(recipients)
    return [ReportedRecipient((name,), told.code, told.text, told.is_permanent, told.is_useless) for name in names] or [
        told
    ]


def message_id(value: str) -> str:
    """A Message-ID as records have it, with its angle brackets, whether or not it came with them.

    Raises: TypeError, ValueError.
    """
    found = spelled(storable(_text("message_id", value)))
    if found is None:
        raise ValueError("message_id is blank")
    return found if found.startswith("<") else f"<{found}>"


def moment(at: datetime | None) -> datetime | None:
    """When it was read. Raises: TypeError, ValueError for a time without a zone."""
    if at is not None:
        _check_type("at", at, datetime)
        if at.tzinfo is None:
            raise ValueError(f"at is {at.isoformat()}; it has no time zone")
    return at


def _names(recipients: Sequence[str] | None) -> list[str]:
    if isinstance(recipients, str | bytes):
        raise TypeError(f"recipients is {shown_value(recipients)}; it is a list of addresses")
    return [storable(_text("recipients", one)) for one in recipients or ()]


def _code(name: str, value: str | None, form: re.Pattern[str], allowed: str) -> str | None:
    if value is None:
        return None
    if not form.fullmatch(_text(name, value)):
        raise ValueError(f"{name} is {shown_value(value)}; allowed: {allowed}")
    return value


def _text(name: str, value: object) -> str:
    _check_type(name, value, str)
    return str(value)


def _check_type(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {shown_value(value)}; it is of type {kind.__name__}")


def _is_useless(text: str | None, status: str | None, reply_code: str | None) -> bool:
    # Loads the tables of wordings, which a process that is told of no bounce never needs.
    from messaging.receive.classify.reasons import is_doubtful, reason

    found = reason((text or "",), status, reply_code)
    return found in USELESS_ADDRESS and not is_doubtful(found, status, reply_code, text or "")
