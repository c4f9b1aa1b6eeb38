"""The servers all benchmarks share, started when first needed: PostgreSQL, Valkey, the sink.

PostgreSQL runs with `fsync` and `synchronous_commit` on, and with room for what the benchmarks load; a database made
here is migrated and knows one mail server.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Protocol

import redis
from cryptography.fernet import Fernet

from benchmarks.harness.database import Database
from benchmarks.harness.far_end import SmsProvider, SmtpSink, TimingServer
from benchmarks.harness.process import Child, Group
from messaging import programs
from messaging.db import schema
from messaging.embedded import Postgres, Valkey
from messaging.settings import Settings

#: Worker processes, one a core of the machine the bars were set on; every contender but bare smtplib gets as many.
PROCESSES = 2
#: Threads of each of ours: the best number over a fast server (8 wait for the interpreter's lock, a quarter slower).
THREADS = 4
#: Threads of each process of an opponent, as the bars ask; with 4 they were no faster.
OPPONENT_THREADS = 8

POSTGRES_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
}


class Stoppable(Protocol):
    """What the stand has started."""

    def stop(self) -> None: ...


class Stand:
    """What a benchmark is given. Everything started here is stopped by `close`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._started: list[Stoppable] = []
        self._databases: list[Database] = []
        self._secrets_key = Fernet.generate_key().decode()

    @cached_property
    def postgres(self) -> Postgres:
        server = Postgres(self.root / "postgres", settings=POSTGRES_SETTINGS).start()
        self._started.append(server)
        server.create_database("template")
        schema.upgrade(server.url("template"))
        return server

    @cached_property
    def valkey(self) -> Valkey:
        server = Valkey(self.root / "valkey").start()
        self._started.append(server)
        return server

    @cached_property
    def sink(self) -> SmtpSink:
        sink = SmtpSink(self.root)
        self._started.append(sink)
        return sink

    def timing_server(self, *, delay_seconds: float = 0.0) -> TimingServer:
        """An SMTP server that answers the data late, and tells when each message began."""
        server = TimingServer(self.root, delay_seconds=delay_seconds)
        self._started.append(server)
        return server

    def sms_provider(self, *, delay_seconds: float) -> SmsProvider:
        """A provider of text messages that answers late."""
        provider = SmsProvider(self.root, delay_seconds=delay_seconds)
        self._started.append(provider)
        return provider

    def database(self, name: str, *, smtp_port: int | None = None, template: str = "template") -> Database:
        """A database of its own, migrated (or copied from another one), whose mail goes to the port, else the sink."""
        self.postgres.create_database(name, template=template)
        # The nudge in this process loads celeryconfig, which reads the environment.
        os.environ.update(self.environment(name))
        database = Database(name, self.settings(name))
        self._databases.append(database)
        if template == "template":
            database.add_server(self.sink.port if smtp_port is None else smtp_port)
        return database

    def settings(self, database: str) -> Settings:
        """The product's settings: its defaults, but for the addresses."""
        return Settings(
            database_url=self.postgres.url(database),
            redis_url=self.valkey.url,
            secrets_keys=(self._secrets_key,),
        )

    def environment(self, database: str) -> dict[str, str]:
        """The same for a process of ours."""
        return {
            "MESSAGING_DATABASE_URL": self.postgres.url(database),
            "MESSAGING_REDIS_URL": self.valkey.url,
            "MESSAGING_SECRETS_KEYS": self._secrets_key,
        }

    @contextmanager
    def system(
        self,
        database: str,
        *,
        queue: str = "mail_send",
        processes: int = PROCESSES,
        threads: int = THREADS,
        variables: Mapping[str, str] | None = None,
    ) -> Iterator["System"]:
        """Our own processes at work on a database: workers of one queue, a control worker and beat.

        `variables`: settings other than the defaults, as environment variables.
        """
        system = System(self, database, queue=queue, processes=processes, threads=threads, variables=variables or {})
        self._started.append(system)
        try:
            yield system
        finally:
            system.stop()

    def clear(self) -> None:
        """Between two benchmarks: drop the databases and forget what is queued, so that neither costs the next one."""
        for database in self._databases:
            database.stop()
            self.postgres.drop_database(database.name)
        self._databases.clear()
        redis.Redis.from_url(self.valkey.url).flushall()

    def close(self) -> None:
        for part in reversed([*self._started, *self._databases]):
            part.stop()


class System(Group):
    """Workers, a control worker and beat, as an operator starts them; `celeryconfig` has task events on."""

    def __init__(
        self, stand: Stand, database: str, *, queue: str, processes: int, threads: int, variables: Mapping[str, str]
    ) -> None:
        environment = stand.environment(database) | dict(variables)

        def start(name: str, *arguments: str) -> Child:
            return Child(name, [*celery("tasks"), *arguments], stand.root / f"{name}.log", environment)

        def start_worker(name: str, queue: str, concurrency: int) -> Child:
            argv = programs.worker(queues=[queue], name=name, concurrency=concurrency)
            return Child(name, argv, stand.root / f"{name}.log", environment)

        self.workers = [start_worker(f"{queue}{n}-{database}", queue, threads) for n in range(processes)]
        self.control = start_worker(f"control-{database}", "control", 2)
        schedule = stand.root / f"beat-{database}"
        self.beat = start(f"beat-{database}", "beat", "-s", str(schedule), "--pidfile=", "-l", "INFO")
        super().__init__([*self.workers, self.control, self.beat])
        for worker in (*self.workers, self.control):
            worker.wait_for(" ready.")
        self.beat.wait_for("beat: Starting")


def celery(app: str) -> list[str]:
    """The command line of Celery with an application of this tree."""
    return [sys.executable, "-m", "celery", "-A", app]


@contextmanager
def a_stand() -> Iterator[Stand]:
    """A stand in a temporary folder that the database's own user may pass through."""
    with tempfile.TemporaryDirectory(prefix="messaging-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        stand = Stand(Path(folder))
        try:
            yield stand
        finally:
            stand.close()
