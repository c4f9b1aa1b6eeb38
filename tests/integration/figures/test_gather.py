"""Attempts are counted once each, whatever order they commit in, however often the tick comes and wherever it ends."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from messaging.clock import boot_seconds
from messaging.figures import gather as gathering
from messaging.figures.gather import Gathered
from messaging.figures.models import Step
from tests.integration.figures.rows import attempt, counts, record


@pytest.fixture(autouse=True)
def _begun(engine: Engine) -> None:
    assert gather(engine) == Gathered()


def gather(engine: Engine, **options: Any) -> Gathered:
    return gathering.gather(engine, ticker=boot_seconds, **options)


def total(engine: Engine, step: int = 60) -> int:
    return sum(row.attempts for row in counts(engine, step))


def age(engine: Engine, seconds: float) -> None:
    """Let time pass for the marks."""
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE outcome_mark SET at = at - interval '{seconds} seconds'"))


def test_the_first_tick_only_marks_where_it_begins(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM outcome_mark"))
        attempt(connection)
    assert gather(engine) == Gathered()
    assert total(engine) == 0
    with engine.begin() as connection:
        attempt(connection)
    assert gather(engine).attempts == 1
    assert total(engine) == 1


def test_attempts_are_counted_by_what_they_came_to(engine: Engine) -> None:
    with engine.begin() as connection:
        one = record(connection)
        by_id = record(connection, template_code=None, template_id=5)
        for _ in range(3):
            attempt(connection)
        attempt(connection, tenant=8)
        attempt(connection, "PARTIAL", record_id=one)
        attempt(connection, "FAILED", record_id=one, attempt_no=2, category="INVALID_INPUT", config_id=None)
        attempt(connection, "RETRY", record_id=by_id, category="TEMPORARY")
        attempt(connection, "RETRY", record_id=by_id, attempt_no=2, category="TEMPORARY")
        # A number of another channel's record means nothing here.
        attempt(connection, "FAILED", record_id=one, attempt_no=3, channel="webhook", category="AUTH")
    gather(engine)
    seen = {tuple(row[1:]) for row in counts(engine)}
    assert seen == {
        (7, "mail", "SENT", None, 3, None, 3, 6.0),
        (8, "mail", "SENT", None, 3, None, 1, 2.0),
        (7, "mail", "PARTIAL", None, 3, None, 1, 2.0),
        (7, "mail", "FAILED", "INVALID_INPUT", None, "order", 1, 2.0),
        (7, "mail", "RETRY", "TEMPORARY", 3, "id 5", 2, 4.0),
        (7, "webhook", "FAILED", "AUTH", 3, None, 1, 2.0),
    }


def test_each_is_counted_in_every_step_of_its_time(engine: Engine) -> None:
    with engine.begin() as connection:
        minute = connection.execute(text("SELECT now() - date_trunc('minute', now())")).scalar_one()
        # The last moment of the minute before, its first one, one that only the longest step keeps, one that none does.
        for ago in (
            minute + timedelta(microseconds=1),
            minute + timedelta(minutes=1),
            minute,
            timedelta(days=2),
            timedelta(days=9),
        ):
            attempt(connection, ago=ago)
        starts = connection.execute(
            text("SELECT date_trunc('minute', now()), date_bin('2 hours', now() - interval '2 days', 'epoch')")
        ).one()
    gather(engine)
    begun = [(row.begins_at, row.attempts) for row in counts(engine)]
    assert begun == [(starts[0] - timedelta(minutes=1), 2), (starts[0], 1)]
    assert total(engine, Step.QUARTER) == 3
    assert total(engine, Step.TWO_HOURS) == 4
    assert counts(engine, Step.TWO_HOURS)[0].begins_at == starts[1]


def test_it_is_added_to_what_was_counted(engine: Engine) -> None:
    for _ in range(3):
        with engine.begin() as connection:
            attempt(connection, "FAILED", category="AUTH", config_id=None)
        gather(engine)
        gather(engine)
    assert total(engine) == 3
    assert len(counts(engine, Step.TWO_HOURS)) == 1


def test_an_attempt_that_commits_late_is_not_passed_over(engine: Engine) -> None:
    with engine.connect() as late, late.begin() as open_one:
        attempt(late)
        with engine.begin() as connection:
            attempt(connection)
        # The larger id is there, the smaller one may come yet: neither is counted.
        gather(engine)
        assert total(engine) == 0
        open_one.commit()
    gather(engine)
    assert total(engine) == 2


def test_a_transaction_that_stays_open_holds_the_count_up_for_a_minute_only(engine: Engine) -> None:
    with engine.connect() as late, late.begin() as open_one:
        attempt(late)
        with engine.begin() as connection:
            attempt(connection)
        gather(engine)
        assert total(engine) == 0
        age(engine, gathering.MAX_OPEN_SECONDS + 1)
        gather(engine)
        assert total(engine) == 1
        with engine.begin() as connection:
            attempt(connection)
        open_one.commit()
    gather(engine)
    # What was below the mark all that time is lost to the count, what came after it is not.
    assert total(engine) == 2


def test_an_outcome_after_a_sweep_leaves_the_attempt_counted_as_swept(engine: Engine) -> None:
    with engine.begin() as connection:
        attempt_id = attempt(connection, "SWEPT", category="UNKNOWN")
    gather(engine)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE send_attempt SET outcome = 'SENT', ended_at = now() WHERE id = :id"), {"id": attempt_id}
        )
    gather(engine)
    assert [(row.outcome, row.attempts) for row in counts(engine)] == [("SWEPT", 1)]


def test_two_ticks_at_once_count_once(engine: Engine) -> None:
    with engine.begin() as connection:
        for _ in range(40):
            attempt(connection)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: gather(engine, step_ids=3), range(8)))
    while gather(engine).is_busy:
        pass
    assert total(engine) == 40
    assert sum(one.attempts for one in done) <= 40


def test_a_tick_leaves_the_turn_to_the_one_that_has_it(engine: Engine) -> None:
    with engine.begin() as connection:
        attempt(connection)
    with engine.begin() as other:
        assert other.scalar(gathering._TAKE_TURN)
        assert gather(engine).is_busy
    assert total(engine) == 0


def test_a_long_pause_is_made_up_for_in_steps_over_several_ticks(engine: Engine) -> None:
    with engine.begin() as connection:
        for number in range(50):
            attempt(connection, ago=timedelta(minutes=number))
    assert gather(engine, step_ids=7, tick_seconds=0).attempts == 0
    ticks = Counter(gather(engine, step_ids=7, is_stopping=_stops_after(2)).attempts for _ in range(4))
    assert ticks == {14: 3, 8: 1}
    assert total(engine) == 50


def _stops_after(steps: int) -> Any:
    asked = iter([False] * steps)
    return lambda: next(asked, True)


def test_a_tick_that_fails_in_the_middle_leaves_what_was_counted(engine: Engine) -> None:
    with engine.begin() as connection:
        for _ in range(10):
            attempt(connection)

    class Killed(Exception):
        pass

    counted = 0

    @event.listens_for(engine, "before_cursor_execute")
    def fail(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        nonlocal counted
        # After the counts of the second step, before it is told how far they go.
        counted += "outcome_count" in statement and "INSERT" in statement
        if counted == 2 and "outcome_mark SET" in statement:
            raise Killed

    with pytest.raises(Killed):
        gather(engine, step_ids=4)
    event.remove(engine, "before_cursor_execute", fail)
    assert total(engine) == 4
    gather(engine)
    assert total(engine) == 10


def test_what_is_too_old_is_removed_a_little_at_each_tick(engine: Engine) -> None:
    with engine.begin() as connection:
        attempt(connection, ago=timedelta(hours=1))
    gather(engine)
    with engine.begin() as connection:
        # Two hours later there is one more of each kind.
        connection.execute(
            text("""
                INSERT INTO outcome_count (tenant_id, step_seconds, begins_at, channel, outcome, count, seconds)
                SELECT n, step, now() - interval '9 days', 'mail', 'SENT', 1, 0
                FROM generate_series(1, 5) n, (VALUES (60), (900), (7200)) s (step)
            """)
        )
    assert gather(engine, removed_rows=3).removed == 9
    assert gather(engine, removed_rows=3).removed == 6
    assert gather(engine).removed == 0
    assert [total(engine, step) for step in Step] == [1, 1, 1]


def test_the_tick_reads_the_log_by_its_key(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO send_attempt (tenant_id, channel, record_id, attempt_no, started_at, ended_at, outcome)
                SELECT 7, 'mail', -n, 1, now(), now(), 'SENT' FROM generate_series(1, 20000) n
            """)
        )
        connection.execute(text("ANALYZE send_attempt"))
        last = connection.execute(text("SELECT max(id) FROM send_attempt")).scalar_one()
        plan = connection.execute(
            text("EXPLAIN " + str(gathering._COUNT)), {"above": last - 100, "upto": last}
        ).scalars()
        assert "Index Scan using pk_send_attempt on send_attempt" in "\n".join(plan)
