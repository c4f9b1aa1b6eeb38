"""A real worker process for tests of messages: it consumes two queues, or others, and logs to a file."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import Connection, Producer

from messaging import programs
from messaging.settings import Settings
from tests.acceptance.local_nodes import LocalProcess, LocalWorkerContainer


class Worker:
    """A worker of the product, over the acceptance tests' process."""

    def __init__(
        self, environment: Mapping[str, str], folder: Path, *, queues: Sequence[str] = ("control", "mail_send")
    ) -> None:
        self._queues = queues
        self._environment = {**os.environ, **environment}
        self._folder = folder
        self._process: LocalProcess | None = None

    @property
    def process(self) -> LocalProcess:
        assert self._process is not None
        return self._process

    def start(self) -> "Worker":
        """Start, or start again after its end, and wait until it consumes."""
        self.run()
        LocalWorkerContainer(self.process)._wait_ready()
        return self

    def run(self) -> None:
        """Start and do not wait."""
        if self._process is None:
            command = programs.worker(queues=self._queues, name="poison", concurrency=2)
            self._process = LocalProcess("worker", command, self._environment, self._folder)
        else:
            self._process.restart()

    def is_running(self) -> bool:
        return self.process.status == "running"

    def exit_code(self) -> int:
        """Waits for its end."""
        return self.process.wait(30)

    def log(self) -> str:
        return self.process.history()

    def lines(self, level: str) -> list[dict[str, Any]]:
        """The structured lines of one level."""
        found = [json.loads(line) for line in self.log().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in found if line["level"] == level]

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(30)


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


#: A worker on these queues, with these settings; not started yet.
Make = Callable[..., Worker]


@pytest.fixture
def make(settings: Settings, broker: Broker, tmp_path: Path) -> Iterator[Make]:
    made = []

    def make(*queues: str, **environment: str) -> Worker:
        given = {
            "DATABASE_URL": settings.database_url,
            "REDIS_URL": settings.redis_url,
            "SECRETS_KEYS": ",".join(settings.secrets_keys),
            "METRICS__DIRECTORY": str(tmp_path / "metrics"),
            **environment,
        }
        made.append(Worker({f"MESSAGING_{key}": value for key, value in given.items()}, tmp_path, queues=queues))
        return made[-1]

    yield make
    for worker in made:
        worker.stop()
