"""What an error of the database says, and what it keeps to itself."""

import traceback

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError

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
