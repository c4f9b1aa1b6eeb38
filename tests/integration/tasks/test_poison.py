"""Messages that no worker can process: archived with their reason, acknowledged, and the worker goes on."""

import json
from typing import Any

import pytest
import redis
from sqlalchemy import Engine, select, text

from messaging.delivery.dead_letter import DEAD_LETTER_MESSAGE, store_poison
from messaging.delivery.poison import PoisonMessage, PoisonType
from messaging.embedded import Postgres
from messaging.mail.models import MAIL_SEND_RECORD
from tests.integration.tasks.conftest import Broker, Worker, json_message
from tests.polling import eventually

D = DEAD_LETTER_MESSAGE

#: A body that Celery takes: arguments, keyword arguments, options.
BODY = json.dumps([[[[1, 1]]], {}, {}]).encode()
DELIVER = "messaging.deliver_mail"


def letters(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(D).order_by(D.c.id)))


def store(engine: Engine, body: Any, **fields: Any) -> Any:
    message = PoisonMessage(type=PoisonType.UNKNOWN_TASK, queue="mail_send", error="no such task", body=body, **fields)
    with engine.begin() as connection:
        stored = store_poison(connection, message, record_tables=[MAIL_SEND_RECORD])
    return next(row for row in letters(engine) if row.id == stored)


def test_every_kind_of_poison_gets_its_row_and_the_worker_lives(
    worker: Worker, broker: Broker, engine: Engine, redis_client: "redis.Redis"
) -> None:  # O27
    worker.start()
    broker.publish(b"\xff{", **json_message(task=DELIVER, id="undecodable"))
    broker.publish(b'{"hello": 1}', **json_message())
    broker.publish(b'["no task"]', **json_message(hello="you"))
    broker.publish(
        b"\x80\x05.",
        content_type="application/x-python-serialize",
        content_encoding="binary",
        headers={"task": DELIVER, "id": "pickle"},
    )
    broker.publish(BODY, **json_message(task=DELIVER))
    broker.publish(BODY, **json_message(task=[DELIVER], id="name"))
    broker.task("other.task", [["42"], {"tenant_id": 7}, {}], task_id="unknown")
    broker.task(DELIVER, [[], {}, {}], task_id="no argument")
    broker.task(DELIVER, [["x"], {}, {}], task_id="no pairs")
    broker.task(DELIVER, [[[[1, "2"]]], {}, {}], task_id="no numbers")
    broker.task("messaging.dispatch", [["pigeon"], {}, {}], queue="control", task_id="no channel")
    broker.task(DELIVER, [1, 2], task_id="two")
    broker.task(DELIVER, 5, task_id="five")

    rows = eventually(lambda: len(found := letters(engine)) >= 13 and found)
    found = {row.task_id or repr(row.payload): (row.event_type, row.task_name) for row in rows}
    assert found == {
        "undecodable": ("UNDECODABLE", DELIVER),
        "{'hello': 1}": ("UNDECODABLE", None),
        "['no task']": ("UNDECODABLE", None),
        "[[[[1, 1]]], {}, {}]": ("INVALID_TASK", DELIVER),
        "pickle": ("INVALID_TASK", DELIVER),
        "name": ("INVALID_TASK", f"['{DELIVER}']"),
        "unknown": ("UNKNOWN_TASK", "other.task"),
        "no argument": ("INVALID_TASK", DELIVER),
        "no pairs": ("INVALID_TASK", DELIVER),
        "no numbers": ("INVALID_TASK", DELIVER),
        "no channel": ("INVALID_TASK", "messaging.dispatch"),
        "two": ("INVALID_TASK", DELIVER),
        "five": ("INVALID_TASK", DELIVER),
    }
    assert {row.original_queue for row in rows} == {"mail_send", "control"}
    assert {(row.source, row.status) for row in rows} == {("BROKER_POISON", "PENDING")}
    assert all(row.worker_name.startswith("poison@") and row.last_error_msg for row in rows)
    eventually(broker.is_drained)
    assert worker.is_running()
    broker.task("messaging.heartbeat", [[], {}, {}], queue="control")
    eventually(lambda: redis_client.exists("msg:beat:alive"))
    assert len(letters(engine)) == 13
    assert worker.lines("critical") == []


def test_a_garbage_list_item_ends_the_worker_once_and_the_next_message_is_served(
    worker: Worker, broker: Broker, redis_client: "redis.Redis"
) -> None:  # O28
    worker.start()
    broker.push(b"no JSON at all")
    eventually(lambda: not worker.is_running())
    assert worker.exit_code() != 0
    assert worker.lines("critical")
    broker.task("messaging.heartbeat", [[], {}, {}], queue="control")
    worker.start()  # as a supervisor does
    eventually(lambda: redis_client.exists("msg:beat:alive"))
    assert broker.is_drained()


@pytest.mark.parametrize(
    ("body", "event_id", "tenant_id", "payload"),
    [
        (b'[["42"], {}, {}]', 42, None, [["42"], {}, {}]),
        (b'{"record_id": "43", "tenant_id": "7"}', 43, 7, {"record_id": "43", "tenant_id": "7"}),
        (b'[["a\\u0000b"], {}, {}]', None, None, [["ab"], {}, {}]),
        (b"a\0b", None, None, "ab"),
        (b"\x80\x81", None, None, {"base64": "gIE="}),
    ],
    ids=["no tenant", "numeric strings", "NUL in JSON", "NUL in text", "binary"],
)
def test_what_a_row_says_of_its_message(
    engine: Engine, body: bytes, event_id: int | None, tenant_id: int | None, payload: Any
) -> None:  # O31
    row = store(engine, body)
    assert (row.event_id, row.source_tenant_id, row.payload) == (event_id, tenant_id, payload)


def test_the_tenant_is_that_of_the_record_named(engine: Engine) -> None:
    with engine.begin() as connection:
        record_id = connection.execute(
            text(
                "INSERT INTO mail_send_record (tenant_id, scope, to_addresses) VALUES (7, 'TENANT', '[]') RETURNING id"
            )
        ).scalar_one()
    assert store(engine, [[[[record_id, 0]]], {}, {}]).source_tenant_id == 7


def test_overlong_and_hostile_fields_are_cut(engine: Engine) -> None:
    row = store(engine, b"[]", task_name="n" * 300, task_id="\0i" * 90, worker_name="w" * 300)
    assert (len(row.task_name), len(row.task_id), len(row.worker_name)) == (255, 64, 255)


def test_a_task_that_raises_is_archived_once_for_its_record(
    worker: Worker, broker: Broker, engine: Engine
) -> None:  # O29, outside a record's attempt
    worker.start()
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE mail_send_record RENAME COLUMN claim_token TO broken"))
    for task_id in ("one", "two"):
        broker.task(DELIVER, [[[[5, 1]]], {}, {}], task_id=task_id)
    broker.task(DELIVER, [[[[6, 1]]], {}, {}], task_id="other record")
    eventually(lambda: len(letters(engine)) == 2 and broker.is_drained())
    eventually(lambda: any(line["event"].endswith("as one before it") for line in worker.lines("warning")))
    assert [(row.event_type, row.event_id, row.task_name) for row in letters(engine)] == [
        ("TASK_RAISED", 5, DELIVER),
        ("TASK_RAISED", 6, DELIVER),
    ]


def test_while_the_database_is_down_poison_is_logged_without_its_payload_and_acknowledged(
    worker: Worker, broker: Broker, postgres: Postgres, engine: Engine
) -> None:  # O32
    worker.start()
    engine.dispose()
    postgres.stop()
    broker.task("other.task", [["secret content"], {}, {}], task_id="lost")
    lines = eventually(lambda: [line for line in worker.lines("critical") if line.get("task_id") == "lost"])
    assert lines[0] | {"queue": "mail_send", "task": "other.task", "event_type": "UNKNOWN_TASK"} == lines[0]
    eventually(broker.is_drained)
    assert worker.is_running()
    assert "secret content" not in worker.log()
    postgres.start()
    broker.task("other.task", [[1], {}, {}], task_id="kept")
    eventually(lambda: [row for row in letters(engine) if row.task_id == "kept"])


def test_a_dependency_that_is_down_is_no_poison(
    worker: Worker, broker: Broker, postgres: Postgres, engine: Engine
) -> None:
    worker.start()
    engine.dispose()
    postgres.stop()
    broker.task(DELIVER, [[[[5, 1]]], {}, {}], task_id="early")
    eventually(lambda: [line for line in worker.lines("warning") if line.get("task_id") == "early"])
    postgres.start()
    eventually(broker.is_drained)
    assert letters(engine) == []
