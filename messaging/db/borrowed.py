"""A session in the transaction of a psycopg connection that is somebody else's: Django's, or an application's own.

The connection itself stays as it is: how its owner reads JSON, rows or times is set on the owner's object, so ours is
another one over the same libpq connection, which neither begins, commits nor closes.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, NullPool, event
from sqlalchemy.orm import Session

from messaging.db.engine import leave_out_values

_lent: ContextVar["psycopg.Connection[Any]"] = ContextVar("messaging_borrowed")
_making = threading.Lock()
_engine: Engine | None = None


@contextmanager
def session_over(connection: "psycopg.Connection[Any]") -> Iterator[Session]:
    """A session whose work is part of the transaction that a psycopg 3 connection is in.

    With Django: `with transaction.atomic(), session_over(connection.connection) as session:` after
    `connection.ensure_connection()`. The block is a savepoint: an exception undoes what was done in it and leaves the
    transaction usable, and its owner alone commits. Until the block ends the owner's object must not be used by another
    thread; in this one both may be used by turns.

    Raises:
        ValueError: The connection is in no transaction and would not begin one: what is accepted would not be undone
            with the caller's work. Also where the transaction has failed already.
    """
    status = connection.info.transaction_status
    if connection.autocommit and status is TransactionStatus.IDLE:
        raise ValueError("the connection commits each statement by itself; begin a transaction first")
    if status not in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
        raise ValueError(f"the connection's transaction cannot be used, its status is {status.name}")
    pgconn = connection.pgconn
    handlers = pgconn.notice_handler, pgconn.notify_handler
    token = _lent.set(connection)
    try:
        with _shared_engine().connect() as borrowed, borrowed.begin():
            # A commit or rollback of the session is that of its savepoint.
            with Session(borrowed, join_transaction_mode="create_savepoint", expire_on_commit=False) as session:
                yield session
                session.commit()
    finally:
        _lent.reset(token)
        pgconn.notice_handler, pgconn.notify_handler = handlers


class _Borrowed(psycopg.Connection[Any]):
    """Another object over a libpq connection; its owner's transaction is not ours to end."""

    def commit(self) -> None:
        """Left to the owner."""

    def rollback(self) -> None:
        """Left to the owner; our part is undone to its savepoint."""

    def close(self) -> None:
        """Left to the owner."""

    def __del__(self, *_: Any) -> None:
        """Nothing is left open by our end."""


def _borrow() -> _Borrowed:
    own = _Borrowed(_lent.get().pgconn)
    # Names of prepared statements are counted for each object and belong to the server's connection.
    own.prepare_threshold = None
    return own


def _shared_engine() -> Engine:
    """One for all: it keeps what is compiled, and no connection."""
    global _engine
    with _making:
        if _engine is None:
            _engine = sa.create_engine(
                "postgresql+psycopg://",
                creator=_borrow,
                poolclass=NullPool,
                pool_reset_on_return=None,
                use_native_hstore=False,
                hide_parameters=True,
            )
            event.listen(_engine, "handle_error", leave_out_values)
        return _engine
