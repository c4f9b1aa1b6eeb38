"""A worker that archives poison has an alert mail accepted; one that may not be told archives all the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging.settings import Settings
from tests.integration.tasks.conftest import Broker, Worker
from tests.polling import eventually


@pytest.fixture
def worker(settings: Settings, broker: Broker, tmp_path: Path) -> Iterator[Worker]:
    """One of the queue of ticks alone, so that the mail stays as it was accepted."""
    made = Worker(
        {
            "MESSAGING_DATABASE_URL": settings.database_url,
            "MESSAGING_REDIS_URL": settings.redis_url,
            "MESSAGING_SECRETS_KEYS": ",".join(settings.secrets_keys),
            "MESSAGING_METRICS__DIRECTORY": str(tmp_path / "metrics"),
            "MESSAGING_DISPATCH__NUDGE": "",
            "MESSAGING_DEAD_LETTER__ALERT_RECIPIENTS": " ann@example.com, , ben@example.com ",
        },
        tmp_path,
        queues=["control"],
    )
    yield made
    made.stop()


def rows(engine: Engine, table: str) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text(f"SELECT * FROM {table} ORDER BY id")))


def test_poison_is_archived_and_told_by_mail(worker: Worker, broker: Broker, engine: Engine) -> None:
    # operate.md O33
    worker.start()
    broker.task("other.task", [["s3cret"], {}, {}], queue="control", task_id="unknown")
    [mail] = eventually(lambda: rows(engine, "mail_send_record"))
    [letter] = rows(engine, "dead_letter_message")
    assert mail.to_addresses == ["ann@example.com", "ben@example.com"]
    assert mail.subject == f"Dead letter {letter.id} from queue control"
    assert "s3cret" not in mail.body_text
    assert mail.idempotency_key == f"dead-letter-alert:{letter.id}"
    eventually(broker.is_drained)


def test_a_mail_that_cannot_be_accepted_leaves_the_dead_letter(worker: Worker, broker: Broker, engine: Engine) -> None:
    # operate.md O33
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE mail_send_record RENAME COLUMN subject TO broken"))
    worker.start()
    broker.task("other.task", [[1], {}, {}], queue="control", task_id="unknown")
    eventually(lambda: [line for line in worker.lines("error") if line["event"] == "no alert of a dead letter"])
    assert len(rows(engine, "dead_letter_message")) == 1
    assert rows(engine, "mail_send_record") == []
    eventually(broker.is_drained)
    assert worker.is_running()
