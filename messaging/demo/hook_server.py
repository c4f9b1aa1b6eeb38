"""The shop's own application in the demo: a program that is told events, and believes those that are signed.

It checks signatures with the library of Standard Webhooks and writes what it was told into the demo's journal, one JSON
object a line. The first event that it is told it answers with 503, once, as an application does that is being deployed.
"""

import argparse
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

#: Where the program finds the endpoint's secret: a command line is seen by every user of the machine.
SECRET_VARIABLE = "HOOK_SERVER_SECRET"  # noqa: S105  # a name

#: Where events are told.
PATH = "/events"
#: Octets of a request that are read.
MAX_REQUEST_BYTES = 65_536


class Application:
    """Takes events, writes `journal`."""

    def __init__(self, journal: Path, secret: str) -> None:
        self._journal = journal
        self._webhook = Webhook(secret)
        self._lock = threading.Lock()
        self._was_busy = False

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """The status to answer with."""
        try:
            event = self._webhook.verify(body, headers)
        except WebhookVerificationError as exc:
            self._note("told without a signature", reason=str(exc))
            return 401
        told = {"id": headers["webhook-id"], "type": event["type"], "record_id": event["data"].get("id")}
        with self._lock:
            is_busy, self._was_busy = not self._was_busy, True
        if is_busy:
            self._note("told while busy", **told)
            return 503
        self._note("told", **told)
        return 204

    def _note(self, event: str, **facts: Any) -> None:
        with self._journal.open("a") as journal:
            journal.write(json.dumps({"event": event, **facts}) + "\n")


class _Server(ThreadingHTTPServer):
    def __init__(self, application: Application, port: int) -> None:
        self.application = application
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True  # its body is not read
            return self._say(411)
        body = self.rfile.read(int(length))
        if self.path != PATH:
            return self._say(404)
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self._say(self.server.application.take(headers, body))

    def _say(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """The journal says more."""


def main() -> None:
    """Serve until the process is ended; the port is written to a file once it listens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journal", type=Path)
    parser.add_argument("port_file", type=Path)
    given = parser.parse_args()
    server = _Server(Application(given.journal, os.environ[SECRET_VARIABLE]), 0)
    written = given.port_file.with_suffix(".new")
    written.write_text(str(server.server_port))
    written.replace(given.port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
