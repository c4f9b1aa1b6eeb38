"""Template rows in the process: a change is used within a second of its commit, by one query a chunk."""

from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, text, update

from messaging.mail.models import MAIL_TEMPLATE
from messaging.templates.lookup import TemplateCache


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(engine: Engine, clock: Clock) -> TemplateCache:
    return TemplateCache(engine, MAIL_TEMPLATE, ttl_seconds=1, ticker=clock)


@pytest.fixture
def asked(engine: Engine) -> list[tuple[str, Any]]:
    """The statements that are run, with their parameters."""
    statements: list[tuple[str, Any]] = []
    event.listen(engine, "before_cursor_execute", lambda *args: statements.append((args[2], args[3])))
    return statements


def save(engine: Engine, code: str, **columns: Any) -> int:
    values = {"code": code, "name": code, "subject": "old", "tenant_id": 1, **columns}
    with engine.begin() as connection:
        return connection.execute(insert(MAIL_TEMPLATE).values(values).returning(MAIL_TEMPLATE.c.id)).scalar_one()


def change(engine: Engine, template_id: int, **columns: Any) -> None:
    with engine.begin() as connection:
        connection.execute(update(MAIL_TEMPLATE).where(MAIL_TEMPLATE.c.id == template_id).values(columns))


def subject(row: Any) -> str:
    assert row is not None
    return str(row["subject"])


def test_a_change_of_another_process_is_seen_a_second_later(cache: TemplateCache, engine: Engine, clock: Clock) -> None:
    template_id = save(engine, "welcome")
    assert subject(cache.by_id(template_id)) == subject(cache.by_code(1, "welcome")) == "old"
    change(engine, template_id, subject="new")
    clock.now += 0.9
    assert subject(cache.by_id(template_id)) == subject(cache.by_code(1, "welcome")) == "old"
    clock.now += 0.2
    assert subject(cache.by_id(template_id)) == subject(cache.by_code(1, "welcome")) == "new"


def test_one_query_reads_what_a_chunk_needs(cache: TemplateCache, engine: Engine, asked: list[tuple[str, Any]]) -> None:
    ids = [save(engine, f"a{n}") for n in range(5)]
    for tenant in (1, 2, -1):
        save(engine, "order", tenant_id=tenant, subject=f"of {tenant}")
    asked.clear()
    cache.ensure([*ids, 999_999], [(1, "order"), (-1, "order"), (1, "nothing")])
    assert len(asked) == 1
    assert [subject(cache.by_id(template_id)) for template_id in ids] == ["old"] * 5
    assert subject(cache.by_code(-1, "order")) == "of -1"
    assert subject(cache.by_code(1, "order")) == "of 1"
    assert subject(cache.by_code(1, "a3")) == "old"  # read by its id
    assert cache.by_code(1, "nothing") is None
    assert cache.by_id(999_999) is None
    assert len(asked) == 1


def test_what_is_fresh_is_not_read_again_with_what_is_new(
    cache: TemplateCache, engine: Engine, clock: Clock, asked: list[tuple[str, Any]]
) -> None:
    first, second = save(engine, "first"), save(engine, "second")
    cache.by_id(first)
    change(engine, first, subject="new")
    clock.now += 0.8
    asked.clear()
    cache.ensure([first, second], [])
    assert [list(parameters.values()) for _, parameters in asked] == [[second]]
    clock.now += 0.3
    assert subject(cache.by_id(first)) == "new"  # its promise holds, whatever was read meanwhile


def test_a_disabled_template_is_found_by_id_and_not_by_code(cache: TemplateCache, engine: Engine) -> None:
    template_id = save(engine, "old", active=False)
    assert subject(cache.by_id(template_id)) == "old"
    assert cache.by_code(1, "old") is None


def test_a_missing_template_is_remembered_no_longer_than_a_second(
    cache: TemplateCache, engine: Engine, clock: Clock
) -> None:
    assert cache.by_code(1, "late") is None
    save(engine, "late")
    assert cache.by_code(1, "late") is None
    clock.now += 1.1
    assert cache.by_code(1, "late") is not None


def test_a_template_of_another_tier_is_another_one(cache: TemplateCache, engine: Engine) -> None:
    save(engine, "shared", tenant_id=-1, subject="platform")  # send.md B7, B8
    assert cache.by_code(1, "shared") is None
    assert subject(cache.by_code(-1, "shared")) == "platform"


def test_what_is_old_is_forgotten(cache: TemplateCache, engine: Engine, clock: Clock) -> None:
    for n in range(20):
        cache.by_code(1, f"code {n}")
        clock.now += 1.1
    assert len(cache._rows) == 1


def test_the_query_uses_the_indexes_of_id_and_code(
    cache: TemplateCache, engine: Engine, asked: list[tuple[str, Any]]
) -> None:
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO mail_template (tenant_id, code, name, body_html)"
                " SELECT t, 'code ' || n, 'x', repeat('x', 200)"
                " FROM generate_series(1, 200) t, generate_series(1, 50) n"
            )
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE mail_template"))
    asked.clear()
    cache.ensure(range(1, 20), [(tenant, f"code {tenant}") for tenant in range(1, 30)])
    [(statement, parameters)] = asked
    with engine.connect() as connection:
        plan = "\n".join(connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars())
    assert "uq_mail_template_tenant_id_code" in plan
    assert "pk_mail_template" in plan
    assert "Seq Scan" not in plan
    assert cache.by_code(7, "code 7") is not None


def test_a_read_that_failed_tells_of_no_absence(cache: TemplateCache, engine: Engine) -> None:
    # Else a moment without the database would fail the records of the next second for good.
    template_id = save(engine, "welcome")

    def fail(*_: Any) -> None:
        raise OSError("the database is away")

    event.listen(engine, "before_cursor_execute", fail)
    try:
        with pytest.raises(OSError, match="away"):
            cache.ensure([template_id], [(1, "welcome")])
    finally:
        event.remove(engine, "before_cursor_execute", fail)
    assert subject(cache.by_id(template_id)) == subject(cache.by_code(1, "welcome")) == "old"
