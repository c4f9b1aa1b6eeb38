"""What one worker process needs to deliver a channel: built at its start, stopped in order, used by all its threads."""

import random
import threading
from collections.abc import Sequence

from sqlalchemy import Engine

from messaging import rate_limit
from messaging.clock import Clock, Ticker
from messaging.db.engine import autocommitting, create_engine
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.delivery.attempt import Delivery, SendWatch, attempt
from messaging.delivery.channel import Channel
from messaging.delivery.committer import Committer
from messaging.delivery.sandboxing import sandboxed
from messaging.settings import Settings


class DeliveryWorker:
    """Delivers chunks of one channel; `deliver` may run in many threads at once."""

    def __init__(
        self,
        engine: Engine,
        channel: Channel,
        settings: Settings,
        *,
        worker_name: str,
        clock: Clock,
        ticker: Ticker,
        rng: random.Random,
        announcer: Announcer = NOBODY,
    ) -> None:
        self._stopping = threading.Event()
        self._settings = settings
        channel = sandboxed(channel, settings.sandbox, autocommitting(engine))
        self._commit_engine = create_engine(
            settings,
            pool_size=1,
            application_name="messaging committer",
            statement_timeout_seconds=min(
                settings.delivery.commit_timeout_seconds, settings.database.statement_timeout_seconds
            ),
        )
        self._committer = Committer(
            autocommitting(self._commit_engine),
            channel,
            worker_name=worker_name,
            window_seconds=settings.delivery.group_window_seconds,
            ticker=ticker,
            announcer=announcer,
        )
        self._windows = rate_limit.connect(settings, clock=clock)
        self.watch = SendWatch(ticker)
        self._delivery = Delivery(
            engine=autocommitting(engine),
            channel=channel,
            committer=self._committer,
            settings=settings,
            clock=clock,
            ticker=ticker,
            rng=rng,
            is_stopping=self._stopping.is_set,
            windows=self._windows,
            watch=self.watch,
            announcer=announcer,
        )

    def deliver(self, pairs: Sequence[Sequence[int]]) -> dict[str, int]:
        """Deliver a chunk of (record id, version); answers counts by what became of its records.

        Raises: ValueError for what is no chunk, before anything is claimed.
        """
        return attempt(self._delivery, [_pair(pair) for pair in pairs])

    def stop(self) -> None:
        """SIGTERM came: what is under way is finished, what is not begun is given back."""
        self._stopping.set()

    def is_hung(self) -> bool:
        """Whether a send is older than the budget by `DELIVERY__WATCHDOG_SECONDS` (C16): a call without a time-out."""
        limit = self._settings.delivery.send_budget_seconds + self._settings.delivery.watchdog_seconds
        return self.watch.oldest_seconds() > limit

    def close(self, grace_seconds: float) -> bool:
        """Write every outcome that is known; answers whether that worked out within the grace."""
        self.stop()
        is_written = self._committer.close(grace_seconds)
        self._commit_engine.dispose()
        self._windows.close()
        return is_written


def _pair(pair: Sequence[int]) -> tuple[int, int]:
    record_id, version = pair
    if type(record_id) is not int or type(version) is not int:
        raise ValueError("a chunk holds pairs of record id and version, both integers")
    return record_id, version
