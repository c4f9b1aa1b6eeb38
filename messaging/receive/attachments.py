"""Which parts of a message are files, and what they are called (`receive.md` 9)."""

import re
from collections.abc import Collection

from messaging.files import clean_file_name
from messaging.receive.bodies import has_known_type
from messaging.receive.parsed import ParsedAttachment, Part

#: For a part that tells no name. A table of our own: `mimetypes` answers by what is installed.
_EXTENSIONS = {
    "application/gzip": ".gz",
    "application/ics": ".ics",
    "application/json": ".json",
    "application/ms-tnef": ".dat",
    "application/msword": ".doc",
    "application/pdf": ".pdf",
    "application/pgp-encrypted": ".txt",
    "application/pgp-keys": ".asc",
    "application/pgp-signature": ".asc",
    "application/pkcs7-mime": ".p7m",
    "application/pkcs7-signature": ".p7s",
    "application/rtf": ".rtf",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/x-pkcs7-mime": ".p7m",
    "application/x-pkcs7-signature": ".p7s",
    "application/xml": ".xml",
    "application/zip": ".zip",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/heic": ".heic",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tif",
    "image/webp": ".webp",
    "message/delivery-status": ".txt",
    "message/disposition-notification": ".txt",
    "message/feedback-report": ".txt",
    "message/global": ".eml",
    "message/rfc822": ".eml",
    "text/calendar": ".ics",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/plain": ".txt",
    "text/rfc822-headers": ".txt",
    "text/vcard": ".vcf",
    "text/x-vcard": ".vcf",
    "text/xml": ".xml",
    "video/mp4": ".mp4",
    "video/quicktime": ".mov",
    "video/webm": ".webm",
}
#: Text that no body shows: without a name it would be lost, as an invitation that is nothing but `text/calendar`.
_DATA = frozenset(["text/calendar", "text/csv", "text/directory", "text/vcard", "text/x-vcard"])
_MESSAGES = frozenset(["message/rfc822", "message/global"])
_UNKNOWN_TYPE = "application/octet-stream"
_MAX_TYPE_CHARS = 255
_MAX_CONTENT_ID_CHARS = 255
#: So that the extension that is added is not cut off.
_MAX_MESSAGE_NAME_CHARS = 200
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")


def read_attachments(root: Part, bodies: Collection[Part], max_bytes: int) -> tuple[tuple[ParsedAttachment, ...], bool]:
    """The files of a message in its order, and whether one was left out for being larger than `max_bytes`.

    `bodies` are the parts that are none because they may be bodies.
    """
    body_ids = {id(part) for part in bodies}
    kept: list[ParsedAttachment] = []
    number, is_one_too_large = 0, False
    for part in root.walk():
        if id(part) in body_ids or not _is_attachment(part):
            continue
        number += 1
        if len(part.content) > max_bytes:
            is_one_too_large = True
            continue
        kept.append(
            ParsedAttachment(
                file_name=_name(part, number),
                content_type=_type(part),
                content_id=part.content_id and part.content_id[:_MAX_CONTENT_ID_CHARS],
                content=part.content,
            )
        )
    return tuple(kept), is_one_too_large


def _is_attachment(part: Part) -> bool:
    """What a sender calls one, what has a name, and whatever is no text to be read."""
    if part.is_multipart:
        return False
    if part.disposition not in (None, "inline"):
        # An unknown word means attachment (RFC 2183, 2.8).
        return True
    is_text = part.content_type.startswith("text/") and part.content_type not in _DATA
    return part.file_name is not None or not is_text


def _type(part: Part) -> str:
    return part.content_type if has_known_type(part) and len(part.content_type) <= _MAX_TYPE_CHARS else _UNKNOWN_TYPE


def _name(part: Part, number: int) -> str:
    """The base name that was given, else one by number and type."""
    extension = _EXTENSIONS.get(part.content_type, ".bin")
    base = _CONTROLS.sub("", _FOLDERS.sub("", part.file_name or ""))
    if not base.strip(" ."):
        return f"attachment-{number}{extension}"
    if part.content_type in _MESSAGES and not base.lower().endswith(extension):
        base = f"{base[:_MAX_MESSAGE_NAME_CHARS]}{extension}"
    return clean_file_name(base)
