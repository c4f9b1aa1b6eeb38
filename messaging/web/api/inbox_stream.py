"""The stream of one listener as server-sent events (WHATWG HTML, "Server-sent events").

What has changed at one look is one event, so that whoever loses the connection has had all of it or nothing, and its id
says how far that was.
"""

import logging
import random
from collections.abc import AsyncIterator, Callable

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from messaging.inbox.unseen import Told
from messaging.web.live.hub import Listener

logger = logging.getLogger(__name__)

#: Seconds between two comments that keep proxies from closing a connection nothing comes over.
HEARTBEAT_SECONDS = 15
#: Seconds for a client to take what is sent; one that has gone without a word takes nothing.
SEND_SECONDS = 30.0
#: Milliseconds after which a browser connects again, at random between these: all do so when a process ends.
RETRY_MILLISECONDS = (1_000, 5_000)


class InboxStream(EventSourceResponse):
    """The answer that goes on until its listener is over or its client gone."""

    media_type = "text/event-stream"

    def __init__(self, listener: Listener, data: Callable[[Told], str]) -> None:
        super().__init__(
            _events(listener, data), media_type=self.media_type, ping=HEARTBEAT_SECONDS, send_timeout=SEND_SECONDS
        )
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI 3."""
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            logger.info("a listener takes nothing any more")
        finally:
            self._listener.close()


async def _events(listener: Listener, data: Callable[[Told], str]) -> AsyncIterator[ServerSentEvent]:
    retry: int | None = random.randint(*RETRY_MILLISECONDS)
    while (told := await listener.next()) is not None:
        yield ServerSentEvent(data(told), event="inbox", id=str(told.mark), retry=retry, sep="\n")
        retry = None
