"""Attempts as workers log them, of records that are there."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, insert, text

from messaging.delivery.record import SEND_ATTEMPT
from messaging.mail.models import MAIL_SEND_RECORD


def record(connection: Connection, tenant: int = 7, **columns: Any) -> int:
    """A mail that is of a template."""
    given = {"scope": "TENANT", "to_addresses": ["ann@example.org"], "template_code": "order", **columns}
    statement = insert(MAIL_SEND_RECORD).values(tenant_id=tenant, **given).returning(MAIL_SEND_RECORD.c.id)
    return int(connection.execute(statement).scalar_one())


def attempt(
    connection: Connection,
    outcome: str = "SENT",
    *,
    ago: timedelta = timedelta(0),
    tenant: int = 7,
    record_id: int | None = None,
    channel: str = "mail",
    **columns: Any,
) -> int:
    """One attempt that ended some time ago; without a record it has one that was pruned since."""
    at = text("now() - :ago").bindparams(ago=ago)
    statement = insert(SEND_ATTEMPT).values(
        tenant_id=tenant,
        channel=channel,
        record_id=text("nextval('send_record_id_seq')") if record_id is None else record_id,
        started_at=text("now() - :ago - interval '2 seconds'").bindparams(ago=ago),
        ended_at=at,
        outcome=outcome,
        **{"attempt_no": 1, "config_id": 3, **columns},
    )
    return int(connection.execute(statement.returning(SEND_ATTEMPT.c.id)).scalar_one())


def counts(engine: Engine, step: int = 60) -> list[Row[Any]]:
    """What is counted, the oldest first."""
    statement = text("""
        SELECT begins_at, tenant_id, channel, outcome, category, config_id, template, count AS attempts, seconds
        FROM outcome_count
        WHERE step_seconds = :step ORDER BY begins_at, tenant_id, channel, outcome, category, config_id, template
    """)
    with engine.connect() as connection:
        return list(connection.execute(statement, {"step": step}))
