"""Logs of worker and beat: those of `messaging.logs`, without Celery's own report of each task's arguments."""

import logging

from messaging import logs
from messaging.logs import formatter

__all__ = ["configure", "formatter"]

#: Loggers that report every task received and finished: Flower lists the same, and it costs a worker's time.
_PER_TASK = ("celery.worker.strategy", "celery.app.trace")


#: Says at DEBUG each task's whole message, content of mail requests and all.
_WHOLE_MESSAGES = "celery.pool"

#: What beat says at each tick.
_SENDING = "Scheduler: Sending due task"


def configure(level: int | str | None, logfile: str | None = None) -> None:
    """Send the process' logs to standard error, or to `logfile`, as JSON; replaces what was configured before."""
    logs.configure(level, logfile)
    root = logging.getLogger()
    for name in _PER_TASK:
        logging.getLogger(name).setLevel(logging.DEBUG if root.level <= logging.DEBUG else logging.WARNING)
    logging.getLogger(_WHOLE_MESSAGES).setLevel(logging.INFO)
    if root.level > logging.DEBUG:
        logging.getLogger("celery.beat").addFilter(_is_no_tick)


def _is_no_tick(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_SENDING)
