"""The Celery application: configuration, logging, and what a worker does at its start and end."""

import gc
import logging
from collections.abc import Mapping
from typing import Any

from celery import Celery, Task, signals
from celery.loaders.app import AppLoader

from messaging.errors import ConfigurationError
from tasks import beat, logs, poison, worker

logger = logging.getLogger(__name__)


class OneLineLoader(AppLoader):
    """Reads `celeryconfig`; settings that are missing or contradict each other end the program with one line."""

    def config_from_object(self, obj: Any, silent: bool = False) -> Any:
        try:
            return super().config_from_object(obj, silent=silent)
        except ConfigurationError as exc:
            worker.refuse(str(exc))


class ThinTask(Task):  # type: ignore[type-arg]
    """A task whose dependency may be down: it ends with a warning and nothing is archived (`operate.md` section 4)."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.run(*args, **kwargs)
        except Exception as exc:
            if not poison.is_dependency_down(exc):
                raise
            logger.warning(
                "task ended, a dependency is down; the lease or the sweep brings back what it had",
                extra={"task": self.name, "task_id": self.request.id, "error": type(exc).__name__},
            )
            return {"dependency_down": type(exc).__name__}


app = Celery("messaging", loader=OneLineLoader, task_cls=ThinTask)
app.config_from_object("celeryconfig")
poison.connect_signals()


@signals.setup_logging.connect(weak=False)
def on_setup_logging(loglevel: int | str | None = None, logfile: str | None = None, **_: Any) -> None:
    """Celery's own logging is not set up where this is connected: worker and beat write JSON lines."""
    logs.configure(loglevel, logfile)


@signals.beat_init.connect(weak=False)
def on_beat_init(sender: Any, **_: Any) -> None:
    """Celery has set its own handlers of signals."""
    beat.end_on_signals(sender)


@signals.worker_init.connect(weak=False)
def on_worker_init(sender: Any, **_: Any) -> None:
    """The queues are chosen and nothing is connected yet."""
    # Celery sets logging up right after this; until then the lines of the threads that start here would be lost.
    logs.configure(sender.loglevel)
    queues: Mapping[str, Any] = sender.app.amqp.queues.consume_from
    worker.start(hostname=sender.hostname, threads=sender.concurrency, queues=frozenset(queues))
    # What was imported stays for good: looking through it for garbage takes as long as reading a hundred mails.
    gc.freeze()


@signals.worker_shutting_down.connect(weak=False)
def on_worker_shutting_down(**_: Any) -> None:
    """In the signal handler."""
    process = worker.find_process()
    if process is not None:
        process.begin_stop()


@signals.worker_shutdown.connect(weak=False)
def on_worker_shutdown(**_: Any) -> None:
    """The pool has ended."""
    worker.end()
