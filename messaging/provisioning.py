"""Seed data of a tenant, applied once: a ledger of what was applied makes a repeated run write nothing."""

from datetime import datetime

from sqlalchemy import BigInteger, Identity, String, Table, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base, Timestamp
from messaging.db.filters import TenantOwned


class SeedLedger(TenantOwned, Audited, Base):
    """One seed that was applied for a tenant, and the row it made."""

    __tablename__ = "seed_ledger"
    __table_args__ = (UniqueConstraint("tenant_id", "model", "seed_key"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: Table of the row.
    model: Mapped[str] = mapped_column(String(50))
    seed_key: Mapped[str] = mapped_column(String(100))
    row_id: Mapped[int] = mapped_column(BigInteger)
    applied_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())


SEED_LEDGER: Table = SeedLedger.__table__  # type: ignore[assignment]
