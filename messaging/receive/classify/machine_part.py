"""The fields of a report's machine-readable part: of a receipt (RFC 8098, 3.1) or a complaint (RFC 5965, 3)."""

import re
from collections.abc import Iterable

from messaging.receive.classify.report_fields import report_text
from messaging.receive.headers import Headers
from messaging.receive.parsed import Part

#: Such a part has some twenty lines; more is somebody's mail.
_MAX_CHARS = 65_536
_FIELD = re.compile(r"[ \t>]{0,4}([A-Za-z][A-Za-z0-9-]{1,60})[ \t]*:(.*)")


def read_fields(part: Part) -> Headers:
    """All fields of a part, wherever blank lines stand between them; white space in front continues a field."""
    fields: list[tuple[str, str]] = []
    for line in report_text(part)[:_MAX_CHARS].splitlines():
        is_folded = line[:1] in (" ", "\t") and bool(fields)
        if is_folded:
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip()}")
        elif found := _FIELD.match(line):
            fields.append((found[1], found[2].strip()))
    return Headers(fields)


def find_fields(parts: Iterable[Part], content_types: Iterable[str], field: str) -> Headers | None:
    """Of the part of one of these types; else of the first leaf that has `field`, as gateways rename types."""
    leaves = [part for part in parts if part.content]
    wanted = frozenset(content_types)
    named = [part for part in leaves if part.content_type in wanted]
    for part in named or leaves:
        fields = read_fields(part)
        if named or field in fields:
            return fields
    return None
