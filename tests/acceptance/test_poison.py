"""Messages and records that no worker can process, on real workers (`operate.md` section 4)."""

import json
from collections import Counter
from typing import Any

from kombu import Producer
from sqlalchemy import text

from tests.acceptance.conftest import Start
from tests.acceptance.records import (
    accept,
    assert_each_once,
    attempts,
    dead_letters,
    recipient,
    row,
    rows,
    statuses,
    wait_for,
)
from tests.acceptance.system import STALE_SECONDS, MessagingSetup
from tests.polling import eventually

DELIVER = "messaging.deliver_mail"


def publish(setup: MessagingSetup, body: bytes, *, content_type: str = "application/json", **headers: str) -> None:
    """A message as any client of the broker might make it."""
    with setup.app.connection_for_write() as connection, connection.channel() as channel:
        Producer(channel).publish(
            body,
            exchange="",
            routing_key="mail_send",
            content_type=content_type,
            content_encoding="binary" if content_type != "application/json" else "utf-8",
            headers=headers,
        )


def task_body(*arguments: Any) -> bytes:
    return json.dumps([list(arguments), {}, {}]).encode()


def test_messages_that_no_worker_can_process_are_archived_and_the_queue_goes_on(start: Start) -> None:
    # operate.md O27
    setup = start(control=False, beats=0)
    (record_id,) = accept(setup, 1)
    publish(setup, b"\xff{", task=DELIVER, id="undecodable")
    publish(setup, task_body([[record_id, 0]]), task="nobody.knows", id="unknown")
    publish(setup, b"\x80\x05.", content_type="application/x-python-serialize", task=DELIVER, id="pickled")
    publish(setup, task_body([[record_id, 0]]), task=DELIVER)
    publish(setup, task_body("what", "is", "this"), task=DELIVER, id="arguments")
    setup.publish_accepted([record_id])

    wait_for(setup, {"SENT": 1}, 30)
    eventually(lambda: len(dead_letters(setup)) == 5, 30, "five dead letters")
    assert sorted((letter.event_type, letter.task_id) for letter in dead_letters(setup) if letter.task_id) == [
        ("INVALID_TASK", "arguments"),
        ("INVALID_TASK", "pickled"),
        ("UNDECODABLE", "undecodable"),
        ("UNKNOWN_TASK", "unknown"),
    ]
    (without_id,) = [letter for letter in dead_letters(setup) if not letter.task_id]
    assert (without_id.event_type, without_id.event_id) == ("INVALID_TASK", record_id)
    assert {(letter.source, letter.original_queue) for letter in dead_letters(setup)} == {
        ("BROKER_POISON", "mail_send")
    }
    assert {letter.worker_name for letter in dead_letters(setup)} == {setup.worker.hostname()}
    with setup.redis as client:
        assert not client.exists("msg:mail_send", "msg:unacked")
    assert setup.worker.container.status == "running"
    assert_each_once(setup, 1)


def test_a_garbage_list_item_costs_one_start_of_the_worker_and_the_next_message_is_served(start: Start) -> None:
    # operate.md O28
    setup = start(control=False, beats=0)
    worker = setup.workers[0]
    (record_id,) = accept(setup, 1)
    with setup.redis as client:
        client.lpush("msg:mail_send", "garbage")
    assert worker.wait_exit(30) != 0
    assert '"level": "critical"' in worker.logs()
    setup.publish_accepted([record_id])
    worker.restart()
    wait_for(setup, {"SENT": 1}, 30)
    assert worker.is_running()
    assert not dead_letters(setup)


def test_a_record_whose_send_is_a_bug_is_retried_and_dead_lettered_while_its_neighbours_are_sent(start: Start) -> None:
    # operate.md O29, first half
    max_retries = 2
    setup = start(threads=1, beats=0, settings={"RETRY__MAX_RETRIES": str(max_retries)})
    ids = accept(setup, 4)
    # Headers of a shape that acceptance never writes: the message cannot be built, and nobody foresaw how.
    damage(setup, ids[1], headers='["x"]')
    setup.publish_accepted(ids)
    wait_for(setup, {"SENT": 3, "RETRY": 1}, 30)
    setup.add_beat()
    wait_for(setup, {"SENT": 3, "DEAD_LETTER": 1}, 60)
    bad = row(setup, ids[1])
    assert (bad.error_code, bad.retry_count) == ("UNEXPECTED", max_retries)
    log = attempts(setup, ids[1])
    assert [a.outcome for a in log] == ["RETRY"] * max_retries + ["DEAD_LETTER"]
    assert {a.category for a in log} == {"UNKNOWN"}
    (letter,) = dead_letters(setup)
    assert (letter.source, letter.event_id) == ("SEND_EXHAUSTED", ids[1])
    assert_each_once(setup, 3)
    assert {r.retry_count for r in rows(setup, ids) if r.id != ids[1]} == {0}


def test_a_task_that_raises_twice_is_archived_once_and_gives_back_what_it_had_not_begun(start: Start) -> None:
    # operate.md O29, second half; C19
    setup = start(threads=1, beats=0, settings={"RETRY__MAX_RETRIES": "0"})
    ids = accept(setup, 3)
    bad = ids[0]
    # Results of a shape that is never written: the verdict over the attempt raises, outside the attempt itself.
    damage(setup, bad, recipient_results=json.dumps({recipient("m0"): 5}))
    setup.publish_accepted(ids)
    eventually(lambda: len(dead_letters(setup)) == 1, 30, "a dead letter")
    (raised,) = dead_letters(setup)
    assert (raised.event_type, raised.task_name, raised.event_id) == ("TASK_RAISED", DELIVER, bad)
    wait_for(setup, {"SENDING": 1, "RETRY": 2}, 10)
    assert {(r.error_code, r.retry_count) for r in rows(setup, ids[1:])} == {("CLAIM_RELEASED", 0)}

    setup.add_beat()
    # The record that was under way is swept and counted, and so ends.
    wait_for(setup, {"SENT": 2, "DEAD_LETTER": 1}, STALE_SECONDS + 60)
    assert_each_once(setup, 2)
    assert {r.retry_count for r in rows(setup, ids[1:])} == {0}

    # The same once more, as it would be in an earlier state: no second row beside one that nobody has looked at.
    with setup.engine.begin() as connection:
        connection.execute(
            text("UPDATE mail_send_record SET status = 'PENDING', next_attempt_at = now() WHERE id = :id"), {"id": bad}
        )
    eventually(lambda: statuses(setup)["SENDING"], 30, "another attempt")
    wait_for(setup, {"SENT": 2, "DEAD_LETTER": 1}, STALE_SECONDS + 60)
    types = Counter(letter.event_type for letter in dead_letters(setup))
    assert types == {"TASK_RAISED": 1, "SEND_DEAD_LETTER": 2}
    assert setup.workers[0].is_running()


def damage(setup: MessagingSetup, record_id: int, **columns: str) -> None:
    """Change a record as no code of ours does."""
    sets = ", ".join(f"{name} = CAST(:{name} AS json)" for name in columns)
    with setup.engine.begin() as connection:
        connection.execute(text(f"UPDATE mail_send_record SET {sets} WHERE id = :id"), {"id": record_id, **columns})
