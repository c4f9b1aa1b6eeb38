"""What tasks answered, from the events that Flower reads too."""

import ast
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery.events.receiver import EventReceiver

from tests.acceptance.system import MessagingSetup


@contextmanager
def task_results(setup: MessagingSetup) -> Iterator[list[dict[str, int]]]:
    """Results of tasks as they succeed, from now on, less their zeros; ticks send no events."""
    results: list[dict[str, int]] = []
    is_listening = threading.Event()

    class Receiver(EventReceiver):  # type: ignore[misc]
        app = setup.app

        def on_consume_ready(self, *_: Any, **__: Any) -> None:
            is_listening.set()

    def note(event: dict[str, Any]) -> None:
        if event["type"] == "task-succeeded":
            counts: dict[str, int] = ast.literal_eval(event["result"])
            results.append({key: count for key, count in counts.items() if count})

    with setup.app.connection_for_read() as connection:
        receiver = Receiver(connection, handlers={"*": note})
        thread = threading.Thread(target=receiver.capture, kwargs={"wakeup": False}, daemon=True)
        thread.start()
        assert is_listening.wait(20), "no events can be received"
        try:
            yield results
        finally:
            receiver.should_stop = True
            thread.join(10)
