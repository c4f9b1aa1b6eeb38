"""The SQLAlchemy engine of this package's own connections: time-outs set, isolation pinned to READ COMMITTED (I10)."""

import json
import os
import time
import weakref
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DataError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from messaging.errors import ConfigurationError
from messaging.settings import Settings

#: A session that idles inside a transaction holds a snapshot, and old snapshots slow the claim; milliseconds.
IDLE_IN_TRANSACTION_MILLISECONDS = 60_000

_IDLE_SINCE = "messaging.idle_since"

#: SQLSTATE classes whose details are about statements and locks; those of all others repeat rows and values.
_WITHOUT_VALUES = ("40", "42", "55")

#: PostgreSQL major version this package needs.
MINIMUM_POSTGRESQL = 16


def create_engine(
    settings: Settings,
    *,
    pool_size: int = 5,
    application_name: str = "messaging",
    statement_timeout_seconds: float | None = None,
    ask_after_idle_seconds: float | None = None,
) -> Engine:
    """An engine on `DATABASE_URL`. Connects to nothing until it is used.

    Guards rely on READ COMMITTED: under a stricter level a lost guard raises 40001 instead of moving 0 rows.
    `statement_timeout_seconds` None is `DATABASE__STATEMENT_TIMEOUT_SECONDS`. A connection that has idled for
    `ask_after_idle_seconds` is asked whether it still lives before it is used (None: none is): for what comes once.
    """
    database = settings.database
    timeout_seconds = statement_timeout_seconds or database.statement_timeout_seconds
    options = " ".join(
        f"-c {name}={value}"
        for name, value in {
            "statement_timeout": round(timeout_seconds * 1000),
            "lock_timeout": round(database.lock_timeout_seconds * 1000),
            "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MILLISECONDS,
            "timezone": "UTC",
            # Short statements by index only: compiling them costs more than it saves.
            "jit": "off",
            # Holds under autocommit too, where the driver sets no level.
            "default_transaction_isolation": r"read\ committed",
        }.items()
    )
    engine = sa.create_engine(
        settings.database_url,
        pool_size=pool_size,
        max_overflow=5,
        pool_timeout=database.connect_timeout_seconds,
        isolation_level="READ COMMITTED",
        json_deserializer=_json,
        # An error's text never repeats what was being written.
        hide_parameters=True,
        connect_args={
            "application_name": application_name,
            "connect_timeout": max(1, round(database.connect_timeout_seconds)),
            "options": options,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15_000,
        },
    )
    event.listen(engine, "handle_error", leave_out_values)
    if ask_after_idle_seconds is not None:
        _ask_idle_connections(engine, ask_after_idle_seconds)
    _engines.add(engine)
    return engine


def _ask_idle_connections(engine: Engine, seconds: float) -> None:
    """SQLAlchemy's own pre-ping asks each time."""

    def idles(_: Any, record: ConnectionPoolEntry) -> None:
        record.info[_IDLE_SINCE] = time.monotonic()

    def ask(connection: DBAPIConnection, record: ConnectionPoolEntry, _: Any) -> None:
        since = record.info.get(_IDLE_SINCE)
        if since is None or time.monotonic() - since < seconds:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as exc:
            # All that are as old go too, and the pool connects anew.
            raise InvalidatePoolError("the connection has died while it idled") from exc

    event.listen(engine, "checkin", idles)
    event.listen(engine, "checkout", ask)


def leave_out_values(context: ExceptionContext) -> None:
    """Of an error the server's first sentence: its details are "Failing row contains ...", with body and addresses."""
    found = context.original_exception
    primary = getattr(getattr(found, "diag", None), "message_primary", None)
    if primary is None or (getattr(found, "sqlstate", None) or "").startswith(_WITHOUT_VALUES):
        return
    told, found.args = str(found), (primary,)
    raised = context.sqlalchemy_exception
    if raised is not None:
        raised.args = tuple(one.replace(told, primary) if isinstance(one, str) else one for one in raised.args)


_decode = json.JSONDecoder().decode


def _json(octets: bytes) -> Any:
    """A JSON column's value: PostgreSQL sends UTF-8, `json.loads` would guess. Mostly a list of nobody."""
    return [] if octets == b"[]" else _decode(octets.decode())


#: The engines of this process.
_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def _leave_connections_to_the_parent() -> None:
    """In a forked child: two processes that talk over one connection read each other's rows."""
    for engine in list(_engines):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_leave_connections_to_the_parent)


def check_server(engine: Engine, settings: Settings) -> None:
    """Refuse a server that cannot keep what it commits, is too old, or does not know the time zone of the quotas.

    Raises: ConfigurationError (I10 of the protocol); the driver's OperationalError when it cannot be reached.
    """
    zone = settings.quota.timezone
    with engine.connect() as connection:
        version = connection.execute(sa.text("SELECT current_setting('server_version_num')::int")).scalar_one()
        synchronous = connection.execute(sa.text("SHOW synchronous_commit")).scalar_one()
        try:
            connection.execute(sa.text("SELECT now() AT TIME ZONE CAST(:zone AS text)"), {"zone": zone})
        except DataError:
            raise ConfigurationError(
                f"MESSAGING_QUOTA__TIMEZONE is {zone!r}, which PostgreSQL does not know; allowed: a name of"
                " pg_timezone_names"
            ) from None
    if version // 10_000 < MINIMUM_POSTGRESQL:
        raise ConfigurationError(f"PostgreSQL is {version // 10_000}; allowed: {MINIMUM_POSTGRESQL} and later")
    if synchronous == "off":
        raise ConfigurationError(
            "I10: PostgreSQL's synchronous_commit is 'off'; allowed: any other value, a crash would rewind sent records"
        )


def autocommitting(engine: Engine) -> Engine:
    """The same pool, each statement its own transaction: one round trip instead of three on the hot path."""
    return engine.execution_options(isolation_level="AUTOCOMMIT")
