"""Rate windows on a real Valkey and on Debian's Redis; the clock is the test's."""

import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from messaging.embedded import Valkey
from messaging.rate_limit import PAUSE_SECONDS, Full, RateLimitUnavailable, RateWindows, Taken, Used, connect
from messaging.rate_limit_script import HORIZON_DAYS, SHA
from tests.far_end import packages
from tests.integration.windows import NOON, Clock, make_settings, make_windows


@pytest.fixture(scope="module", params=["valkey", "redis-server"])
def server(request: pytest.FixtureRequest, servers_folder: Path) -> Iterator[Valkey]:
    """Both kinds of server that are supported."""
    if request.param == "valkey":
        yield request.getfixturevalue("valkey")
        return
    program = packages.require("redis-server")
    folder = servers_folder / "redis-windows"
    folder.mkdir(exist_ok=True)  # set up again where other modules ran in between
    with Valkey(folder, binary=program.path, library_path=program.library_path) as redis_server:
        yield redis_server


@pytest.fixture
def client(server: Valkey) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.start().url, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def windows(client: redis.Redis, clock: Clock) -> RateWindows:
    return make_windows(client, clock)


def take(
    windows: RateWindows,
    *,
    daily: int | None = None,
    per_minute: int | None = None,
    has_place: bool = False,
    config_id: int = 5,
) -> Taken | Full:
    return windows.take("mail", 7, config_id, daily=daily, per_minute=per_minute, has_place=has_place)


def place(windows: RateWindows, clock: Clock, **limits: Any) -> datetime:
    """Where a send is told to come back; it must be refused."""
    answer = take(windows, **limits)
    assert isinstance(answer, Full)
    return clock.now + timedelta(seconds=answer.wait_seconds)


def count(client: redis.Redis, kind: str, label: str) -> int:
    return int(client.get(f"rl:mail:{kind}:7:5:{label}") or 0)


# -- the windows ---------------------------------------------------------------------------------------------------


def test_each_window_lets_out_what_it_holds_and_no_more(windows: RateWindows, clock: Clock) -> None:
    answers = [take(windows, daily=5, per_minute=3) for _ in range(4)]  # operate.md O55
    assert answers[:3] == [Taken()] * 3
    assert isinstance(answers[3], Full)
    assert answers[3].window == "minute"
    clock.pass_seconds(60)
    assert take(windows, daily=5, per_minute=3) == Taken()
    assert take(windows, daily=5, per_minute=3).window == "day"  # type: ignore[union-attr]


@pytest.mark.parametrize(("daily", "per_minute"), [(None, None), (0, 0), (-1, None)])
def test_without_limits_redis_is_not_asked(clock: Clock, daily: int | None, per_minute: int | None) -> None:
    nobody = connect(make_settings(), clock=clock)  # send.md F14, operate.md O55
    assert take(nobody, daily=daily, per_minute=per_minute) == Taken()
    with pytest.raises(RateLimitUnavailable):
        take(nobody, daily=1, per_minute=per_minute)


def test_a_window_that_is_off_is_not_counted(windows: RateWindows, client: redis.Redis) -> None:
    assert take(windows, per_minute=3) == Taken()
    assert take(windows, daily=3, per_minute=0) == Taken()
    assert (count(client, "daily", "2026-03-10"), count(client, "min", "202603101200")) == (1, 1)


def test_a_full_day_takes_nothing_from_the_minute(windows: RateWindows, client: redis.Redis) -> None:
    assert take(windows, daily=1, per_minute=3) == Taken()  # send.md F15
    for _ in range(3):
        assert take(windows, daily=1, per_minute=3).window == "day"  # type: ignore[union-attr]
    assert count(client, "min", "202603101200") == 1


def test_a_full_minute_takes_nothing_from_the_day(windows: RateWindows, client: redis.Redis) -> None:
    answers = windows.take_many("mail", 7, 5, daily=9, per_minute=2, places=[False] * 5)
    assert [type(a) for a in answers] == [Taken, Taken, Full, Full, Full]
    assert count(client, "daily", "2026-03-10") == 2


def test_when_both_are_full_the_day_is_named(windows: RateWindows) -> None:
    assert take(windows, daily=1, per_minute=1) == Taken()
    assert take(windows, daily=1, per_minute=1).window == "day"  # type: ignore[union-attr]


def test_the_keys_are_those_of_the_specification_and_expire(windows: RateWindows, client: redis.Redis) -> None:
    take(windows, daily=5, per_minute=1)  # send.md section 12
    take(windows, daily=5, per_minute=1)
    assert {key: client.ttl(key) for key in client.scan_iter()} == {
        "rl:mail:daily:7:5:2026-03-10": pytest.approx(86_400, abs=2),
        "rl:mail:min:7:5:202603101200": pytest.approx(120, abs=2),
        "rl:mail:next:7:5": pytest.approx(360, abs=2),
    }


def test_a_counter_without_an_end_is_given_one(windows: RateWindows, client: redis.Redis) -> None:  # redis-03
    take(windows, daily=5, per_minute=1)
    keys = client.keys("*:2026*")
    for key in keys:
        client.persist(key)
    take(windows, daily=5, per_minute=1)
    assert all(0 < client.ttl(key) <= 86_400 for key in keys)


def test_a_configuration_that_two_tenants_share_has_one_window(windows: RateWindows) -> None:
    # operate.md O63: the owner of the configuration names the window, whoever sends
    answers = [windows.take("mail", -1, 3, daily=10, per_minute=None, has_place=False) for _ in range(12)]
    assert [isinstance(answer, Taken) for answer in answers] == [True] * 10 + [False] * 2


def test_configurations_do_not_share_windows(windows: RateWindows) -> None:
    assert take(windows, per_minute=1) == Taken()
    assert take(windows, per_minute=1, config_id=6) == Taken()
    assert windows.take("mail", 8, 5, daily=None, per_minute=1, has_place=False) == Taken()
    assert windows.take("sms", 7, 5, daily=None, per_minute=1, has_place=False) == Taken()


def test_many_at_once_take_exactly_what_there_is(server: Valkey, clock: Clock) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    windows = connect(make_settings(server.url), clock=clock)
    barrier = threading.Barrier(8)
    answers: list[Taken | Full] = []

    def send() -> None:
        barrier.wait()
        answers.extend(take(windows, daily=100, per_minute=60) for _ in range(20))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    windows.close()
    waits = [answer.wait_seconds for answer in answers if isinstance(answer, Full)]
    assert len(answers) - len(waits) == 60
    assert len(set(waits)) == len(waits) == 100


# -- places --------------------------------------------------------------------------------------------------------


def test_each_refused_send_gets_its_own_place_and_none_before_the_floor(windows: RateWindows, clock: Clock) -> None:
    take(windows, per_minute=1)
    clock.pass_seconds(12)  # send.md F13
    windows.take_many("mail", 7, 5, daily=None, per_minute=3, places=[False] * 2)
    places = [place(windows, clock, per_minute=3) for _ in range(9)]
    assert len(set(places)) == 9
    assert all(at >= clock.now + timedelta(minutes=5) for at in places)


def test_places_of_a_minute_lie_in_its_first_fifty_seconds(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=60, places=[False] * 60)
    answers = windows.take_many("mail", 7, 5, daily=None, per_minute=60, places=[False] * 150)
    places = [clock.now + timedelta(seconds=answer.wait_seconds) for answer in answers]  # type: ignore[union-attr]
    assert [at.minute for at in places] == [5] * 60 + [6] * 60 + [7] * 30
    assert max(at.second for at in places) < 50
    assert places == sorted(set(places))


def test_a_daily_limit_spreads_its_line_over_the_days_that_follow(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=3, per_minute=None, places=[False] * 3)
    places = [place(windows, clock, daily=3) for _ in range(7)]
    assert [at.date().day for at in places] == [11, 11, 11, 12, 12, 12, 13]
    assert {at.hour for at in places} == {0}


def test_with_both_limits_places_keep_to_both(windows: RateWindows, clock: Clock) -> None:
    clock.go_to(NOON.replace(hour=23, minute=53))
    limits = {"daily": 5, "per_minute": 2}
    assert [take(windows, **limits) for _ in range(2)] == [Taken()] * 2
    places = [place(windows, clock, **limits) for _ in range(10)]
    assert [f"{at:%d %H:%M}" for at in places] == [
        *("10 23:58", "10 23:58", "10 23:59"),
        *("11 00:00", "11 00:00", "11 00:01", "11 00:01", "11 00:02"),
        *("12 00:00", "12 00:00"),
    ]


def test_newcomers_leave_alone_who_waits_and_pass_before_the_line_begins(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=10, places=[False] * 25)  # 15 wait: at :05 and half of :06
    for _ in range(4):
        clock.pass_seconds(60)
        newcomers = windows.take_many("mail", 7, 5, daily=None, per_minute=10, places=[False] * 10)
        assert newcomers == [Taken()] * 10
    clock.pass_seconds(60)
    assert isinstance(take(windows, per_minute=10), Full)
    clock.pass_seconds(49)
    holders = windows.take_many("mail", 7, 5, daily=None, per_minute=10, places=[True] * 10)
    assert holders == [Taken()] * 10
    clock.go_to(NOON + timedelta(minutes=6))
    newcomers = windows.take_many("mail", 7, 5, daily=None, per_minute=10, places=[False] * 6)
    assert [type(answer) for answer in newcomers] == [Taken] * 5 + [Full]
    assert [take(windows, per_minute=10, has_place=True) for _ in range(5)] == [Taken()] * 5


def test_newcomers_leave_alone_whose_place_is_later_that_day(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=8, per_minute=2, places=[False] * 6)  # 2 sent; 4 wait at :05 and :06
    clock.pass_seconds(60)
    newcomers = [take(windows, daily=8, per_minute=2) for _ in range(2)]
    assert newcomers == [Taken()] * 2
    clock.pass_seconds(60)
    assert take(windows, daily=8, per_minute=2).window == "day"  # type: ignore[union-attr]
    for minute in (5, 6):
        clock.go_to(NOON + timedelta(minutes=minute))
        assert [take(windows, daily=8, per_minute=2, has_place=True) for _ in range(2)] == [Taken()] * 2


def test_a_place_whose_holder_does_not_come_is_free_ten_seconds_later(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 10)
    clock.go_to(NOON + timedelta(minutes=5, seconds=9.9))
    assert isinstance(take(windows, per_minute=5), Full)
    clock.pass_seconds(0.2)
    assert take(windows, per_minute=5) == Taken()
    assert isinstance(take(windows, per_minute=5), Full)
    clock.pass_seconds(10)
    assert take(windows, per_minute=5) == Taken()


def test_a_line_in_which_nobody_comes_is_forgotten(windows: RateWindows, clock: Clock) -> None:
    # the mails that waited were all cancelled: 20 minutes of places, and no holder
    windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 105)
    for minute in range(5, 9):
        clock.go_to(NOON + timedelta(minutes=minute, seconds=30))
        take(windows, per_minute=5)
    assert windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 4) == [Taken()] * 4
    assert place(windows, clock, per_minute=5) == NOON + timedelta(minutes=14)


def test_a_line_survives_a_pause_of_all_workers(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 105)
    clock.go_to(NOON + timedelta(minutes=15))
    late = windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[True] * 10)
    assert [type(answer) for answer in late] == [Taken] * 5 + [Full] * 5
    assert late[5] == Full("minute", 10 * 60)  # behind those whose places are still to come, at :05 to :24


@pytest.mark.parametrize("ahead", [timedelta(minutes=30), timedelta(days=400)])
def test_a_worker_whose_clock_is_ahead_puts_no_one_else_off(
    windows: RateWindows, clock: Clock, ahead: timedelta
) -> None:
    clock.go_to(NOON + ahead)
    windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 10)
    clock.go_to(NOON)
    answers = windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 6)
    assert answers == [Taken()] * 5 + [Full("minute", 300)]


def test_clocks_that_disagree_by_seconds_share_one_line(windows: RateWindows, clock: Clock) -> None:
    clock.go_to(NOON + timedelta(seconds=1))
    windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 10)  # the five at :06 keep their places
    clock.go_to(NOON - timedelta(seconds=1))
    answers = windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 6)
    assert answers[5] == Full("minute", 7 * 60 + 1)


def test_a_raised_limit_is_used_at_once_and_refuses_nobody_needlessly(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 105)
    assert [take(windows, per_minute=8) for _ in range(3)] == [Taken()] * 3
    assert f"{place(windows, clock, per_minute=8):%H:%M}" == "12:05"
    clock.go_to(NOON + timedelta(minutes=6))
    answers = windows.take_many("mail", 7, 5, daily=None, per_minute=8, places=[False] * 4)
    assert [type(answer) for answer in answers] == [Taken] * 3 + [Full]
    assert windows.take_many("mail", 7, 5, daily=None, per_minute=8, places=[True] * 5) == [Taken()] * 5


def test_a_lowered_limit_holds_at_once_and_who_finds_no_room_gets_a_new_place(
    windows: RateWindows, clock: Clock
) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=5, places=[False] * 15)  # :05 and :06
    clock.go_to(NOON + timedelta(minutes=5))
    answers = windows.take_many("mail", 7, 5, daily=None, per_minute=2, places=[True] * 5)
    assert [type(answer) for answer in answers] == [Taken] * 2 + [Full] * 3
    places = [f"{clock.now + timedelta(seconds=a.wait_seconds):%H:%M}" for a in answers if isinstance(a, Full)]
    assert places == ["12:10", "12:10", "12:11"]


def test_a_limit_that_comes_and_goes_does_not_lose_the_line(windows: RateWindows, clock: Clock) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=2, places=[False] * 6)
    assert f"{place(windows, clock, daily=5, per_minute=2):%d %H:%M}" == "10 12:07"
    assert f"{place(windows, clock, daily=5, per_minute=2):%d %H:%M}" == "11 00:00"


def test_places_end_at_the_horizon(windows: RateWindows, clock: Clock, client: redis.Redis) -> None:
    windows.take_many("mail", 7, 5, daily=1, per_minute=None, places=[False] * (HORIZON_DAYS + 50))
    assert place(windows, clock, daily=1) == NOON + timedelta(days=HORIZON_DAYS)
    assert client.hlen("rl:mail:next:7:5") < 3 * HORIZON_DAYS


def test_what_is_over_is_not_kept(windows: RateWindows, clock: Clock, client: redis.Redis) -> None:
    windows.take_many("mail", 7, 5, daily=40, per_minute=2, places=[False] * 100)
    before = client.hlen("rl:mail:next:7:5")
    clock.go_to(NOON + timedelta(days=2))
    take(windows, daily=40, per_minute=2, has_place=True)
    assert client.hlen("rl:mail:next:7:5") < before / 2
    assert not client.hexists("rl:mail:next:7:5", f"d{NOON.date().toordinal() + 1}")


# -- the calendar --------------------------------------------------------------------------------------------------


def test_days_and_minutes_are_those_of_the_zone(client: redis.Redis, clock: Clock) -> None:
    clock.go_to(datetime(2026, 3, 10, 20, 15, tzinfo=UTC))
    take(make_windows(client, clock, zone="Asia/Kolkata"), daily=5, per_minute=5)
    assert set(client.keys()) == {"rl:mail:daily:7:5:2026-03-11", "rl:mail:min:7:5:202603110145"}


BERLIN = ZoneInfo("Europe/Berlin")


def test_a_day_of_25_hours_has_one_window_to_its_end(client: redis.Redis, clock: Clock) -> None:
    windows = make_windows(client, clock, zone="Europe/Berlin")
    clock.go_to(datetime(2026, 10, 25, 0, 1, tzinfo=BERLIN).astimezone(UTC))
    assert take(windows, daily=1) == Taken()
    assert client.ttl("rl:mail:daily:7:5:2026-10-25") == pytest.approx(25 * 3600 - 60, abs=2)
    clock.pass_seconds(24 * 3600 + 1800)
    assert clock.now.astimezone(BERLIN).day == 25
    assert isinstance(take(windows, daily=1), Full)


def test_the_hour_that_comes_twice_has_its_minutes_twice(client: redis.Redis, clock: Clock) -> None:
    windows = make_windows(client, clock, zone="Europe/Berlin")
    clock.go_to(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN).astimezone(UTC))
    assert take(windows, per_minute=1) == Taken()
    key = "rl:mail:min:7:5:202610250230"
    assert client.ttl(key) <= 120
    client.delete(key)  # an hour later it has long expired
    clock.pass_seconds(3600)
    assert take(windows, per_minute=1) == Taken()
    assert client.exists(key)


@pytest.mark.parametrize(
    ("zone", "before"),
    [
        pytest.param("Europe/Berlin", datetime(2026, 3, 27, 12, tzinfo=UTC), id="an hour is skipped"),
        pytest.param("Europe/Berlin", datetime(2026, 10, 23, 12, tzinfo=UTC), id="an hour comes twice"),
        pytest.param("Africa/Cairo", datetime(2026, 4, 22, 12, tzinfo=UTC), id="midnight is skipped"),
        pytest.param("Australia/Lord_Howe", datetime(2026, 10, 2, 12, tzinfo=UTC), id="half an hour"),
    ],
)
def test_places_of_later_days_begin_at_their_midnight_also_beyond_a_change_of_the_clocks(
    client: redis.Redis, clock: Clock, zone: str, before: datetime
) -> None:
    clock.go_to(before)
    windows = make_windows(client, clock, zone=zone)
    assert take(windows, daily=1) == Taken()
    local = ZoneInfo(zone)
    today = before.astimezone(local).date()
    for ahead in range(1, 6):
        at = place(windows, clock, daily=1).astimezone(local)
        assert at.date() == today + timedelta(days=ahead)
        assert (at.astimezone(UTC) - timedelta(seconds=1)).astimezone(local).date() == today + timedelta(days=ahead - 1)


# -- when it cannot be asked -----------------------------------------------------------------------------------------


class Seconds:
    """A ticker that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_server_that_does_not_answer_is_asked_once_a_second_and_warned_of_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    # operate.md O56, send.md section 12; a listener that accepts and says nothing
    with socket.create_server(("127.0.0.1", 0)) as mute:
        ticker = Seconds()
        client = redis.Redis(port=mute.getsockname()[1], socket_timeout=0.1, retry=Retry(NoBackoff(), 0))
        windows = make_windows(client, clock, ticker=ticker)
        for _ in range(3):
            for _ in range(50):
                with pytest.raises(RateLimitUnavailable):
                    take(windows, per_minute=1)
            ticker.now += PAUSE_SECONDS
        mute.settimeout(0.1)
        asked = [mute.accept()[0] for _ in range(3)]
        with pytest.raises(TimeoutError):
            mute.accept()
        for connection in asked:
            connection.close()
        client.close()
    assert [record.levelname for record in caplog.records if record.name == "messaging.rate_limit"] == ["WARNING"]


def test_the_windows_are_asked_again_when_the_server_is_back(servers_folder: Path, clock: Clock) -> None:
    with Valkey(servers_folder / "windows-restart") as server:
        ticker = Seconds()
        windows = connect(make_settings(server.url), clock=clock, ticker=ticker)
        assert take(windows, per_minute=9) == Taken()
        server.restart()
        assert take(windows, per_minute=9) == Taken()  # its connection had outlived the server
        server.stop()
        with pytest.raises(RateLimitUnavailable):
            take(windows, per_minute=9)
        server.start()
        ticker.now += PAUSE_SECONDS
        assert take(windows, per_minute=9) == Taken()
        windows.close()


def test_a_server_that_lost_the_script_is_given_it_again(windows: RateWindows, client: redis.Redis) -> None:
    assert take(windows, per_minute=9) == Taken()
    client.script_flush()
    assert take(windows, per_minute=9) == Taken()
    assert client.script_exists(SHA) == [True]


def test_a_flush_loses_the_counts_and_nothing_else(windows: RateWindows, clock: Clock, client: redis.Redis) -> None:
    windows.take_many("mail", 7, 5, daily=None, per_minute=2, places=[False] * 8)
    client.flushall()
    clock.go_to(NOON + timedelta(minutes=5))
    answers = windows.take_many("mail", 7, 5, daily=None, per_minute=2, places=[True] * 3)
    assert [type(answer) for answer in answers] == [Taken] * 2 + [Full]


def test_a_counter_that_is_no_number_lets_nothing_out_and_stops_no_other(
    windows: RateWindows, client: redis.Redis
) -> None:
    client.set("rl:mail:min:7:5:202603101200", "x")
    with pytest.raises(RateLimitUnavailable):
        take(windows, per_minute=1)
    assert take(windows, per_minute=1, config_id=6) == Taken()


@pytest.mark.parametrize("garbage", ["string", "field"])
def test_a_line_that_cannot_be_read_begins_anew(windows: RateWindows, client: redis.Redis, garbage: str) -> None:
    key = "rl:mail:next:7:5"
    if garbage == "string":
        client.set(key, "2026-03-10T12:05:00")
    else:
        client.hset(key, mapping={"at": "x", "now": "y", "limits": "0:1", "m29552405": ""})
    assert take(windows, per_minute=1) == Taken()
    assert take(windows, per_minute=1) == Full("minute", 300)


def test_what_is_taken_of_the_running_windows_is_told_and_nothing_taken_by_it(client: redis.Redis) -> None:
    clock = Clock()
    windows = make_windows(client, clock)
    assert windows.used("mail", 7, 1) == Used(0, 0)
    for _ in range(3):
        assert isinstance(windows.take("mail", 7, 1, daily=10, per_minute=10, has_place=False), Taken)
    windows.take("mail", 7, 2, daily=None, per_minute=10, has_place=False)
    assert [windows.used("mail", 7, config_id) for config_id in (1, 1, 2)] == [Used(3, 3), Used(3, 3), Used(0, 1)]
    assert windows.used("sms", 7, 1) == windows.used("mail", 8, 1) == Used(0, 0)
    clock.pass_seconds(60)
    assert windows.used("mail", 7, 1) == Used(3, 0)
    clock.pass_seconds(86_400)
    assert windows.used("mail", 7, 1) == Used(0, 0)
