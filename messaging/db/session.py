"""Short ORM transactions as context managers; everything that is not on the hot path goes through them."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.orm import Session


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """One transaction of its own: committed at the end, rolled back on any exception."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session
