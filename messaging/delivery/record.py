"""The columns every send record has, and the attempt log. The record is also the queue: one row, its state and why."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Computed,
    Identity,
    Index,
    Integer,
    Sequence,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, declared_attr, mapped_column

from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.filters import TenantOwned
from messaging.delivery.status import SendStatus

#: One sequence for all channels, so that an id alone names a record.
RECORD_ID = Sequence("send_record_id_seq", metadata=Base.metadata)

#: Order of dispatch within a tenant.
LANE_HIGH, LANE_NORMAL, LANE_LOW = 1, 2, 3

#: In line, waiting for its time, or (null) not open. See `SendRecordColumns.ready`.
READY_EXPRESSION = "CASE WHEN status IN ('PENDING', 'RETRY') THEN next_attempt_at <= updated_at END"

#: Vacuum by dead rows, not by share: the table's history must not put it off.
STORAGE_PARAMETERS = {
    "autovacuum_vacuum_scale_factor": "0",
    "autovacuum_vacuum_threshold": "20000",
    "autovacuum_vacuum_cost_delay": "0",
}


class SendRecordColumns(TenantOwned, Audited):
    """State and guards of a send record (protocol, section 1). All times are the database's `now()`."""

    id: Mapped[int] = mapped_column(
        BigInteger,
        server_default=text("nextval('send_record_id_seq')"),
        primary_key=True,
        autoincrement=False,
        sort_order=-2,
    )
    #: `TENANT` or `PLATFORM`: whose configuration is used.
    scope: Mapped[str] = mapped_column(String(10))
    status: Mapped[str] = mapped_column(String(20), server_default=SendStatus.PENDING)
    #: Retries that spent budget.
    retry_count: Mapped[int] = mapped_column(Integer, server_default="0")
    #: + 1 with every move; every move names the version it expects.
    version: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: When the record may next be handed out.
    next_attempt_at: Mapped[datetime] = mapped_column(Timestamp, server_default=text("now()"))
    #: 1 high, 2 normal, 3 low.
    lane: Mapped[int] = mapped_column(SmallInteger, server_default=str(LANE_NORMAL))
    #: When a worker claimed it; null unless SENDING.
    claimed_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Drawn for each claim statement: an outcome is applied only to the claim it came from.
    claim_token: Mapped[int | None] = mapped_column(BigInteger)
    #: Set by the sweep, cleared by a recorded attempt result: the record travels alone until then.
    swept_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: An attempt may have reached somebody without it being recorded; never cleared.
    uncertain: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: Null until prepared; the only test for it.
    prepared_at: Mapped[datetime | None] = mapped_column(Timestamp)
    error_code: Mapped[str | None] = mapped_column(String(100))
    error_message: Mapped[str | None] = mapped_column(Text)
    sent_at: Mapped[datetime | None] = mapped_column(Timestamp)
    send_at: Mapped[datetime | None] = mapped_column(Timestamp)
    expires_at: Mapped[datetime | None] = mapped_column(Timestamp)
    idempotency_key: Mapped[str | None] = mapped_column(String(255))
    #: SHA-256 over the request, in hex; only with a key.
    request_hash: Mapped[str | None] = mapped_column(String(64))
    trace_id: Mapped[str | None] = mapped_column(String(32))
    #: The caller's span within that trace, 16 hex digits.
    span_id: Mapped[str | None] = mapped_column(String(16))
    #: The request over HTTP that brought it, as its caller or we named it.
    request_id: Mapped[str | None] = mapped_column(String(64))
    #: Bodies and variables go once it is sent; set when it is prepared.
    redact: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: When they went.
    redacted_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: Of what went, in hex.
    content_sha256: Mapped[str | None] = mapped_column(String(64))

    @declared_attr
    def ready(cls) -> Mapped[bool | None]:  # noqa: N805 - a declared_attr is given the class
        """Was due when it was last written: true in line, false waits for its time, null not open.

        Generated, so that no statement can forget it: a lease or a back-off takes a row out of the line, and a row
        whose time has come is put in line by touching it (promote).
        """
        return mapped_column(Boolean, Computed(READY_EXPRESSION, persisted=True))


def send_record_constraints(table_name: str, short: str) -> tuple[Any, ...]:
    """Checks and indexes of a send record's table, each with the statement it serves."""
    return (
        one_of("status", SendStatus, "status"),
        one_of("scope", ("TENANT", "PLATFORM"), "scope"),
        CheckConstraint("retry_count >= 0", name="retry_count"),
        CheckConstraint("lane BETWEEN 1 AND 3", name="lane"),
        CheckConstraint("(status = 'SENDING') = (claimed_at IS NOT NULL)", name="claimed_while_sending"),
        # lease
        Index(f"ix_{short}_ready", "tenant_id", "lane", "next_attempt_at", postgresql_where=text("ready")),
        # promote
        Index(f"ix_{short}_waiting", "next_attempt_at", postgresql_where=text("NOT ready")),
        # sweep
        Index(f"ix_{short}_sending", "claimed_at", postgresql_where=text("status = 'SENDING'")),
        # lists, newest first
        Index(f"ix_{short}_created", "tenant_id", "created_at", "id"),
        Index(
            f"ix_{short}_unsent",
            "tenant_id",
            "status",
            "created_at",
            "id",
            postgresql_where=text("status IN ('PENDING', 'RETRY', 'FAILED', 'DEAD_LETTER')"),
        ),
        # lists of one error; a record that meets none is never in it
        Index(
            f"ix_{short}_error",
            "tenant_id",
            "error_code",
            "created_at",
            "id",
            postgresql_where=text("error_code IS NOT NULL"),
        ),
        # acceptance
        Index(
            f"uq_{short}_idempotency_key",
            "tenant_id",
            "idempotency_key",
            unique=True,
            postgresql_where=text("idempotency_key IS NOT NULL"),
        ),
        {"postgresql_with": STORAGE_PARAMETERS},
    )


class AttemptOutcome:
    """What became of one attempt, as the attempt log says it."""

    SENT = "SENT"
    #: Sent, with a recipient refused or given up.
    PARTIAL = "PARTIAL"
    RETRY = "RETRY"
    FAILED = "FAILED"
    DEAD_LETTER = "DEAD_LETTER"
    #: The worker vanished and the sweep wrote the row; a late outcome may overwrite it.
    SWEPT = "SWEPT"

    ALL = (SENT, PARTIAL, RETRY, FAILED, DEAD_LETTER, SWEPT)


class SendAttempt(TenantOwned, Base):
    """One attempt of one record, written in the statement that records its outcome."""

    __tablename__ = "send_attempt"
    __table_args__ = (
        UniqueConstraint("record_id", "attempt_no"),
        one_of("outcome", AttemptOutcome.ALL, "outcome"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    channel: Mapped[str] = mapped_column(String(10))
    record_id: Mapped[int] = mapped_column(BigInteger)
    #: The record's `retry_count` at the claim + 1.
    attempt_no: Mapped[int] = mapped_column(Integer)
    started_at: Mapped[datetime] = mapped_column(Timestamp)
    ended_at: Mapped[datetime | None] = mapped_column(Timestamp)
    outcome: Mapped[str | None] = mapped_column(String(20))
    category: Mapped[str | None] = mapped_column(String(20))
    error_code: Mapped[str | None] = mapped_column(String(100))
    error_message: Mapped[str | None] = mapped_column(Text)
    provider: Mapped[str | None] = mapped_column(String(20))
    config_id: Mapped[int | None] = mapped_column(BigInteger)
    worker_name: Mapped[str | None] = mapped_column(String(255))
    trace_id: Mapped[str | None] = mapped_column(String(32))
    request_id: Mapped[str | None] = mapped_column(String(64))


SEND_ATTEMPT: Table = SendAttempt.__table__  # type: ignore[assignment]
