"""The plans of the statements of receipts: records and receipts are found by index, with statistics and without."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, TextClause, text

from messaging.sms.receipt_statements import apply_stored, apply_waiting, record
from tests.integration.sms.receipt_records import (
    NOON,
)


def _indexes(connection: Connection, statement: TextClause, parameters: dict[str, Any]) -> tuple[set[str], str]:
    """The indexes a statement used, and its plan."""
    plan = connection.execute(text("EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text), parameters).scalar_one()
    found = plan if isinstance(plan, list) else json.loads(plan)
    nodes = list(_nodes(found[0]["Plan"]))
    scanned = [n for n in nodes if n["Node Type"] == "Seq Scan" and n["Actual Loops"]]
    shown = json.dumps(found, indent=1)
    assert not scanned, shown
    return {node["Index Name"] for node in nodes if "Index Name" in node and node["Actual Loops"]}, shown


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


@pytest.mark.postgres16
@pytest.mark.parametrize("analyzed", [True, False], ids=["statistics", "no statistics"])
def test_every_statement_finds_records_and_receipts_by_index(engine: Engine, analyzed: bool) -> None:
    with engine.connect() as connection:
        connection.execute(
            text("""
            INSERT INTO sms_send_record (tenant_id, scope, phone_number, status, sent_at, provider_config_id,
                provider_message_id)
            SELECT n % 50, 'TENANT', '+4915112345678', 'SENT', now(), n % 3, 'm-' || n FROM generate_series(1, 20000) n
            """)
        )
        connection.execute(
            text("""
            INSERT INTO sms_receipt (provider_config_id, provider_message_id, status, raw, received_at, applied_at)
            SELECT n % 3, 'm-' || n, 'DELIVERED', '{}', now() - n * interval '1 minute',
                CASE WHEN n % 10 > 0 THEN now() END FROM generate_series(1, 20000) n
            """)
        )
        if analyzed:
            connection.exec_driver_sql("ANALYZE sms_send_record, sms_receipt")
        by_id = {"config_id": 1, "message_id": "m-1", "status": "DELIVERED", "at": NOON}
        used, shown = _indexes(connection, record(), by_id)
        assert "ix_sms_send_provider_message" in used, shown
        used, shown = _indexes(connection, apply_stored(), {"receipt_ids": [10, 20, 30]})
        assert used >= {"ix_sms_send_provider_message", "pk_sms_receipt"}, shown
        used, shown = _indexes(connection, apply_waiting(), {"rows": 1000, "before": None, "before_id": None})
        assert used >= {"ix_sms_send_provider_message", "ix_sms_receipt_waiting"}, shown
        connection.rollback()
