"""How attempts ended, counted by a tick over the attempt log, so that no page groups over history."""

from datetime import datetime
from enum import IntEnum

from sqlalchemy import BigInteger, Float, Identity, Index, Integer, String, Table
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Base, Timestamp
from messaging.db.filters import TenantOwned


class Step(IntEnum):
    """Seconds over which attempts are counted together: the longer ago, the longer."""

    MINUTE = 60
    QUARTER = 900
    TWO_HOURS = 7200


#: Hours for which counts are kept: what a chart of each step shows, and then some.
KEPT_HOURS = {Step.MINUTE: 2, Step.QUARTER: 26, Step.TWO_HOURS: 8 * 24}


class OutcomeCount(TenantOwned, Base):
    """How many attempts that ended in one stretch of time came to one outcome, at one server."""

    __tablename__ = "outcome_count"
    __table_args__ = (
        Index(
            "uq_outcome_count_key",
            "tenant_id",
            "step_seconds",
            "begins_at",
            "channel",
            "outcome",
            "category",
            "config_id",
            "template",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        # of all tenants; and what is too old
        Index("ix_outcome_count_begins", "step_seconds", "begins_at"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: See `Step`; every attempt is counted once in each.
    step_seconds: Mapped[int] = mapped_column(Integer)
    begins_at: Mapped[datetime] = mapped_column(Timestamp)
    channel: Mapped[str] = mapped_column(String(10))
    #: See `messaging.delivery.record.AttemptOutcome`.
    outcome: Mapped[str] = mapped_column(String(20))
    #: Of a failure.
    category: Mapped[str | None] = mapped_column(String(20))
    #: The server, provider or endpoint.
    config_id: Mapped[int | None] = mapped_column(BigInteger)
    #: Of a failure: the code that its record asks for, or `id 5`; a sent one is not looked up for it.
    template: Mapped[str | None] = mapped_column(String(100))
    count: Mapped[int] = mapped_column(Integer)
    #: What these attempts took together.
    seconds: Mapped[float] = mapped_column(Float)


class OutcomeMark(Base):
    """Where the attempt log stood at a moment. The oldest one is how far it is counted."""

    __tablename__ = "outcome_mark"

    at: Mapped[datetime] = mapped_column(Timestamp, primary_key=True)
    #: The largest id that was seen.
    last_attempt_id: Mapped[int] = mapped_column(BigInteger)
    #: Transactions that could still write smaller ones have a number below this.
    next_transaction: Mapped[int] = mapped_column(BigInteger)


OUTCOME_COUNT: Table = OutcomeCount.__table__  # type: ignore[assignment]
OUTCOME_MARK: Table = OutcomeMark.__table__  # type: ignore[assignment]
