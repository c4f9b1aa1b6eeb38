"""A tenant has one default: who sets `is_default` takes it from the others (operate.md section 2, O16)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.db.active import with_disabled
from messaging.mail.models import MailSendServerConfig
from messaging.settings import Settings
from messaging.tenancy import all_tenants, tenant
from tests.conftest import MakeSettings

S = MailSendServerConfig

BY_SQL = "INSERT INTO mail_send_server_config (name, host, port, is_default) VALUES ('by SQL', 'h', 25, true)"
#: How many sessions of this database wait for an advisory lock.
WAITING = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@pytest.fixture(autouse=True)
def configured(settings: Settings, engine: Engine) -> Iterator[None]:
    messaging.configure(settings, engine=engine)
    yield
    tenancy.use_multi_tenancy(False)


def server(name: str, **columns: Any) -> MailSendServerConfig:
    return MailSendServerConfig(**{"name": name, "host": "mail.example.com", "port": 25, "is_default": True, **columns})


def saved(engine: Engine, *rows: MailSendServerConfig) -> list[int]:
    with Session(engine) as session:
        session.add_all(rows)
        session.commit()
        return [row.id for row in rows]


def defaults(engine: Engine) -> list[str]:
    with Session(engine) as session, all_tenants():
        return sorted(session.scalars(with_disabled(select(S.name)).where(S.is_default)))


def test_a_new_default_demotes_the_old_one_also_where_it_is_disabled(engine: Engine) -> None:
    for active in (True, False):
        saved(engine, server(f"old {active}", active=active))  # O16
        saved(engine, server("new"))
        assert defaults(engine) == ["new"]


def test_a_row_that_becomes_the_default_demotes_the_others(engine: Engine) -> None:
    first, second = saved(engine, server("first"), server("second", is_default=False))
    with Session(engine) as session:
        rows = session.get_one(S, first), session.get_one(S, second)
        rows[1].is_default = True
        session.flush()
        assert (rows[0].is_default, rows[1].is_default) == (False, True)
        session.commit()
    assert defaults(engine) == ["second"]


def test_a_change_of_something_else_demotes_nobody(engine: Engine) -> None:
    [first] = saved(engine, server("first"))
    with engine.begin() as connection:
        connection.execute(text(BY_SQL))
    with Session(engine) as session:
        session.get_one(S, first).host = "other.example.com"
        session.commit()
    assert defaults(engine) == ["by SQL", "first"]


def test_of_several_in_one_flush_the_last_one_added_stays(engine: Engine) -> None:
    saved(engine, server("a"), server("c"), server("b"))
    assert defaults(engine) == ["b"]


def test_another_tenants_default_stays(make_settings: MakeSettings, engine: Engine) -> None:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    for tenant_id in (1, 2, 1, -1):
        with tenant(tenant_id):
            saved(engine, server(f"of {tenant_id}"))
    assert defaults(engine) == ["of -1", "of 1", "of 2"]
    with all_tenants():
        saved(engine, server("new of 2", tenant_id=2))
    assert defaults(engine) == ["new of 2", "of -1", "of 1"]


@pytest.mark.parametrize("becomes_one_by", ["insert", "update"])
def test_of_two_set_at_once_one_stays(engine: Engine, becomes_one_by: str) -> None:
    """The first has flushed and not committed; the second waits for its lock, then demotes it."""
    ids = saved(engine, server("one", is_default=False), server("two", is_default=False))

    def set_default(session: Session, index: int) -> None:
        if becomes_one_by == "insert":
            session.add(server(("one", "two")[index]))
        else:
            session.get_one(S, ids[index]).is_default = True
        session.flush()

    def second() -> None:
        with Session(engine) as session:
            set_default(session, 1)
            session.commit()

    with Session(engine) as session:
        set_default(session, 0)
        thread = threading.Thread(target=second)
        thread.start()
        with engine.connect() as watching:
            while not watching.execute(text(WAITING)).scalar_one():
                assert thread.is_alive()
        session.commit()
        thread.join(10)
    assert defaults(engine) == ["two"]
