"""A client of server-sent events that reads when it is asked to, as slowly as a test likes."""

import json
import socket
from dataclasses import dataclass
from typing import Any

PATH = "/api/v1/inbox/me/events"


@dataclass(frozen=True)
class Event:
    id: str
    reload: bool
    notifications: list[dict[str, Any]]
    unread_count: int

    @property
    def ids(self) -> list[int]:
        return [int(one["id"]) for one in self.notifications]


class Stream:
    """One connection, after the head of its answer was read."""

    def __init__(
        self,
        port: int,
        token: str = "",
        *,
        cookie: str = "",
        since: str | None = None,
        receive_octets: int | None = None,
    ) -> None:
        self._socket = socket.socket()
        if receive_octets is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_octets)
        self._socket.settimeout(20)
        self._socket.connect(("127.0.0.1", port))
        head = [f"GET {PATH} HTTP/1.1", "Host: localhost"]
        head.append(f"Cookie: {cookie}" if cookie else f"Authorization: Bearer {token}")
        if since is not None:
            head.append(f"Last-Event-ID: {since}")
        self._socket.sendall("\r\n".join([*head, "", ""]).encode())
        self._octets = b""
        self.status = int((self._until(b"\r\n") or b"").split()[1])
        self.headers: dict[str, str] = {}
        while line := self._until(b"\r\n"):
            name, _, value = line.decode().partition(":")
            self.headers[name.lower()] = value.strip()
        #: Of what the chunks of the body hold together.
        self._text = ""

    def close(self) -> None:
        self._socket.close()

    def next(self, *, seconds: float = 20) -> Event | None:
        """The next event; None at the end of the stream. Raises: TimeoutError."""
        self._socket.settimeout(seconds)
        while True:
            while "\n\n" not in self._text:
                chunk = self._chunk()
                if not chunk:
                    return None
                self._text += chunk.replace("\r\n", "\n")
            block, _, self._text = self._text.partition("\n\n")
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line and line[0] != ":")
            if "data" in fields:
                assert fields["event"] == "inbox"
                return Event(fields["id"], **json.loads(fields["data"]))

    def event(self) -> Event:
        found = self.next()
        assert found is not None, "the stream has ended"
        return found

    def _chunk(self) -> str:
        """The next chunk of the body; empty at its end. A time-out leaves what has come for the next call."""
        while True:
            line, has_line, rest = self._octets.partition(b"\r\n")
            if has_line:
                size = int(line, 16)
                if len(rest) >= size + 2:
                    self._octets = rest[size + 2 :]
                    return rest[:size].decode()
            if not self._receive():
                return ""

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._octets:
            assert self._receive(), "the connection has ended"
        found, _, self._octets = self._octets.partition(mark)
        return found

    def _receive(self) -> bool:
        octets = self._socket.recv(65536)
        self._octets += octets
        return bool(octets)
