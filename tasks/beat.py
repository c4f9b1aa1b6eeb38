"""Beat's end. It holds nothing, so it may end at any moment; it must never miss that it should.

Celery's own handler closes the broker's connection wherever the signal finds it. In the middle of a reply the client
then stumbles over its closed buffer, that error takes the place of SystemExit, Celery logs it as a tick that could not
be published, and beat goes on for ever.
"""

import signal
import threading
from typing import Any


def end_on_signals(service: Any) -> None:
    """From here on SIGTERM and SIGINT end Celery's beat `service`, whatever they find it at."""
    if threading.current_thread() is not threading.main_thread():
        return

    def end(*_: Any) -> None:
        # A second signal must not interrupt what the first one sets.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        # First the mark that its loop looks at, in case somebody swallows the exception, which ends a wait at once.
        service.stop()
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
