"""The columns that templates of every channel have, and what they were like before."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Identity, Integer, String, Table, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from messaging.audit import Noted
from messaging.db.active import Switchable
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.filters import TenantOwned


class TemplateColumns(Noted, TenantOwned, Switchable, Audited):
    """A template's names and switches; unique by tenant and code. Records that name it by id use it disabled, too."""

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    code: Mapped[str] = mapped_column(String(100))
    name: Mapped[str] = mapped_column(String(100))
    description: Mapped[str | None] = mapped_column(String(500))
    #: A missing variable fails the record.
    strict: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: What a record of it holds of text and variables is removed once it is sent; a hash stays.
    redact: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: What its author fills it with to look at it; in the author's order (hence not JSONB).
    sample_variables: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class TemplateVersion(TenantOwned, Base):
    """A template as it was saved once. Rows are only ever added, and go with their template."""

    __tablename__ = "template_version"
    __table_args__ = (UniqueConstraint("channel", "template_id", "number"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    channel: Mapped[str] = mapped_column(String(10))
    template_id: Mapped[int] = mapped_column(BigInteger)
    #: From 1.
    number: Mapped[int] = mapped_column(Integer)
    #: All that an author gives, by field.
    content: Mapped[dict[str, Any]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())
    created_by_id: Mapped[int | None] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(String(100))


TEMPLATE_VERSION: Table = TemplateVersion.__table__  # type: ignore[assignment]
