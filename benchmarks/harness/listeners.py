"""People who listen to their inboxes over HTTP, each on a connection of its own, and when each heard what."""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

PATH = "/api/v1/inbox/me/events"
#: Connections that are opened at once.
_OPENING = 50


class Listeners:
    """So many streams, read by one event loop in a thread."""

    def __init__(self, port: int, tokens: Sequence[str]) -> None:
        self._port = port
        self._tokens = tokens
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._readers: list[asyncio.Task[None]] = []
        self._lock = threading.Condition()
        #: When the event that told of a notification had come in whole, by its id; monotonic seconds.
        self.heard_at: dict[int, float] = {}
        #: First events, which tell nothing new.
        self.began = 0

    def open(self) -> None:
        """Connect them all, and read what each is told first."""
        self._thread.start()
        self._in_loop(self._open()).result(120)
        with self._lock:
            assert self._lock.wait_for(lambda: self.began == len(self._tokens), 60), f"{self.began} have begun"

    def wait_for(self, ids: Sequence[int], *, timeout: float = 30) -> float:
        """Wait until all of these were heard; answers when the last one was."""
        with self._lock:
            assert self._lock.wait_for(lambda: all(one in self.heard_at for one in ids), timeout), "not all were heard"
            return max(self.heard_at[one] for one in ids)

    def close(self) -> None:
        self._in_loop(self._close()).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _in_loop(self, work: Any) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _open(self) -> None:
        gate = asyncio.Semaphore(_OPENING)

        async def connect(token: str) -> None:
            async with gate:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                head = f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
                writer.write(head.encode())
                status = await reader.readline()
                assert b" 200 " in status, status
            self._readers.append(asyncio.create_task(self._read(reader, writer)))

        await asyncio.gather(*map(connect, self._tokens))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if not line.startswith(b"data: "):
                    continue
                at = time.monotonic()
                told = json.loads(line.removeprefix(b"data: "))
                with self._lock:
                    self.began += told["reload"]
                    for one in told["notifications"]:
                        self.heard_at[int(one["id"])] = at
                    self._lock.notify_all()
        finally:
            writer.close()

    async def _close(self) -> None:
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
