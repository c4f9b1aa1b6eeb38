"""Mails asked for by other services, on real workers: once, whatever happens to worker, database or broker."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Row, text

from messaging.embedded import Postgres
from tests.acceptance.conftest import Start
from tests.acceptance.local_nodes import LocalWorker
from tests.acceptance.records import CONTENT_MARK, assert_each_once, dead_letters, recipient, wait_for
from tests.acceptance.system import MessagingSetup
from tests.polling import eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sending" / "celery.md"

#: A message that its worker leaves behind comes again after so many seconds.
SETTINGS = {"MULTI_TENANCY": "true", "CELERY__VISIBILITY_TIMEOUT_SECONDS": "3"}

TASK = "messaging.mail_request"


def ask(setup: MessagingSetup, task_id: str, **arguments: Any) -> None:
    """Publish a request; content everywhere."""
    given = {
        "to": [recipient(task_id)],
        "template_code": "welcome",
        "variables": {"name": CONTENT_MARK},
        "tenant_id": 7,
        **arguments,
    }
    setup.app.send_task(TASK, kwargs=given, task_id=task_id, queue="mail_request")


def records(setup: MessagingSetup) -> list[Row[Any]]:
    with setup.engine.connect() as connection:
        return list(connection.execute(text("SELECT * FROM mail_send_record ORDER BY id")))


def lines(setup: MessagingSetup, event: str) -> list[dict[str, Any]]:
    """What was logged with these words."""
    found = [line for log in setup.logs().values() for line in log.splitlines() if f'"event": "{event}' in line]
    return [json.loads(line) for line in found]


def is_drained(setup: MessagingSetup) -> bool:
    """Nothing waits, nothing is held unacknowledged, and nothing is counted against a message."""
    with setup.redis as client:
        return not client.exists("msg:mail_request", "msg:unacked") and not list(client.scan_iter("poison:*"))


def assert_nothing_shows_content(setup: MessagingSetup) -> None:
    told = "".join([*setup.logs().values(), *(str(letter.last_error_msg) for letter in dead_letters(setup))])
    for hidden in (CONTENT_MARK, "rcpt.example.com"):
        assert hidden not in told


@contextmanager
def held_up(setup: MessagingSetup) -> Iterator[None]:
    """Nobody can accept a mail meanwhile."""
    with setup.engine.begin() as connection:
        connection.execute(text("LOCK TABLE mail_send_record IN ACCESS EXCLUSIVE MODE"))
        yield
        connection.rollback()


def start_taking(setup: MessagingSetup, *others: str) -> LocalWorker:
    """A worker that takes mail requests, and what lies in other queues."""
    worker = setup.add_worker("asked", "mail_request", *others, threads=4)
    setup.wait_ready()
    return worker


def start_small(start: Start) -> tuple[MessagingSetup, LocalWorker]:
    """A system whose one worker takes everything."""
    setup = start(mail_workers=0, control=False, has_server=False, settings=SETTINGS)
    worker = start_taking(setup, "mail_send", "control")
    setup.add_server(tenant_id=7)
    add_template(setup, 7)
    return setup, worker


def add_template(setup: MessagingSetup, tenant_id: int) -> None:
    with setup.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO mail_template (tenant_id, code, name, subject, body_text, body_mode)"
                " VALUES (:tenant_id, 'welcome', 'Welcome', 'Welcome, {{ name }}', 'Hello {{ name }}', 'PLAIN')"
            ),
            {"tenant_id": tenant_id},
        )


def example() -> str:
    """How the documentation publishes a request."""
    [found] = [code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if TASK in code]
    return found


def test_a_request_of_plain_celery_is_sent_in_its_tenant_and_a_wrong_one_is_archived(start: Start) -> None:
    # operate.md O62, O66 (refused address)
    setup = start(has_server=False, settings=SETTINGS)
    worker = start_taking(setup)
    setup.add_server(tenant_id=7)
    add_template(setup, 7)
    exec(example(), {"broker_url": setup.server.url})
    ask(setup, "twice")
    ask(setup, "twice")
    wait_for(setup, {"SENT": 2}, 30)
    assert setup.smtp.copies() == {"ada@example.com": 1, recipient("twice"): 1}
    assert {(r.tenant_id, r.scope, r.template_code) for r in records(setup)} == {(7, "TENANT", "welcome")}
    assert {r.subject for r in records(setup)} == {"Welcome, Ada", f"Welcome, {CONTENT_MARK}"}

    ask(setup, "nobody", to=[])
    ask(setup, "no-code", template_code=None)
    ask(setup, "address", to=[f"{CONTENT_MARK}@a@b"])
    ask(setup, "tail", to=[f"a@rcpt.example.com {CONTENT_MARK}"])
    ask(setup, "tenant", tenant_id="7")
    ask(setup, "scope", scope=CONTENT_MARK)
    ask(setup, "unknown", subject=CONTENT_MARK)
    ask(setup, "twice", to=[recipient("other")])
    eventually(lambda: len(dead_letters(setup)) == 6 and not setup.queue_length("mail_request"), 30, "six dead letters")
    assert sorted(line["task_id"] for line in lines(setup, "mail request ignored")) == ["no-code", "nobody"]
    letters = {letter.task_id: letter for letter in dead_letters(setup)}
    assert set(letters) == {"address", "tail", "tenant", "scope", "unknown", "twice"}
    assert {(letter.event_type, letter.original_queue, letter.task_name) for letter in letters.values()} == {
        ("INVALID_TASK", "mail_request", TASK)
    }
    assert {letters[name].source_tenant_id for name in ("address", "scope", "unknown")} == {7}
    # The archive alone holds what was asked for.
    assert CONTENT_MARK in json.dumps(letters["address"].payload)
    assert len(records(setup)) == 2
    assert worker.is_running()
    assert_nothing_shows_content(setup)


def test_a_request_while_the_database_is_away_waits_and_is_sent_once_it_is_back(
    start: Start, postgres: Postgres
) -> None:
    # operate.md O66
    setup, worker = start_small(start)
    postgres.stop()
    ask(setup, "early")
    # More than one turn: it is given back when it has waited long enough, and comes again.
    eventually(lambda: len(lines(setup, "mail request waits")) >= 2, 20, "it waits a second time")
    # Asked to end, the worker does not wait for the database either.
    worker.kill("SIGTERM")
    assert worker.wait_exit(15) == 0
    with setup.redis as client:
        assert (client.llen("msg:mail_request"), client.exists("msg:unacked")) == (1, 0)

    worker.process.restart()
    postgres.start()
    setup.engine.dispose()
    wait_for(setup, {"SENT": 1}, 30)
    eventually(lambda: is_drained(setup), 10, "it is acknowledged")
    assert_each_once(setup, 1)
    assert not dead_letters(setup)
    assert_nothing_shows_content(setup)


def test_a_request_of_a_killed_worker_is_sent_once_and_one_that_kills_each_is_archived(start: Start) -> None:
    # operate.md O66; section 4, redelivered mail request
    setup, worker = start_small(start)
    with setup.redis as client:
        client.set("poison:killer", 4)
    with held_up(setup):
        ask(setup, "victim")
        ask(setup, "killer")
        eventually(lambda: len(lines(setup, "mail request waits")) == 2, 20, "both are under way")
        worker.kill()
    with setup.redis as client:
        # Beside them the broker may still hold a tick that was being taken.
        held = "".join(client.hvals("msg:unacked"))
        assert all(f'"id": "{name}"' in held for name in ("victim", "killer"))
        assert (client.get("poison:victim"), client.get("poison:killer")) == ("1", "5")
        assert 86_000 < client.ttl("poison:victim") <= 86_400
    worker.restart()
    wait_for(setup, {"SENT": 1}, 30)
    eventually(lambda: dead_letters(setup), 20, "one is archived")
    eventually(lambda: not setup.redis.exists("msg:mail_request", "msg:unacked"), 10, "both are acknowledged")
    assert_each_once(setup, 1)
    (record,) = records(setup)
    assert (record.idempotency_key, record.tenant_id) == ("mail-request:victim", 7)
    (letter,) = dead_letters(setup)
    assert (letter.event_type, letter.task_id, letter.source_tenant_id) == ("WORKER_LOST", "killer", 7)
    assert worker.is_running()
    assert_nothing_shows_content(setup)


def test_a_request_outlives_a_restart_of_the_broker_and_of_the_worker_that_this_may_cost(start: Start) -> None:
    setup = start(mail_workers=0, control=False, beats=0, settings=SETTINGS)
    worker = start_taking(setup)
    with held_up(setup):
        ask(setup, "held")
        eventually(lambda: lines(setup, "mail request waits"), 20, "it is under way")
        # What Flower would see of it.
        [active] = eventually(lambda: setup.app.control.inspect(timeout=2).active(), 20, "an answer").values()
        assert [(task["id"], task["args"], task["kwargs"]) for task in active] == [("held", [], {})]
        setup.broker.restart()
    # It reconnects and the message comes again; or it ends, as a worker may that holds an unacknowledged message.
    eventually(lambda: is_drained(setup) or not worker.is_running(), 20, "it went on, or it ended")
    if not worker.is_running():
        worker.restart()
    eventually(lambda: is_drained(setup), 20, "it is acknowledged")
    assert len(records(setup)) == 1
    assert not dead_letters(setup)
    assert_nothing_shows_content(setup)
