"""Whether who listens is still signed in: asked of each, whatever becomes of the others' answers."""

import asyncio

from sqlalchemy import Engine

from messaging.clock import boot_seconds
from messaging.inbox.changed import Inbox
from messaging.web.live.hub import KNOWN_SECONDS, MAX_ASKING, UNKNOWN_SECONDS, Hub, Listener
from tests.conftest import MakeSettings


async def never() -> bool:
    await asyncio.Event().wait()
    return True


async def not_any_more() -> bool:
    return False


async def is_over(listener: Listener) -> None:
    async with asyncio.timeout(10):
        while await listener.next() is not None:
            pass


def test_an_answer_that_does_not_come_holds_up_nobody_and_ends_a_stream_in_time(
    make_settings: MakeSettings, engine: Engine
) -> None:
    ahead = 0.0

    async def listen() -> None:
        nonlocal ahead
        hub = Hub(make_settings(), engine, lambda: boot_seconds() + ahead)
        slow = [hub.open(Inbox(7, number), None, never) for number in range(MAX_ASKING - 1)]
        signed_out = hub.open(Inbox(7, 41), None, not_any_more)
        ahead += KNOWN_SECONDS
        await is_over(signed_out)
        ahead += UNKNOWN_SECONDS
        for listener in slow:
            await is_over(listener)
        await hub.stop()

    asyncio.run(listen())
