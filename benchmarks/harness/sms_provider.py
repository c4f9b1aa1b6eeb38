"""Infobip's and Twilio's HTTP APIs in one event loop: every message is taken, and answered after a delay.

`python -m benchmarks.harness.sms_provider PORT DELAY`. Any number of kept connections; a line of output a message.
Nothing is checked but the path: the tests' far ends are strict, this one must not be what is slow.
"""

import asyncio
import itertools
import re
import sys

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_INFOBIP = (
    b'{"bulkId":"b-1","messages":[{"messageId":"20332472078%09d","status":{"groupId":1,"groupName":"PENDING","id":26,'
    b'"name":"PENDING_ACCEPTED","description":"Message sent to next instance"},"destination":"14155550101",'
    b'"details":{"messageCount":1}}]}'
)
_TWILIO = (
    b'{"account_sid":"AC00000000000000000000000000000001","api_version":"2010-04-01","body":"","date_created":'
    b'"Mon, 02 Nov 2026 08:00:00 +0000","date_sent":null,"date_updated":"Mon, 02 Nov 2026 08:00:00 +0000",'
    b'"direction":"outbound-api","error_code":null,"error_message":null,"from":"+14155550100",'
    b'"messaging_service_sid":null,"num_media":"0","num_segments":"1","price":null,"price_unit":"USD",'
    b'"sid":"SM%032d","status":"queued","subresource_uris":{},"to":"+14155550101","uri":"/"}'
)
_REPLIES = {
    b"/sms/3/messages": (b"200 OK", _INFOBIP),
    b"/2010-04-01/Accounts/AC00000000000000000000000000000001/Messages.json": (b"201 Created", _TWILIO),
}


class Dialogue(asyncio.Protocol):
    """One connection: requests come one after the other, as HTTP/1.1 clients without pipelining send them."""

    def __init__(self, delay_seconds: float, numbers: "itertools.count[int]") -> None:
        self._delay = delay_seconds
        self._numbers = numbers
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head + b"\r\n")
        if length is None or len(body) < int(length[1]):
            return
        path = head.split(b" ", 2)[1]
        self._buffer = body[int(length[1]) :]
        asyncio.get_running_loop().call_later(self._delay, self._answer, *_REPLIES[path])

    def _answer(self, status: bytes, template: bytes) -> None:
        if self._transport.is_closing():
            return
        body = template % next(self._numbers)
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        # The count first: whoever has the reply may look at it.
        sys.stdout.write("\n")
        sys.stdout.flush()
        self._transport.write(head + body)


async def serve(port: int, delay_seconds: float) -> None:
    """Listen until the process ends."""
    numbers = itertools.count(1)
    server = await asyncio.get_running_loop().create_server(
        lambda: Dialogue(delay_seconds, numbers), "127.0.0.1", port, backlog=200
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
