"""A real worker process for tests of messages: it consumes both queues and logs to a file."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import Connection, Producer

from messaging.child_process import spawn
from messaging.settings import Settings

ROOT = Path(__file__).parents[3]


def eventually(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Poll until `condition` answers something true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, condition
        time.sleep(0.02)
    return found


class Worker:
    """`celery -A tasks worker` as a process."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._log_path = folder / "worker.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Worker":
        """Start and wait until it consumes."""
        ready = self.log().count(" ready.")
        self.run()
        eventually(lambda: self.log().count(" ready.") > ready or self.exit_code() is not None)
        assert self.exit_code() is None, self.log()
        return self

    def run(self) -> None:
        """Start and do not wait."""
        command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-n", "poison@%h", "-l", "INFO", "-c", "2"]
        with self._log_path.open("ab") as log:
            self.process = spawn(command, env=self._environment, cwd=ROOT, stdout=log.fileno())

    def exit_code(self) -> int | None:
        assert self.process is not None
        return self.process.poll()

    def log(self) -> str:
        return self._log_path.read_text() if self._log_path.exists() else ""

    def lines(self, level: str) -> list[dict[str, Any]]:
        """The structured lines of one level."""
        found = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in found if line["level"] == level]

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


class Broker:
    """Puts messages into the queues as any client might."""

    def __init__(self, url: str, client: "redis.Redis") -> None:
        self._connection = Connection(url, transport_options={"global_keyprefix": "msg:"})
        self._client = client

    def publish(self, body: Any, *, queue: str = "mail_send", **message: Any) -> None:
        with self._connection.channel() as channel:
            channel.queue_declare(queue)
            Producer(channel).publish(body, exchange="", routing_key=queue, **message)

    def task(self, name: str, body: Any, *, queue: str = "mail_send", task_id: str = "an-id") -> None:
        """A task message whose body is JSON."""
        self.publish(json.dumps(body).encode(), queue=queue, **json_message(task=name, id=task_id))

    def push(self, item: bytes, queue: str = "mail_send") -> None:
        """A list item as it is."""
        self._client.lpush(f"msg:{queue}", item)

    def is_drained(self) -> bool:
        """Nothing waits and nothing is held unacknowledged."""
        return not self._client.exists("msg:mail_send", "msg:control", "msg:unacked")

    def close(self) -> None:
        self._connection.release()


def json_message(**headers: Any) -> dict[str, Any]:
    """How a JSON message with these headers is declared."""
    return {"content_type": "application/json", "content_encoding": "utf-8", "headers": headers}


@pytest.fixture
def broker(settings: Settings, redis_client: "redis.Redis") -> Iterator[Broker]:
    made = Broker(settings.redis_url, redis_client)
    yield made
    made.close()


@pytest.fixture
def worker(settings: Settings, broker: Broker, tmp_path: Path) -> Iterator[Worker]:
    """Not started yet."""
    made = Worker(
        {
            "MESSAGING_DATABASE_URL": settings.database_url,
            "MESSAGING_REDIS_URL": settings.redis_url,
            "MESSAGING_SECRETS_KEYS": ",".join(settings.secrets_keys),
            "MESSAGING_METRICS__DIRECTORY": str(tmp_path / "metrics"),
        },
        tmp_path,
    )
    yield made
    made.stop()
