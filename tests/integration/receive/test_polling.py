"""The tick takes the mailboxes that are due, each once and in order: receive.md section 2."""

from typing import Any

import pytest
from sqlalchemy import Engine, insert, text
from sqlalchemy.dialects import postgresql

from messaging.receive import polling
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG
from messaging.receive.polling import DueMailbox, find_polled, give_back, take_due


def add(engine: Engine, **fields: Any) -> int:
    given = {"name": "in", "protocol": "IMAP", "host": "imap.example.com", "port": 143, "tenant_id": 0, **fields}
    with engine.begin() as connection:
        return int(
            connection.execute(
                insert(MAIL_RECEIVE_SERVER_CONFIG).values(given).returning(MAIL_RECEIVE_SERVER_CONFIG.c.id)
            ).scalar_one()
        )


def take(engine: Engine, default_interval_seconds: int = 300, **more: Any) -> list[int]:
    return [due.config_id for due in take_due(engine, default_interval_seconds=default_interval_seconds, **more)]


def wait(engine: Engine, seconds: float) -> None:
    """As if so many seconds had gone by."""
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE mail_receive_server_config SET next_fetch_at = next_fetch_at - :s * interval '1 second'"),
            {"s": seconds},
        )


def seconds_until(engine: Engine, config_id: int) -> float:
    statement = text("SELECT extract(epoch FROM next_fetch_at - now()) FROM mail_receive_server_config WHERE id = :i")
    with engine.connect() as connection:
        return float(connection.execute(statement, {"i": config_id}).scalar_one())


def find_polled_id(engine: Engine, config_id: int) -> str | None:
    with engine.connect() as connection:
        return find_polled(connection, config_id)


# receive.md R32
def test_without_an_active_mailbox_nothing_is_taken(engine: Engine) -> None:
    assert take(engine) == []
    disabled = add(engine, active=False)
    assert take(engine) == []
    assert find_polled_id(engine, disabled) is None


# receive.md R32
def test_each_mailbox_is_taken_at_its_own_pace(engine: Engine) -> None:
    often, seldom, default = (add(engine, fetch_interval_seconds=seconds) for seconds in (15, 300, None))
    assert take_due(engine, default_interval_seconds=60) == [
        DueMailbox(often, 15),
        DueMailbox(seldom, 300),
        DueMailbox(default, 60),
    ]
    assert [round(seconds_until(engine, i)) for i in (often, seldom, default)] == [15, 300, 60]
    taken = []
    for _ in range(4):
        wait(engine, 15)
        taken.append(take(engine, 60))
    assert taken == [[often], [often], [often], [often, default]]


def test_a_tick_that_comes_a_moment_early_does_not_halve_the_pace(engine: Engine) -> None:
    config_id = add(engine, fetch_interval_seconds=15)
    assert take(engine) == [config_id]
    wait(engine, 14.5)
    assert take(engine) == [config_id]
    wait(engine, 10)
    assert take(engine) == []


# receive.md R32
def test_two_ticks_at_once_take_a_mailbox_once(engine: Engine) -> None:
    first, second = add(engine), add(engine)
    parameters = {"default_interval": 300, "batch": 1}
    with engine.connect() as one, engine.connect() as other:
        taken = [connection.execute(polling.take_due_statement(), parameters).all() for connection in (one, other)]
        one.commit()
        other.commit()
    assert [[row.id for row in rows] for rows in taken] == [[first], [second]]
    assert take(engine) == []


def test_mailboxes_of_all_tenants_are_taken_in_the_order_of_polling(engine: Engine) -> None:
    ids = [add(engine, sequence=sequence, tenant_id=tenant) for sequence, tenant in ((5, 8), (0, -1), (5, 7), (1, 7))]
    assert take(engine, limit=3) == [ids[1], ids[3], ids[0]]
    assert take(engine) == [ids[2]]


def test_what_nobody_was_told_of_is_due_again(engine: Engine) -> None:
    first, second = add(engine), add(engine)
    assert take(engine) == [first, second]
    give_back(engine, [])
    give_back(engine, [second])
    assert take(engine) == [second]


@pytest.mark.parametrize(("active", "protocol"), [(True, "IMAP"), (False, None)])
def test_a_mailbox_that_was_disabled_meanwhile_is_polled_no_more(
    engine: Engine, active: bool, protocol: str | None
) -> None:
    assert find_polled_id(engine, add(engine, active=active)) == protocol
    assert find_polled_id(engine, 99) is None


def test_the_statement_reads_by_the_index(engine: Engine) -> None:
    rows = [
        {"name": "in", "protocol": "IMAP", "host": "h", "port": 143, "tenant_id": 0, "active": True}
        for _ in range(2000)
    ]
    with engine.begin() as connection:
        connection.execute(insert(MAIL_RECEIVE_SERVER_CONFIG), rows)
        connection.execute(
            text(
                "UPDATE mail_receive_server_config SET next_fetch_at = now() + interval '1 day' * (1 + random())"
                " WHERE id > (SELECT min(id) + 5 FROM mail_receive_server_config)"
            )
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE mail_receive_server_config"))
        compiled = polling.take_due_statement().compile(dialect=postgresql.psycopg.dialect())
        plan = connection.exec_driver_sql(
            f"EXPLAIN {compiled}", {**compiled.params, "default_interval": 300, "batch": 1000}
        ).scalars()
        lines = list(plan)
    assert any("ix_mail_receive_server_config_due" in line for line in lines), lines
    assert not any("Seq Scan on mail_receive_server_config" in line for line in lines), lines
