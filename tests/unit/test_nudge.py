"""When the nudge is given, how often, and what it costs the caller. What the tick then sees: the integration tests."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from messaging import nudge


@dataclass
class Target:
    """The function a setting names, and when it was called."""

    settings: nudge.HasDispatch
    calls: list[float] = field(default_factory=list)
    channels: list[str] = field(default_factory=list)
    #: What each call does beyond being noted.
    body: Callable[[], None] = lambda: None

    def wait(self, count: int = 1, seconds: float = 5.0) -> None:
        deadline = time.monotonic() + seconds
        while len(self.calls) < count:
            assert time.monotonic() < deadline, f"{len(self.calls)} calls, {count} expected"
            time.sleep(0.005)

    def stays_at(self, count: int) -> None:
        """No further call comes within four intervals."""
        time.sleep(4 * nudge.MIN_INTERVAL_SECONDS)
        assert len(self.calls) == count


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    name = f"nudge_target_{os.urandom(4).hex()}"
    settings = SimpleNamespace(dispatch=SimpleNamespace(nudge=f"{name}:run"))
    made = Target(settings)

    def run(channel: str) -> None:
        made.calls.append(time.monotonic())
        made.channels.append(channel)
        made.body()

    module = ModuleType(name)
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    yield made
    made.body = lambda: None


def test_a_commit_nudges_once_however_much_was_accepted(target: Target) -> None:
    with Session() as session, session.begin():
        for _ in range(20):
            nudge.after_commit(session, target.settings, "mail")
        target.stays_at(0)
    target.wait()
    target.stays_at(1)


def test_each_channel_in_which_something_was_accepted_is_nudged(target: Target) -> None:
    with Session() as session, session.begin():
        nudge.after_commit(session, target.settings, "mail")
        with session.begin_nested():
            nudge.after_commit(session, target.settings, "sms")
        with session.begin_nested() as undone:
            nudge.after_commit(session, target.settings, "inbox")
            undone.rollback()
    target.wait(2)
    assert sorted(target.channels) == ["mail", "sms"]


def test_a_rollback_nudges_nothing(target: Target) -> None:
    with Session() as session:
        session.begin()
        nudge.after_commit(session, target.settings, "mail")
        session.rollback()
        session.begin()
        session.commit()
    target.stays_at(0)


def test_a_session_closed_in_mid_transaction_nudges_nothing_later(target: Target) -> None:
    session = Session()
    session.begin()
    nudge.after_commit(session, target.settings, "mail")
    session.close()
    session.begin()
    session.commit()
    target.stays_at(0)


def test_a_released_savepoint_nudges_with_the_outer_commit_only(target: Target) -> None:
    with Session() as session, session.begin():
        with session.begin_nested():
            nudge.after_commit(session, target.settings, "mail")
        target.stays_at(0)
    target.wait()
    target.stays_at(1)


def test_what_a_savepoint_undoes_nudges_nothing(target: Target) -> None:
    with Session() as session, session.begin():
        savepoint = session.begin_nested()
        nudge.after_commit(session, target.settings, "mail")
        savepoint.rollback()
    target.stays_at(0)


def test_what_stands_beside_an_undone_savepoint_nudges(target: Target) -> None:
    with Session() as session, session.begin():
        nudge.after_commit(session, target.settings, "mail")
        savepoint = session.begin_nested()
        nudge.after_commit(session, target.settings, "mail")
        savepoint.rollback()
    target.wait()
    target.stays_at(1)


def test_a_savepoint_kept_inside_one_that_is_undone_nudges_nothing(target: Target) -> None:
    with Session() as session, session.begin():
        outer = session.begin_nested()
        with session.begin_nested():
            nudge.after_commit(session, target.settings, "mail")
        outer.rollback()
    target.stays_at(0)


def test_savepoints_kept_at_three_depths_nudge_once(target: Target) -> None:
    with Session() as session, session.begin(), session.begin_nested(), session.begin_nested(), session.begin_nested():
        nudge.after_commit(session, target.settings, "mail")
    target.wait()
    target.stays_at(1)


def test_a_kept_savepoint_in_a_transaction_rolled_back_nudges_nothing(target: Target) -> None:
    with Session() as session:
        session.begin()
        with session.begin_nested():
            nudge.after_commit(session, target.settings, "mail")
        session.rollback()
    target.stays_at(0)


def test_a_scoped_session_nudges(target: Target) -> None:
    session = scoped_session(sessionmaker())
    session.begin()
    nudge.after_commit(session, target.settings, "mail")
    session.commit()
    target.wait()
    session.remove()


def test_a_session_used_again_nudges_again(target: Target) -> None:
    with Session() as session:
        for count in (1, 2):
            with session.begin():
                nudge.after_commit(session, target.settings, "mail")
            target.wait(count)


def test_many_commits_nudge_at_most_once_in_an_interval(target: Target) -> None:
    started = time.monotonic()
    with Session() as session:
        while time.monotonic() - started < 6 * nudge.MIN_INTERVAL_SECONDS:
            with session.begin():
                nudge.after_commit(session, target.settings, "mail")
    time.sleep(4 * nudge.MIN_INTERVAL_SECONDS)  # the last commit's own call
    gaps = [b - a for a, b in zip(target.calls, target.calls[1:], strict=False)]
    assert 2 <= len(target.calls) <= 8  # over six intervals: one before, one after
    assert min(gaps) >= nudge.MIN_INTERVAL_SECONDS - 0.001


def test_a_commit_during_a_call_gets_a_call_of_its_own(target: Target) -> None:
    is_inside, may_end = threading.Event(), threading.Event()

    def body() -> None:
        is_inside.set()
        may_end.wait(5)

    target.body = body
    nudge.now(target.settings, "mail")
    assert is_inside.wait(5)
    nudge.now(target.settings, "mail")
    may_end.set()
    target.wait(2)
    target.stays_at(2)


def test_a_call_that_hangs_holds_up_no_commit(target: Target) -> None:
    may_end = threading.Event()
    target.body = lambda: may_end.wait(10) and None
    nudge.now(target.settings, "mail")
    target.wait()
    started = time.monotonic()
    with Session() as session:
        for _ in range(200):
            with session.begin():
                nudge.after_commit(session, target.settings, "mail")
    assert time.monotonic() - started < 2
    may_end.set()


def test_a_failing_call_is_logged_once_a_minute_and_paused(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    def body() -> None:
        raise OSError("refused")

    target.body = body
    with caplog.at_level(logging.WARNING, "messaging.nudge"):
        nudge.now(target.settings, "mail")
        target.wait()
        nudge.now(target.settings, "mail")
        target.stays_at(1)  # a pause of a second
        target.wait(2)
        target.body = lambda: None
        nudge.now(target.settings, "mail")
        target.wait(3)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.records[0].error == "OSError: refused"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["no_such_module_here:run", "messaging.nudge:no_such_function", "messaging.nudge:logger"]
)
def test_a_function_that_cannot_be_loaded_is_logged_and_stops_nothing(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SimpleNamespace(dispatch=SimpleNamespace(nudge=name))
    with caplog.at_level(logging.WARNING, "messaging.nudge"):
        with Session() as session, session.begin():
            nudge.after_commit(session, settings, "mail")
        deadline = time.monotonic() + 5
        while not caplog.records:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert name in caplog.records[0].error  # type: ignore[attr-defined]


def test_an_empty_setting_is_off() -> None:
    settings = SimpleNamespace(dispatch=SimpleNamespace(nudge=""))
    before = threading.active_count()
    with Session() as session, session.begin():
        nudge.after_commit(session, settings, "mail")
        assert not session.info
    nudge.now(settings, "mail")
    assert threading.active_count() == before


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_nudges_with_a_thread_of_its_own(target: Target) -> None:
    nudge.now(target.settings, "mail")
    target.wait()
    reader, writer = os.pipe()
    target.body = lambda: os.write(writer, b"x") and None
    pid = os.fork()
    if pid == 0:
        try:
            with Session() as session, session.begin():
                nudge.after_commit(session, target.settings, "mail")
            time.sleep(0.4)
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.waitpid(pid, 0)
    os.close(reader)
