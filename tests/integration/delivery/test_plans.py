"""The plans of the statements of a tick, a worker and the sweep: by index, reading what they return, beside history.

Statistics and costs are set against us: the planner believes that sequential scans are cheap.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import TextClause, text

from messaging.clock import boot_seconds
from messaging.delivery import statements
from messaging.delivery.outcome import OutcomeWriter
from messaging.mail.models import MAIL_SEND_RECORD as T
from tests.integration.delivery.records import ACCEPTED, BUSY, STALE, A, Records

pytestmark = pytest.mark.postgres16

HISTORY = 20_000
#: What a statement may touch of the table in blocks for each row it moves, beside a constant: 20 were measured.
BLOCKS_A_ROW = 80


def _history(records: Records, statuses: str) -> None:
    records.run(
        text(f"""
        INSERT INTO mail_send_record (tenant_id, scope, to_addresses, body_mode, status, sent_at, next_attempt_at)
        SELECT n % 50, 'TENANT', '["a@example.org"]', 'PLAIN', status, now(),
            CASE status WHEN 'PENDING' THEN now() + interval '7 days' ELSE now() END
        FROM generate_series(1, {HISTORY}) n, LATERAL (SELECT (ARRAY[{statuses}])[1 + n % 10]) s(status)""")
    )
    with records.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE mail_send_record")


def _no_history(records: Records) -> None:
    records.run(text("TRUNCATE mail_send_record, send_attempt, dead_letter_message"))
    with records.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE mail_send_record")


@pytest.fixture
def with_history(records: Records) -> Iterator[Records]:
    """Twenty thousand ended records, and a few thousand that wait for next week."""
    _history(records, "'FAILED', 'PENDING', 'SENT', 'SENT', 'SENT', 'SENT', 'SENT', 'SENT', 'SENT', 'SENT'")
    yield records
    _no_history(records)


@pytest.fixture
def after_a_quiet_night(records: Records) -> Iterator[Records]:
    """Statistics from when everything was sent; since then a thousand records became due and some are being sent."""
    _history(records, ", ".join(["'SENT'"] * 10))
    records.accept(count=300)
    records.claim_now(*records.accept(count=300))
    yield records
    _no_history(records)


class Plan:
    """What EXPLAIN ANALYZE says of one statement; it is rolled back."""

    def __init__(self, records: Records, statement: TextClause, parameters: dict[str, Any]) -> None:
        used = {name: value for name, value in parameters.items() if name in statement._bindparams}
        explain = text("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.text)
        with records.engine.connect().execution_options(isolation_level="READ COMMITTED") as connection:
            with connection.begin() as transaction:
                found = connection.execute(explain, used).scalar_one()
                transaction.rollback()
        plan = found if isinstance(found, list) else json.loads(found)
        self.root = plan[0]["Plan"]
        self.nodes = list(self._walk(self.root))
        self.text = json.dumps(plan, indent=1)

    def _walk(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield node
        for child in node.get("Plans", ()):
            yield from self._walk(child)

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node and node["Actual Loops"]}

    @property
    def blocks(self) -> int:
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    def reads_only(self, rows: int) -> None:
        """No scan of the table, and no more than these rows come out of any scan of it."""
        for node in self.nodes:
            if node.get("Relation Name") != T.name or not node["Actual Loops"]:
                continue
            if node["Node Type"] in ("ModifyTable", "Insert", "Update"):
                continue
            assert node["Node Type"] != "Seq Scan", self.text
            removed = node.get("Rows Removed by Filter", 0) * node["Actual Loops"]
            assert removed <= rows, self.text
            assert node["Actual Rows"] * node["Actual Loops"] <= 2 * rows + 10, self.text
        assert self.blocks <= BLOCKS_A_ROW * rows + 200, self.blocks


def test_promote_reads_what_is_overdue(with_history: Records) -> None:
    ids = with_history.accept(count=20, due_in=5)
    with_history.shift(6, *ids)
    plan = Plan(with_history, statements.promote(T), {"limit": 1000})
    assert "ix_mail_send_waiting" in plan.indexes
    plan.reads_only(2 * 20)


def test_promote_with_nothing_overdue_reads_nothing(with_history: Records) -> None:
    plan = Plan(with_history, statements.promote(T), {"limit": 1000})
    plan.reads_only(0)
    assert plan.blocks < 100


@pytest.mark.parametrize(("tenants", "each", "count"), [(1, 30, 20), (10, 3, 20), (25, 2, 20), (1, 0, 500)])
def test_lease_hops_over_the_tenants_in_line(with_history: Records, tenants: int, each: int, count: int) -> None:
    for tenant in range(tenants):
        with_history.accept(count=each, tenant_id=100 + tenant)
    plan = Plan(with_history, statements.lease(T), {"n": count, "lease": 120, "after": 2**63 - 1})
    assert plan.indexes <= {"ix_mail_send_ready", "pk_mail_send_record"}
    plan.reads_only(min(count, tenants * each) + 2 * tenants)


@pytest.fixture(params=["with_history", "after_a_quiet_night"])
def busy(request: pytest.FixtureRequest) -> Records:
    found: Records = request.getfixturevalue(request.param)
    return found


def test_a_claim_reads_its_chunk(busy: Records) -> None:
    ids = busy.accept(count=20)
    for statement in (statements.claim(T), statements.unlease(T)):
        plan = Plan(busy, statement, {"ids": ids, "versions": [0] * 20, "token": 7})
        assert plan.indexes == {"pk_mail_send_record"}
        plan.reads_only(20)


def test_an_outcome_group_reads_its_records(busy: Records) -> None:
    ids = busy.accept(count=20)
    claims = busy.claim_now(*ids)
    writer = OutcomeWriter(busy.channel, "w", boot_seconds)
    outcomes = [busy.judge(c, {A: ACCEPTED} if c.record_id % 2 else BUSY) for c in claims]
    for is_late, statement in ((False, statements.outcomes(T)), (True, statements.late_outcomes(T))):
        plan = Plan(busy, statement, writer._parameters(outcomes, is_late=is_late))
        assert plan.indexes == {"pk_mail_send_record"}
        plan.reads_only(20)


def test_a_release_and_a_preparation_read_their_records(busy: Records) -> None:
    ids = busy.accept(count=20)
    claims = busy.claim_now(*ids)
    parameters = {
        "ids": ids,
        "versions": [c.version for c in claims],
        "tokens": [c.token for c in claims],
        "delays": [0.0] * 20,
        "codes": ["X"] * 20,
        "messages": [""] * 20,
        "results": [None] * 20,
        "token": claims[0].token,
        "delay": 1.0,
        "code": "X",
        "message": "",
        "rows": json.dumps(
            [
                {"id": c.record_id, "version": c.version, "bucket": 0, "prepared_at": "2026-01-01T00:00:00Z"}
                for c in claims
            ]
        ),
        "zone": "UTC",
        "default_limit": 10,
    }
    busy.run(statements.open_month(), buckets=[0], zone="UTC")
    for statement in (
        statements.releases(T),
        statements.release_unclear(T),
        statements.prepared(T, busy.channel.prepared_columns, "mail"),
        statements.claimed_by(T),
        statements.recorded(T),
        statements.requeue(T),
    ):
        plan = Plan(busy, statement, parameters)
        of_quotas = {"uq_tenant_message_usage_tenant_id_period", "uq_tenant_message_quota_tenant_id"}
        assert plan.indexes - of_quotas == {"pk_mail_send_record"}, statement.text
        plan.reads_only(20)


def test_the_sweep_reads_what_is_stuck(with_history: Records) -> None:
    ids = with_history.accept(count=30)
    with_history.claim_now(*ids)
    with_history.shift(STALE + 1, *ids[:10])
    plan = Plan(with_history, statements.sweep(T), Records.sweep_parameters())
    assert "ix_mail_send_sending" in plan.indexes
    plan.reads_only(10)


def test_a_sweep_with_nothing_stuck_reads_nothing(with_history: Records) -> None:
    plan = Plan(with_history, statements.sweep(T), Records.sweep_parameters())
    plan.reads_only(0)


def test_the_gauges_read_the_line_only(with_history: Records) -> None:
    with_history.accept(count=10, tenant_id=3)
    for statement in (statements.depth(T), statements.oldest_due(T)):
        plan = Plan(with_history, statement, {"cap": 10_000})
        assert plan.indexes <= {"ix_mail_send_ready", "ix_mail_send_waiting"}
        plan.reads_only(12)


def test_no_statement_picks_rows_in_a_way_that_could_become_a_scan() -> None:
    # `id IN (SELECT ... FOR UPDATE)` may be planned as a join over the whole table, and run more than once.
    made = [
        statements.promote(T),
        statements.lease(T),
        statements.unlease(T),
        statements.claim(T),
        statements.prepared(T, ("message_id", "prepared_at"), "mail"),
        statements.outcomes(T),
        statements.late_outcomes(T),
        statements.releases(T),
        statements.release_unclear(T),
        statements.sweep(T),
        statements.requeue(T),
    ]
    for statement in made:
        sql = re.sub(r"\s+", " ", statement.text)
        assert "= ANY (ARRAY(" in sql
        assert " IN (SELECT" not in sql
        assert "version + 1" in sql
