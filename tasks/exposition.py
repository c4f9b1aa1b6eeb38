"""The host's metrics over HTTP on `METRICS__PORT`: by the first worker that gets the port, then by its successor."""

import logging
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from messaging import metrics

logger = logging.getLogger(__name__)

#: Seconds between two tries for a port that another process has.
RETRY_SECONDS = 5.0


def serve(port: int, stopping: threading.Event, *, retry_seconds: float = RETRY_SECONDS) -> None:
    """Serve until `stopping` is set, from the moment the port is free; the body of a thread."""
    while not stopping.is_set():
        try:
            server = _Server(("", port), _Handler)
        except OSError as exc:
            logger.debug("metrics are shown by another process", extra={"port": port, "error": str(exc)})
            stopping.wait(retry_seconds)
            continue
        server.daemon_threads = True
        logger.info("metrics are shown here", extra={"port": port})
        threading.Thread(target=_shut_down_on, args=(stopping, server), name="metrics-stop", daemon=True).start()
        with server:
            server.serve_forever(poll_interval=1.0)


def _shut_down_on(stopping: threading.Event, server: ThreadingHTTPServer) -> None:
    stopping.wait()
    server.shutdown()


class _Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        """Without the look-up of this host's name: it may take seconds, in which another process gets the port too."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    """`/metrics`, and nothing else."""

    #: A client that says nothing must not keep its thread; seconds.
    timeout = 10

    def do_GET(self) -> None:
        """Answer a scrape."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
            return
        body = metrics.exposition()
        self.send_response(200)
        self.send_header("Content-Type", metrics.CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class'
        """Scrapes are not logged."""
