"""The demo from start to end. Nothing outlives it: children are stopped in order, and killed by the kernel if it is.

Everything lies in a folder of this run's own, so demos run side by side. What stays of it is captured mail and logs.
"""

import os
import sys
import time
import webbrowser
from contextlib import suppress
from pathlib import Path

from messaging.demo.folder import make_folder
from messaging.demo.parts import DemoFailed, Parts
from messaging.demo.stop import Stopped, StopRequest
from messaging.embedded.programs import package_folder


def run_demo(parent: Path | None, *, stay: bool, opens: bool) -> int:
    """Run the demo in a folder of its own inside `parent` (None: the temporary folder); answers the exit code.

    With `stay` it goes on until a signal comes, with `opens` in a browser too, on a machine that has a desktop.

    0 when every mail ended as it ought to, else 1; 128 and the signal's number when it was stopped before that.

    Raises: ConfigurationError, when something the demo needs is not there.
    """
    began_at = time.monotonic()
    for name in ("flower", "pymap"):
        package_folder(name, name)
    stop = StopRequest()
    with stop.listening():
        parts = Parts(make_folder(parent), stop)
        try:
            with parts:
                starts = parts.start_servers()
                # Imports take as long as PostgreSQL takes to make its data folder.
                from messaging.demo.scenario import Scenario

                for start in starts:
                    start.result()
                stop.check()
                scenario = Scenario(parts, stop, began_at)
                is_right = scenario.run()
                if stay:
                    _say("All of it stays up until Ctrl-C, and the shops stay open: look at the console.")
                    if opens:
                        _open(scenario.console_link)
                    with suppress(Stopped):
                        scenario.go_on()
                    _say("stopping ...")
        except Stopped as exc:
            return 128 + exc.number
        except DemoFailed as exc:
            _say(f"FAILED: {exc}; logs: {parts.log_folder}")
            return 1
        except BrokenPipeError:
            # Nobody reads on, so nobody could be told that all is right. Nothing more may be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        finally:
            _say(f"Stopped {time.monotonic() - began_at:.1f} s after the start; what stays: {parts.folder}")
    return 0 if is_right else 1


def _open(link: str) -> None:
    """In the browser of a desktop; one that runs in a terminal would take this one over."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(link)


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()
