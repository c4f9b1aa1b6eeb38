"""Ways to a server that tests can shut: at a command of theirs a client waits for an answer until they let it pass."""

import socket
import threading
import time
from select import select
from typing import Self

#: Seconds between two looks whether the gate was opened.
LOOK_SECONDS = 0.02
CHUNK_BYTES = 65_536


class _Listening:
    """A port with a thread for each connection; a context manager."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            if select([self._listener], [], [], LOOK_SECONDS)[0]:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                self._talk(client)
            except OSError:
                return  # one of both sides went away

    def _talk(self, client: socket.socket) -> None:
        raise NotImplementedError


class Gate(_Listening):
    """Passes everything on to a port of this host, except the command that it holds."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._target = port
        self._words, self._left = b"", 0
        self._open = threading.Event()
        self._open.set()
        #: A client waits for an answer to the command that is held.
        self.holds = threading.Event()

    def hold(self, words: bytes, *, at: int = 1) -> None:
        """Hold a command with these words, the `at`-th one of all clients; what comes after that passes."""
        self._words, self._left = words, at
        self._open.clear()
        self.holds.clear()

    def release(self) -> None:
        """Let the command pass."""
        self._words = b""
        self._open.set()

    def _is_to_hold(self, octets: bytes) -> bool:
        if not self._words or self._words not in octets:
            return False
        self._left -= 1
        return self._left == 0

    def _talk(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._target)) as server:
            held = b""
            while not self._stopping.is_set():
                if held and self._open.is_set():
                    server.sendall(held)
                    held = b""
                for side in select([client, server], [], [], LOOK_SECONDS)[0]:
                    octets = side.recv(CHUNK_BYTES)
                    if not octets:
                        return
                    if side is server:
                        client.sendall(octets)
                    elif held or self._is_to_hold(octets):
                        held += octets
                        self.holds.set()
                    else:
                        server.sendall(octets)


class Silent(_Listening):
    """Accepts connections and says nothing, until it hangs up."""

    def __init__(self) -> None:
        super().__init__()
        self._hung_up = threading.Event()
        #: Wall seconds at which a client came, and at which one went away first.
        self.came_at: float | None = None
        self.left_at: float | None = None

    def hang_up(self) -> None:
        """End all connections, those that come from now on too."""
        self._hung_up.set()

    def _talk(self, client: socket.socket) -> None:
        self.came_at = self.came_at or time.time()
        while not self._stopping.is_set() and not self._hung_up.is_set():
            if select([client], [], [], LOOK_SECONDS)[0] and not client.recv(CHUNK_BYTES):
                self.left_at = self.left_at or time.time()
                return
