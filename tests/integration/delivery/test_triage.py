"""Dead letters settled by an operator: once, with a remark, and without touching the record."""

from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import DeadLetterSource, DeadLetterStatus, api, tenancy
from messaging.audit import trail
from messaging.delivery.triage import MAX_REMARK_CHARS
from messaging.errors import EntryRejected, RecordNotFound, StateError, TenantMismatch
from messaging.settings import Settings
from messaging.tenancy import PLATFORM_TENANT_ID, Context
from tests.conftest import MakeSettings

OPERATOR = Context(tenant_id=PLATFORM_TENANT_ID, user_id=12, user_name="Ann", actor="operator:5")


@pytest.fixture
def session(make_settings: MakeSettings, engine: Engine, unconfigured: None) -> Iterator[Session]:
    """Of the platform's operator."""
    api.configure(make_settings(multi_tenancy=True), engine=engine)
    with tenancy.acting_as(OPERATOR), Session(engine) as session:
        yield session


def stored(session: Session, **fields: Any) -> int:
    given = {"source": "SEND_EXHAUSTED", "channel": "mail", "event_id": 42, "source_tenant_id": 7, **fields}
    names = ", ".join(given)
    values = ", ".join(f":{name}" for name in given)
    found: int = (
        session.connection()
        .execute(
            text(
                f"INSERT INTO dead_letter_message ({names}, event_type, payload)"
                f" VALUES ({values}, 'SEND_DEAD_LETTER', '{{}}') RETURNING id"
            ),
            given,
        )
        .scalar_one()
    )
    return found


def test_a_dead_letter_is_resolved_once_and_another_discarded(session: Session) -> None:  # operate.md O34
    one, two = stored(session), stored(session)
    messaging.resolve_dead_letter(one, remark="the server is back", session=session)
    with pytest.raises(StateError, match=f"dead letter {one} is RESOLVED"):
        messaging.resolve_dead_letter(one, session=session)
    with pytest.raises(StateError, match=f"dead letter {one} is RESOLVED"):
        messaging.discard_dead_letter(one, session=session)
    messaging.discard_dead_letter(two, session=session)
    found = messaging.get_dead_letter(one, session=session)
    assert (found.status, found.resolved_remark, found.updated_by) == (
        DeadLetterStatus.RESOLVED,
        "the server is back",
        "Ann",
    )
    assert found.updated_at >= found.created_at
    other = messaging.get_dead_letter(two, session=session)
    assert (other.status, other.resolved_remark) == (DeadLetterStatus.DISCARDED, None)


def test_what_was_settled_is_in_the_audit_log(session: Session) -> None:
    one, two = stored(session), stored(session)
    messaging.resolve_dead_letter(one, remark="r" * MAX_REMARK_CHARS, session=session)
    messaging.discard_dead_letter(two, session=session)
    found = trail.page(session)[::-1]
    assert [(line.actor, line.action, line.target_type, line.target_id) for line in found] == [
        ("operator:5", "resolve", "dead_letter_message", one),
        ("operator:5", "discard", "dead_letter_message", two),
    ]
    assert [(line.before, line.after, line.note) for line in found] == [
        ({"status": "PENDING"}, {"status": "RESOLVED"}, "r" * 500),
        ({"status": "PENDING"}, {"status": "DISCARDED"}, None),
    ]


def test_the_record_stays_as_it_is(session: Session) -> None:
    with tenancy.tenant(7):
        record = messaging.send_mail(to=["a@example.com"], subject="s", text_body="t", session=session)
    session.connection().execute(text("UPDATE mail_send_record SET status = 'DEAD_LETTER'"))
    messaging.resolve_dead_letter(stored(session, event_id=record), session=session)
    with tenancy.tenant(7):
        assert messaging.status(record, session=session).status == "DEAD_LETTER"


@pytest.mark.parametrize("act", ["list", "get", "resolve", "discard"])
def test_a_tenant_neither_sees_nor_settles_any(session: Session, act: str) -> None:  # operate.md O35
    one = stored(session)
    acts: dict[str, Any] = {
        "list": lambda: messaging.list_dead_letters(session=session),
        "get": lambda: messaging.get_dead_letter(one, session=session),
        "resolve": lambda: messaging.resolve_dead_letter(one, session=session),
        "discard": lambda: messaging.discard_dead_letter(one, session=session),
    }
    with tenancy.tenant(7), pytest.raises(TenantMismatch, match="a tenant cannot do that"):
        acts[act]()
    assert messaging.get_dead_letter(one, session=session).status is DeadLetterStatus.PENDING


def test_without_multi_tenancy_anybody_may(settings: Settings, session: Session) -> None:
    tenancy.use_multi_tenancy(False)
    one = stored(session)
    with tenancy.acting_as(Context()):
        messaging.resolve_dead_letter(one, session=session)
        assert [line.status for line in messaging.list_dead_letters(session=session)] == [DeadLetterStatus.RESOLVED]


def test_dead_letters_are_narrowed_and_paged(session: Session) -> None:
    mail = stored(session)
    text_message = stored(session, channel="sms", event_id=43, source_tenant_id=8)
    poison = stored(session, source="BROKER_POISON", channel=None, event_id=None, source_tenant_id=None)
    messaging.discard_dead_letter(mail, session=session)

    def ids(**wanted: Any) -> list[int]:
        return [line.id for line in messaging.list_dead_letters(**wanted, session=session)]

    assert ids() == [poison, text_message, mail]
    assert ids(limit=2) == [poison, text_message]
    assert ids(before=text_message) == [mail]
    assert ids(status="PENDING") == [poison, text_message]
    assert ids(source=DeadLetterSource.BROKER_POISON) == [poison]
    assert ids(channel="sms") == [text_message]
    assert ids(record_id=42) == [mail]
    assert ids(source_tenant_id=8) == [text_message]
    assert ids(event_type="UNDECODABLE") == []
    with pytest.raises(ValueError, match="status is 'SETTLED'; allowed: PENDING, RESOLVED, DISCARDED"):
        ids(status="SETTLED")


@pytest.mark.parametrize(
    ("remark", "told"),
    [
        ("r" * (MAX_REMARK_CHARS + 1), "at most 3000 characters"),
        ("a\x00b", "cannot be stored"),
        (5, "is of type str"),
    ],
)
def test_a_remark_that_cannot_be_stored_settles_nothing(session: Session, remark: Any, told: str) -> None:
    one = stored(session)
    with pytest.raises(EntryRejected, match=told):
        messaging.resolve_dead_letter(one, remark=remark, session=session)
    assert messaging.get_dead_letter(one, session=session).status is DeadLetterStatus.PENDING


def test_of_none_it_is_told_so(session: Session) -> None:
    for act in (messaging.get_dead_letter, messaging.resolve_dead_letter, messaging.discard_dead_letter):
        for unknown in (5, -1, 2**70):
            with pytest.raises(RecordNotFound, match=f"no dead letter {unknown}"):
                act(unknown, session=session)


def test_of_two_who_settle_at_once_the_second_is_refused(session: Session, engine: Engine) -> None:
    one = stored(session)
    session.commit()
    messaging.resolve_dead_letter(one, session=session)
    answers: list[BaseException | None] = []

    def second() -> None:
        try:
            with tenancy.acting_as(OPERATOR):
                messaging.discard_dead_letter(one)
            answers.append(None)
        except StateError as exc:
            answers.append(exc)

    thread = Thread(target=second)
    thread.start()
    session.commit()
    thread.join(30)
    assert [str(answer) for answer in answers] == [f"dead letter {one} is RESOLVED"]
