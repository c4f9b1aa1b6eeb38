"""The parts that rules look at, also where only the header block of a mail is known."""

from collections.abc import Iterator

from messaging.receive.headers import Headers
from messaging.receive.parameters import parse_content_type
from messaging.receive.parsed import ParsedMail, Part


def parts_of(message: ParsedMail) -> Iterator[Part]:
    """All parts, depth first, never those of a message within; of an envelope its top part, without content."""
    return iter((_top_of(message.headers),)) if message.root is None else message.walk()


def report_type(part: Part) -> str | None:
    """Of a `multipart/report` what it reports, in lower case (RFC 6522, 3); None for any other part."""
    if part.content_type != "multipart/report":
        return None
    return part.parameters.get("report-type", "").strip().lower()


def header_words(headers: Headers, name: str) -> set[str]:
    """The keyword of each field such as `Auto-Submitted: auto-replied (vacation)`, in lower case."""
    if name not in headers:  # as most that rules ask for
        return set()
    return {value.partition(";")[0].partition("(")[0].strip().lower() for value in headers.all(name)}


def has_header(headers: Headers, *names: str) -> bool:
    """Whether one of these fields says anything."""
    for name in names:
        for value in headers.raw(name):
            if value.strip():
                return True
    return False


def _top_of(headers: Headers) -> Part:
    content_type, parameters = parse_content_type(headers.first_raw("Content-Type"))
    return Part(
        content_type=content_type or "text/plain",
        parameters=parameters,
        disposition=None,
        file_name=None,
        content_id=None,
        headers=headers,
        depth=0,
        parts=(),
        content=b"",
    )
