"""What an error of the database says, and what it keeps to itself."""

import traceback

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError

from messaging.db.engine import create_engine
from messaging.settings import Settings

ROW = "(1, 'Dear: kangaroo@example.org\nWorld: secret')"


@pytest.fixture
def table(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE lane (id int PRIMARY KEY CHECK (id < 2), words text UNIQUE)"))
        connection.execute(text(f"INSERT INTO lane VALUES {ROW}"))


def failure_of(engine: Engine, statement: str) -> DBAPIError:
    with pytest.raises(DBAPIError) as raised, engine.begin() as connection:
        connection.execute(text(statement))
    return raised.value


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lane SET id = 2",
        f"INSERT INTO lane VALUES {ROW} ON CONFLICT (id) DO UPDATE SET id = 3",
        "INSERT INTO lane SELECT 0, words FROM lane",
        "SELECT CAST(words AS json) FROM lane",
    ],
    ids=["a check", "a check on conflict", "a unique key", "a value's form"],
)
def test_an_error_about_values_does_not_repeat_them(engine: Engine, statement: str) -> None:  # operate.md section 12
    raised = failure_of(engine, statement)
    told = "".join(traceback.format_exception(raised)).replace(statement, "")
    assert "kangaroo" not in told
    assert "secret" not in told


@pytest.mark.usefixtures("table")
def test_an_error_still_says_what_is_wrong(engine: Engine) -> None:
    raised = failure_of(engine, "UPDATE lane SET id = 2")
    assert isinstance(raised, IntegrityError)
    assert 'violates check constraint "lane_id_check"' in str(raised)
    assert getattr(raised.orig, "sqlstate", None) == "23514"


def test_an_error_about_a_statement_says_where(engine: Engine) -> None:
    raised = failure_of(engine, "SELECT nowhere FROM pg_class")
    assert isinstance(raised, ProgrammingError)
    assert "LINE 1: SELECT nowhere" in str(raised)


def test_a_connection_that_died_while_it_idled_is_replaced(settings: Settings, engine: Engine) -> None:
    asking = create_engine(settings, pool_size=2, ask_after_idle_seconds=0)
    with asking.connect() as one, asking.connect() as two:
        pids = [c.execute(text("SELECT pg_backend_pid()")).scalar_one() for c in (one, two)]
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM unnest(:pids) pid"), {"pids": pids})
    for _ in range(3):
        with asking.begin() as connection:
            assert connection.execute(text("SELECT pg_backend_pid()")).scalar_one() not in pids
    asking.dispose()


def test_a_connection_that_was_used_just_now_is_taken_to_live(settings: Settings, engine: Engine) -> None:
    asking = create_engine(settings, pool_size=1, ask_after_idle_seconds=60)
    with asking.begin() as connection:
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    # It costs one failed transaction, not a question before each.
    with pytest.raises(DBAPIError), asking.begin() as connection:
        connection.execute(text("SELECT 1"))
    with asking.begin() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    asking.dispose()
