"""Server configurations in the process: a change is used within a second of its commit, secrets stay encrypted."""

import pytest
from sqlalchemy import Engine, event, insert
from sqlalchemy.orm import Session

from messaging.config_cache import ConfigCache
from messaging.db.encryption import decrypt
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG, MailSendServerConfig
from messaging.tenancy import use_multi_tenancy
from tests.conftest import MakeSettings


class Clock:
    """Time that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(make_settings: MakeSettings, engine: Engine, clock: Clock) -> ConfigCache:
    make_settings()
    use_multi_tenancy(False)
    return ConfigCache(engine, MAIL_SEND_SERVER_CONFIG, ttl_seconds=1, ticker=clock)


def save(engine: Engine, **columns: object) -> int:
    """A row as plain SQL leaves it: the ORM would take `is_default` from the others."""
    values = {"name": "x", "host": "old.example.com", "port": 25, **columns}
    t = MAIL_SEND_SERVER_CONFIG
    with engine.begin() as connection:
        config_id: int = connection.execute(insert(t).values(values).returning(t.c.id)).scalar_one()
    return config_id


def change(engine: Engine, config_id: int, **columns: object) -> None:
    with Session(engine) as session:
        for name, value in columns.items():
            setattr(session.get_one(MailSendServerConfig, config_id), name, value)
        session.commit()


def test_a_change_of_another_process_is_seen_a_second_later(cache: ConfigCache, engine: Engine, clock: Clock) -> None:
    config_id = save(engine)  # O61
    assert cache.find(config_id)["host"] == "old.example.com"  # type: ignore[index]
    change(engine, config_id, host="new.example.com")
    clock.now += 0.9
    assert cache.find(config_id)["host"] == "old.example.com"  # type: ignore[index]
    clock.now += 0.2
    assert cache.find(config_id)["host"] == "new.example.com"  # type: ignore[index]


def test_within_the_second_nothing_is_asked_again(cache: ConfigCache, engine: Engine) -> None:
    config_id = save(engine, is_default=True)
    cache.ensure([config_id], [0])
    asked: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    for _ in range(50):
        assert cache.find(config_id)
        assert cache.defaults(0)
    assert asked == []


def test_a_new_key_within_the_second_keeps_the_promise_for_the_old_ones(
    cache: ConfigCache, engine: Engine, clock: Clock
) -> None:
    first, second = save(engine), save(engine)
    cache.find(first)
    change(engine, first, host="new.example.com")
    clock.now += 0.8
    cache.find(second)
    clock.now += 0.8
    assert cache.find(first)["host"] == "new.example.com"  # type: ignore[index]


def test_a_missing_configuration_is_remembered_no_longer_than_a_second(
    cache: ConfigCache, engine: Engine, clock: Clock
) -> None:
    config_id = save(engine) + 1
    assert cache.find(config_id) is None
    assert save(engine) == config_id
    clock.now += 1.1
    assert cache.find(config_id) is not None


def test_defaults_are_active_ones_by_sequence_then_id(cache: ConfigCache, engine: Engine) -> None:
    save(engine, is_default=True, sequence=2, name="third")
    save(engine, is_default=True, sequence=1, name="first")  # S5
    save(engine, is_default=True, sequence=1, name="second")
    save(engine, is_default=True, active=False, name="disabled")
    save(engine, name="no default")
    save(engine, is_default=True, tenant_id=9, name="another's")
    assert [config["name"] for config in cache.defaults(0)] == ["first", "second", "third"]


def test_the_secret_stays_encrypted(cache: ConfigCache, engine: Engine) -> None:
    config = cache.find(save(engine, password="pass word"))
    assert config is not None
    assert config["password"] != "pass word"
    assert decrypt(config["password"]) == "pass word"


def test_a_new_key_within_the_second_reads_no_other_again(cache: ConfigCache, engine: Engine) -> None:
    first = [save(engine, tenant_id=tenant, is_default=True) for tenant in range(1, 30)]
    cache.ensure(first, range(1, 30))
    new = save(engine, tenant_id=30, is_default=True)
    asked: list[dict[str, object]] = []
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[3]))
    cache.ensure([*first, new], range(1, 31))
    [parameters] = asked
    assert {value for value in parameters.values() if isinstance(value, int)} == {new, 30}
    assert [config["id"] for config in cache.defaults(30)] == [new]
    assert [cache.defaults(tenant)[0]["id"] for tenant in range(1, 30)] == first


def test_what_is_used_no_more_is_kept_for_a_second_even_where_there_is_always_something_new(
    cache: ConfigCache, engine: Engine, clock: Clock
) -> None:
    forgotten = save(engine)
    cache.find(forgotten)
    for _ in range(3):
        clock.now += 0.6
        cache.find(save(engine))
    asked: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    cache.find(forgotten)
    assert len(asked) == 1
