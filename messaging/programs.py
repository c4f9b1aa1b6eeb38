"""How our programs are started: their command lines, and the one folder they run in. Nothing is started here."""

import sys
from collections.abc import Sequence
from pathlib import Path

_CELERY = (sys.executable, "-m", "celery", "-A", "tasks")


def working_folder() -> Path:
    """Where these programs run: Celery looks for `tasks` and `celeryconfig` in its working directory first."""
    return Path(__file__).resolve().parent.parent


def worker(*, queues: Sequence[str], name: str, log_level: str = "INFO", concurrency: int | None = None) -> list[str]:
    """A worker on these queues; `name` is unique on its host. Concurrency None is that of `celeryconfig`."""
    options = ["-Q", ",".join(queues), "-n", f"{name}@%h", "-l", log_level]
    # The worker of `celery -A tasks worker`, without the 12 MB of Celery's command line.
    return [sys.executable, "-m", "tasks", *options, *([] if concurrency is None else ["-c", str(concurrency)])]


def beat(*, log_level: str = "INFO") -> list[str]:
    """Beat without files: its schedule is fixed, so nothing is worth one, and two beats must never share it."""
    return [*_CELERY, "beat", "-S", "celery.beat:Scheduler", "--pidfile=", "-l", log_level]


def flower(*, address: str, port: int, may_control: bool = False) -> list[str]:
    """Flower; user and password come from FLOWER_BASIC_AUTH, as every user of the machine can read a command line."""
    return [*_CELERY, "flower", f"--address={address}", f"--port={port}", f"--read-only={str(not may_control).lower()}"]


def web(*, host: str, port: int, trusted_proxies: Sequence[str] = (), log_level: str = "INFO") -> list[str]:
    """The HTTP application; `X-Forwarded-For` of the trusted proxies alone says who calls."""
    options = [f"--host={host}", f"--port={port}", f"--trusted-proxies={','.join(trusted_proxies)}"]
    return [sys.executable, "-m", "messaging.web", *options, f"--log-level={log_level}"]
