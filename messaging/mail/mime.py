"""A prepared record as the bytes to send: the same for every attempt and every server (RFC 5322, RFC 2045 to 2047).

Writes the bytes directly, as `email.message` costs forty times as much a mail. Does not dot-stuff and knows no
envelope: both are the transport's. What may be sent was decided at acceptance; here it is only kept from doing harm.
"""

import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache

from messaging.category import MarkerCode
from messaging.errors import PreparationError
from messaging.mail import header_fields
from messaging.mail.addresses import Mailbox, parse_mailbox, parse_mailbox_list
from messaging.mail.attached_files import AttachedFile, file_part
from messaging.mail.headers import check_headers, clean_text
from messaging.mail.message import Message, Piece
from messaging.requests import BodyMode, Priority

#: A part of a message, in pieces.
Parts = list[bytes | Piece]


class MessageBuildError(ValueError):
    """The record holds something that no message can carry; the text names the part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MailContent:
    """Everything a message is made from; equal contents make equal bytes."""

    #: With its angle brackets.
    message_id: str
    #: Timezone-aware; written in UTC.
    date: datetime
    #: `local@domain`, the domain as A-labels.
    from_address: str
    #: None or blank: the bare address.
    from_name: str | None
    #: Canonical mailboxes, as stored.
    to: Sequence[str]
    #: Canonical mailboxes, as stored.
    cc: Sequence[str] = ()
    #: A comma-separated list of mailboxes.
    reply_to: str | None = None
    #: None: an empty Subject.
    subject: str | None = None
    body_mode: BodyMode
    body_html: str | None = None
    body_text: str | None = None
    #: None: no priority headers.
    priority: Priority | None = None
    read_receipt: bool = False
    auto_submitted: bool = True
    #: A caller's, and `PREPARED_NAMES`. ASCII values are written as they are, others in encoded-words.
    headers: Mapping[str, str] = field(default_factory=dict)


#: Further headers that preparation writes (RFC 8058); a caller that names one is refused.
PREPARED_NAMES = ("List-Unsubscribe", "List-Unsubscribe-Post")

#: X-Priority, Importance and X-MSMail-Priority: what the common mail programs look at.
_PRIORITY_FIELDS: dict[Priority, str] = {
    Priority.HIGH: "X-Priority: 1\r\nImportance: High\r\nX-MSMail-Priority: High",
    Priority.NORMAL: "X-Priority: 3\r\nImportance: Normal\r\nX-MSMail-Priority: Normal",
    Priority.LOW: "X-Priority: 5\r\nImportance: Low\r\nX-MSMail-Priority: Low",
}

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_MESSAGE_ID = re.compile(r"<[!-;=?-~]+@[!-;=?-~]+>")

#: Longest line of a text part that is sent as it is: what RFC 5322 (2.1.1) asks for.
_MAX_PLAIN_LINE = 78
#: Octets of text that make one line of base64, 76 characters (RFC 2045, 6.8).
_BASE64_LINE_OCTETS = 57
_PLAIN_OCTETS = bytes(range(0x20, 0x7F)) + b"\t\r\n"
_UNQUOTED_OCTETS = _PLAIN_OCTETS.replace(b"=", b"")
#: "From " at the start of a line becomes ">From " in a mailbox file.
_FROM_LINE = re.compile(rb"^From ", re.MULTILINE)
#: b2a_qp counts a blank at the end of a line as one octet and writes three: such a line is over 76 characters.
_FULL_LINE_AND_BLANK = re.compile(rb"^([^\r\n]{74,75})(=20|=09)\r$", re.MULTILINE)


def build(content: MailContent, files: Sequence[AttachedFile] = ()) -> Message:
    """The message: CRLF line ends, no line over 998 octets, 7-bit but for addresses that are not ASCII themselves.

    Without files it is in one piece; files are read, in their order, when the message is.

    Raises: MessageBuildError; PreparationError where a file that must be looked through cannot be read.
    """
    try:
        token = hashlib.blake2b(content.message_id.encode(), digest_size=15).hexdigest().encode()
        head = "\r\n".join(_header_fields(content)).encode() + b"\r\n"
        body = _body_with_files(content, files, token) if files else _body(content, token)
        return Message(_joined([head, *body]))
    except UnicodeEncodeError as exc:
        raise MessageBuildError("the content holds half a surrogate pair, which is no character") from exc
    except MessageBuildError:
        raise
    except ValueError as exc:
        raise MessageBuildError(str(exc)) from exc
    except OSError as exc:
        marker = MarkerCode.ATTACHMENT_UNAVAILABLE
        raise PreparationError(marker, f"reading an attachment failed: {exc.strerror or type(exc).__name__}") from exc


def _header_fields(content: MailContent) -> list[str]:
    _check(content)
    fields = [_from_field(content.from_name or "", content.from_address)]
    if content.to:
        fields.append(header_fields.canonical_field("To", content.to))
    if content.cc:
        fields.append(header_fields.canonical_field("Cc", content.cc))
    if content.reply_to:
        fields.append(_reply_to(content.reply_to))
    fields.append(header_fields.text_field("Subject", clean_text(content.subject or "")))
    fields.append(_date_field(content.date.astimezone(UTC).replace(microsecond=0)))
    # Never folded, however long: programs that look for it read one line.
    fields.append(f"Message-ID: {content.message_id}")
    if content.auto_submitted:
        fields.append("Auto-Submitted: auto-generated")
    if content.read_receipt:
        receipt_to = [Mailbox("", _ascii_domain(content.from_address))]
        fields.append(header_fields.mailbox_field("Disposition-Notification-To", receipt_to))
        fields.append(header_fields.mailbox_field("Return-Receipt-To", receipt_to))
    if content.priority is not None:
        fields.append(_PRIORITY_FIELDS[content.priority])
    if content.headers:
        fields.extend(_further_fields(content.headers))
    fields.append("MIME-Version: 1.0")
    return fields


@lru_cache(maxsize=256)
def _from_field(name: str, address: str) -> str:
    """Kept, as a process writes for few senders."""
    return header_fields.mailbox_field("From", [Mailbox(clean_text(name), _ascii_domain(address))])


@lru_cache(maxsize=64)
def _date_field(date: datetime) -> str:
    """Kept, as the mails of a chunk were prepared in the same second."""
    return f"Date: {format_datetime(date)}"


def _check(content: MailContent) -> None:
    """No value opens another field: what is not cleaned on the way holds no control character."""
    if content.date.utcoffset() is None:
        raise MessageBuildError("the date has no time zone")
    if not _MESSAGE_ID.fullmatch(content.message_id):
        raise MessageBuildError(f"the Message-ID is not <left@right> in ASCII: {content.message_id!r}")
    values = (content.from_address, content.reply_to or "", *content.to, *content.cc)
    found = _CONTROL.search("".join(values))
    if found:
        raise MessageBuildError(f"an address holds the control character U+{ord(found[0]):04X}")


def _ascii_domain(address: str) -> str:
    return address if address.isascii() else parse_mailbox(address).address


def _reply_to(text: str) -> str:
    if header_fields.is_ready("Reply-To", text):
        return f"Reply-To: {text}"
    return header_fields.mailbox_field("Reply-To", parse_mailbox_list(text))


def _further_fields(headers: Mapping[str, str]) -> list[str]:
    """A caller's headers, checked as at acceptance, and those that preparation adds, which no caller may set."""
    prepared = {name: headers[name] for name in PREPARED_NAMES if name in headers}
    for name, value in prepared.items():
        if not value.isascii() or _CONTROL.search(value):
            raise MessageBuildError(f"{name} is not printable ASCII")
    given = check_headers({name: value for name, value in headers.items() if name not in prepared})
    return [_further_field(name, value) for name, value in (given | prepared).items()]


def _further_field(name: str, value: str) -> str:
    value = value.strip(" ")
    if value.isascii():
        return header_fields.literal_field(name, value) if value else f"{name}:"
    match name.lower():
        case "keywords":
            return header_fields.phrase_field(name, [part.strip() for part in value.split(",") if part.strip()])
        case "list-id" if value.endswith(">"):
            phrase, bracket, list_id = value.rpartition("<")
            if bracket and list_id.isascii():
                return header_fields.phrase_field(name, [phrase.strip()], ending=f"<{list_id}")
    return header_fields.text_field(name, value)


def _body(content: MailContent, token: bytes, related: Sequence[Parts] = ()) -> Parts:
    """The fields that describe the body, a blank line and the body; the html with what belongs to it."""
    mode = content.body_mode
    if mode == BodyMode.PLAIN:
        return [_text_part("plain", content.body_text, token)]
    html: Parts = [_text_part("html", content.body_html, token)]
    if related:
        # RFC 2387: `type` is that of the part the others belong to, the first.
        html = _multipart(b'related; type="text/html"', b"=_r" + token, [html, *related])
    if mode == BodyMode.HTML:
        return html
    return _multipart(b"alternative", b"=_" + token, [[_text_part("plain", content.body_text, token)], html])


def _body_with_files(content: MailContent, files: Sequence[AttachedFile], token: bytes) -> Parts:
    """send.md 4.1: inline images beside the html, all else after the bodies."""
    inline: dict[str, Parts] = {}
    attached: list[Parts] = []
    for file in files:
        if not file.content_id or content.body_mode == BodyMode.PLAIN:
            attached.append(file_part(file, is_inline=False, token=token))
        elif file.content_id in inline:
            raise MessageBuildError(f"two inline images have the content_id {file.content_id!r}")
        else:
            inline[file.content_id] = file_part(file, is_inline=True, token=token)
    body = _body(content, token, list(inline.values()))
    return _multipart(b"mixed", b"=_m" + token, [body, *attached]) if attached else body


def _multipart(subtype: bytes, boundary: bytes, parts: Sequence[Parts]) -> Parts:
    """The field, and the parts between boundaries. None of the boundaries of a message begins with another."""
    mark = b"\r\n--" + boundary
    pieces: Parts = [b"Content-Type: multipart/" + subtype + b';\r\n boundary="' + boundary + b'"\r\n']
    for part in parts:
        pieces += [mark, b"\r\n", *part]
    pieces += [mark, b"--\r\n"]
    return pieces


def _joined(parts: Parts) -> Parts:
    """The same, with what is at hand in as few pieces as there are."""
    pieces: Parts = []
    at_hand: list[bytes] = []
    for part in parts:
        if isinstance(part, bytes):
            at_hand.append(part)
        else:
            pieces += [b"".join(at_hand), part]
            at_hand = []
    return [*pieces, b"".join(at_hand)]


def _text_part(subtype: str, text: str | None, token: bytes) -> bytes:
    """One part: its fields, a blank line and the text, every line of it ended, in the plainest fitting encoding."""
    if text is None:
        raise MessageBuildError(f"the body mode needs a {subtype} body and there is none")
    if "\0" in text:
        raise MessageBuildError(f"the {subtype} body holds a NUL")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    octets = text.encode().replace(b"\n", b"\r\n")
    if octets and not octets.endswith(b"\n"):
        octets += b"\r\n"
    if _is_safe_as_it_is(octets, token):
        encoding, encoded = b"7bit", octets
    elif 6 * len(octets.translate(None, _UNQUOTED_OCTETS)) <= len(octets):
        encoding, encoded = b"quoted-printable", _quoted_printable(octets)
    else:
        encoding, encoded = b"base64", _base64(octets)
    return b"".join(
        (
            b"Content-Type: text/",
            subtype.encode(),
            b'; charset="utf-8"\r\nContent-Transfer-Encoding: ',
            encoding,
            b"\r\n\r\n",
            encoded,
        )
    )


def _is_safe_as_it_is(octets: bytes, token: bytes) -> bool:
    """Whether a text passes every server and mailbox unchanged without an encoding."""
    return not (
        octets.translate(None, _PLAIN_OCTETS)
        or b" \r\n" in octets
        or b"\t\r\n" in octets
        or b"\r\n.\r\n" in octets
        or octets.startswith((b".\r\n", b"From "))
        or b"\nFrom " in octets
        or token in octets
        or max(map(len, octets.split(b"\r\n"))) > _MAX_PLAIN_LINE
    )


def _quoted_printable(octets: bytes) -> bytes:
    # Never empty here, so the last line end tells b2a_qp to write CRLF also at the breaks it makes.
    encoded = binascii.b2a_qp(octets)
    if b"=20\r\n" in encoded or b"=09\r\n" in encoded:
        encoded = _FULL_LINE_AND_BLANK.sub(b"\\1=\r\n\\2\r", encoded)
    if b"\r\n.\r\n" in encoded:
        encoded = encoded.replace(b"\r\n.\r\n", b"\r\n=2E\r\n")
    if b"From " in encoded:
        # The break keeps a line that was full within 76 characters (RFC 2045, 6.7 rule 5).
        encoded = _FROM_LINE.sub(b"=46rom=\r\n ", encoded)
    return encoded


def _base64(octets: bytes) -> bytes:
    starts = range(0, len(octets), _BASE64_LINE_OCTETS)
    lines = [binascii.b2a_base64(octets[s : s + _BASE64_LINE_OCTETS], newline=False) for s in starts]
    return b"\r\n".join([*lines, b""])
