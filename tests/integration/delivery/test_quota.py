"""Monthly quotas: what the write-back of a preparation charges, and to whom (operate.md section 5, send.md 9.2)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text

from messaging.delivery import statements, write_back
from messaging.delivery.record import LANE_HIGH
from messaging.delivery.requeue import retry
from messaging.delivery.status import SendStatus
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD as T
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.desk import Desk, counted
from tests.integration.delivery.records import seconds_ahead
from tests.integration.delivery.test_worker import PREPARED, ending_sessions

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

MakeDesk = Callable[..., Desk]


def usage(desk: Desk) -> dict[int, tuple[int, int | None]]:
    """Used and limit of each bucket in this month."""
    with desk.own.connect() as connection:
        found = connection.execute(
            text(
                "SELECT tenant_id, mail_used, mail_limit FROM tenant_message_usage"
                " WHERE period = to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM')"
            )
        )
        return {row.tenant_id: (row.mail_used, row.mail_limit) for row in found}


def limit(desk: Desk, mails: int | None, bucket: int = 0) -> None:
    value = "NULL" if mails is None else mails
    desk.run(
        f"INSERT INTO tenant_message_quota (tenant_id, mail_monthly_limit) VALUES ({bucket}, {value})"
        f" ON CONFLICT (tenant_id) DO UPDATE SET mail_monthly_limit = {value}"
    )


def retry_one(desk: Desk, record_id: int) -> None:
    with desk.records.engine.connect() as connection:
        retry(connection, T, envelope_recipients, record_id, channel="mail")


def charges(result: str) -> float:
    return counted("messaging_quota_total", channel="mail", result=result)


def test_a_mail_is_charged_once_whatever_its_recipients_and_attempts(desk: Desk) -> None:
    # send.md S12; operate.md O37
    desk.server.refuse_rcpt("450 later", times=2)
    record_id = desk.records.one(to=("a@example.org", "b@example.org"))
    before = charges("charged")
    assert desk.deliver(record_id) == {"retry": 1}
    assert usage(desk) == {0: (1, None)}
    limit(desk, 0)
    assert desk.deliver(record_id) == {"sent": 1}
    assert usage(desk) == {0: (1, None)}
    assert charges("charged") == before + 1


def test_s11_a_used_up_quota_fails_the_record_and_a_retry_prepares_afresh(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:  # operate.md O36
    limit(desk, 1)
    first, second = desk.records.accept(count=2)
    before = charges("exceeded")
    with caplog.at_level(logging.ERROR, "messaging"):
        assert desk.deliver(first, second) == {"sent": 1, "failed": 1}
    row = desk.records.row(second)
    assert (row.status, row.error_code, row.prepared_at, row.server_config_id) == (
        FAILED,
        "MONTHLY_QUOTA_EXCEEDED",
        None,
        None,
    )
    assert "bucket 0" in row.error_message
    assert desk.records.attempts(second)[0].category == "AUTH"
    assert desk.records.dead_letters(second) == []
    assert [r.__dict__["record_id"] for r in caplog.records] == [second]
    assert usage(desk) == {0: (1, 1)}
    assert charges("exceeded") == before + 1
    limit(desk, 2)
    retry_one(desk, second)
    assert desk.deliver(second) == {"sent": 1}
    assert usage(desk) == {0: (2, 2)}


def test_o39_of_eleven_sends_at_once_ten_are_charged(desk: Desk) -> None:
    limit(desk, 10)
    ids = desk.records.accept(count=11)
    results = [desk.begin(i) for i in ids]
    ended = [next(iter(r.result(20))) for r in results]
    assert sorted(ended) == ["failed"] + ["sent"] * 10
    assert usage(desk) == {0: (10, 10)}


def test_o39_of_many_chunks_at_once_exactly_the_limit_is_charged(desk: Desk) -> None:
    limit(desk, 37)
    ids = desk.records.accept(count=80)
    results = [desk.begin(*ids[start : start + 10]) for start in range(0, 80, 10)]
    ended = [r.result(30) for r in results]
    assert sum(e.get("sent", 0) for e in ended) == 37
    assert sum(e.get("failed", 0) for e in ended) == 43
    assert usage(desk) == {0: (37, 37)}
    assert len(desk.server.messages) == 37


def test_quota_03_the_first_sends_of_a_month_at_the_same_moment(desk: Desk) -> None:
    limit(desk, 2)
    results = [desk.begin(i) for i in desk.records.accept(count=3)]
    assert sorted(next(iter(r.result(20))) for r in results) == ["failed", "sent", "sent"]
    with desk.own.connect() as connection:
        assert connection.execute(text("SELECT count(*), sum(mail_used) FROM tenant_message_usage")).one() == (1, 2)


def test_of_a_chunk_exactly_those_that_fit_are_sent_high_priority_first(desk: Desk) -> None:
    limit(desk, 3)
    ids = desk.records.accept(count=5)
    urgent = desk.records.one(lane=LANE_HIGH)
    assert desk.deliver(*ids, urgent) == {"sent": 3, "failed": 3}
    rows = desk.records.rows()
    assert [i for i in (*ids, urgent) if rows[i].status == SENT] == [ids[0], ids[1], urgent]
    assert usage(desk) == {0: (3, 3)}
    assert len(desk.server.messages) == 3


def test_o38_s13_a_burst_of_one_tenant_is_counted_exactly(desk: Desk) -> None:
    ids = desk.records.accept(count=200)
    workers = [desk.new_worker(f"worker-{n}") for n in range(4)]
    chunks = [ids[start : start + 10] for start in range(0, 200, 10)]
    results = [desk.begin(*chunk, worker=workers[n % 4]) for n, chunk in enumerate(chunks)]
    total: dict[str, int] = {}
    for result in results:
        for key, count in result.result(30).items():
            total[key] = total.get(key, 0) + count
    assert total == {"sent": 200}
    assert usage(desk) == {0: (200, None)}


@pytest.mark.parametrize(
    ("row", "default", "sent", "in_force"),
    [
        (False, None, 2, None),  # unlimited but counted
        (False, 1, 1, 1),  # the setting
        (None, 1, 1, 1),  # a null column is the setting's
        (5, 1, 2, 5),  # the row's own
        (0, None, 0, None),  # nothing at all
        (False, 0, 0, None),
    ],
)
def test_o40_whose_limit_holds(
    make_desk: MakeDesk, row: int | bool | None, default: int | None, sent: int, in_force: int | None
) -> None:
    desk = make_desk(quota={"mail_monthly_default": default})
    desk.add_server()
    if row is not False:
        limit(desk, row)
    result = desk.deliver(*desk.records.accept(count=2))
    assert (result.get("sent", 0), result.get("failed", 0)) == (sent, 2 - sent)
    assert usage(desk) == {0: (sent, in_force)}


def test_o40_a_new_month_begins_a_new_row(desk: Desk) -> None:  # quota-01
    limit(desk, 1)
    desk.run("INSERT INTO tenant_message_usage (tenant_id, period, mail_used) VALUES (0, '2026-01', 1)")
    assert desk.deliver(desk.records.one()) == {"sent": 1}
    assert usage(desk) == {0: (1, 1)}
    with desk.own.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM tenant_message_usage")).scalar_one() == 2


@pytest.mark.parametrize(
    ("at", "zone", "period"),
    [
        # quota-01
        ("2026-03-31T12:00:00Z", "UTC", "2026-03"),
        ("2024-02-29T23:59:59Z", "UTC", "2024-02"),
        ("2026-01-01T00:00:00Z", "UTC", "2026-01"),
        # quota-02
        ("2026-03-31T15:59:59Z", "UTC", "2026-03"),
        ("2026-03-31T16:00:00Z", "UTC", "2026-03"),
        ("2026-04-01T00:00:00Z", "UTC", "2026-04"),
        ("2026-03-31T15:59:59Z", "Asia/Shanghai", "2026-03"),
        ("2026-03-31T16:00:00Z", "Asia/Shanghai", "2026-04"),
        ("2026-04-01T00:00:00Z", "Asia/Shanghai", "2026-04"),
    ],
)
def test_the_month_is_that_of_the_quotas_time_zone(desk: Desk, at: str, zone: str, period: str) -> None:
    expression = statements._PERIOD.replace("now()", "CAST(:at AS timestamptz)")
    with desk.own.connect() as connection:
        connection.execute(text("SET timezone = 'America/Los_Angeles'"))
        assert connection.execute(text(f"SELECT {expression}"), {"at": at, "zone": zone}).scalar_one() == period


def test_o41_the_platforms_scope_is_charged_to_the_platform(make_desk: MakeDesk) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    limit(desk, 1, bucket=7)
    limit(desk, 1, bucket=-1)
    ids = [desk.records.one(tenant_id=7, scope=scope) for scope in ("TENANT", "PLATFORM", "PLATFORM", "TENANT")]
    ids.append(desk.records.one(tenant_id=8))
    assert desk.deliver(*ids) == {"sent": 3, "failed": 2}
    rows = desk.records.rows()
    assert [rows[i].status for i in ids] == [SENT, SENT, FAILED, FAILED, SENT]
    assert usage(desk) == {-1: (1, 1), 7: (1, 1), 8: (1, None)}


def test_with_multi_tenancy_off_there_is_one_bucket(desk: Desk) -> None:
    ids = [desk.records.one(scope=scope) for scope in ("TENANT", "PLATFORM")]
    assert desk.deliver(*ids) == {"sent": 2}
    assert usage(desk) == {0: (2, None)}


@pytest.mark.parametrize("column", ["version = version + 1", "claim_token = 5", "prepared_at = now()"])
def test_o42_a_preparation_that_lost_its_record_charges_nothing(desk: Desk, column: str) -> None:
    kept, lost = desk.records.accept(count=2)
    prepare = desk.channel.prepare

    def losing(claim: Any) -> Any:
        if claim.record_id == lost:
            desk.run(f"UPDATE mail_send_record SET {column} WHERE id = {lost}")
        return prepare(claim)

    desk.channel.prepare = losing  # type: ignore[method-assign]
    assert desk.deliver(kept, lost) == {"sent": 1, "not_mine": 1}
    assert usage(desk) == {0: (1, None)}


def test_o42_a_worker_that_dies_in_the_write_back_has_charged_nothing(desk: Desk) -> None:
    ids = desk.records.accept(count=2)
    desk.run("INSERT INTO tenant_message_usage (tenant_id, period) VALUES (0, to_char(now(), 'YYYY-MM'))")
    with ending_sessions(desk, PREPARED, 2):
        assert desk.deliver(*ids) == {"released": 2}
    assert usage(desk) == {0: (0, None)}


def test_o42_a_write_back_whose_reply_is_lost_is_charged_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = desk.records.accept(count=3)
    charge, calls = write_back._WriteBack.charge, []

    def losing(work: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            answer, work.answer = work.answer, write_back.WrittenBack()
            charge(work)
            work.answer = answer
            with work._engine.connect() as connection:  # the next answer does not come
                connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
        charge(work)

    monkeypatch.setattr(write_back._WriteBack, "charge", losing)
    assert desk.deliver(*ids) == {"sent": 3}
    assert usage(desk) == {0: (3, None)}
    assert len(calls) == 2


@contextmanager
def locked(desk: Desk, bucket: int) -> Iterator[None]:
    """Somebody else's transaction holds the usage row of a bucket."""
    desk.run(
        f"INSERT INTO tenant_message_usage (tenant_id, period) VALUES ({bucket}, to_char(now(), 'YYYY-MM'))"
        " ON CONFLICT DO NOTHING"
    )
    with desk.own.begin() as connection:
        connection.exec_driver_sql(f"SELECT FROM tenant_message_usage WHERE tenant_id = {bucket} FOR UPDATE")
        yield


def test_s13_a_usage_row_that_stays_locked_puts_the_record_back_unspent(make_desk: MakeDesk) -> None:
    desk = make_desk(database={"lock_timeout_seconds": 0.2})
    desk.add_server()
    ids = desk.records.accept(count=2)
    before = charges("conflict")
    with locked(desk, 0):
        assert desk.deliver(*ids) == {"released": 2}
    rows = desk.records.rows()
    assert {(rows[i].status, rows[i].error_code, rows[i].retry_count, rows[i].prepared_at) for i in ids} == {
        (RETRY, "QUOTA_LEDGER_CONFLICT", 0, None)
    }
    assert all(1 <= seconds_ahead(desk.records, i) <= 5 for i in ids)
    assert charges("conflict") == before + 2
    assert desk.records.attempts(ids[0]) == []
    assert desk.deliver(*ids) == {"sent": 2}
    assert usage(desk) == {0: (2, None)}


def test_a_locked_bucket_does_not_hold_up_the_others_of_its_chunk(make_desk: MakeDesk) -> None:
    desk = make_desk(database={"lock_timeout_seconds": 0.2}, multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    ids = [desk.records.one(tenant_id=tenant) for tenant in (1, 2, 1, 3)]
    with locked(desk, 1):
        assert desk.deliver(*ids) == {"sent": 2, "released": 2}
    assert usage(desk) == {1: (0, None), 2: (1, None), 3: (1, None)}


def test_buckets_of_two_chunks_are_locked_in_one_order(make_desk: MakeDesk) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    before = charges("conflict")
    results = []
    for n in range(20):
        tenants = (1, 2, 3) if n % 2 else (3, 2, 1)
        results.append(desk.begin(*(desk.records.one(tenant_id=tenant) for tenant in tenants)))
    assert [r.result(20) for r in results] == [{"sent": 3}] * 20
    assert usage(desk) == dict.fromkeys((1, 2, 3), (20, None))
    assert charges("conflict") == before


def test_what_fails_before_the_charge_is_not_charged(desk: Desk) -> None:
    assert desk.deliver(desk.records.one(server_config_id=404)) == {"failed": 1}
    assert usage(desk) == {}


def test_a_preparation_costs_one_round_trip(make_desk: MakeDesk) -> None:
    desk = make_desk(config_cache_ttl_seconds=1)
    desk.add_server()
    desk.deliver(desk.records.one())
    ids = desk.records.accept(count=3)
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(desk.engine, "before_cursor_execute", note)
    try:
        assert desk.deliver(*ids) == {"sent": 3}
    finally:
        event.remove(desk.engine, "before_cursor_execute", note)
    assert len([s for s in seen if "tenant_message_usage" in s]) == 1
    assert len(seen) <= 3  # the claim, this one, and once a second the servers; outcomes are the committer's
