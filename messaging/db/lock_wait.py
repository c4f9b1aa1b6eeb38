"""How long a statement of ours waits for another transaction's lock, within a transaction that is somebody else's."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Interval, Text, bindparam, cast, func, literal, select

_LOOK = select(
    func.current_setting("lock_timeout").label("text"),
    func.extract("epoch", cast(func.current_setting("lock_timeout"), Interval())).label("seconds"),
)
_SET = select(func.set_config("lock_timeout", bindparam("value", type_=Text()), literal(True)))


@contextmanager
def at_most(connection: Connection, seconds: float) -> Iterator[None]:
    """A savepoint whose statements wait for locks no longer than this; a shorter bound of the caller's stands.

    What the connection had set stands again afterwards. An exception undoes what the block wrote, and the transaction
    is still usable.
    """
    before = connection.execute(_LOOK).one()
    must_limit = not 0 < float(before.seconds) <= seconds
    with connection.begin_nested():
        if must_limit:
            connection.execute(_SET, {"value": f"{max(1, round(seconds * 1000))}ms"})
        yield
        if must_limit:
            connection.execute(_SET, {"value": before.text})
