"""The nudge on a real PostgreSQL: what it announces is committed, in outer, prepared and outside transactions too."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType

import pytest
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from messaging import nudge
from messaging.embedded import Postgres
from messaging.settings import Settings

ACCEPT = text("INSERT INTO mail_send_record (scope, to_addresses) VALUES ('TENANT', '[\"a@example.org\"]')")
DUE = text("SELECT count(*) FROM mail_send_record WHERE ready")


@dataclass
class Tick:
    """Stands for the tick: notes how many due records each nudge finds."""

    settings: Settings
    found: list[int] = field(default_factory=list)

    def accept(self, session: Session) -> None:
        session.execute(ACCEPT)
        nudge.after_commit(session, self.settings, "mail")

    def wait(self, count: int = 1) -> list[int]:
        deadline = time.monotonic() + 5
        while len(self.found) < count:
            assert time.monotonic() < deadline, self.found
            time.sleep(0.005)
        return self.found

    def stays_quiet(self) -> None:
        time.sleep(4 * nudge.MIN_INTERVAL_SECONDS)
        assert self.found == []


@pytest.fixture
def tick(make_settings: Callable[..., Settings], database_url: str, monkeypatch: pytest.MonkeyPatch) -> Tick:
    name = f"tick_{os.urandom(4).hex()}"
    made = Tick(make_settings(dispatch={"nudge": f"{name}:run"}))
    other = create_engine(database_url, poolclass=NullPool)

    def run(channel: str) -> None:
        assert channel == "mail"
        with other.connect() as connection:
            count = connection.execute(DUE).scalar_one()
        # Only now: the test may end, and its database with it, as soon as this is seen.
        made.found.append(count)

    module = ModuleType(name)
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    return made


def test_the_tick_finds_what_the_commit_wrote(tick: Tick, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        tick.accept(session)
        tick.stays_quiet()
    assert tick.wait() == [1]


def test_a_rollback_runs_no_tick(tick: Tick, engine: Engine) -> None:  # claim-03
    with Session(engine) as session:
        tick.accept(session)
        session.rollback()
    tick.stays_quiet()


def test_a_failed_commit_runs_no_tick(tick: Tick, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE parent (id int PRIMARY KEY)"))
        connection.execute(text("CREATE TABLE child (parent_id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)"))
    with Session(engine) as session:
        tick.accept(session)
        session.execute(text("INSERT INTO child VALUES (1)"))
        with pytest.raises(Exception, match="foreign key"):
            session.commit()
    tick.stays_quiet()


def test_a_released_savepoint_waits_for_the_outer_commit(tick: Tick, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        with session.begin_nested(), session.begin_nested():
            tick.accept(session)
        tick.stays_quiet()
    assert tick.wait() == [1]


def test_a_savepoint_that_fails_runs_no_tick_and_its_neighbour_does(tick: Tick, engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        savepoint = session.begin_nested()
        tick.accept(session)
        with pytest.raises(Exception, match="violates not-null"):
            session.execute(text("INSERT INTO mail_send_record (scope) VALUES ('TENANT')"))
        savepoint.rollback()
    tick.stays_quiet()
    with Session(engine) as session, session.begin():
        tick.accept(session)
        with pytest.raises(Exception, match="violates not-null"), session.begin_nested():
            session.execute(text("INSERT INTO mail_send_record (scope) VALUES ('TENANT')"))
    assert tick.wait() == [1]


def test_a_session_joined_to_an_outside_transaction_never_fails(tick: Tick, engine: Engine) -> None:
    with engine.connect() as connection, connection.begin():
        with Session(connection, join_transaction_mode="create_savepoint") as session, session.begin():
            tick.accept(session)
        assert tick.wait() == [0]  # too early: the tick sees committed rows only
    with engine.connect() as connection:
        assert connection.execute(DUE).scalar_one() == 1


def test_a_joined_session_whose_outside_transaction_rolls_back_leaves_nothing(tick: Tick, engine: Engine) -> None:
    with engine.connect() as connection:
        outside = connection.begin()
        with Session(connection) as session, session.begin():
            tick.accept(session)
        outside.rollback()
        assert connection.execute(DUE).scalar_one() == 0


def test_an_asynchronous_session_nudges_by_run_sync(tick: Tick, database_url: str) -> None:
    import asyncio

    async def order() -> None:
        engine = create_async_engine(database_url)
        async with AsyncSession(engine) as session, session.begin():
            await session.run_sync(tick.accept)
        await engine.dispose()

    asyncio.run(order())
    assert tick.wait() == [1]


@pytest.fixture(scope="module")
def two_phase_server(tmp_path_factory: pytest.TempPathFactory, servers_folder: object) -> Iterator[Postgres]:
    """A server that allows prepared transactions: PostgreSQL's default is none."""
    folder = servers_folder / "two-phase"  # type: ignore[operator]
    folder.mkdir(mode=0o711)
    with Postgres(folder, settings={"max_prepared_transactions": "5", "fsync": "off"}) as server:
        server.create_database("two_phase")
        yield server


def test_a_prepared_transaction_runs_the_tick_once_it_is_committed(tick: Tick, two_phase_server: Postgres) -> None:
    engine = create_engine(two_phase_server.url("two_phase"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS orders (id int)"))
    with Session(engine, twophase=True) as session:
        for end, calls in ((session.rollback, 0), (session.commit, 1)):
            session.execute(text("INSERT INTO orders VALUES (1)"))
            nudge.after_commit(session, tick.settings, "mail")
            session.prepare()
            tick.stays_quiet()
            end()
            assert len(tick.wait(calls)) == calls
    engine.dispose()
