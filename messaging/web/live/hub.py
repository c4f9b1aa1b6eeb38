"""Everybody who listens to an inbox in this process: who is due for a look, looks for many at once, what each is told.

A listener holds what it has been shown (a mark) and at most one answer that waits to be sent: who reads slowly is
looked for again only when it has taken that, from its own mark, so that nothing queues up and nothing is left out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import Context
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from messaging.clock import Ticker
from messaging.db.engine import autocommitting
from messaging.inbox.changed import Inbox
from messaging.inbox.unseen import Asked, Mark, Told, look
from messaging.settings import Settings
from messaging.web.live.hearing import hear

logger = logging.getLogger(__name__)

#: Streams of one person in this process: windows and devices.
MAX_OF_ONE = 10
#: Streams of this process; connections beyond are left to other requests (`messaging.web.serve`).
MAX_STREAMS = 1_500
#: Inboxes in one look.
MAX_ASKED = 100
#: Seconds after which an inbox is looked at though nobody told of it: it may have been told while nobody listened, or
#: through a pooler that drops `LISTEN`, and what expires tells nobody.
LOOK_SECONDS = 30.0
#: Seconds after which it is asked again whether a listener is still signed in.
KNOWN_SECONDS = 30.0
#: Seconds for that answer, and how many are waited for at once.
ANSWER_SECONDS = 5.0
MAX_ASKING = 4
#: Seconds for which a stream goes on while that cannot be told, as when the database is away.
UNKNOWN_SECONDS = 300.0
#: Seconds between two looks for whom these are over.
TICK_SECONDS = 1.0
#: Seconds until the next look after one that failed.
PAUSE_SECONDS = 0.5

#: Asks whether whoever listens may still. Raises for "cannot be told now".
StillKnown = Callable[[], Awaitable[bool]]


class TooManyStreams(Exception):
    """One person, or this process, has as many streams as may be."""

    def __init__(self, *, is_own: bool) -> None:
        #: Whether they are the person's own.
        self.is_own = is_own
        super().__init__("too many streams" + (" of one user" if is_own else ""))


class Listener:
    """One stream."""

    __slots__ = (
        *("_hub", "_is_over", "_told", "_woken"),
        *("asked_at", "inbox", "known_at", "looked_at", "mark", "still_known", "unread"),
    )

    def __init__(self, hub: "Hub", inbox: Inbox, mark: Mark | None, still_known: StillKnown, now: float) -> None:
        self._hub = hub
        self._told: Told | None = None
        self._woken = asyncio.Event()
        self._is_over = False
        self.inbox = inbox
        #: How far it has been shown.
        self.mark = mark
        #: The count it was last told.
        self.unread: int | None = None
        self.still_known = still_known
        #: When its inbox was looked at, and its sign-in asked for and known.
        self.looked_at = self.asked_at = self.known_at = now

    async def next(self) -> Told | None:
        """What is new, once there is something; None when the stream is over."""
        await self._woken.wait()
        self._woken.clear()
        told, self._told = self._told, None
        if self._is_over:
            return None
        self._hub.taken(self)
        return told

    @property
    def has_answer(self) -> bool:
        """Whether an answer waits to be taken."""
        return self._told is not None

    def tell(self, told: Told) -> None:
        """Keep an answer, if it says anything."""
        is_news = told.must_reload or told.notifications or told.unread_count != self.unread
        self.mark, self.unread = told.mark, told.unread_count
        if is_news:
            self._told = told
            self._woken.set()

    def end(self) -> None:
        """Let the stream be over."""
        self._is_over = True
        self._woken.set()

    def close(self) -> None:
        """Forget it; to be called once, however the stream ends."""
        self._hub.forget(self)


class Hub:
    """All listeners of this process. Used by one event loop, in which its tasks begin with the first listener."""

    def __init__(self, settings: Settings, engine: Engine, ticker: Ticker) -> None:
        self._settings = settings
        self._engine = autocommitting(engine)
        self._ticker = ticker
        self._listeners: dict[Inbox, set[Listener]] = {}
        self._count = 0
        self._due: dict[Listener, None] = {}
        self._is_wanted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def open(self, inbox: Inbox, mark: Mark | None, still_known: StillKnown) -> Listener:
        """Listen to an inbox, from a mark on or (None) from now on; `close` it in the end.

        The first answer comes at once. Raises: TooManyStreams.
        """
        if len(self._listeners.get(inbox, ())) >= MAX_OF_ONE:
            raise TooManyStreams(is_own=True)
        if self._count >= MAX_STREAMS:
            raise TooManyStreams(is_own=False)
        self._begin()
        listener = Listener(self, inbox, mark, still_known, self._ticker())
        self._count += 1
        self._listeners.setdefault(inbox, set()).add(listener)
        self._want([listener])
        return listener

    def forget(self, listener: Listener) -> None:
        """See `Listener.close`."""
        of_inbox = self._listeners.get(listener.inbox, set())
        if listener not in of_inbox:
            return
        of_inbox.discard(listener)
        self._due.pop(listener, None)
        self._count -= 1
        if not of_inbox:
            del self._listeners[listener.inbox]

    def taken(self, listener: Listener) -> None:
        """A listener has room for an answer again."""
        if listener in self._due:
            self._is_wanted.set()

    async def stop(self) -> None:
        """End all streams, and the tasks."""
        for listener in self._all():
            listener.end()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self) -> None:
        """Start the tasks where none run in this loop: an application within another is told of no start-up."""
        loop = asyncio.get_running_loop()
        if self._tasks and all(not task.done() and task.get_loop() is loop for task in self._tasks):
            return
        for task in self._tasks:
            if task.get_loop() is loop:
                task.cancel()
        self._is_wanted = asyncio.Event()
        jobs: Sequence[Coroutine[Any, Any, None]] = (
            hear(self._settings, self._changed, lambda: self._want(self._all())),
            self._answer(),
            self._watch(),
            self._ask(),
        )
        # Not on behalf of the caller who happens to be the first.
        self._tasks = [loop.create_task(job, context=Context()) for job in jobs]
        for task in self._tasks:
            task.add_done_callback(_report)

    def _all(self) -> list[Listener]:
        return [listener for of_inbox in self._listeners.values() for listener in of_inbox]

    def _changed(self, inboxes: Sequence[Inbox]) -> None:
        for inbox in inboxes:
            self._want(self._listeners.get(inbox, ()))

    def _want(self, listeners: Sequence[Listener] | set[Listener] | tuple[()]) -> None:
        if listeners:
            self._due.update(dict.fromkeys(listeners))
            self._is_wanted.set()

    async def _answer(self) -> None:
        """Look for those that are due, and tell them."""
        # A thread of its own: a look does not wait for handlers, nor they for it.
        limiter = CapacityLimiter(1)
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            while asked := self._next_asked():
                try:
                    answers = await anyio.to_thread.run_sync(self._look, list(asked), limiter=limiter)
                except SQLAlchemyError as exc:
                    logger.warning("inboxes were not looked at", extra={"error": type(exc).__name__})
                    self._want([listener for group in asked.values() for listener in group])
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                now = self._ticker()
                for group, told in zip(asked.values(), answers, strict=True):
                    for listener in group:
                        listener.looked_at = now
                        listener.tell(told)

    def _next_asked(self) -> dict[Asked, list[Listener]]:
        """Whom to look for now, those who have seen the same of one inbox together; they are due no more.

        Who is told of again during the look is due again.
        """
        asked: dict[Asked, list[Listener]] = {}
        for listener in self._due:
            if not listener.has_answer:
                asked.setdefault(Asked(listener.inbox, listener.mark), []).append(listener)
                if len(asked) == MAX_ASKED:
                    break
        for group in asked.values():
            for listener in group:
                # It may have been forgotten meanwhile; `tell` then reaches nobody.
                self._due.pop(listener, None)
        return asked

    def _look(self, asked: Sequence[Asked]) -> list[Told]:
        with self._engine.connect() as connection:
            return look(connection, asked)

    async def _watch(self) -> None:
        """From time to time look again at each inbox, and end streams of whom nothing was known for long."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = self._ticker()
            everybody = self._all()
            self._want([listener for listener in everybody if now - listener.looked_at >= LOOK_SECONDS])
            for listener in everybody:
                if now - listener.known_at >= UNKNOWN_SECONDS:
                    listener.end()

    async def _ask(self) -> None:
        """From time to time ask whether who listens is still signed in; apart, as an answer may not come."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = self._ticker()
            due = iter([listener for listener in self._all() if now - listener.asked_at >= KNOWN_SECONDS])
            await asyncio.gather(*(self._ask_each(due) for _ in range(MAX_ASKING)))

    async def _ask_each(self, due: Iterator[Listener]) -> None:
        """One of those who share these."""
        for listener in due:
            listener.asked_at = self._ticker()
            if listener in self._listeners.get(listener.inbox, ()) and await self._is_known(listener):
                listener.known_at = self._ticker()

    async def _is_known(self, listener: Listener) -> bool:
        """Whether it is; one that certainly is not ends."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                is_known = await listener.still_known()
        except Exception as exc:  # noqa: BLE001 - whatever an application's authenticator may raise
            logger.warning("it was not found out whether a listener is signed in", extra={"error": type(exc).__name__})
            return False
        if not is_known:
            listener.end()
        return is_known


def _report(task: asyncio.Task[None]) -> None:
    """Nobody awaits these tasks; the next listener starts them anew."""
    if not task.cancelled() and (exc := task.exception()) is not None:
        logger.error("live push has failed", exc_info=exc)
