"""Rule 15: an invitation or an answer to one, by its iTIP method (RFC 6047, 2.4; RFC 5546, 1.4)."""

import re

from messaging.receive.classification import Classification
from messaging.receive.classify.structure import parts_of
from messaging.receive.parsed import ParsedMail, Part
from messaging.receive.vocabulary import MailType

#: PUBLISH is an attached date: it asks nobody for anything.
METHODS = frozenset({"REQUEST", "REPLY", "CANCEL", "COUNTER", "ADD", "REFRESH", "DECLINECOUNTER"})

_TYPES = ("text/calendar", "application/ics")
#: Characters of an object that are searched: the method belongs at its top, before any VEVENT.
_MAX_SEARCHED_CHARS = 262_144
#: RFC 5545, 3.1: a line goes on behind a line break and one white-space character.
_FOLD = re.compile(r"\n[ \t]")
_METHOD = re.compile(r"^METHOD(?:;[^:\n]*)?:[ \t]*([A-Z-]+)", re.IGNORECASE | re.MULTILINE)


class CalendarInvite:
    """Knows an iTIP message wherever in the mail it stands; its method is the `detail`."""

    order = 15

    def match(self, message: ParsedMail) -> Classification | None:
        """The first part whose method is one of `METHODS`."""
        for part in parts_of(message):
            if part.content_type in _TYPES and (method := _method(part)) in METHODS:
                return Classification(MailType.CALENDAR_INVITE, detail=method)
        return None


def _method(part: Part) -> str | None:
    """By the parameter, else by the object."""
    stated = part.parameters.get("method", "").strip().strip('"').upper()
    if stated:
        return stated
    # Old programs of the Mac end lines with CR alone.
    lines = part.text()[:_MAX_SEARCHED_CHARS].replace("\r\n", "\n").replace("\r", "\n")
    found = _METHOD.search(_FOLD.sub("", lines))
    return found[1].upper() if found else None


RULE = CalendarInvite()
