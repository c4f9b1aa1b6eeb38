"""A parsed mail as rules and store see it; `messaging.receive.parse` makes it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from messaging.receive.charsets import charset_of_html, decode, storable
from messaging.receive.headers import Headers
from messaging.receive.vocabulary import TruncationReason


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message. A message within a message is a leaf: nobody descends into it."""

    #: `type/subtype`, lower case.
    content_type: str
    #: Of Content-Type, names in lower case, values decoded (RFC 2231).
    parameters: dict[str, str]
    #: `attachment`, `inline`, another word in lower case, or None.
    disposition: str | None
    file_name: str | None
    #: Without its angle brackets.
    content_id: str | None
    headers: Headers
    #: The root is 0.
    depth: int
    parts: tuple["Part", ...]
    #: Of a leaf, transfer encoding removed; of a multipart empty.
    content: bytes

    def walk(self) -> Iterator["Part"]:
        """This part and those below, depth first."""
        return self._descend() if self.parts else iter((self,))

    def _descend(self) -> Iterator["Part"]:
        waiting = [self]
        while waiting:
            part = waiting.pop()
            yield part
            waiting += reversed(part.parts)

    def text(self) -> str:
        """The content as text, by the declared charset where it has one; html may declare its own."""
        charset = self.parameters.get("charset")
        if charset is None and self.content_type == "text/html":
            charset = charset_of_html(self.content)
        return storable(decode(self.content, charset))

    @property
    def is_multipart(self) -> bool:
        """Whether it is made of parts."""
        return self.content_type.startswith("multipart/")


@dataclass(frozen=True, slots=True)
class ParsedAttachment:
    """A part that is kept as a file."""

    file_name: str
    content_type: str
    content_id: str | None
    content: bytes


@dataclass(frozen=True, slots=True)
class ParsedMail:
    """Everything that is read from a message, safe to store."""

    headers: Headers
    #: None where only the envelope is known.
    root: Part | None = None
    #: As written, trimmed; None when missing or blank.
    message_id: str | None = None
    from_address: str | None = None
    from_name: str | None = None
    to_addresses: tuple[str, ...] = ()
    cc_addresses: tuple[str, ...] = ()
    subject: str | None = None
    date_header: str | None = None
    #: Of the Date field; None when it cannot be read or has no zone.
    date: datetime | None = None
    body_text: str | None = None
    body_html: str | None = None
    #: A `messaging.requests.BodyMode`.
    body_mode: str | None = None
    attachments: tuple[ParsedAttachment, ...] = ()
    truncation_reason: TruncationReason | None = None
    #: For rules: the mail's own text parts (an HTML one without its markup), at most 64 KiB; no returned message.
    rule_text: str = field(default="", repr=False)

    def walk(self) -> Iterator[Part]:
        """All parts, depth first; none where only the envelope is known."""
        root = self.root
        if root is None:
            return iter(())
        return root.walk() if root.parts else iter((root,))
