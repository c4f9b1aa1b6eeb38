"""Which exceptions that leave a task say something about the task, and which about what it depends on."""

import psycopg.errors
import pytest
import redis.exceptions
from kombu.exceptions import OperationalError as BrokerError
from sqlalchemy.exc import DBAPIError, InternalError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from messaging.delivery.dispatch import PublishFailed
from tasks.poison import is_dependency_down


def said(kind: type[DBAPIError], reason: Exception) -> DBAPIError:
    return kind("SELECT 1", {}, reason)


@pytest.mark.parametrize(
    "exc",
    [
        said(OperationalError, psycopg.OperationalError("gone")),
        said(InternalError, psycopg.errors.ReadOnlySqlTransaction("a standby answers")),
        PoolTimeoutError("no connection is free"),
        redis.exceptions.ConnectionError("refused"),
        redis.exceptions.TimeoutError("silent"),
        redis.exceptions.ReadOnlyError("You can't write against a read only replica."),
        redis.exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        redis.exceptions.ResponseError("MISCONF Valkey is configured to save RDB snapshots, but it can't"),
        BrokerError("gone"),
        PublishFailed("gone"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_what_a_task_depends_on_is_away(exc: Exception) -> None:
    assert is_dependency_down(exc)


@pytest.mark.parametrize(
    "exc",
    [
        said(ProgrammingError, psycopg.errors.UndefinedColumn("no such column")),
        redis.exceptions.DataError("Invalid input of type"),
        TypeError("missing argument"),
        ValueError("a bug"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_a_bug_is_a_bug(exc: Exception) -> None:
    assert not is_dependency_down(exc)
