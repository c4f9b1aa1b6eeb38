"""Attachments of a mail: checked and stored at acceptance as references, opened again when it is sent.

Not here: where bytes are kept (`messaging.files`) and how they stand in a message (`messaging.mail.attached_files`).
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from messaging.category import MarkerCode
from messaging.delivery.gate import Gate
from messaging.errors import PreparationError
from messaging.files import FileStore, clean_file_name
from messaging.files.store import STORE_SECONDS
from messaging.mail.attached_files import AttachedFile, ContentIdError, content_id_field
from messaging.requests import Attachment, FileRef

#: Largest id of a bigint column.
_MAX_ID = 2**63 - 1
#: Files of one mail: each is a look-up and a part of its own.
MAX_FILES = 100
#: Characters of a content type, as `stored_file` has them.
_MAX_TYPE_CHARS = 255


class AttachmentError(ValueError):
    """An attachment that cannot be accepted."""

    def __init__(self, value: object, reason: str) -> None:
        #: What is wrong: the entry's name, id or type, never its content.
        self.value = value
        self.reason = reason
        super().__init__(f"{value!r} {reason}")


class GivenFile(NamedTuple):
    """One checked entry of a request."""

    #: None: the file is stored already, and `file_id` names it.
    content: bytes | None
    file_id: int | None
    #: Of the content, in hex.
    sha256: str | None
    file_name: str
    content_type: str | None
    content_id: str | None

    def described(self) -> dict[str, Any]:
        """What the entry asks for, the content by its hash: equal for equal requests."""
        return {name: value for name, value in self._asdict().items() if name != "content" and value is not None}


#: Stores one file that was given and answers its id.
Store = Callable[[GivenFile], int]


def check(attachments: Sequence[Any], *, max_bytes: int, max_file_bytes: int, has_store: bool) -> list[GivenFile]:
    """The entries of a request; `has_store`: whether given bytes can be kept, `max_file_bytes`: how many in one file.

    Raises: AttachmentError.
    """
    if len(attachments) > MAX_FILES:
        raise AttachmentError(len(attachments), f"files are more than {MAX_FILES}")
    files = [_entry(entry) for entry in attachments]
    given = [(file.file_name, len(file.content)) for file in files if file.content is not None]
    if given and not has_store:
        raise AttachmentError(given[0][0], "cannot be stored: FILE_STORE_URL is none:")
    for name, size in given:
        if size > max_file_bytes:
            raise AttachmentError(name, f"has {size} bytes; at most {max_file_bytes} are kept in one file")
    total = sum(size for _, size in given)
    if total > max_bytes:
        raise AttachmentError(total, f"bytes are more than {max_bytes}")
    _refuse_twins(files)
    return files


def _refuse_twins(files: Sequence[GivenFile]) -> None:
    """Of two images with one content id, none would be the one that the html names."""
    seen: set[str] = set()
    for file in files:
        if file.content_id in seen:
            raise AttachmentError(file.content_id, "is the content_id of two attachments")
        if file.content_id is not None:
            seen.add(file.content_id)


def _entry(entry: Any) -> GivenFile:
    if not isinstance(entry, FileRef | Attachment):
        raise AttachmentError(type(entry).__name__, "is neither a FileRef nor an Attachment")
    name = _text(entry.file_name, "file_name")
    if name is None or not name.strip():
        raise AttachmentError(entry.file_name, "is a blank file_name")
    content_type = _text(entry.content_type, "content_type")
    if content_type is not None and (len(content_type) > _MAX_TYPE_CHARS or not content_type.isprintable()):
        raise AttachmentError(content_type, f"is no content_type of at most {_MAX_TYPE_CHARS} printable characters")
    content_id = _text(entry.content_id, "content_id")
    if content_id is not None:
        try:
            content_id_field(content_id)
        except ContentIdError as exc:
            raise AttachmentError(content_id, f"is refused: {exc}") from exc
    content: bytes | None = None
    file_id: Any = None
    sha256: str | None = None
    if isinstance(entry, FileRef):
        file_id = entry.file_id
        if not isinstance(file_id, int) or isinstance(file_id, bool) or not 1 <= file_id <= _MAX_ID:
            raise AttachmentError(file_id, "is not a file's id")
        file_id = int(file_id)
    else:
        if not isinstance(entry.content, bytes | bytearray | memoryview):
            raise AttachmentError(name, f"has a content that is {type(entry.content).__name__}, not bytes")
        content = bytes(entry.content)
        sha256 = hashlib.sha256(content).hexdigest()
    return GivenFile(content, file_id, sha256, clean_file_name(name), content_type, content_id)


def _text(value: Any, what: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise AttachmentError(value, f"is a {what} that is not text")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise AttachmentError(value, f"is a {what} with a lone surrogate, which is no character") from exc
    return str.__str__(value)


def stored_references(files: Sequence[GivenFile], store: Store, stored: dict[str, int]) -> list[dict[str, Any]]:
    """References as the record holds them; contents that are not in `stored` (sha256 -> id) yet are put there."""
    references = []
    for file in files:
        file_id = file.file_id
        if file.sha256 is not None:
            if file.sha256 not in stored:
                stored[file.sha256] = store(file)
            file_id = stored[file.sha256]
        references.append(_reference(file, file_id))
    return references


def checked_references(stored: Any) -> list[dict[str, Any]]:
    """A template's references, checked and completed as a request's are; whoever wrote them.

    Raises: AttachmentError.
    """
    if not isinstance(stored, list):
        raise AttachmentError(type(stored).__name__, "is not a list")
    if len(stored) > MAX_FILES:
        raise AttachmentError(len(stored), f"files are more than {MAX_FILES}")
    files = []
    for entry in stored:
        if not isinstance(entry, dict) or not {"file_id", "file_name"} <= entry.keys() <= _REFERENCE:
            raise AttachmentError(entry, f"is not made of {', '.join(sorted(_REFERENCE))}")
        files.append(_entry(FileRef(**entry)))
    _refuse_twins(files)
    return [_reference(file, file.file_id) for file in files]


_REFERENCE = frozenset(FileRef.__dataclass_fields__)


def _reference(file: GivenFile, file_id: int | None) -> dict[str, Any]:
    return {
        "file_id": file_id,
        "file_name": file.file_name,
        "content_type": file.content_type,
        "content_id": file.content_id,
    }


def open_all(
    references: Sequence[Mapping[str, Any]],
    store: FileStore,
    tenants: Collection[int],
    *,
    max_bytes: int,
    gate: Gate | None,
) -> "Opened":
    """The files of a prepared record, read out of the store before anything is connected; to be closed.

    None of gate: no send waits for them.

    Raises: PreparationError, ATTACHMENT_*; what the database's driver raises.
    """
    ids = [reference["file_id"] for reference in references]
    known = store.describe(ids, tenants)
    total = 0
    for file_id in ids:
        if file_id not in known:
            raise PreparationError(
                MarkerCode.ATTACHMENT_NOT_FOUND, f"stored file {file_id} is not there, or not the tenant's"
            )
        total += known[file_id].size
    if total > max_bytes:
        raise PreparationError(
            MarkerCode.ATTACHMENT_TOO_LARGE, f"the attachments have {total} bytes together; allowed: {max_bytes}"
        )
    opened = Opened()
    try:
        for reference in references:
            opened.files.append(
                AttachedFile(
                    content=store.open(reference["file_id"], tenants, timeout_seconds=_time_left(gate)),
                    file_name=reference["file_name"],
                    content_type=reference["content_type"],
                    content_id=reference["content_id"],
                )
            )
    except BaseException:
        opened.close()
        raise
    return opened


def _time_left(gate: Gate | None) -> float:
    if gate is None:
        return STORE_SECONDS
    try:
        return gate.timeout(STORE_SECONDS)
    except TimeoutError as exc:
        raise PreparationError(MarkerCode.ATTACHMENT_UNAVAILABLE, f"reading the attachments: {exc}") from exc


class Opened:
    """Opened files, for `contextlib.closing`."""

    def __init__(self) -> None:
        self.files: list[AttachedFile] = []

    def close(self) -> None:
        """Close them all."""
        for file in self.files:
            file.content.close()
