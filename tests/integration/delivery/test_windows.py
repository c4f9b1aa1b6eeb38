"""The windows of a server's configuration before each send: what they refuse waits at its place (send.md 12)."""

import logging
import threading
from collections import Counter
from collections.abc import Callable

import pytest
import redis

from messaging.delivery.status import SendStatus
from messaging.embedded import Valkey
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.desk import Desk, counted
from tests.integration.delivery.records import seconds_ahead
from tests.polling import eventually

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

MakeDesk = Callable[..., Desk]

#: No place is nearer, see `RETRY__QUOTA_FLOOR_SECONDS`.
FLOOR = 300


def commands(client: "redis.Redis") -> int:
    """How many scripts Redis has run."""
    stats = client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in ("eval", "evalsha"))


@pytest.fixture
def client(redis_client: "redis.Redis") -> "redis.Redis":
    redis_client.config_resetstat()
    return redis_client


def limited(make_desk: MakeDesk, **limits: int | None) -> Desk:
    desk = make_desk()
    desk.add_server(**limits)
    return desk


def test_f13_what_a_full_minute_refuses_waits_at_places_of_its_own(make_desk: MakeDesk, client: "redis.Redis") -> None:
    desk = limited(make_desk, rate_limit_per_minute=2)
    ids = desk.records.accept(count=12)
    before = counted("messaging_rate_limited_total", channel="mail", result="minute")
    assert desk.deliver(*ids) == {"sent": 2, "released": 10}
    rows = desk.records.rows()
    assert [rows[i].status for i in ids] == [SENT] * 2 + [RETRY] * 10
    held = ids[2:]
    assert {(rows[i].error_code, rows[i].retry_count, rows[i].ready) for i in held} == {("QUOTA_EXCEEDED", 0, False)}
    assert all("minute" in rows[i].error_message for i in held)
    places = [seconds_ahead(desk.records, i) for i in held]
    assert places == sorted(places)
    assert places[0] >= FLOOR - 1
    minutes = Counter(rows[i].next_attempt_at.replace(second=0, microsecond=0) for i in held)
    assert max(minutes.values()) <= 2
    assert len(desk.server.transactions) == 2
    assert desk.records.attempts(held[0]) == []
    assert counted("messaging_rate_limited_total", channel="mail", result="minute") == before + 10
    # Three asked alone, the rest of the chunk in one round trip; one more where the script was new to Redis.
    assert commands(client) <= 5


def test_c13_at_its_place_a_record_is_sent(make_desk: MakeDesk, client: "redis.Redis") -> None:
    desk = limited(make_desk, rate_limit_per_minute=1)
    first, refused = desk.records.accept(count=2)
    assert desk.deliver(first, refused) == {"sent": 1, "released": 1}
    client.delete(*client.keys("rl:mail:min:*"))  # another minute has come
    assert desk.deliver(refused) == {"sent": 1}
    row = desk.records.row(refused)
    assert (row.retry_count, row.error_code) == (0, None)


def test_a_release_does_not_lose_a_records_place(make_desk: MakeDesk, client: "redis.Redis") -> None:
    desk = limited(make_desk, rate_limit_per_minute=1)
    ids = desk.records.accept(count=3)
    desk.deliver(*ids)
    desk.worker.stop()
    assert desk.deliver(*ids[1:]) == {"released": 2}
    rows = desk.records.rows()
    assert {(rows[i].error_code, rows[i].ready) for i in ids[1:]} == {("QUOTA_EXCEEDED", True)}
    assert all("stopping" in rows[i].error_message for i in ids[1:])


def test_a_claim_that_grows_too_old_after_its_window_gave_way_has_spent_its_send(
    make_desk: MakeDesk, client: "redis.Redis"
) -> None:
    """One per attempt, taken before the send, never given back: who comes after it waits, and so does it itself."""
    desk = limited(make_desk, rate_limit_per_minute=1)
    first, second = desk.records.accept(count=2)
    client.client_pause(30_000, all=False)  # a script that counts waits for the end of that

    def age() -> None:
        eventually(lambda: desk.records.row(first).status == SENDING, what="the claim")
        desk.ticker.ahead += desk.settings.delivery.send_budget_seconds
        client.client_unpause()

    ageing = threading.Thread(target=age)
    ageing.start()
    assert desk.deliver(first) == {"released": 1}
    ageing.join()
    row = desk.records.row(first)
    assert (row.status, row.error_code, row.retry_count) == (RETRY, "CLAIM_RELEASED", 0)
    assert desk.deliver(second, first) == {"released": 2}
    rows = desk.records.rows()
    assert {rows[i].error_code for i in (first, second)} == {"QUOTA_EXCEEDED"}
    assert desk.server.transactions == []


def test_places_reserved_for_the_rest_of_a_chunk_outlive_its_hold(make_desk: MakeDesk, client: "redis.Redis") -> None:
    desk = limited(make_desk, rate_limit_per_minute=1)
    slow = desk.add_server(is_default=False)
    first, refused = desk.records.accept(count=2)
    other = desk.records.one(server_config_id=slow)
    behind = desk.records.accept(count=2)
    desk.server._on_transaction = lambda transaction: setattr(desk.ticker, "ahead", desk.ticker.ahead + 6)
    assert desk.deliver(first, refused, other, *behind) == {"sent": 2, "released": 3}
    rows = desk.records.rows()
    assert {rows[i].error_code for i in (refused, *behind)} == {"QUOTA_EXCEEDED"}
    places = [seconds_ahead(desk.records, i) for i in (refused, *behind)]
    assert places == sorted(places)
    assert places[0] >= FLOOR - 1


@pytest.mark.parametrize(("daily", "per_minute"), [(None, None), (0, 0), (0, None), (-1, 0)])
def test_f14_without_limits_redis_is_not_touched(
    make_desk: MakeDesk, client: "redis.Redis", daily: int | None, per_minute: int | None
) -> None:  # operate.md O55
    desk = limited(make_desk, daily_send_limit=daily, rate_limit_per_minute=per_minute)
    assert desk.deliver(*desk.records.accept(count=3)) == {"sent": 3}
    assert (commands(client), client.keys("*")) == (0, [])


def test_f15_a_full_day_leaves_the_minute_as_it_was(make_desk: MakeDesk, client: "redis.Redis") -> None:
    # operate.md O55
    desk = limited(make_desk, daily_send_limit=1, rate_limit_per_minute=5)
    ids = desk.records.accept(count=2)
    assert desk.deliver(*ids) == {"sent": 1, "released": 1}
    [minute] = client.keys("rl:mail:min:*")
    assert client.get(minute) == b"1"
    row = desk.records.row(ids[1])
    assert (row.error_code, "day" in row.error_message) == ("QUOTA_EXCEEDED", True)
    assert seconds_ahead(desk.records, ids[1]) >= FLOOR - 1


def test_one_send_is_taken_for_each_attempt_and_none_given_back(make_desk: MakeDesk, client: "redis.Redis") -> None:
    desk = limited(make_desk, daily_send_limit=10)
    desk.server.refuse_rcpt("450 later", times=1)
    record_id = desk.records.one()
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    [day] = client.keys("rl:mail:daily:*")
    assert client.get(day) == b"2"


def test_o63_tenants_that_share_the_platforms_server_share_its_window(
    make_desk: MakeDesk, client: "redis.Redis"
) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    config_id = desk.add_server(tenant_id=-1, daily_send_limit=10)
    own = desk.add_server(tenant_id=9)
    ids = [desk.records.one(tenant_id=tenant) for tenant in (7, 8) * 6]
    others = [desk.records.one(tenant_id=9) for _ in range(3)]
    assert desk.deliver(*ids, *others) == {"sent": 13, "released": 2}
    rows = desk.records.rows()
    assert [rows[i].status for i in ids] == [SENT] * 10 + [RETRY] * 2
    assert {rows[i].server_config_id for i in others} == {own}
    [day] = client.keys("rl:mail:daily:*")
    assert day.decode().startswith(f"rl:mail:daily:-1:{config_id}:")


def test_o56_while_redis_is_away_nothing_is_sent_and_nothing_spent(
    make_desk: MakeDesk, client: "redis.Redis", valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    desk = limited(make_desk, daily_send_limit=10)
    free = desk.add_server(is_default=False)
    ids = desk.records.accept(count=3)
    unlimited = desk.records.one(server_config_id=free)
    before = counted("messaging_released_total", channel="mail", reason="dependency")
    valkey.stop()
    try:
        with caplog.at_level(logging.WARNING, "messaging"):
            assert desk.deliver(*ids, unlimited) == {"released": 3, "sent": 1}
            assert desk.deliver(*ids) == {"released": 3}
    finally:
        valkey.start()
    rows = desk.records.rows()
    assert {(rows[i].status, rows[i].error_code, rows[i].retry_count) for i in ids} == {
        (RETRY, "RATE_LIMIT_UNAVAILABLE", 0)
    }
    assert all(5 <= seconds_ahead(desk.records, i) <= 30 for i in ids)
    assert desk.records.attempts(ids[0]) == []
    assert len(desk.server.transactions) == 1
    assert len([r for r in caplog.records if "windows" in r.message]) == 1  # at most one in five minutes
    assert counted("messaging_released_total", channel="mail", reason="dependency") == before + 6
    assert desk.deliver(*ids, worker=desk.new_worker("worker-2")) == {"sent": 3}


def test_what_has_nobody_left_to_send_to_takes_no_place(make_desk: MakeDesk, client: "redis.Redis") -> None:
    desk = limited(make_desk, daily_send_limit=10)
    done = {"result": "accepted", "code": "SMTP_250", "text": "", "at": "2026-01-01T00:00:00+00:00"}
    record_id = desk.records.one(recipient_results={"a@example.org": done})
    assert desk.deliver(record_id) == {"sent": 1}
    assert client.keys("*") == []
