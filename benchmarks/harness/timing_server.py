"""An SMTP server in one event loop: answers the data after a delay, prints when each message's first byte came in.

`python -m benchmarks.harness.timing_server PORT DELAY`. It takes pipelined commands and any number of connections. Each
line of its output is one message: seconds of the system's monotonic clock, which all processes of a machine share.
"""

import asyncio
import sys
import time

_EXTENSIONS = b"250-timing\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 ENHANCEDSTATUSCODES\r\n"


class Dialogue(asyncio.Protocol):
    """One connection."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay = delay_seconds
        self._buffer = b""
        self._in_data = False
        self._is_waiting = False
        self._first_byte: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(b"220 timing ESMTP\r\n")

    def data_received(self, data: bytes) -> None:
        if self._first_byte is None:
            self._first_byte = time.monotonic()
        self._buffer += data
        if not self._is_waiting:
            self._work()

    def _work(self) -> None:
        while not self._is_waiting:
            if self._in_data:
                _, end, rest = self._buffer.partition(b"\r\n.\r\n")
                if not end:
                    return
                self._buffer, self._in_data, self._is_waiting = rest, False, True
                asyncio.get_running_loop().call_later(self._delay, self._taken)
            else:
                line, end, rest = self._buffer.partition(b"\r\n")
                if not end:
                    return
                self._buffer = rest
                self._command(line[:4].upper())

    def _command(self, verb: bytes) -> None:
        match verb:
            case b"EHLO":
                self._transport.write(_EXTENSIONS)
            case b"DATA":
                self._in_data = True
                self._transport.write(b"354 go on\r\n")
            case b"QUIT":
                self._transport.write(b"221 2.0.0 bye\r\n")
                self._transport.close()
            case b"RSET" | b"NOOP":
                self._transport.write(b"250 2.0.0 ok\r\n")
                self._first_byte = None
            case _:
                self._transport.write(b"250 2.1.0 ok\r\n")

    def _taken(self) -> None:
        self._is_waiting = False
        if not self._transport.is_closing():
            self._transport.write(b"250 2.0.0 taken\r\n")
            print(f"{self._first_byte:.6f}", flush=True)
            self._first_byte = time.monotonic() if self._buffer else None
            self._work()


async def serve(port: int, delay_seconds: float) -> None:
    """Listen until the process ends."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Dialogue(delay_seconds), "127.0.0.1", port, backlog=200
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
