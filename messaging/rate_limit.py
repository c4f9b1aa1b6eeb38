"""Daily and per-minute windows of a server or provider configuration, counted in Valkey or Redis in one atomic step.

Keys; {tenant} owns the configuration, days and minutes are those of `QUOTA__TIMEZONE`:
  rl:{channel}:daily:{tenant}:{config}:{YYYY-MM-DD}     sends of a day; lives a day
  rl:{channel}:min:{tenant}:{config}:{YYYYMMDDHHMM}     sends of a minute; lives two
  rl:{channel}:next:{tenant}:{config}                   the line of reserved places; lives until its last place
A send that finds a window full is given a place: a moment at which there will be room for it (protocol, C13). Places
are a hint only: who finds no room at its place, since the line was lost or a limit lowered, is given another.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from messaging import metrics, rate_limit_script
from messaging.clock import Clock, Ticker, boot_seconds
from messaging.errors import MessagingError
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Seconds for one command: a send waits for it with its claim in hand.
TIMEOUT_SECONDS = 2.0

#: Seconds after a failure in which nobody asks again: threads do not wait for one time-out after another.
PAUSE_SECONDS = 1.0

#: Seconds between two warnings that the windows cannot be asked.
WARN_INTERVAL_SECONDS = 300.0

DAY_TTL_SECONDS = 86_400
MINUTE_TTL_SECONDS = 120

#: Days for which days that do not last 24 hours are told to the script.
_CALENDAR_DAYS = rate_limit_script.HORIZON_DAYS + 2

_WINDOWS: dict[int, Literal["day", "minute"]] = {1: "day", 2: "minute"}
_METRIC = {"day": "daily", "minute": "minute"}


class RateLimitUnavailable(MessagingError):
    """The windows cannot be asked: nothing may be sent, and nothing was counted that will be."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One send of each window that is on is this one's."""


@dataclass(frozen=True, slots=True)
class Full:
    """A window has no room for it; nothing was taken, and a place is reserved."""

    window: Literal["day", "minute"]
    #: Seconds until its place; at least `RETRY__QUOTA_FLOOR_SECONDS`.
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Used:
    """What is taken of a configuration's windows; 0 of one that is off, as nothing is counted then."""

    this_day: int
    this_minute: int


class RateWindows:
    """The windows of all configurations, as one process asks for them. Any thread may."""

    def __init__(self, client: redis.Redis, settings: Settings, *, clock: Clock, ticker: Ticker = boot_seconds) -> None:
        """`client` needs time-outs of its own, see `connect`."""
        self._client = client
        self._floor_milliseconds = round(settings.retry.quota_floor_seconds * 1000)
        self._calendar = _Calendar(ZoneInfo(settings.quota.timezone))
        self._clock = clock
        self._ticker = ticker
        self._warning = threading.Lock()
        self._away_until = float("-inf")
        self._warn_again_at = float("-inf")

    def take(
        self,
        channel: str,
        owner_tenant_id: int,
        config_id: int,
        *,
        daily: int | None,
        per_minute: int | None,
        has_place: bool,
    ) -> Taken | Full:
        """Take one send of a configuration's windows, or a place in the line where one of them is full.

        A limit that is None or below 1 is off; with both off Redis is not asked. `owner_tenant_id` is the
        configuration's, so that all who share it share its windows. `has_place`: the record was refused before and
        comes back at its place; it has what newcomers may not take. A send taken is never given back.

        Raises: RateLimitUnavailable.
        """
        return self.take_many(
            channel, owner_tenant_id, config_id, daily=daily, per_minute=per_minute, places=(has_place,)
        )[0]

    def take_many(
        self,
        channel: str,
        owner_tenant_id: int,
        config_id: int,
        *,
        daily: int | None,
        per_minute: int | None,
        places: Sequence[bool],
    ) -> list[Taken | Full]:
        """As `take` for several records of one configuration, in order, in one round trip; `places`: who has one.

        Raises: RateLimitUnavailable; for none of them anything was taken that is known of.
        """
        limits = [max(0, limit or 0) for limit in (daily, per_minute)]
        if not any(limits) or not places:
            return [Taken() for _ in places]
        now = self._clock()
        day = self._calendar.day(now)
        keys = self._keys(channel, owner_tenant_id, config_id, now)
        milliseconds = _milliseconds(now)
        arguments: list[int | str] = [
            milliseconds,
            *limits,
            self._floor_milliseconds,
            day.date.toordinal(),
            day.first_minute,
            day.ttl_seconds(milliseconds),
            MINUTE_TTL_SECONDS,
            day.irregular,
            "".join("1" if has_place else "0" for has_place in places),
        ]
        try:
            answers = self._run(keys, arguments)
        except RateLimitUnavailable:
            metrics.rate_limited(channel, "unavailable", len(places))
            raise
        return [self._answer(channel, code, place, milliseconds) for code, place in answers]

    def used(self, channel: str, owner_tenant_id: int, config_id: int) -> Used:
        """What is taken of the running day and minute; takes nothing.

        Raises: RateLimitUnavailable.
        """
        daily, minute, _ = self._keys(channel, owner_tenant_id, config_id, self._clock())
        try:
            found: Any = self._client.mget(daily, minute)
        except redis.RedisError as exc:
            raise RateLimitUnavailable(f"the rate windows cannot be asked: {type(exc).__name__}") from exc
        return Used(*(int(count or 0) for count in found))

    def close(self) -> None:
        """Close the connections. May be asked again: they are made anew."""
        self._client.close()

    def _keys(self, channel: str, owner_tenant_id: int, config_id: int, now: datetime) -> tuple[str, str, str]:
        """Of the day, the minute and the line."""
        owner = f"{owner_tenant_id}:{config_id}"
        return (
            f"rl:{channel}:daily:{owner}:{self._calendar.day(now).date.isoformat()}",
            f"rl:{channel}:min:{owner}:{self._calendar.minute_label(now)}",
            f"rl:{channel}:next:{owner}",
        )

    def _answer(self, channel: str, code: int, place: int, now: int) -> Taken | Full:
        if code == 0:
            return Taken()
        window = _WINDOWS[code]
        metrics.rate_limited(channel, _METRIC[window])
        return Full(window, (place - now) / 1000)

    def _run(self, keys: Sequence[str], arguments: Sequence[int | str]) -> list[tuple[int, int]]:
        if self._ticker() < self._away_until:
            raise RateLimitUnavailable("the rate windows could not be asked a moment ago")
        try:
            try:
                answers: Any = self._client.evalsha(rate_limit_script.SHA, len(keys), *keys, *arguments)
            except redis.exceptions.NoScriptError:
                answers = self._client.eval(rate_limit_script.SCRIPT, len(keys), *keys, *arguments)
        except redis.RedisError as exc:
            if not isinstance(exc, redis.ResponseError):
                # A refusal may be about this configuration's keys alone; silence is about all of them.
                self._away_until = self._ticker() + PAUSE_SECONDS
            self._warn(exc)
            raise RateLimitUnavailable(f"the rate windows cannot be asked: {type(exc).__name__}") from exc
        return [(code, place) for code, place in answers]

    def _warn(self, exc: redis.RedisError) -> None:
        now = self._ticker()
        with self._warning:
            if now < self._warn_again_at:
                return
            self._warn_again_at = now + WARN_INTERVAL_SECONDS
        logger.warning(
            "rate windows cannot be asked; mails of configurations with a limit wait",
            extra={"error": type(exc).__name__, "reason": str(exc)[:200]},
        )


def connect(settings: Settings, *, clock: Clock, ticker: Ticker = boot_seconds) -> RateWindows:
    """The windows on `REDIS_URL`, over connections of their own. Connects to nothing until it is asked.

    A connection that has outlived the server is replaced and the command repeated, once; the repetition of one whose
    answer was lost counts a send too many, which is the side to err on. What timed out is not repeated.
    """
    client = redis.Redis.from_url(
        settings.redis_url,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )
    return RateWindows(client, settings, clock=clock, ticker=ticker)


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class _Day:
    """A day of the calendar, as the script is told of it."""

    date: date
    #: Minutes from the epoch to its first one, and to the next day's.
    first_minute: int
    next_day_minute: int
    #: Later days that do not begin a multiple of 24 hours after this one: `days ahead:minutes later`, by comma.
    irregular: str

    def ttl_seconds(self, now_milliseconds: int) -> int:
        """How long its counter lives: a day, and to its end where that has 25 hours."""
        return max(DAY_TTL_SECONDS, self.next_day_minute * 60 - now_milliseconds // 1000)


class _Calendar:
    """Days and minutes in one time zone.

    In the hour that a change of the clocks repeats a minute's name comes a second time; its first counter is gone by
    then.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone
        self._day: _Day | None = None

    def minute_label(self, now: datetime) -> str:
        return f"{now.astimezone(self._zone):%Y%m%d%H%M}"

    def day(self, now: datetime) -> _Day:
        today = now.astimezone(self._zone).date()
        day = self._day
        if day is None or day.date != today:
            day = self._day = self._describe(today)
        return day

    def _describe(self, today: date) -> _Day:
        first = self._first_minute(today)
        irregular = []
        shift = 0
        for ahead in range(1, _CALENDAR_DAYS):
            found = self._first_minute(today + timedelta(days=ahead)) - first - ahead * 24 * 60
            if found != shift:
                shift = found
                irregular.append(f"{ahead}:{shift}")
        return _Day(today, first, self._first_minute(today + timedelta(days=1)), ",".join(irregular))

    def _first_minute(self, day: date) -> int:
        # Where a change of the clocks skips midnight, this is the moment of the change.
        return int(datetime(day.year, day.month, day.day, tzinfo=self._zone).timestamp()) // 60
