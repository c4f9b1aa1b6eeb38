"""`python -m tasks -Q mail_send -n mail@%h`: a worker without Celery's command line; what `messaging worker` runs.

The worker is the same as that of `celery -A tasks worker`. The command line alone costs a worker's process some 12 MB
(click's shell, and Flower's plug-in where Flower is installed) and half a second at its start.
"""

import argparse
import contextlib
import ctypes
import importlib
import sys
from collections.abc import Sequence

from celery.utils.nodenames import default_nodename, host_format

from tasks.app import app

#: Of `mallopt`, from glibc's malloc.h.
_M_ARENA_MAX = -8


def _load_structlog() -> None:
    """With its output for people, which no worker writes, it would load rich and pygments: 4 MB."""
    is_first = "rich" not in sys.modules
    if is_first:
        sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails, as where it is not installed
    try:
        importlib.import_module("structlog")
    finally:
        if is_first:
            del sys.modules["rich"]


def _use_one_arena() -> None:
    """The C library would keep a heap for each thread, 2 MB in all; most of what Python allocates is in its own."""
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until it is told to stop; answers the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tasks", description="Run a worker.")
    parser.add_argument("-Q", "--queues", required=True, help="comma list")
    parser.add_argument("-n", "--hostname", default="celery@%h", help="the node's name; %%h is the host's")
    parser.add_argument("-c", "--concurrency", type=int, help="threads; by default that of celeryconfig")
    parser.add_argument("-l", "--loglevel", default="INFO")
    given = parser.parse_args(arguments)
    _load_structlog()
    _use_one_arena()
    worker = app.Worker(
        hostname=host_format(default_nodename(given.hostname)),
        queues=given.queues.split(","),
        concurrency=given.concurrency,
        loglevel=given.loglevel,
        # Workers have nothing to tell each other, as the database decides who does what; mingling costs a second.
        without_mingle=True,
        without_gossip=True,
        quiet=True,
    )
    worker.start()
    code: int = worker.exitcode or 0
    return code


if __name__ == "__main__":
    sys.exit(main())
