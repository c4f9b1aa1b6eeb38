"""Outcomes of each minute, gathered from the attempt log by a tick, so that no page groups over history."""

from datetime import datetime

from sqlalchemy import BigInteger, Float, Identity, Index, Integer, String, Table
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Base, Timestamp
from messaging.db.filters import TenantOwned


class OutcomeMinute(TenantOwned, Base):
    """How many attempts of one minute came to one outcome."""

    __tablename__ = "outcome_minute"
    __table_args__ = (
        Index("ix_outcome_minute_tenant", "tenant_id", "minute"),
        # of all tenants; and what is gathered anew, or too old
        Index("ix_outcome_minute_minute", "minute"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: Its first moment.
    minute: Mapped[datetime] = mapped_column(Timestamp)
    channel: Mapped[str] = mapped_column(String(10))
    #: See `messaging.delivery.record.AttemptOutcome`.
    outcome: Mapped[str] = mapped_column(String(20))
    #: Of a failure.
    category: Mapped[str | None] = mapped_column(String(20))
    config_id: Mapped[int | None] = mapped_column(BigInteger)
    #: Of a failure; a sent one is not looked up for it.
    template_id: Mapped[int | None] = mapped_column(BigInteger)
    count: Mapped[int] = mapped_column(Integer)
    #: What these attempts took together.
    seconds: Mapped[float] = mapped_column(Float)


class OutcomeMark(Base):
    """Where the attempt log stood when a minute began: attempts of that minute have larger ids."""

    __tablename__ = "outcome_mark"

    minute: Mapped[datetime] = mapped_column(Timestamp, primary_key=True)
    last_attempt_id: Mapped[int] = mapped_column(BigInteger)


OUTCOME_MINUTE: Table = OutcomeMinute.__table__  # type: ignore[assignment]
OUTCOME_MARK: Table = OutcomeMark.__table__  # type: ignore[assignment]
