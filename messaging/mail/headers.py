"""Header-safe text, and which further headers a caller may set: nothing a user gives can open a header of its own.

How a header is encoded and folded: `messaging.mail.mime`.
"""

import re
from collections.abc import Mapping

from messaging.header_text import clean_text as clean_text

#: Octets of a value: what one line may hold (RFC 5322, 2.1.1).
MAX_VALUE_OCTETS = 998
#: Characters of a name, so that name and colon fit in a line of the recommended length.
MAX_NAME_CHARS = 76
#: Further headers of one mail.
MAX_HEADERS = 100

#: Names a caller may set beside `X-...`, in lower case.
ALLOWED_NAMES = frozenset(
    {
        "references",
        "in-reply-to",
        "list-id",
        "feedback-id",
        "precedence",
        "organization",
        "keywords",
        "comments",
    }
)
#: `X-...` names that this system sets from the mail's priority.
RESERVED_NAMES = frozenset({"x-priority", "x-msmail-priority"})
#: Lists of message ids: an encoded-word may not stand there, so that what is not ASCII cannot be sent (RFC 2047, 5).
MESSAGE_ID_NAMES = frozenset({"references", "in-reply-to"})

#: Controls, and the two other line ends of Unicode, at which some software breaks lines too.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: RFC 5322, 3.6.8: printable ASCII without the colon.
_FIELD_NAME = re.compile(r"[!-9;-~]+")


class HeaderError(ValueError):
    """A header that a caller may not set, or not like this."""

    def __init__(self, name: object, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name!r} {reason}")


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """A caller's further headers, in the caller's order and spelling.

    Raises: HeaderError, naming the header.
    """
    if len(headers) > MAX_HEADERS:
        raise HeaderError(next(iter(headers)), f"is one of {len(headers)} headers; at most {MAX_HEADERS} are allowed")
    checked: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in headers.items():
        _check_name(name)
        folded = name.lower()
        if folded in seen:
            raise HeaderError(name, "is given twice")
        seen.add(folded)
        _check_value(name, folded, value)
        checked[name] = value
    return checked


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise HeaderError(name, "is not text")
    if not _FIELD_NAME.fullmatch(name):
        raise HeaderError(name, "is not a header field name")
    if len(name) > MAX_NAME_CHARS:
        raise HeaderError(name, f"is longer than {MAX_NAME_CHARS} characters")
    folded = name.lower()
    if folded in RESERVED_NAMES:
        raise HeaderError(name, "is set from the priority")
    if folded not in ALLOWED_NAMES and not (folded.startswith("x-") and len(folded) > 2):
        raise HeaderError(name, "is not among the headers a caller may set")


def _check_value(name: str, folded: str, value: object) -> None:
    if not isinstance(value, str):
        raise HeaderError(name, "has a value that is not text")
    if _CONTROL.search(value):
        raise HeaderError(name, "has a control character in its value")
    try:
        octets = len(value.encode())
    except UnicodeEncodeError as exc:
        raise HeaderError(name, "has a value that is not valid Unicode") from exc
    if octets > MAX_VALUE_OCTETS:
        raise HeaderError(name, f"has a value of {octets} octets; at most {MAX_VALUE_OCTETS} are allowed")
    if value.isascii() and octets == MAX_VALUE_OCTETS and " " not in value:
        # Any other value has a space to break it at, or fits below its name with the space before it.
        raise HeaderError(name, f"has a value of {octets} octets without a space; at most {octets - 1} fit in a line")
    if folded in MESSAGE_ID_NAMES and not value.isascii():
        raise HeaderError(name, "has a value that is not ASCII")
