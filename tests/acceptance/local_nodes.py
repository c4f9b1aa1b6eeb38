"""pytest-celery's containers and nodes over local processes: no Docker. What they do beyond it is to say what ran.

A process here stands in for `docker.models.containers.Container` as far as pytest-docker-tools' wrapper uses one.
"""

import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import celery
import redis
from pytest_celery import CeleryTestContainer, CeleryTestNode, CeleryTestWorker, CeleryWorkerContainer, RedisContainer
from redis.backoff import NoBackoff
from redis.retry import Retry

from messaging import programs
from messaging.child_process import spawn
from messaging.embedded import Valkey
from tests.polling import eventually

ROOT = programs.working_folder()

#: Seconds to a worker's "ready": two cores are shared by two test processes with several workers each.
READY_SECONDS = 90.0


class _Process:
    """What the wrapper reads of any container."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.id = uuid.uuid4().hex
        self.name = name
        self.attrs = {
            "NetworkSettings": {"Networks": {}, "Ports": {}},
            "HostConfig": {"PortBindings": {}},
            "Config": {"Env": [f"{k}={v}" for k, v in env.items()], "Hostname": "127.0.0.1"},
        }

    def reload(self) -> None:
        """There is no copy of its state to bring up to date."""


class LocalProcess(_Process):
    """A child with a process group and a log for each of its lives; it ends with the test run."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        super().__init__(name, env)
        self._argv, self._env, self._folder = list(argv), dict(env), folder
        self._life = 0
        self._popen = self._spawn()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        self._life += 1
        self._is_asked = False
        with self._log_path(self._life).open("wb") as log:
            return spawn(self._argv, env=self._env, cwd=ROOT, stdout=log.fileno())

    def _log_path(self, life: int) -> Path:
        return self._folder / f"{self.name}-{life}.log"

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def status(self) -> str:
        return "running" if self._popen.poll() is None else "exited"

    def logs(self, **_: Any) -> bytes:
        """Of this life."""
        return self._log_path(self._life).read_bytes()

    def history(self) -> str:
        """Of all lives."""
        lives = range(1, self._life + 1)
        return "".join(self._log_path(life).read_text(errors="replace") for life in lives)

    def kill(self, signal_name: str | int | None = None) -> None:
        """As `docker kill`: the whole process group gets SIGKILL, and is gone; its first process any other signal."""
        number = signal_name if isinstance(signal_name, int) else getattr(signal, signal_name or "SIGKILL")
        if number == signal.SIGKILL:
            os.killpg(self._popen.pid, number)
            self._popen.wait(30)
        else:
            self._popen.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Its exit code. Raises: AssertionError when it does not end."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds:g} s") from None

    def restart(self, timeout: float = 10) -> None:
        """What a supervisor does: end it if it runs, start it again."""
        self.stop(timeout)
        self._popen = self._spawn()

    def stop(self, timeout: float = 30) -> bool:
        """SIGTERM, then SIGKILL for the whole group; answers whether the first was enough."""
        self.ask_to_end()
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def ask_to_end(self) -> None:
        """SIGTERM, once; also to a process that is held up."""
        if self._popen.poll() is None and not self._is_asked:
            self._is_asked = True
            self._popen.terminate()
            self._popen.send_signal(signal.SIGCONT)

    def is_group_gone(self) -> bool:
        try:
            os.killpg(self._popen.pid, 0)
        except ProcessLookupError:
            return True
        return False


class BrokerProcess(_Process):
    """An embedded Valkey, or Debian's redis-server."""

    def __init__(self, server: Valkey) -> None:
        super().__init__(f"broker-{server.port}", {})
        self.server = server

    @property
    def status(self) -> str:
        return "running" if self.server.pid is not None else "exited"

    def logs(self, **_: Any) -> bytes:
        return self.server.log_path.read_bytes()

    def kill(self, signal_name: str | int | None = None) -> None:
        if signal_name in (None, "SIGKILL", signal.SIGKILL):
            self.server.kill()
        else:
            self.server.stop()

    def restart(self, timeout: float = 10) -> None:
        self.server.restart()


class _Local(CeleryTestContainer):
    """Polls its log faster than once a second, and answers no longer when the process has ended."""

    _container: Any

    def _wait_ready(self, timeout: float = READY_SECONDS) -> bool:
        prompt = self.ready_prompt or ""
        eventually(lambda: prompt in self.logs() or self.status == "exited", timeout, f"{self.name} says {prompt!r}")
        assert prompt in self.logs(), f"{self.name} ended at its start:\n{self.logs()}"
        return True

    def logs(self) -> str:
        text: str = self._container.logs().decode("utf-8", "replace")
        return text


class LocalBrokerContainer(_Local, RedisContainer):
    """The broker node's container."""

    @property
    def server(self) -> Valkey:
        server: Valkey = self._container.server
        return server

    @property
    def client(self) -> "redis.Redis":
        return redis.Redis.from_url(self.host_url, decode_responses=True, retry=Retry(NoBackoff(), 0))

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def host_url(self) -> str:
        return self.server.url

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def ready_prompt(self) -> str:
        return "Ready to accept connections"


class LocalWorkerContainer(_Local, CeleryWorkerContainer):
    """A worker process of the product."""

    @classmethod
    def version(cls) -> str:
        version: str = celery.__version__
        return version

    @classmethod
    def command(cls, *args: str, debugpy: bool = False, wait_for_client: bool = True, **_: Any) -> list[str]:
        name, queues, threads = args
        return programs.worker(queues=queues.split(","), name=name, concurrency=int(threads))


class LocalBeatContainer(_Local):
    """A beat process."""

    @classmethod
    def command(cls, *args: str, debugpy: bool = False, wait_for_client: bool = True, **_: Any) -> list[str]:
        return programs.beat()

    @property
    def ready_prompt(self) -> str:
        return "beat: Starting"


class LocalFlowerContainer(_Local):
    """Flower."""

    @classmethod
    def command(cls, *args: str, debugpy: bool = False, wait_for_client: bool = True, **_: Any) -> list[str]:
        (port,) = args
        return programs.flower(address="127.0.0.1", port=int(port))

    @property
    def ready_prompt(self) -> str:
        return "Visit me at"


class LocalNode(CeleryTestNode):
    """A node whose container is a local process."""

    @property
    def process(self) -> LocalProcess:
        process: LocalProcess = self.container._container
        return process

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_running(self) -> bool:
        return self.process.status == "running"

    def wait_exit(self, seconds: float) -> int:
        """Its exit code."""
        return self.process.wait(seconds)

    def teardown(self) -> None:
        assert self.process.stop(), f"{self.process.name} did not end on SIGTERM"


class LocalWorker(LocalNode, CeleryTestWorker):
    """A worker node."""

    def __init__(self, container: CeleryTestContainer, app: Any, *, name: str, queues: Sequence[str]) -> None:
        super().__init__(container, app)
        self._name, self._queues = name, ",".join(queues)

    def hostname(self) -> str:
        """As it is known to Celery."""
        return f"{self._name}@{socket.gethostname()}"

    @property
    def worker_name(self) -> str:
        return self._name

    @property
    def worker_queue(self) -> str:
        return self._queues
