"""The HTTP application as an operator starts it, and tokens for those who call it."""

import http.client
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy.orm import Session

from benchmarks.harness.database import Database
from benchmarks.harness.process import Child
from benchmarks.harness.stand import Stand
from messaging import programs
from messaging.access.roles import Role
from messaging.api import access


class Web(Child):
    """One process of it, and its port."""

    def __init__(self, stand: Stand, database: str, variables: Mapping[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        argv = programs.web(host="127.0.0.1", port=self.port, log_level="WARNING")
        environment = stand.environment(database) | dict(variables)
        super().__init__("web", argv, stand.root / "web.log", environment)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"web did not get ready:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)


@contextmanager
def web(stand: Stand, database: str, variables: Mapping[str, str] | None = None) -> Iterator[Web]:
    """The application on a database; `variables`: settings other than the defaults."""
    running = Web(stand, database, variables or {})
    try:
        yield running
    finally:
        running.stop()


def tokens(database: Database, people: range) -> list[str]:
    """A token of each of these people, by which their notifications are sent and heard."""
    database.use()
    with Session(database.engine) as session:
        made = [access.add_token("bench", role=Role.SENDER, user_id=one, session=session).token for one in people]
        session.commit()
    return made
