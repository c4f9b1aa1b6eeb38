"""A message that no worker could process becomes a dead letter, and the worker goes on.

The consumer looks at a message before Celery does: Celery takes a missing `id` for a lost connection and starts over
for ever, and ends the worker at a body that is no task's. A dependency that is down is not poison. Archiving never
raises.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from celery import Task, signals
from celery.exceptions import WorkerLostError
from celery.worker.consumer import Consumer
from kombu.exceptions import ContentDisallowed, DecodeError, OperationalError
from redis.exceptions import DataError, RedisError
from sqlalchemy.exc import InterfaceError, SQLAlchemyError
from sqlalchemy.exc import OperationalError as DatabaseOperationalError

from messaging import metrics
from messaging.channels import CHANNELS
from messaging.db.trouble import is_away
from messaging.delivery.dead_letter import store_poison
from messaging.delivery.dispatch import PublishFailed
from messaging.delivery.poison import PoisonMessage, PoisonType
from tasks import worker

logger = logging.getLogger(__name__)


def is_dependency_down(exc: BaseException) -> bool:
    """Whether the database, Redis or the broker is away: the lease and the sweep bring back what the task had.

    Redis is also away when it answers and takes nothing: as a replica after a failover, or with its memory full.
    """
    match exc:
        case SQLAlchemyError():
            return isinstance(exc, DatabaseOperationalError | InterfaceError) or is_away(exc)
        case RedisError():
            return not isinstance(exc, DataError)
        case _:
            return isinstance(exc, OperationalError | PublishFailed)


class WrongArguments(TypeError):
    """A task's arguments have the right number and not the right shape."""


class RedeliveredTooOften(Exception):
    """The broker repeats a message that never comes to an end: it may be what kills its workers."""


def archive(message: PoisonMessage) -> None:
    """Store one dead letter in a transaction of its own; counts and logs it. Never raises, never logs the payload."""
    facts = {
        "event_type": message.type.value,
        "queue": message.queue,
        "task": message.task_name,
        "task_id": message.task_id,
    }
    metrics.poison(message.type)
    process = worker.find_process()
    if process is None or not process.settings.dead_letter.poison_enabled:
        logger.error("message could not be processed and is not archived", extra=facts)
        return
    try:
        with process.archive_engine.begin() as connection:
            dead_letter_id = store_poison(connection, message, record_tables=[c.table for c in CHANNELS.values()])
    except (SQLAlchemyError, ValueError) as exc:
        logger.critical("message could not be processed, nor archived", extra=facts | {"error": type(exc).__name__})
        return
    if dead_letter_id is None:
        logger.warning("message could not be processed, as one before it", extra=facts)
    else:
        logger.error("message could not be processed and is archived", extra=facts | {"dead_letter_id": dead_letter_id})
        process.alerting.tell(dead_letter_id)


class PoisonConsumer(Consumer):
    """Celery's consumer with every way out of a message it cannot take leading to the archive, then acknowledgement."""

    connection_errors: tuple[type[BaseException], ...]

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        handle = super().create_task_handler(*args, **kwargs)

        def on_task_received(message: Any) -> None:
            problem = find_problem(message)
            if problem is not None:
                self.on_invalid_task(None, message, problem)
                return
            try:
                handle(message)
            except (AttributeError, LookupError, TypeError, ValueError) as exc:
                # Of one message, not of the connection: Celery would end the worker or start it over.
                if message.acknowledged:
                    raise
                self.on_invalid_task(None, message, exc)

        return on_task_received

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """The broker is lost. A message in hand at that moment must not end the worker.

        Kombu gives it back over the connection that is gone and raises what Celery takes for a bug. The lease brings
        back what it named; a mail request is repeated by the broker.
        """
        try:
            super().on_connection_error_after_connected(exc)
        except AttributeError:
            logger.warning("the broker was lost with a message in hand", extra={"error": type(exc).__name__})

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """The body cannot be decoded: Celery sends no signal for that."""
        archive(_describe(message, PoisonType.UNDECODABLE, exc))
        message.ack_log_error(logger, self.connection_errors)

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Neither of Celery's message formats."""
        signals.task_rejected.send(sender=self, message=message, exc=None)
        message.ack_log_error(logger, self.connection_errors)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """No task of this name."""
        name, task_id = message.headers["task"], message.headers.get("id")
        signals.task_unknown.send(sender=self, message=message, exc=exc, name=name, id=task_id)
        message.ack_log_error(logger, self.connection_errors)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Content type, headers or arguments that do not fit."""
        signals.task_rejected.send(sender=self, message=message, exc=exc)
        message.ack_log_error(logger, self.connection_errors)


def find_problem(message: Any) -> WrongArguments | None:
    """What of a message that names a task would end or confuse Celery's consumer; None when it can have it.

    A body that cannot be decoded and a message without a task header are Celery's to report.
    """
    headers = message.headers
    if not isinstance(headers, Mapping) or "task" not in headers:
        return None
    for name in ("task", "id"):
        value = headers.get(name)
        if not isinstance(value, str) or not value:
            return WrongArguments(f"header {name!r} is {type(value).__name__}; a text is needed")
    try:
        payload = message.payload
    except (ContentDisallowed, DecodeError):
        return None
    match payload:
        case [list(), dict(), dict() | None]:
            return None
        case _:
            return WrongArguments("the body is not [arguments, keyword arguments, options]")


def on_task_rejected(message: Any, exc: Exception | None, **_: Any) -> None:
    """Signal: a message without a task (no exception), or one whose content type, headers or body do not fit."""
    kind = PoisonType.UNDECODABLE if exc is None else PoisonType.INVALID_TASK
    archive(_describe(message, kind, exc or "the message has no task header"))


def on_task_unknown(message: Any, exc: Exception, name: str, **_: Any) -> None:
    """Signal: no task of this name."""
    archive(_describe(message, PoisonType.UNKNOWN_TASK, f"no task is registered as {name!r}"))


def on_task_failure(
    sender: Task[Any, Any], task_id: str, exception: BaseException, args: Any, kwargs: Any, **_: Any
) -> None:
    """Signal: a task raised. Its arguments do not fit, or there is a bug.."""
    if is_dependency_down(exception):
        return
    if isinstance(exception, WorkerLostError | RedeliveredTooOften):
        kind = PoisonType.WORKER_LOST
    elif _fit(sender, args, kwargs) and not isinstance(exception, WrongArguments):
        kind = PoisonType.TASK_RAISED
    else:
        kind = PoisonType.INVALID_TASK
    process = worker.find_process()
    info = getattr(sender.request, "delivery_info", None) or {}
    archive(
        PoisonMessage(
            type=kind,
            queue=str(info.get("routing_key") or ""),
            body=[args, kwargs],
            error=f"{type(exception).__name__}: {exception}",
            task_name=sender.name,
            task_id=task_id,
            worker_name=process.hostname if process else None,
            # What is acknowledged late has nothing behind it, neither a row nor beat.
            is_only_copy=bool(sender.acks_late),
        )
    )


def connect_signals() -> None:
    """Archive what Celery reports by signal; for the life of the process."""
    signals.task_rejected.connect(on_task_rejected, weak=False)
    signals.task_unknown.connect(on_task_unknown, weak=False)
    signals.task_failure.connect(on_task_failure, weak=False)


def _fit(task: Task[Any, Any], args: Any, kwargs: Any) -> bool:
    try:
        inspect.signature(task.run).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _describe(message: Any, kind: PoisonType, error: object) -> PoisonMessage:
    headers = message.headers if isinstance(message.headers, Mapping) else {}
    info = message.delivery_info if isinstance(message.delivery_info, Mapping) else {}
    process = worker.find_process()
    return PoisonMessage(
        type=kind,
        queue=str(info.get("routing_key") or ""),
        body=message.body,
        error=f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error),
        task_name=_text_or_none(headers.get("task")),
        task_id=_text_or_none(headers.get("id")),
        worker_name=process.hostname if process else None,
    )


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
