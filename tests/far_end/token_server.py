"""The service that tells a mail server whose an access token is, as Dovecot asks for it (its `tokeninfo_url`)."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit


class TokenServer:
    """A context manager. `users`: names by access token; what is not in it is refused."""

    def __init__(self) -> None:
        self.users: dict[str, str] = {}
        #: Every token that was asked about.
        self.asked: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                [token] = parse_qs(urlsplit(self.path).query).get("access_token", [""])
                server.asked.append(token)
                user = server.users.get(token)
                answer = json.dumps({"email": user} if user else {"error": "invalid_token"}).encode()
                self.send_response(200 if user else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing is said."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.tokeninfo_url = f"http://127.0.0.1:{self._server.server_port}/tokeninfo?access_token="

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()
