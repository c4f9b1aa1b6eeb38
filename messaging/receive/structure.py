"""The parts of a message, without recursion and within bounds that hold before anything is decoded (RFC 2046, 5.1).

It looks for the delimiter lines of one multipart at a time, each within the octets of the part it belongs to, so that
the work is at most depth times size. A message within a message is a leaf: its delimiters are never looked at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from messaging.receive.headers import Headers, header_block
from messaging.receive.parameters import parse_content_type, parse_disposition
from messaging.receive.parsed import Part
from messaging.receive.transfer import undo
from messaging.receive.vocabulary import TruncationReason

#: Octets after a boundary in which its line ends; what comes later makes it no delimiter.
_MAX_PADDING = 1_000
#: Lines of one part that begin like its delimiter and are none. Boundaries are chosen so that there are none.
_MAX_LOOKALIKES = 10_000

_AFTER_BOUNDARY = re.compile(rb"(--)?[ \t]*+(?:\r{0,3}\n|\r|\Z)")
_LINE_ENDS = (b"\r\r\n", b"\r\n", b"\n", b"\r")
#: The first line of a multipart that tells no boundary, followed by a field.
_FIRST_DELIMITER = re.compile(rb"(?<![^\r\n])--([^\r\n]{1,200})\r?\n[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-")


#: An iterator that is at its end stays there.
_NO_REGIONS: Iterator[tuple[int, int]] = iter(())


class StructureExceeded(Exception):
    """More parts, or deeper ones, than the limits allow."""

    def __init__(self, reason: TruncationReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(slots=True)
class _Open:
    """A part that is being read."""

    headers: Headers
    content_type: str
    parameters: dict[str, str]
    disposition: str | None
    file_name: str | None
    depth: int
    #: Regions of parts not read yet.
    regions: Iterator[tuple[int, int]] = _NO_REGIONS
    parts: list[Part] = field(default_factory=list)
    content: bytes = b""

    def closed(self) -> Part:
        content_id = self.headers.first("Content-ID")
        return Part(
            content_type=self.content_type,
            parameters=self.parameters,
            disposition=self.disposition,
            file_name=self.file_name,
            content_id=content_id.strip(" <>\t") or None if content_id else None,
            headers=self.headers,
            depth=self.depth,
            parts=tuple(self.parts),
            content=self.content,
        )


def read_parts(raw: bytes, headers: Headers, body_start: int, *, max_depth: int, max_parts: int) -> Part:
    """The tree of a message's parts; the root is no part of the count, and has depth 0.

    Raises: StructureExceeded, at the first part too many or too deep in the order of the message.
    """
    root = _opened(raw, headers, body_start, len(raw), depth=0, default_type="text/plain")
    stack = [root]
    count = 0
    while True:
        region = next(stack[-1].regions, None)
        if region is None:
            part = stack.pop().closed()
            if not stack:
                return part
            stack[-1].parts.append(part)
            continue
        count += 1
        if count > max_parts:
            raise StructureExceeded(TruncationReason.MIME_PARTS_EXCEEDED)
        if len(stack) > max_depth:
            raise StructureExceeded(TruncationReason.MIME_DEPTH_EXCEEDED)
        start, end = region
        default_type = "message/rfc822" if stack[-1].content_type == "multipart/digest" else "text/plain"
        part_headers, part_body = header_block(raw, start, end)
        stack.append(_opened(raw, part_headers, part_body, end, depth=len(stack), default_type=default_type))


def _opened(raw: bytes, headers: Headers, start: int, end: int, *, depth: int, default_type: str) -> _Open:
    content_type, parameters = parse_content_type(headers.first_raw("content-type"))
    disposition, more = parse_disposition(headers.first_raw("content-disposition"))
    opened = _Open(
        headers=headers,
        content_type=content_type or default_type,
        parameters=parameters,
        disposition=disposition,
        file_name=more.get("filename") or parameters.get("name") or None,
        depth=depth,
    )
    if opened.content_type.startswith("multipart/"):
        opened.regions = _parts_of(raw, parameters.get("boundary"), start, end)
        first = next(opened.regions, None)
        if first is not None:
            opened.regions = chain([first], opened.regions)
            return opened
        if not raw[start : min(end, start + _MAX_PADDING)].strip():
            return opened
        # No part begins anywhere: what a person would see is the text.
        opened.content_type = "text/plain"
    opened.content = undo(headers.first("content-transfer-encoding"), raw[start:end])
    return opened


def _parts_of(raw: bytes, boundary: str | None, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The regions of a multipart's parts, by another boundary where the declared one is missing or nowhere found."""
    is_found = False
    declared = (boundary or "").rstrip().encode()
    if declared:
        for region in _regions(raw, declared, start, end):
            is_found = True
            yield region
    first = None if is_found else _FIRST_DELIMITER.search(raw, start, end)
    if first is not None:
        yield from _regions(raw, first.group(1).rstrip(), start, end)


def _regions(raw: bytes, boundary: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the parts of one multipart begin and end, its last one perhaps unclosed."""
    delimiter = b"--" + boundary
    part_start: int | None = None
    position, lookalikes = start, 0
    while (found := raw.find(delimiter, position, end)) >= 0:
        position = found + len(delimiter)
        after = None
        if found == start or raw[found - 1] in b"\r\n":
            after = _AFTER_BOUNDARY.match(raw, position, min(end, position + _MAX_PADDING))
        if after is None:
            lookalikes += 1
            if lookalikes > _MAX_LOOKALIKES:
                raise StructureExceeded(TruncationReason.MIME_PARTS_EXCEEDED)
            continue
        if part_start is not None:
            yield part_start, max(part_start, found - _line_end_before(raw, found))
        if after.group(1):
            return
        part_start = position = after.end()
    if part_start is not None:
        yield part_start, end


def _line_end_before(raw: bytes, position: int) -> int:
    """Octets of the line end before a delimiter, which belongs to the delimiter."""
    return next((len(one) for one in _LINE_ENDS if raw.endswith(one, 0, position)), 0)
