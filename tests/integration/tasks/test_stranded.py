"""When the warning about waiting records comes, by whom, and what it says is away."""

import logging
import time
from collections.abc import Callable

import pytest
from sqlalchemy import Engine, text

from messaging.mail.models import MAIL_SEND_RECORD
from tasks.stranded import WARN_INTERVAL_SECONDS, StrandedWatch

Make = Callable[..., StrandedWatch]


class Time:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticker() -> Time:
    return Time()


@pytest.fixture
def make(engine: Engine, ticker: Time, request: pytest.FixtureRequest) -> Make:
    def make(absent: str | None) -> StrandedWatch:
        watch = StrandedWatch(
            engine,
            {"mail": MAIL_SEND_RECORD},
            warn_seconds=300,
            lease_seconds=120,
            find_absent=lambda channel: absent,
            ticker=ticker,
        )
        request.addfinalizer(watch.let_go)
        return watch

    return make


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "tasks.stranded")
    return lambda: [record.away for record in caplog.records]  # type: ignore[attr-defined]


Warned = Callable[[], list[str]]


def accept(engine: Engine, age_seconds: int, *, is_leased: bool = False) -> None:
    """A record due for so long; or one handed out, whose lease has a minute to go."""
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO mail_send_record (scope, to_addresses, next_attempt_at, updated_at)
                SELECT 'TENANT', '[]', CASE WHEN :is_leased THEN now() + interval '60 s' ELSE at END, at
                FROM (SELECT now() - :age * interval '1 second') AS due(at)
            """),
            {"age": age_seconds, "is_leased": is_leased},
        )


@pytest.mark.parametrize("absent", ["broker", "workers", "beat", "redis"])
def test_a_record_due_for_too_long_is_warned_about_with_what_is_away(
    make: Make, engine: Engine, warned: Warned, absent: str
) -> None:
    accept(engine, 301)
    make(absent).look()
    assert warned() == [absent]


def test_a_backlog_is_warned_about_too(make: Make, engine: Engine, warned: Warned) -> None:
    accept(engine, 400)
    make(None).look()
    assert warned() == ["nobody: more is due than workers send"]


def test_younger_records_and_none_are_no_news(make: Make, engine: Engine, warned: Warned) -> None:
    watch = make("broker")
    watch.look()
    accept(engine, 290)
    watch.look()
    assert warned() == []


def test_one_warning_in_five_minutes(make: Make, engine: Engine, warned: Warned, ticker: Time) -> None:
    accept(engine, 301)
    watch = make("broker")
    for _ in range(int(WARN_INTERVAL_SECONDS / 30)):
        watch.look()
        ticker.now += 30
    assert warned() == ["broker"]
    watch.look()
    assert warned() == ["broker", "broker"]


def test_records_handed_out_again_and_again_are_noticed_by_the_absence(
    make: Make, engine: Engine, warned: Warned, ticker: Time
) -> None:
    accept(engine, 10, is_leased=True)
    watch = make("workers")
    watch.look()
    ticker.now += 299
    watch.look()
    assert warned() == []
    ticker.now += 1
    watch.look()
    assert warned() == ["workers"]


def test_one_process_speaks_and_another_takes_over(make: Make, engine: Engine, warned: Warned) -> None:
    accept(engine, 301)
    first, second = make("broker"), make("broker")
    first.look()
    second.look()
    assert warned() == ["broker"]
    first.let_go()
    second.look()
    assert warned() == ["broker", "broker"]


def test_a_look_survives_the_loss_of_its_connection(make: Make, engine: Engine, warned: Warned) -> None:
    accept(engine, 301)
    watch = make("broker")
    watch.look()
    with engine.begin() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    watch.look()  # notices
    other = make("nobody asks me")
    deadline = time.monotonic() + 10
    while watch._connection is None:  # the terminated session's lock ends a moment after it
        assert time.monotonic() < deadline
        watch.look()
    other.look()
    assert warned() == ["broker"]
