"""Celery's pool of threads, in which the end of a task wakes the worker's loop, so that the next message is fetched.

With prefetching off the loop asks the broker only while a thread is free, and only when something makes it turn. A task
that sends no events makes nothing turn: when all threads were busy for a moment, what lies in the queue would wait for
a timer, a second or more for each handful of ticks.
"""

from concurrent.futures import Future
from typing import Any

from celery.concurrency.thread import TaskPool
from kombu.asynchronous import Hub


class WakingPool(TaskPool):
    """What `worker_pool` names."""

    _hub: Hub | None = None

    def register_with_event_loop(self, loop: Hub) -> None:
        """Called when the loop begins, also after a lost connection."""
        self._hub = loop

    def on_apply(self, *args: Any, **options: Any) -> Any:
        """Submit one task."""
        result = super().on_apply(*args, **options)
        result.f.add_done_callback(self._wake)
        return result

    def _wake(self, _: "Future[Any]") -> None:
        if self._hub is not None:
            self._hub.call_soon(_turn)


def _turn() -> None:
    """The loop turns, which is all."""
