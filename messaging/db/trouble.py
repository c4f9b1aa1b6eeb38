"""What a driver's error says about trying again, decided by SQLSTATE class and the driver's own knowledge."""

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

#: Serialization failure, deadlock, lock not available: the same statement may well succeed now.
_PASSING_STATES = frozenset({"40001", "40P01", "55P03"})

#: 08 connection, 53 out of resources, 57 operator intervention (a statement time-out among them), 58 system error.
_AWAY_CLASSES = frozenset({"08", "53", "57", "58"})

_UNIQUE_VIOLATION = "23505"

#: Query canceled: by its time-out, or by an operator.
_CANCELED = "57014"

#: Read-only transaction: a standby answers after a failover.
_READ_ONLY = "25006"


def sqlstate(exc: SQLAlchemyError) -> str | None:
    """The server's SQLSTATE; None when it said nothing."""
    return getattr(getattr(exc, "orig", None), "sqlstate", None)


def is_passing(exc: SQLAlchemyError) -> bool:
    """Whether two transactions got in each other's way: the statement was rolled back and can be run again at once."""
    return sqlstate(exc) in _PASSING_STATES


def is_canceled(exc: SQLAlchemyError) -> bool:
    """Whether a statement had to end before it was through: mostly as it had more to do than its time allows."""
    return sqlstate(exc) == _CANCELED


def is_duplicate(exc: SQLAlchemyError) -> bool:
    """Whether a row was written where there may be one only and there is one."""
    return sqlstate(exc) == _UNIQUE_VIOLATION


def is_away(exc: SQLAlchemyError) -> bool:
    """Whether the database could not be asked, rather than refusing what it was given."""
    if isinstance(exc, PoolTimeout):
        return True
    if not isinstance(exc, DBAPIError):
        return False
    if exc.connection_invalidated:
        return True
    state = sqlstate(exc)
    if state is None:
        # The server said nothing: no connection, or the driver refused a value before it asked.
        return isinstance(exc, OperationalError | InterfaceError)
    return state[:2] in _AWAY_CLASSES or state == _READ_ONLY


def is_unfit(exc: SQLAlchemyError) -> bool:
    """Whether the schema or the rights are not as the code needs: true of every value, until an operator sees to it."""
    return (sqlstate(exc) or "").startswith("42")
