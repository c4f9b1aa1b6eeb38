"""Notifications are listed, counted and marked: O19 to O21 of operate.md, and the cases of inboxes."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.errors import RecipientMismatch, RecordNotFound, TenantContextMissing, UserContextMissing
from messaging.inbox.models import INBOX_NOTIFICATION
from messaging.tenancy import PLATFORM_TENANT_ID
from tests.integration.inbox.people import U, V, note, signed_in

PAST, FUTURE = datetime(2001, 1, 1, tzinfo=UTC), datetime(2126, 1, 1, tzinfo=UTC)


def send(*recipients: int, **fields: Any) -> list[int]:
    return messaging.send_inbox_batch([note(recipient, **fields) for recipient in recipients])


def read_at(engine: Engine, notification_id: int) -> datetime | None:
    with engine.connect() as connection:
        statement = select(INBOX_NOTIFICATION.c.read_at).where(INBOX_NOTIFICATION.c.id == notification_id)
        found: datetime | None = connection.execute(statement).scalar_one()
        return found


def test_the_first_reading_stays(engine: Engine) -> None:  # operate.md O19
    (one,) = send(U)
    with signed_in(U):
        assert messaging.mark_my_notification_read(one)
        first = read_at(engine, one)
        assert first is not None
        assert not messaging.mark_my_notification_read(one)
    assert not messaging.mark_notification_read(one)
    assert read_at(engine, one) == first


def test_what_is_unknown_or_somebody_elses_is_not_marked(engine: Engine) -> None:  # operate.md O19
    (one,) = send(V)
    with signed_in(U):
        with pytest.raises(RecordNotFound):
            messaging.mark_my_notification_read(one + 1)
        with pytest.raises(RecipientMismatch):
            messaging.mark_my_notification_read(one)
    assert read_at(engine, one) is None


def test_another_tenants_is_not_found(engine: Engine, many_tenants: None) -> None:  # operate.md O19, O5
    with tenancy.tenant(8):
        (one,) = send(U)
    with signed_in(U, 7):
        with pytest.raises(RecordNotFound):
            messaging.mark_my_notification_read(one)
        with pytest.raises(RecordNotFound):
            messaging.mark_notification_read(one)
        assert messaging.mark_inbox_read(U) == messaging.mark_my_inbox_read() == 0
        assert messaging.my_inbox() == messaging.list_inbox(U) == []
        with pytest.raises(RecordNotFound):
            messaging.list_inbox(U, before=one)
    with signed_in(U, PLATFORM_TENANT_ID):
        assert messaging.my_unread_count() == 0
    assert read_at(engine, one) is None
    with signed_in(U, 8):
        assert messaging.my_unread_count() == 1


def test_without_a_tenant_nothing_is_read(many_tenants: None) -> None:  # operate.md O7
    with signed_in(U):
        for call in (messaging.my_inbox, messaging.my_unread_count, messaging.mark_my_inbox_read):
            with pytest.raises(TenantContextMissing):
                call()


def test_without_a_user_there_is_no_own_inbox() -> None:
    calls: list[Callable[[], object]] = [
        messaging.my_inbox,
        messaging.my_unread_count,
        messaging.mark_my_inbox_read,
        lambda: messaging.mark_my_notification_read(1),
    ]
    for call in calls:
        with pytest.raises(UserContextMissing):
            call()


@pytest.mark.parametrize(("limit", "shown"), [(0, 1), (-5, 1), (20, 20), (50, 50), (999, 50)])
def test_a_limit_is_brought_within_bounds(limit: int, shown: int) -> None:  # operate.md O20
    send(*[U] * 60)
    with signed_in(U):
        assert len(messaging.my_inbox(limit)) == shown
        assert len(messaging.my_inbox()) == 20


def test_an_expired_one_is_hidden_and_not_counted_and_stays_for_operators() -> None:  # operate.md O20
    (gone,) = send(U, expires_at=PAST)
    (here,) = send(U, expires_at=FUTURE)
    with signed_in(U):
        assert [one.id for one in messaging.my_inbox()] == [here]
        assert messaging.my_unread_count() == 1
    assert messaging.inbox_unread_count(U) == 1
    assert [one.id for one in messaging.list_inbox(U)] == [here, gone]


def test_the_newest_comes_first_and_of_one_time_the_higher_id(engine: Engine) -> None:
    ids = send(U, U, U)
    with engine.begin() as connection:
        later = text("UPDATE inbox_notification SET created_at = created_at + interval '1 s' WHERE id = :id")
        connection.execute(later, {"id": ids[0]})
    with signed_in(U):
        assert [one.id for one in messaging.my_inbox()] == [ids[0], ids[2], ids[1]]


def test_only_unread_ones_may_be_asked_for() -> None:
    ids = send(U, U)
    with signed_in(U):
        messaging.mark_my_notification_read(ids[1])
        assert [(one.id, one.is_read) for one in messaging.my_inbox(unread_only=True)] == [(ids[0], False)]


def test_marking_all_leaves_others_untouched() -> None:  # operate.md O21
    send(U, U, V)
    with signed_in(U):
        assert messaging.mark_my_inbox_read() == 2
        assert messaging.mark_my_inbox_read() == 0
        assert messaging.my_unread_count() == 0
    assert messaging.inbox_unread_count(V) == 1
    assert messaging.mark_inbox_read(V) == 1


def test_a_page_goes_on_where_the_one_before_ended() -> None:
    ids = send(*[U] * 5)
    send(V)
    pages, before = [], None
    while lines := messaging.list_inbox(U, limit=2, before=before):
        pages.append([one.id for one in lines])
        before = lines[-1].id
    assert pages == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]
    with pytest.raises(RecordNotFound):
        messaging.list_inbox(V, before=ids[0])


def test_a_count_equals_the_list_however_often_one_is_marked(engine: Engine) -> None:  # inbox inbox-01
    ids = send(U, U, U)
    marked: list[bool] = []

    def second_client() -> None:
        with signed_in(U):
            marked.append(messaging.mark_my_notification_read(ids[0]))

    with signed_in(U):
        assert messaging.mark_my_notification_read(ids[0])
        first = read_at(engine, ids[0])
        assert not messaging.mark_my_notification_read(ids[0])
        threads = [threading.Thread(target=second_client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert marked == [False] * 4
        assert messaging.my_unread_count() == len(messaging.my_inbox(50, unread_only=True)) == 2
    assert read_at(engine, ids[0]) == first


def test_of_two_that_mark_at_once_one_does(engine: Engine) -> None:
    (one,) = send(U)
    answers = []
    with Session(engine) as first:
        answers.append(messaging.mark_notification_read(one, session=first))
        thread = threading.Thread(target=lambda: answers.append(messaging.mark_notification_read(one)))
        thread.start()
        first.commit()
    thread.join(20)
    assert sorted(answers) == [False, True]


def test_marking_all_knows_no_pages(many_tenants: None) -> None:  # inbox inbox-02
    with tenancy.tenant(7):
        send(*[U] * 250, *[V] * 5)
    with tenancy.tenant(8):
        send(*[U] * 10)
    with signed_in(U, 7):
        assert messaging.mark_my_inbox_read() == 250
        assert messaging.my_unread_count() == 0
    with signed_in(V, 7):
        assert messaging.my_unread_count() == 5
    with signed_in(U, 8):
        assert messaging.my_unread_count() == 10


@pytest.mark.parametrize("is_on", [False, True])
def test_neither_list_nor_count_reads_what_is_not_shown(engine: Engine, make_settings: Any, is_on: bool) -> None:
    """However many others, and however much a person has read before."""
    messaging.configure(make_settings(multi_tenancy=is_on), engine=engine)
    tenant_id = 7 if is_on else 0
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO inbox_notification (tenant_id, recipient_id, title, content, is_read, created_at)"
                " SELECT :tenant, 1 + n % 20, 't', 'c', n % 40 <> 0, now() - n * interval '1 min'"
                " FROM generate_series(1, 8000) n"
            ),
            {"tenant": tenant_id},
        )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE inbox_notification")
    with Session(engine) as session, signed_in(1, tenant_id if is_on else None):
        plans = []
        for call in (messaging.my_unread_count, messaging.my_inbox, lambda **s: messaging.list_inbox(1, **s)):
            plans.append(_rows_read(session, call))
    assert plans[0] <= 200 + 1
    assert plans[1] <= 20 + 1
    assert plans[2] <= 50 + 1


def _rows_read(session: Session, call: Callable[..., object]) -> float:
    """Rows that a call's last statement reads from table or index, by its plan."""
    connection = session.connection()
    said: list[tuple[str, Any]] = []

    def keep(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        said.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", keep)
    call(session=session)
    event.remove(connection, "before_cursor_execute", keep)
    statement, parameters = said[-1]
    cursor = connection.connection.cursor()
    cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + statement, parameters)
    plan = cursor.fetchone()[0][0]["Plan"]
    while "Plans" in plan:
        plan = plan["Plans"][0]
    return float((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"])


def test_a_time_of_expiry_that_has_come_takes_it_off(engine: Engine) -> None:
    (one,) = send(U, expires_at=FUTURE)
    with engine.begin() as connection:
        shift = text("UPDATE inbox_notification SET expires_at = now() - :by WHERE id = :id")
        connection.execute(shift, {"by": timedelta(seconds=1), "id": one})
    with signed_in(U):
        assert (messaging.my_unread_count(), messaging.my_inbox()) == (0, [])
