"""Stored files: what goes with mails, in PostgreSQL or behind fsspec (`FILE_STORE_URL`)."""

from sqlalchemy import BigInteger, Identity, Index, LargeBinary, String, Table
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base
from messaging.db.filters import TenantOwned


class StoredFile(TenantOwned, Audited, Base):
    """One file of a tenant."""

    __tablename__ = "stored_file"
    __table_args__ = (Index("ix_stored_file_sha256", "tenant_id", "sha256"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: Of the content, in hex.
    sha256: Mapped[str] = mapped_column(String(64))
    file_name: Mapped[str] = mapped_column(String(255))
    content_type: Mapped[str] = mapped_column(String(255))
    #: Bytes.
    size: Mapped[int] = mapped_column(BigInteger)
    #: Path within the store; null: the bytes are in `content`.
    location: Mapped[str | None] = mapped_column(String(1000))
    content: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)


STORED_FILE: Table = StoredFile.__table__  # type: ignore[assignment]
