"""A mail as its recipients have it, for people who look at one: the message built again, its files opened.

A message is the same however often it is built; only a signature, whose key is not read here, is left out.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging.errors import RecordNotFound, StateError
from messaging.files import FileStore
from messaging.files.store import readable_by
from messaging.mail.attachments import open_all
from messaging.mail.channel import content_of
from messaging.mail.mime import MessageBuildError, build
from messaging.mail.models import MailSendRecord


@dataclass(frozen=True, slots=True)
class MailFile:
    """A file that goes with a mail."""

    file_id: int
    file_name: str
    content_type: str
    #: Whose files it may be.
    tenants: frozenset[int]


def read(session: Session, record_id: int) -> Mapping[str, Any]:
    """A prepared mail of the current tenant, whole. Raises: RecordNotFound; StateError where it has no content."""
    row = _row(session, record_id, *(column.name for column in MailSendRecord.__table__.c))
    if row["prepared_at"] is None:
        raise StateError(f"mail record {record_id} is not prepared yet: it has no source")
    if row["redacted_at"] is not None:
        raise StateError(f"mail record {record_id} has no content any more")
    return row


def built(record: Mapping[str, Any], files: FileStore, *, max_bytes: int) -> bytes:
    """The message of a prepared mail, its attachments of so many bytes at most.

    Raises: PreparationError, ATTACHMENT_*; StateError; what the database's driver raises.
    """
    tenants = readable_by(record["tenant_id"], record["scope"])
    with closing(open_all(record["attachments"] or (), files, tenants, max_bytes=max_bytes, gate=None)) as opened:
        try:
            return b"".join(build(content_of(record), opened.files).chunks())
        except MessageBuildError as exc:
            raise StateError(f"no message can be built of mail record {record['id']}: {exc}") from exc


def find_file(session: Session, record_id: int, place: int) -> MailFile:
    """One of the files of a mail of the current tenant, by its place from 0. Raises: RecordNotFound."""
    row = _row(session, record_id, "tenant_id", "scope", "attachments")
    references = row["attachments"] or []
    if not 0 <= place < len(references):
        raise RecordNotFound(f"mail record {record_id} has no file {place}")
    reference = references[place]
    return MailFile(
        file_id=reference["file_id"],
        file_name=reference["file_name"],
        content_type=reference.get("content_type") or "application/octet-stream",
        tenants=readable_by(row["tenant_id"], row["scope"]),
    )


def _row(session: Session, record_id: int, *names: str) -> Mapping[str, Any]:
    statement = select(*(getattr(MailSendRecord, name) for name in names)).where(MailSendRecord.id == record_id)
    row = session.execute(statement).one_or_none()
    if row is None:
        raise RecordNotFound(f"no mail record {record_id}")
    return dict(row._mapping)
