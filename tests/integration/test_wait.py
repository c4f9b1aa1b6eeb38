"""`messaging.wait`: the outcome as soon as there is one, else where the message stands when the time is up."""

import time
from collections.abc import Iterator
from threading import Thread, Timer

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import api, tenancy
from messaging.delivery.waiting import MAX_PAUSE_SECONDS, pauses
from messaging.errors import RecordNotFound
from tests.conftest import MakeSettings


@pytest.fixture(autouse=True)
def _tenant(make_settings: MakeSettings, engine: Engine, unconfigured: None) -> Iterator[None]:
    """Acts for tenant 7."""
    api.configure(make_settings(multi_tenancy=True), engine=engine)
    with tenancy.tenant(7):
        yield


@pytest.fixture
def record() -> int:
    return messaging.send_mail(to=["ann@example.org"], subject="s", text_body="t")


def move(engine: Engine, record_id: int, status: str) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE mail_send_record SET status = :status WHERE id = :id"), {"status": status, "id": record_id}
        )


@pytest.mark.parametrize("status", ["SENT", "FAILED", "DEAD_LETTER"])
def test_an_outcome_that_is_there_is_answered_at_once(engine: Engine, record: int, status: str) -> None:
    move(engine, record, status)
    started = time.monotonic()
    assert messaging.wait(record, 60).status == status
    assert time.monotonic() - started < 20


def test_an_outcome_that_comes_ends_the_wait(engine: Engine, record: int) -> None:
    timer = Timer(0.1, move, (engine, record, "SENT"))
    timer.start()
    started = time.monotonic()
    assert messaging.wait(record, 120).status == "SENT"
    assert time.monotonic() - started < 60
    timer.join()


@pytest.mark.parametrize("status", ["PENDING", "RETRY"])
def test_when_the_time_is_up_it_is_told_where_it_stands(engine: Engine, record: int, status: str) -> None:
    move(engine, record, status)
    assert messaging.wait(record, 0.1).status == status
    assert messaging.wait(record, 0).status == status


def test_text_messages_are_waited_for_too() -> None:
    record = messaging.send_sms(phone_number="+4915112345678", content="hi")
    messaging.cancel(record)
    assert messaging.wait(record).status == "FAILED"
    with pytest.raises(RecordNotFound):
        messaging.wait(record, channel="mail")


def test_what_is_not_there_another_tenants_or_not_committed_is_not_found(engine: Engine, record: int) -> None:
    for unknown in (record + 1, 2**70, 0):
        with pytest.raises(RecordNotFound):
            messaging.wait(unknown, 60)
    with tenancy.tenant(8), pytest.raises(RecordNotFound):
        messaging.wait(record, 60)
    with Session(engine) as session:
        open_record = messaging.send_mail(to=["ann@example.org"], subject="s", text_body="t", session=session)
        with pytest.raises(RecordNotFound):
            messaging.wait(open_record, 60)


@pytest.mark.parametrize(
    ("timeout", "error"), [(-1, ValueError), (301, ValueError), ("5", TypeError), (True, TypeError)]
)
def test_a_time_that_cannot_be_is_refused(record: int, timeout: float, error: type[Exception]) -> None:
    with pytest.raises(error, match="timeout_seconds is"):
        messaging.wait(record, timeout)


def test_no_connection_is_held_between_two_looks(engine: Engine, record: int) -> None:
    waiting = Thread(target=lambda: _wait_for(record))
    waiting.start()
    idle = 0
    # Within a transaction the view would say again what it said first.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for _ in range(20):
            held = connection.execute(
                text(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
                )
            ).scalar_one()
            idle += held == 0
            time.sleep(0.01)
    assert idle > 0
    move(engine, record, "SENT")
    waiting.join(60)
    assert not waiting.is_alive()


def _wait_for(record: int) -> None:
    with tenancy.tenant(7):
        messaging.wait(record, 60)


def test_pauses_grow_to_a_second_and_end_in_time() -> None:
    taken: list[float] = []
    for pause in pauses(10, lambda: sum(taken)):
        taken.append(pause)
    assert taken[0] == 0.02
    assert sorted(taken[:-1]) == taken[:-1]
    assert max(taken) == MAX_PAUSE_SECONDS
    assert sum(taken) == pytest.approx(10)
    assert len(taken) < 25
