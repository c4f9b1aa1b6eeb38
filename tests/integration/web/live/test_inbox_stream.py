"""What listeners of an inbox hear over HTTP: as it commits, each once, their own alone, and as long as they may."""

import json
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from starlette.requests import Request

import messaging
from messaging import tenancy
from messaging.access.roles import Role
from messaging.api import access
from messaging.clock import boot_seconds
from messaging.embedded import Postgres
from messaging.requests import SendInbox
from messaging.tenancy import PLATFORM_TENANT_ID
from messaging.web.auth import Identity
from messaging.web.errors import ApiError
from messaging.web.live.hub import KNOWN_SECONDS, LOOK_SECONDS, MAX_OF_ONE
from tests.integration.web.callers import Site
from tests.integration.web.live.conftest import Listen, TokenOf
from tests.integration.web.live.streams import PATH, Event, Stream
from tests.polling import eventually

ME, OTHER = 41, 42


def send(recipient_id: int = ME, *, tenant: int = 7, session: Session | None = None, **fields: Any) -> int:
    with tenancy.tenant(tenant):
        request = SendInbox(**{"recipient_id": recipient_id, "title": "t", "content": "c", **fields})
        return messaging.send_inbox(request, session=session)


def heard(stream: Stream, count: int) -> list[int]:
    """So many ids, over as many events as they take."""
    ids: list[int] = []
    while len(ids) < count:
        ids += stream.event().ids
    return ids


def backends(engine: Engine, application_name: str) -> list[int]:
    with engine.connect() as connection:
        statement = text(
            "SELECT pid FROM pg_stat_activity WHERE application_name = :name AND datname = current_database()"
        )
        return list(connection.scalars(statement, {"name": application_name}))


def test_the_first_event_tells_the_count_and_to_load_the_list(listen: Listen) -> None:
    send()
    stream = listen(ME)
    assert stream.status == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-store"
    assert stream.headers["x-accel-buffering"] == "no"
    first = stream.event()
    assert (first.reload, first.notifications, first.unread_count) == (True, [], 1)


def test_a_notification_is_heard_when_it_commits_and_the_count_when_it_is_read(listen: Listen, engine: Engine) -> None:
    stream = listen(ME)
    stream.event()
    with Session(engine) as session:
        one = send(title="Leave", source_model="Leave", source_id=3, session=session)
        with pytest.raises(TimeoutError):
            stream.next(seconds=0.1)
        session.commit()
    told = stream.event()
    assert (told.reload, told.ids, told.unread_count) == (False, [one], 1)
    (shown,) = told.notifications
    assert (shown["title"], shown["source_model"], shown["source_id"]) == ("Leave", "Leave", "3")
    with tenancy.tenant(7):
        messaging.mark_notification_read(one)
    read = stream.event()
    assert (read.ids, read.unread_count) == ([], 0)


def stream_mark(listen: Listen, user_id: int = ME) -> str:
    """Where a stream that begins now begins."""
    stream = listen(user_id)
    mark = stream.event().id
    stream.close()
    return mark


def test_all_windows_of_a_person_hear_it_and_nobody_else(listen: Listen) -> None:
    mine, mine_too, others, elsewhere = listen(ME), listen(ME), listen(OTHER), listen(ME, tenant=8)
    for stream in (mine, mine_too, others, elsewhere):
        stream.event()
    one = send(ME)
    assert heard(mine, 1) == heard(mine_too, 1) == [one]
    two, three = send(OTHER), send(ME, tenant=8)
    assert heard(others, 1) == [two]
    assert heard(elsewhere, 1) == [three]
    four = send(ME)
    assert heard(mine, 1) == [four]


def test_the_platforms_inbox_is_no_tenants(listen: Listen) -> None:
    stream = listen(ME)
    stream.event()
    send(ME, tenant=PLATFORM_TENANT_ID)
    one = send(ME)
    assert stream.event().ids == [one]


def test_who_comes_back_hears_what_was_missed_and_nothing_again(listen: Listen) -> None:
    stream = listen(ME)
    stream.event()
    first = send()
    told = stream.event()
    assert told.ids == [first]
    stream.close()
    missed = [send(), send()]
    again = listen(ME, since=told.id)
    back = again.event()
    assert (back.reload, back.ids, back.unread_count) == (False, missed, 3)
    assert listen(ME, since=back.id).event().ids == []


def test_ids_that_commit_out_of_order_are_heard_once_across_a_reconnect(listen: Listen, engine: Engine) -> None:
    stream = listen(ME)
    stream.event()
    with Session(engine) as session:
        lower = send(session=session)
        higher = send()
        told = stream.event()
        assert told.ids == [higher]
        stream.close()
        session.commit()
    assert lower < higher
    back = listen(ME, since=told.id).event()
    assert back.ids == [lower]


def test_what_commits_before_the_notification_is_heard_is_told_once(listen: Listen, engine: Engine) -> None:
    """A stream begins after the commit: it has the notification from its first look, and not again from the NOTIFY."""
    mark = stream_mark(listen)
    keeper = listen(OTHER)
    keeper.event()
    for _ in range(10):
        one = send()
        stream = listen(ME, since=mark)
        told = stream.event()
        assert told.ids == [one]
        mark = told.id
        with pytest.raises(TimeoutError):
            stream.next(seconds=0.05)
        stream.close()


def test_a_mark_that_is_none_begins_anew(listen: Listen) -> None:
    send()
    assert listen(ME, since="17").event().reload


def test_who_missed_too_much_is_told_to_load_the_list(listen: Listen) -> None:
    mark = stream_mark(listen)
    with tenancy.tenant(7):
        messaging.send_inbox_batch([SendInbox(recipient_id=ME, title="t", content="c")] * 51)
    told = listen(ME, since=mark).event()
    assert (told.reload, told.notifications, told.unread_count) == (True, [], 51)


def test_a_batch_of_500_people_is_heard_by_each(listen: Listen) -> None:
    """Their ids do not fit into one notification of PostgreSQL."""
    people = [2**62 + n for n in range(500)]
    first, last = listen(people[0]), listen(people[-1])
    first.event()
    last.event()
    with tenancy.tenant(7):
        ids = messaging.send_inbox_batch([SendInbox(recipient_id=one, title="t", content="c") for one in people])
    assert first.event().ids == [ids[0]]
    assert last.event().ids == [ids[-1]]


def test_an_expired_one_is_not_heard(listen: Listen) -> None:
    stream = listen(ME)
    stream.event()
    send(expires_at=datetime(2001, 1, 1, tzinfo=UTC))
    one = send()
    assert stream.event().ids == [one]


def test_a_lost_connection_is_made_again_and_nothing_is_missed(listen: Listen, engine: Engine) -> None:
    stream = listen(ME)
    stream.event()
    (pid,) = eventually(lambda: backends(engine, "messaging live"), what="the connection that listens")
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    eventually(lambda: pid not in backends(engine, "messaging live"), what="the connection to be lost")
    missed = send()
    assert stream.event().ids == [missed]
    eventually(lambda: backends(engine, "messaging live"), what="another connection")
    heard_later = send()
    assert stream.event().ids == [heard_later]


def test_a_database_that_is_away_and_back_interrupts_nobody(listen: Listen, postgres: Postgres) -> None:
    stream = listen(ME)
    stream.event()
    first = send()
    assert stream.event().ids == [first]
    postgres.stop()
    with pytest.raises(TimeoutError):
        stream.next(seconds=0.15)
    postgres.start()
    later = eventually(_sent, what="the database to take a notification")
    assert stream.event().ids == [later]


def _sent() -> int | None:
    """None, over a connection that the database has dropped."""
    try:
        return send()
    except DBAPIError:
        return None


def test_one_connection_listens_however_many_streams_there_are(listen: Listen, engine: Engine) -> None:
    for n in range(5):
        listen(ME + n).event()
    assert len(backends(engine, "messaging live")) == 1


def test_who_reads_slowly_misses_nothing_and_holds_up_nobody(listen: Listen) -> None:
    slow, quick = listen(ME, receive_octets=2048), listen(OTHER)
    slow.event()
    quick.event()
    sent = []
    for _ in range(40):
        with tenancy.tenant(7):
            batch = [SendInbox(recipient_id=ME, title="t", content="x" * 2000)] * 20
            sent += messaging.send_inbox_batch(batch)
        one = send(OTHER)
        assert quick.event().ids == [one]
    told: list[int] = []
    while not told or told[-1] != sent[-1]:
        event = slow.event()
        if event.reload:
            # More has come than one event tells: the list has it.
            assert event.unread_count > 50
            break
        told += event.ids
    assert told == sent[: len(told)]


def test_a_person_has_so_many_streams_and_no_more(listen: Listen) -> None:
    streams = [listen(ME) for _ in range(MAX_OF_ONE)]
    assert [stream.event().reload for stream in streams] == [True] * MAX_OF_ONE
    refused = listen(ME)
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert listen(OTHER).status == 200
    streams[0].close()
    eventually(lambda: listen(ME).status == 200, what="room for another")


class Clock:
    """The clock of the application, which a test may put on."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def __call__(self) -> float:
        return boot_seconds() + self.ahead_seconds


def test_a_stream_ends_with_its_token(
    open_site: Callable[..., Site], listen: Listen, token_of: TokenOf, engine: Engine
) -> None:
    clock = Clock()
    site = open_site({"multi_tenancy": True}, ticker=clock)
    token = token_of(ME)
    stream, other = listen(site=site, token=token), listen(OTHER, site=site)
    stream.event()
    other.event()
    with engine.begin() as connection:
        connection.execute(text("UPDATE api_token SET revoked_at = now() WHERE user_id = :me"), {"me": ME})
    clock.ahead_seconds += KNOWN_SECONDS
    assert stream.next() is None
    assert listen(site=site, token=token).status == 401
    one = send(OTHER)
    assert other.event().ids == [one]


class Banning:
    """An application's own, which says why it refuses somebody."""

    is_banned = False

    async def authenticate(self, _: Request) -> Identity:
        if self.is_banned:
            raise ApiError(403, "banned")
        return Identity("user:41", 7, frozenset(), user_id=ME)


def test_a_stream_ends_with_who_is_refused_by_the_applications_own_authenticator(
    open_site: Callable[..., Site], listen: Listen
) -> None:
    clock, users = Clock(), Banning()
    stream = listen(site=open_site({"multi_tenancy": True}, ticker=clock, authenticator=users), token="any")
    stream.event()
    users.is_banned = True
    clock.ahead_seconds += KNOWN_SECONDS
    assert stream.next() is None


def test_a_session_that_only_listens_ends_when_it_has_been_idle(
    open_site: Callable[..., Site], listen: Listen, engine: Engine
) -> None:
    clock = Clock()
    site = open_site({"multi_tenancy": True}, ticker=clock)
    with tenancy.tenant(7):
        access.add_operator("ann", password="correct horse battery", role=Role.OPERATOR, user_id=ME)
    body = json.dumps({"user_name": "ann", "password": "correct horse battery"}).encode()
    headers = {"content-type": "application/json", "x-requested-with": "fetch"}
    cookie = site.ask("POST", "/api/v1/session", body, headers).headers["set-cookie"].partition(";")[0]
    stream = listen(site=site, cookie=cookie)
    stream.event()
    was_used(engine, minutes_ago=50)
    clock.ahead_seconds += KNOWN_SECONDS
    with pytest.raises(TimeoutError):
        stream.next(seconds=1.5)
    assert used_minutes_ago(engine) >= 50
    was_used(engine, minutes_ago=62)
    clock.ahead_seconds += KNOWN_SECONDS
    assert stream.next() is None


def was_used(engine: Engine, *, minutes_ago: int) -> None:
    with engine.begin() as connection:
        statement = text("UPDATE operator_session SET last_seen_at = now() - :n * interval '1 min'")
        connection.execute(statement, {"n": minutes_ago})


def used_minutes_ago(engine: Engine) -> float:
    with engine.connect() as connection:
        statement = text("SELECT extract(epoch FROM now() - last_seen_at) / 60 FROM operator_session")
        return float(connection.execute(statement).scalar_one())


def test_what_nobody_told_of_is_found_by_looking_again(
    open_site: Callable[..., Site], listen: Listen, engine: Engine
) -> None:
    """As where a pooler drops `LISTEN`; and what has expired leaves the count."""
    clock = Clock()
    stream = listen(site=open_site({"multi_tenancy": True}, ticker=clock))
    stream.event()
    with engine.begin() as connection:
        untold = connection.execute(
            text(
                "INSERT INTO inbox_notification (tenant_id, recipient_id, title, content, expires_at)"
                " VALUES (7, :me, 't', 'c', now() + interval '1 h') RETURNING id"
            ),
            {"me": ME},
        ).scalar_one()
    clock.ahead_seconds += LOOK_SECONDS
    told = stream.event()
    assert (told.ids, told.unread_count) == ([untold], 1)
    with engine.begin() as connection:
        connection.execute(text("UPDATE inbox_notification SET expires_at = now()"))
    clock.ahead_seconds += LOOK_SECONDS
    assert stream.event().unread_count == 0


def test_nobody_and_no_person_have_no_stream(site: Site, listen: Listen, token_of: TokenOf) -> None:  # operate.md O22
    assert site.get(PATH).status == 401
    assert listen(token=token_of(None)).status == 401


def test_streams_end_when_the_application_stops(listen: Listen, site: Site) -> None:
    stream = listen(ME)
    stream.event()
    site.begin_stop()
    assert stream.next() is None


def test_many_writers_and_a_listener_that_comes_and_goes_each_once(listen: Listen, engine: Engine) -> None:
    """Transactions of any length and order, some rolled back; every reconnect by the last id."""
    rng = random.Random(7)
    committed: list[int] = []
    guard = threading.Lock()
    is_done = threading.Event()

    def write(seed: int) -> None:
        own = random.Random(seed)
        for _ in range(25):
            with Session(engine) as session:
                ids = [send(session=session) for _ in range(own.randint(1, 3))]
                session.execute(text("SELECT pg_sleep(:s)"), {"s": own.random() * 0.03})
                if own.random() < 0.2:
                    session.rollback()
                    continue
                session.commit()
            with guard:
                committed.extend(ids)

    mark = stream_mark(listen)
    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for writer in writers:
        writer.start()

    def finish() -> None:
        for writer in writers:
            writer.join()
        is_done.set()

    threading.Thread(target=finish, daemon=True).start()
    told: list[int] = []
    while not is_done.is_set() or set(told) != set(committed):
        stream = listen(ME, since=mark)
        for _ in range(rng.randint(1, 3)):
            try:
                event: Event | None = stream.next(seconds=0.15)
            except TimeoutError:
                break
            assert event is not None
            assert not event.reload
            told += event.ids
            mark = event.id
        stream.close()
        assert len(told) <= 1000
    assert sorted(told) == sorted(committed)
