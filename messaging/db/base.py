"""The declarative base, names of constraints, and the columns that every table of ours has."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, MetaData, String, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

#: Always timezone-aware.
Timestamp = DateTime(timezone=True)


class Base(DeclarativeBase):
    """All tables of this package."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)


class Audited:
    """When a row was written, by the database's clock, and by whom."""

    created_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now(), onupdate=func.now())
    created_by_id: Mapped[int | None] = mapped_column(BigInteger)
    updated_by_id: Mapped[int | None] = mapped_column(BigInteger)
    created_by: Mapped[str | None] = mapped_column(String(100))
    updated_by: Mapped[str | None] = mapped_column(String(100))
