"""Fetches in a real worker: the tick asks, the worker fetches; what fails, what has to wait, and how it stops."""

import json
import os
import subprocess
import sys
import textwrap
import threading
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from sqlalchemy import Engine, text

from messaging.delivery.hints import live_workers
from messaging.embedded import free_port
from messaging.receive.polling import MAIL_FETCH
from messaging.settings import Settings
from tasks.fetching import slots_for
from tests.acceptance.local_nodes import ROOT
from tests.far_end.pop3_server import ScriptedPop3Server
from tests.integration.receive.fetching import Stored, add_mailbox, mail
from tests.integration.tasks.conftest import Broker, Make
from tests.polling import eventually

Queue = list[dict[str, Any]]


@pytest.fixture
def stored(engine: Engine) -> Stored:
    return Stored(engine)


@pytest.fixture
def server() -> Iterator[ScriptedPop3Server]:
    with ScriptedPop3Server([mail("a"), mail("b"), mail("c")]) as server:
        yield server


def add(engine: Engine, server: ScriptedPop3Server, **fields: Any) -> int:
    return add_mailbox(engine, server.port, protocol="POP3", password="secret", **fields)


def tick(broker: Broker) -> None:
    broker.task("messaging.fetch_tick", [[], {}, {}], queue="control")


def fetch(broker: Broker, config_id: Any) -> None:
    broker.task("messaging.fetch_mailbox", [[config_id], {}, {}], queue="mail_fetch")


def waiting(client: "redis.Redis") -> int:
    return int(client.llen("msg:mail_fetch"))


def is_free(stored: Stored) -> bool:
    rows = stored.rows("mail_fetch_imap_watermark")
    return bool(rows) and all(row["in_progress_since"] is None for row in rows)


# receive.md R32
def test_the_tick_has_each_due_mailbox_fetched_once(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:
    add(engine, server)
    add(engine, server, active=False)
    make("control", "mail_fetch").start()
    tick(broker)
    tick(broker)
    eventually(lambda: stored.names() == ["a", "b", "c"] and is_free(stored))
    eventually(broker.is_drained)
    assert server.sessions == 1
    assert all(row["next_fetch_at"] is None for row in stored.rows("mail_receive_server_config") if not row["active"])


# receive.md R32
def test_without_a_mailbox_nothing_is_asked_for(make: Make, broker: Broker, redis_client: "redis.Redis") -> None:
    make("control").start()
    tick(broker)
    eventually(broker.is_drained)
    assert waiting(redis_client) == 0


def test_what_is_asked_for_names_the_mailbox_and_is_dropped_after_its_interval(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, redis_client: "redis.Redis"
) -> None:
    last = add(engine, server, sequence=1, fetch_interval_seconds=60)
    first = add(engine, server)
    make("control").start()
    began = datetime.now(UTC)
    tick(broker)
    eventually(lambda: waiting(redis_client) == 2)
    messages = [json.loads(item) for item in reversed(redis_client.lrange("msg:mail_fetch", 0, -1))]
    assert [json.loads(b64decode(message["body"]))[0] for message in messages] == [[first], [last]]
    expiring = [(datetime.fromisoformat(message["headers"]["expires"]) - began).total_seconds() for message in messages]
    assert expiring == [pytest.approx(300, abs=20), pytest.approx(60, abs=20)]


def test_while_the_broker_is_away_a_mailbox_stays_due(
    settings: Settings, redis_client: "redis.Redis", engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:
    add(engine, server)
    code = f"""
    from tasks import worker
    from tasks.app import app
    from tasks.fetch import fetch_tick
    worker.start(hostname="tick@here", threads=1, queues=["control"])
    app.conf.broker_url = "redis://127.0.0.1:{free_port()}/0"
    print(fetch_tick())
    worker.end()
    """
    environment = {
        **os.environ,
        "MESSAGING_DATABASE_URL": settings.database_url,
        "MESSAGING_REDIS_URL": settings.redis_url,
        "MESSAGING_SECRETS_KEYS": ",".join(settings.secrets_keys),
    }
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "{'dependency_down': 'OperationalError'}", done.stderr
    assert waiting(redis_client) == 0
    with engine.connect() as connection:
        statement = text("SELECT next_fetch_at <= now() FROM mail_receive_server_config")
        assert connection.execute(statement).scalar_one()


# receive.md R31
def test_a_mailbox_that_fails_stops_no_other_and_is_no_poison(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:
    with ScriptedPop3Server(users={"ann": "another-pass"}) as refusing:
        failing = add(engine, refusing)
        add(engine, server)
        worker = make("control", "mail_fetch").start()
        tick(broker)
        eventually(lambda: stored.names() == ["a", "b", "c"] and is_free(stored))
        [line] = eventually(lambda: worker.lines("warning"))
    assert line["config_id"] == failing
    assert f"127.0.0.1:{refusing.port}: logging in" in line["event"]
    assert "secret" not in worker.log().replace("MESSAGING_SECRETS", "")
    assert stored.rows("dead_letter_message") == []


def test_a_mailbox_that_is_gone_or_was_disabled_meanwhile_is_no_error(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:
    with ScriptedPop3Server() as unused:
        disabled, present = add(engine, unused, active=False), add(engine, server)
        worker = make("mail_fetch").start()
        for config_id in (99, disabled, present):
            fetch(broker, config_id)
        eventually(lambda: stored.names() == ["a", "b", "c"] and is_free(stored))
        assert unused.sessions == 0
    assert stored.rows("dead_letter_message") == []
    assert worker.lines("warning") == []


def test_what_is_no_mailboxs_id_is_poison(make: Make, broker: Broker, stored: Stored) -> None:
    make("mail_fetch").start()
    fetch(broker, "1; DROP")
    [row] = eventually(lambda: stored.rows("dead_letter_message"))
    assert row["event_type"] == "INVALID_TASK"


def test_a_worker_that_fetches_is_registered_as_one(make: Make, redis_client: "redis.Redis") -> None:
    make("mail_fetch").start()
    assert eventually(lambda: live_workers(redis_client, MAIL_FETCH))


def test_slow_mailboxes_leave_threads_for_ticks_and_what_waits_for_them_is_fetched_after_them(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:
    with ScriptedPop3Server([mail("slow")]) as slow:
        slow.on("RETR", hang=True)
        held, waiting_id = add(engine, slow), add(engine, server)
        make("control", "mail_fetch").start()  # two threads, one of which fetches
        fetch(broker, held)
        eventually(lambda: slow.count("RETR"))
        fetch(broker, waiting_id)
        fetch(broker, waiting_id)
        tick(broker)
        eventually(lambda: all(row["next_fetch_at"] for row in stored.rows("mail_receive_server_config")))
        assert stored.names() == []
        slow.release()
        eventually(lambda: stored.names() == ["a", "b", "c"] and is_free(stored))
        assert server.sessions == 1


@pytest.mark.parametrize(("threads", "alone", "shared"), [(1, 1, 1), (2, 2, 1), (8, 8, 4), (16, 16, 8)])
def test_half_the_threads_fetch_where_the_worker_has_other_queues(threads: int, alone: int, shared: int) -> None:
    assert slots_for(threads, is_alone=True) == alone
    assert slots_for(threads, is_alone=False) == shared


def test_a_stop_ends_the_fetch_between_messages_and_frees_the_mailbox(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:
    config_id = add(engine, server)
    reached, may_go_on = threading.Event(), threading.Event()
    original = server.rule_for

    def pause(line: str) -> Any:
        if line == "RETR 2":
            reached.set()
            may_go_on.wait(30)
        return original(line)

    server.rule_for = pause  # type: ignore[method-assign]
    worker = make("mail_fetch").start()
    fetch(broker, config_id)
    assert reached.wait(30)
    worker.process.kill("SIGTERM")
    eventually(lambda: "shutdown" in worker.log().lower())
    may_go_on.set()
    assert worker.exit_code() == 0
    assert stored.names() == ["a", "b"]
    assert server.uids == ["uid-3"]
    assert is_free(stored)


def test_a_killed_worker_loses_nothing_and_stores_nothing_twice(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:  # receive.md R19 R29
    config_id = add(engine, server)
    server.on("DELE 2", hang=True, times=1)
    worker = make("mail_fetch").start()
    fetch(broker, config_id)
    eventually(lambda: server.count("DELE 2"))
    worker.process.kill("SIGKILL")
    eventually(lambda: not worker.is_running())
    assert (stored.names(), len(server.uids)) == (["a", "b"], 3)
    assert not is_free(stored)
    stored.run("UPDATE mail_fetch_imap_watermark SET in_progress_since = now() - interval '2 hours'")
    worker.start()
    fetch(broker, config_id)
    eventually(lambda: is_free(stored))
    assert (stored.names(), server.uids) == (["a", "b", "c"], [])


def test_a_fetch_that_does_not_end_in_time_is_broken_off_and_leaves_its_mailbox_free(
    make: Make, broker: Broker, engine: Engine, server: ScriptedPop3Server, stored: Stored
) -> None:
    config_id = add(engine, server)
    server.on("RETR 2", "+OK", endless=b"x\r\n", pause_seconds=0.1)
    short = {
        "DELIVERY__CHUNK_HOLD_SECONDS": "5",
        "DELIVERY__PREPARE_MAX_SECONDS": "1",
        "DELIVERY__SEND_MAX_SECONDS": "6",
        "DELIVERY__SEND_BUDGET_SECONDS": "12",
        "DELIVERY__REPLY_WAIT_SECONDS": "2",
        "DELIVERY__COMMIT_TIMEOUT_SECONDS": "1",
        "DELIVERY__STOP_GRACE_SECONDS": "12",
        "MAIL__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": "1",
        "MAIL__TRANSPORT__READ_TIMEOUT_SECONDS": "3",
        "SMS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": "1",
        "SMS__TRANSPORT__READ_TIMEOUT_SECONDS": "3",
        "WEBHOOKS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": "1",
        "WEBHOOKS__TRANSPORT__READ_TIMEOUT_SECONDS": "2",
    }
    worker = make("mail_fetch", **short).start()
    fetch(broker, config_id)
    eventually(lambda: server.count("RETR 2"))
    worker.process.kill("SIGTERM")
    assert worker.exit_code() == 1
    assert stored.names() == ["a"]
    assert is_free(stored)
    assert [line["folders"] for line in worker.lines("warning")] == [1]
