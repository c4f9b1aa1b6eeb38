"""Acceptance of plain mails on a real database: send.md 3.1, test points A1 to A24, B1, S16."""

import asyncio
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY
from sqlalchemy import Engine, event, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.errors import IdempotencyKeyBusy, MessageRejected
from messaging.mail.acceptance import accept_mails
from messaging.mail.models import MAIL_SEND_RECORD as RECORD
from messaging.requests import BodyMode, MessageScope, Priority, SendMail
from messaging.settings import Settings

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _one_tenant() -> None:
    tenancy.use_multi_tenancy(False)


def mail(**fields: Any) -> SendMail:
    return SendMail(**{"to": ["alice@example.com"], "subject": "s", "text_body": "t", **fields})


Accept = Callable[..., list[int]]


@pytest.fixture
def accept(settings: Settings) -> Accept:
    """Accept requests in a session; one that is not a list is a single request."""

    def accept(session: Session, requests: Any, *, now: datetime = NOW, settings: Settings = settings) -> list[int]:
        single = not isinstance(requests, list) and requests is not None
        return accept_mails(session, [requests] if single else requests, settings=settings, now=now, single=single)

    return accept


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session


def rows(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(RECORD).order_by(RECORD.c.id)))


@contextmanager
def rejected(session: Session, field: str, *, index: int | None = None) -> Iterator[Any]:
    """Refused, naming the field; nothing is written and the transaction goes on."""
    before = session.scalar(select(sa.func.count()).select_from(RECORD))
    with pytest.raises(MessageRejected) as caught:
        yield caught
    assert (caught.value.channel, caught.value.field, caught.value.index) == ("mail", field, index)
    assert caught.value.reason in str(caught.value)
    assert field in str(caught.value)
    assert session.is_active
    assert session.scalar(select(sa.func.count()).select_from(RECORD)) == before


def test_an_accepted_mail_is_pending_due_and_as_asked(engine: Engine, session: Session, accept: Accept) -> None:
    with tenancy.trace("0af7651916cd43dd8448eb211c80319c"):
        (record_id,) = accept(
            session,
            SendMail(
                to=["Bob Smith <bob@example.com>", "info@bücher.example"],
                cc=['"Lee, Kevin" <kevin@example.com>'],  # addr-01
                bcc=["hidden@example.com"],  # S16
                subject="x\r\nBcc: e@e.com",  # A20
                html_body="<p>Hi</p>",
                text_body="Hi",
                reply_to="a@x.com; b@y.com\nc@z.com",  # A7
                server_config_id=7,
                read_receipt_requested=True,
                priority=Priority.HIGH,
                headers={"X-B": "2", "References": "<a@b>", "X-A": "1"},  # A24
                auto_submitted=False,
            ),
        )
    session.commit()
    (row,) = rows(engine)
    assert row.id == record_id
    assert row.to_addresses == ["Bob Smith <bob@example.com>", "info@xn--bcher-kva.example"]
    assert row.cc_addresses == ['"Lee, Kevin" <kevin@example.com>']
    assert row.bcc_addresses == ["hidden@example.com"]
    assert row.subject == "x Bcc: e@e.com"
    assert (row.body_mode, row.body_html, row.body_text) == ("HTML_WITH_AUTHORED_PLAIN", "<p>Hi</p>", "Hi")
    assert row.reply_to == "a@x.com, b@y.com, c@z.com"
    assert (row.server_config_id, row.read_receipt_requested, row.auto_submitted) == (7, True, False)
    assert (row.priority, row.lane) == ("HIGH", 1)
    assert list(row.headers.items()) == [("X-B", "2"), ("References", "<a@b>"), ("X-A", "1")]
    assert (row.status, row.version, row.retry_count, row.ready) == ("PENDING", 0, 0, True)
    assert row.next_attempt_at == row.created_at == row.updated_at
    assert (row.tenant_id, row.scope) == (0, "TENANT")
    assert row.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert (row.prepared_at, row.message_id, row.idempotency_key, row.request_hash) == (None, None, None, None)
    assert row.recipient_results == {}


def test_what_is_not_given_stays_empty(engine: Engine, session: Session, accept: Accept) -> None:
    accept(session, mail(subject=" \n ", reply_to="  "))  # A10
    session.commit()
    (row,) = rows(engine)
    assert (row.subject, row.reply_to, row.priority, row.lane, row.headers) == (None, None, None, 2, None)
    assert (row.cc_addresses, row.bcc_addresses, row.auto_submitted) == ([], [], True)


@pytest.mark.parametrize(
    ("html", "text", "declared", "stored"),
    [
        ("<p>h</p>", None, None, ("HTML", "<p>h</p>", None)),  # B1
        (None, "t", None, ("PLAIN", None, "t")),  # B1
        ("<p>h</p>", "t", None, ("HTML_WITH_AUTHORED_PLAIN", "<p>h</p>", "t")),  # B1
        ("<p>h</p>", None, "HTML_WITH_DERIVED_PLAIN", ("HTML_WITH_DERIVED_PLAIN", "<p>h</p>", None)),
        ("<p>h</p>", "t", BodyMode.HTML, ("HTML", "<p>h</p>", None)),
    ],
)
def test_the_resolved_bodies_are_stored(
    engine: Engine, session: Session, accept: Accept, html: Any, text: Any, declared: Any, stored: Any
) -> None:
    accept(session, mail(html_body=html, text_body=text, body_mode=declared))
    session.commit()
    (row,) = rows(engine)
    assert (row.body_mode, row.body_html, row.body_text) == stored


#: Fields of a request, and which of them is refused.
REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"to": []}, "to"),  # A1
    ({"to": None}, "to"),  # A1
    ({"to": ["alice@example.com", "not-an-email"]}, "to"),  # A2
    ({"to": ["a@example.com, b@example.com"]}, "to"),  # A3
    ({"to": ["Lee, Kevin <kevin@example.com>"]}, "to"),  # addr-02
    ({"to": ["user@good.example(x)evil.example"]}, "to"),  # addr-05
    ({"to": ["user @example.com"]}, "to"),  # A23
    ({"to": ["a@example.com,"]}, "to"),  # A23
    ({"to": ["a@example.com"] * 101}, "to"),  # A23
    ({"to": ["a@example.com"], "cc": ["a@example.com"] * 50, "bcc": ["a@example.com"] * 50}, "to"),
    ({"cc": ["g: a@x.com;"]}, "cc"),  # A5
    ({"bcc": [""]}, "bcc"),
    ({"reply_to": "support@, broken"}, "reply_to"),  # A6
    ({"reply_to": "a@x.com," * 40 + "b@x.com"}, "reply_to"),
    ({"text_body": None}, "text_body"),  # A11
    ({"text_body": " \n", "html_body": ""}, "text_body"),  # A11
    ({"text_body": "x" * 1_048_577}, "text_body"),  # A12
    ({"html_body": "x" * 1_048_577}, "html_body"),  # A12
    ({"body_mode": BodyMode.HTML}, "body_mode"),
    ({"body_mode": "PLAIN", "html_body": "<p>", "text_body": None}, "body_mode"),
    ({"subject": "x" * 501}, "subject"),
    ({"headers": {"Bcc": "e@e.com"}}, "headers"),  # A24
    ({"headers": {"X-A": "1\r\nBcc: e@e.com"}}, "headers"),  # A24
    ({"send_at": datetime(2024, 6, 1)}, "send_at"),  # noqa: DTZ001 - what is refused
    ({"expires_at": datetime(2024, 6, 1)}, "expires_at"),  # noqa: DTZ001
    ({"expires_at": NOW}, "expires_at"),
    ({"expires_at": NOW + timedelta(1), "send_at": NOW + timedelta(1)}, "expires_at"),
    ({"idempotency_key": "k" * 256}, "idempotency_key"),
    ({"idempotency_key": " "}, "idempotency_key"),
    # what the database could not store
    ({"text_body": "a\x00b"}, "text_body"),
    ({"html_body": "a\x00b"}, "html_body"),
    ({"text_body": "a\ud800b"}, "text_body"),
    ({"html_body": "\udfff"}, "html_body"),
    ({"subject": "\ud800"}, "subject"),
    ({"to": ["\ud800@example.com"]}, "to"),
    ({"reply_to": "\ud800@example.com"}, "reply_to"),
    ({"reply_to": "a@x.com\x00"}, "reply_to"),
    ({"idempotency_key": "a\x00"}, "idempotency_key"),
    ({"idempotency_key": "\ud800"}, "idempotency_key"),
    ({"headers": {"X-A": "\ud800"}}, "headers"),
    ({"server_config_id": 2**63}, "server_config_id"),
    ({"send_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))}, "send_at"),
    ({"send_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=12)))}, "send_at"),
    # wrong types
    ({"to": "alice@example.com"}, "to"),
    ({"to": b"alice@example.com"}, "to"),
    ({"to": 5}, "to"),
    ({"to": {"alice@example.com"}}, "to"),
    ({"to": [None]}, "to"),
    ({"to": [b"alice@example.com"]}, "to"),
    ({"cc": "alice@example.com"}, "cc"),
    ({"bcc": ["alice@example.com", 5]}, "bcc"),
    ({"reply_to": ["a@x.com"]}, "reply_to"),
    ({"subject": 5}, "subject"),
    ({"subject": b"s"}, "subject"),
    ({"text_body": b"t"}, "text_body"),
    ({"html_body": 5}, "html_body"),
    ({"body_mode": "html"}, "body_mode"),
    ({"body_mode": 1}, "body_mode"),
    ({"body_mode": Priority.HIGH}, "body_mode"),
    ({"priority": "URGENT"}, "priority"),
    ({"priority": 1}, "priority"),
    ({"scope": None}, "scope"),
    ({"scope": "GLOBAL"}, "scope"),
    ({"server_config_id": "7"}, "server_config_id"),
    ({"server_config_id": True}, "server_config_id"),
    ({"server_config_id": -1}, "server_config_id"),
    ({"server_config_id": 1.0}, "server_config_id"),
    ({"read_receipt_requested": 1}, "read_receipt_requested"),
    ({"auto_submitted": None}, "auto_submitted"),
    ({"auto_submitted": "no"}, "auto_submitted"),
    ({"idempotency_key": 5}, "idempotency_key"),
    ({"send_at": "2024-06-01T00:00:00Z"}, "send_at"),
    ({"send_at": NOW.date()}, "send_at"),
    ({"expires_at": 5}, "expires_at"),
    ({"headers": [("X-A", "1")]}, "headers"),
    ({"headers": {"X-A": 1}}, "headers"),
    ({"headers": {1: "x"}}, "headers"),
]


def test_a_bad_request_is_rejected_and_the_transaction_goes_on(
    engine: Engine, session: Session, accept: Accept, subtests: pytest.Subtests
) -> None:
    accept(session, mail(subject="before"))
    for fields, field in REJECTED:
        with subtests.test(repr(fields)[:60]):
            with rejected(session, field):
                accept(session, mail(**fields))
            with rejected(session, field, index=1):  # A14
                accept(session, [mail(), mail(**fields), mail()])
            with session.begin_nested(), rejected(session, field):
                accept(session, mail(**fields))
    accept(session, mail(subject="after"))
    session.commit()
    assert [row.subject for row in rows(engine)] == ["before", "after"]


def test_a_rejection_shows_the_entry_and_the_index_and_no_body(session: Session, accept: Accept) -> None:
    with rejected(session, "to") as caught:
        accept(session, mail(to=["alice@example.com", "not-an-email"]))  # A2
    assert caught.value.value == "not-an-email"
    assert "'not-an-email'" in str(caught.value)
    with rejected(session, "to", index=1) as caught:
        accept(session, [mail(), mail(to=["not-an-email"])])
    assert "item 1" in str(caught.value)
    with rejected(session, "text_body") as caught:
        accept(session, mail(text_body="secret" * 200_000))
    assert "secret" not in str(caught.value)


def test_a_value_that_cannot_be_shown_is_rejected_all_the_same(session: Session, accept: Accept) -> None:
    with rejected(session, "server_config_id") as caught:
        accept(session, mail(server_config_id=10**5000))  # Python shows no number of so many digits
    assert "<int>" in str(caught.value)


@pytest.mark.parametrize("batch", [None, [], [mail()] * 501, "mails", 5, {"to": "x"}])
def test_a_batch_has_1_to_500_requests(session: Session, settings: Settings, batch: Any) -> None:  # A13
    with rejected(session, "requests"):
        accept_mails(session, batch, settings=settings, now=NOW, single=False)


def test_a_missing_request_is_named(session: Session, settings: Settings, accept: Accept) -> None:  # A13
    with rejected(session, "request", index=1):
        accept(session, [mail(), None, mail()])
    with rejected(session, "request", index=0):
        accept(session, [{"to": ["a@example.com"]}])
    with rejected(session, "request"):
        accept_mails(session, [None], settings=settings, now=NOW, single=True)


@pytest.mark.parametrize("prefix", ["", "é", "🎉"])
def test_a_body_at_the_limit_is_accepted_in_characters(
    engine: Engine, session: Session, accept: Accept, make_settings: Callable[..., Settings], prefix: str
) -> None:  # A12
    limited = make_settings(mail={"max_body_chars": 1000})
    body = (prefix or "x") * 1000
    accept(session, mail(text_body=body, html_body=body), settings=limited)
    with rejected(session, "html_body"):
        accept(session, mail(html_body=body + "x"), settings=limited)
    session.commit()
    assert [len(row.body_text) for row in rows(engine)] == [1000]


def test_limits_that_hold(engine: Engine, session: Session, accept: Accept) -> None:
    accept(session, mail(subject="s" * 500 + " \r\n", to=["John Q. Public <j@example.com>"] * 100))  # A23
    accept(session, mail(server_config_id=2**63 - 1, idempotency_key="ü" * 255))
    accept(session, mail(text_body="x" * 1_048_576))
    session.commit()
    assert [len(row.to_addresses) for row in rows(engine)] == [100, 1, 1]


@pytest.mark.parametrize("count", [2, 500])
def test_a_batch_is_one_statement_and_its_ids_are_in_order(
    engine: Engine, session: Session, accept: Accept, count: int
) -> None:  # A13, A15
    statements: list[str] = []
    session.connection()
    with listening(engine, statements):
        ids = accept(session, [mail(to=[f"user{n}@example.com"], subject=str(n)) for n in range(count)])
    session.commit()
    assert len(statements) == 1
    assert statements[0].startswith("INSERT INTO mail_send_record")
    assert len(set(ids)) == count
    assert {row.id: row.subject for row in rows(engine)} == {id_: str(n) for n, id_ in enumerate(ids)}


@contextmanager
def listening(engine: Engine, statements: list[str]) -> Iterator[None]:
    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_a_batch_too_large_for_one_statement_is_split(engine: Engine, session: Session, accept: Accept) -> None:
    statements: list[str] = []
    session.connection()
    with listening(engine, statements):
        ids = accept(session, [mail(text_body="x" * 1_000_000, subject=str(n)) for n in range(40)])
    session.commit()
    assert len(statements) == 3
    assert {row.id: row.subject for row in rows(engine)} == {id_: str(n) for n, id_ in enumerate(ids)}


def test_a_batch_may_mix_what_it_leaves_out(engine: Engine, session: Session, accept: Accept) -> None:
    class Text(str):
        """As `markupsafe.Markup`: drivers do not take every subclass of str."""

        __slots__ = ()

        def __str__(self) -> str:
            return "never asked"

    class Server(IntEnum):
        MAIN = 7

    later = NOW + timedelta(days=36500)
    accept(
        session,
        [
            mail(subject=Text("a"), text_body=Text("b"), server_config_id=Server.MAIN, to=[Text("t@example.com")]),
            mail(subject="c", text_body="d", send_at=later, priority="LOW", scope="PLATFORM", headers={"X-A": "ü"}),
            mail(subject=None, html_body=Text("<p>e</p>"), text_body=None, cc=None, bcc=(), headers=None),
            mail(subject="f", expires_at=later.astimezone(timezone(timedelta(hours=2))), read_receipt_requested=False),
        ],
    )
    session.commit()
    first, second, third, fourth = rows(engine)
    assert (first.subject, first.body_text, first.server_config_id) == ("a", "b", 7)
    assert first.to_addresses == ["t@example.com"]
    assert (second.send_at, second.next_attempt_at, second.ready) == (later, later, False)
    assert (second.priority, second.lane, second.scope, second.headers) == ("LOW", 3, "PLATFORM", {"X-A": "ü"})
    assert (third.subject, third.body_html, third.body_mode) == (None, "<p>e</p>", "HTML")
    assert (fourth.expires_at, fourth.read_receipt_requested) == (later, False)


def test_send_at_in_the_past_is_due_now(engine: Engine, session: Session, accept: Accept) -> None:
    accept(session, mail(send_at=datetime(1, 1, 1, tzinfo=UTC)))
    session.commit()
    (row,) = rows(engine)
    assert row.next_attempt_at == row.created_at
    assert row.ready


def test_a_rollback_leaves_no_record(engine: Engine, session: Session, accept: Accept) -> None:  # A16
    accept(session, mail())
    session.rollback()
    with session.begin_nested() as savepoint:
        accept(session, mail())
        savepoint.rollback()
    accept(session, mail(subject="kept"))
    session.commit()
    assert [row.subject for row in rows(engine)] == ["kept"]


def test_the_request_is_not_changed(session: Session, accept: Accept) -> None:  # A21
    to, headers = ["Bob <b@EXAMPLE.com>"], {"X-A": "1"}
    request = mail(to=to, headers=headers, subject=" s ")
    accept(session, request)
    assert (request.to, request.headers, request.subject) == (["Bob <b@EXAMPLE.com>"], {"X-A": "1"}, " s ")


class TestTenants:
    @pytest.fixture
    def settings(self, make_settings: Callable[..., Settings]) -> Settings:
        return make_settings(multi_tenancy=True)

    @pytest.fixture(autouse=True)
    def _many_tenants(self, _one_tenant: None) -> Iterator[None]:
        tenancy.use_multi_tenancy(True)
        yield
        tenancy.use_multi_tenancy(False)

    def test_the_current_tenant_owns_the_record(self, engine: Engine, session: Session, accept: Accept) -> None:
        with tenancy.tenant(7):
            accept(session, mail())  # A17
            accept(session, mail(scope=MessageScope.PLATFORM))
        accept(session, mail(scope="PLATFORM"))  # A18
        with tenancy.all_tenants():
            accept(session, mail(scope="PLATFORM"))
        session.commit()
        assert [(row.tenant_id, row.scope) for row in rows(engine)] == [
            (7, "TENANT"),
            (7, "PLATFORM"),
            (-1, "PLATFORM"),
            (-1, "PLATFORM"),
        ]

    def test_no_tenant_is_rejected(self, engine: Engine, session: Session, accept: Accept) -> None:
        for context in (tenancy.acting_as(tenancy.Context()), tenancy.all_tenants()):
            with context, pytest.raises(MessageRejected) as caught:
                accept(session, mail())
            assert caught.value.field == "scope"
        session.commit()
        assert rows(engine) == []

    def test_a_key_belongs_to_its_tenant(self, engine: Engine, session: Session, accept: Accept) -> None:
        # tenant-03
        ids = []
        for tenant_id, subject in ((7, "A"), (8, "B"), (7, "A")):
            with tenancy.tenant(tenant_id):
                ids += accept(session, mail(subject=subject, idempotency_key="order-1"))
        session.commit()
        assert ids[0] == ids[2] != ids[1]
        assert [(row.tenant_id, row.subject) for row in rows(engine)] == [(7, "A"), (8, "B")]


class TestIdempotencyKeys:  # A22
    def test_the_same_key_twice_is_one_record(self, engine: Engine, session: Session, accept: Accept) -> None:
        keyed = mail(idempotency_key="k")
        ids = accept(
            session, [mail(subject="x"), keyed, mail(subject="y"), keyed, mail(subject="z", idempotency_key="z")]
        )
        assert ids[1] == ids[3]
        assert len(set(ids)) == 4
        assert accept(session, keyed) == [ids[1]]
        session.commit()
        assert accept(session, [keyed, mail(subject="after"), keyed])[0] == ids[1]
        session.commit()
        assert [row.subject for row in rows(engine)] == ["x", "s", "y", "z", "after"]
        assert {row.id for row in rows(engine)} >= set(ids)

    def test_ids_of_a_mixed_batch_belong_to_their_mails(self, engine: Engine, session: Session, accept: Accept) -> None:
        accept(session, [mail(subject=str(n), idempotency_key=f"k{n}") for n in range(0, 20, 3)])
        batch = [mail(subject=str(n), idempotency_key=f"k{n}" if n % 3 == 0 or n % 5 == 0 else None) for n in range(20)]
        ids = accept(session, batch)
        session.commit()
        assert {row.id: row.subject for row in rows(engine)} == {id_: str(n) for n, id_ in enumerate(ids)}

    @pytest.mark.parametrize(
        "change",
        [
            {"subject": "other"},
            {"to": ["bob@example.com"]},
            {"to": ["alice@example.com", "bob@example.com"]},
            {"cc": ["bob@example.com"]},
            {"bcc": ["alice@example.com"]},
            {"text_body": "t "},
            {"html_body": "<p>t</p>"},
            {"body_mode": BodyMode.PLAIN, "html_body": "x"},
            {"reply_to": "a@x.com"},
            {"priority": Priority.NORMAL},
            {"server_config_id": 1},
            {"read_receipt_requested": False},
            {"auto_submitted": False},
            {"scope": MessageScope.PLATFORM},
            {"headers": {"X-A": "1"}},
            {"send_at": NOW},
            {"expires_at": NOW + timedelta(1)},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_another_content_is_rejected(
        self, engine: Engine, session: Session, accept: Accept, change: dict[str, Any]
    ) -> None:
        accept(session, mail(idempotency_key="k"))
        other = mail(idempotency_key="k", **change)
        with rejected(session, "idempotency_key") as caught:
            accept(session, other)
        assert caught.value.value == "k"
        with rejected(session, "idempotency_key", index=1):
            accept(session, [mail(subject="new"), other])
        with rejected(session, "idempotency_key", index=1):
            accept(session, [mail(idempotency_key="k2"), mail(idempotency_key="k2", **change)])
        accept(session, mail(subject="still usable"))
        session.commit()
        assert [row.subject for row in rows(engine)] == ["s", "still usable"]

    def test_the_same_content_in_another_spelling_is_the_same(self, session: Session, accept: Accept) -> None:
        first = accept(
            session,
            mail(
                to=["Bob <b@example.com>"],
                headers={"X-A": "1", "X-B": "2"},
                send_at=NOW,
                html_body="<p>x</p>",
                idempotency_key="k",
            ),
        )
        again = mail(
            to=("Bob  <b@EXAMPLE.com>",),
            headers={"X-B": "2", "X-A": "1"},
            send_at=NOW.astimezone(timezone(timedelta(hours=2))),
            html_body="<p>x</p>",
            subject="s\n",
            idempotency_key="k",
        )
        assert accept(session, again) == first

    @pytest.mark.parametrize("is_same", [True, False])
    def test_a_key_that_is_just_being_written_is_waited_for(
        self, engine: Engine, session: Session, accept: Accept, is_same: bool
    ) -> None:
        first = accept(session, mail(idempotency_key="k"))
        with Session(engine) as other:
            ours = accept(other, mail(subject="ours"))
            mine = mail(idempotency_key="k", subject="s" if is_same else "other")
            with committed_once_waited_for(engine, session):
                if is_same:
                    assert accept(other, [mail(subject="beside"), mine, mine])[1:] == first * 2
                else:
                    with rejected_while_waiting("idempotency_key", index=1):
                        accept(other, [mail(subject="beside"), mine])
            other.commit()
        assert len(ours) == 1
        expected = {"s", "ours", "beside"} if is_same else {"s", "ours"}
        assert {row.subject for row in rows(engine)} == expected

    def test_a_key_whose_writer_rolls_back_is_written(self, engine: Engine, session: Session, accept: Accept) -> None:
        accept(session, mail(idempotency_key="k"))
        with Session(engine) as other:
            with committed_once_waited_for(engine, session, "rollback"):
                ids = accept(other, mail(idempotency_key="k"))
            other.commit()
        assert [row.id for row in rows(engine)] == ids

    @pytest.mark.parametrize("own_timeout", ["0", "100ms", "1h"])
    def test_a_key_held_too_long_is_an_error_and_the_transaction_goes_on(
        self, engine: Engine, session: Session, make_settings: Callable[..., Settings], accept: Accept, own_timeout: str
    ) -> None:
        quick = make_settings(database={"lock_timeout_seconds": 0.2})
        accept(session, mail(idempotency_key="k"))
        with Session(engine) as other:
            other.execute(sa.text(f"SET LOCAL lock_timeout = '{own_timeout}'"))
            accept(other, mail(subject="before"))
            with pytest.raises(IdempotencyKeyBusy):
                accept(other, [mail(subject="beside"), mail(idempotency_key="k")], settings=quick)
            with other.begin_nested(), pytest.raises(IdempotencyKeyBusy):
                accept(other, mail(idempotency_key="k"), settings=quick)
            assert other.scalar(sa.text("SHOW lock_timeout")) == own_timeout
            accept(other, mail(subject="after", idempotency_key="k2"), settings=quick)
            assert other.scalar(sa.text("SHOW lock_timeout")) == own_timeout
            other.commit()
        session.rollback()
        assert [row.subject for row in rows(engine)] == ["before", "after"]

    def test_a_repeatable_read_caller_gets_an_error_for_a_key_behind_its_snapshot(
        self, engine: Engine, session: Session, accept: Accept
    ) -> None:
        with Session(engine.execution_options(isolation_level="REPEATABLE READ")) as strict:
            accept(strict, mail(subject="before"))
            accept(session, mail(idempotency_key="k"))
            session.commit()
            with pytest.raises(IdempotencyKeyBusy):
                accept(strict, mail(idempotency_key="k"))
            ids = accept(strict, [mail(subject="after"), mail(subject="keyed", idempotency_key="k2")])
            assert accept(strict, mail(subject="keyed", idempotency_key="k2")) == ids[1:]
            strict.commit()
        assert sorted(row.subject for row in rows(engine)) == ["after", "before", "keyed", "s"]

    def test_a_savepoint_that_is_undone_frees_its_key(self, engine: Engine, session: Session, accept: Accept) -> None:
        with session.begin_nested() as savepoint:
            accept(session, mail(idempotency_key="k", subject="undone"))
            savepoint.rollback()
        with session.begin_nested():
            first = accept(session, mail(idempotency_key="k", subject="kept"))
        assert accept(session, mail(idempotency_key="k", subject="kept")) == first
        session.commit()
        assert [row.subject for row in rows(engine)] == ["kept"]


@contextmanager
def rejected_while_waiting(field: str, *, index: int) -> Iterator[None]:
    with pytest.raises(MessageRejected) as caught:
        yield
    assert (caught.value.field, caught.value.index) == (field, index)


@contextmanager
def committed_once_waited_for(engine: Engine, session: Session, end: str = "commit") -> Iterator[None]:
    """End the session's transaction as soon as another one waits for a lock."""
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    failures: list[str] = []

    def end_it() -> None:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for _ in range(400):
                if connection.scalar(waiting):
                    break
                threading.Event().wait(0.01)
            else:
                failures.append("nobody waited")
        getattr(session, end)()

    thread = threading.Thread(target=end_it)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failures


def test_an_async_session_accepts_by_run_sync(engine: Engine, database_url: str, accept: Accept) -> None:
    async def main() -> list[Any]:
        async_engine = create_async_engine(database_url)
        try:
            async with AsyncSession(async_engine) as session:
                kept = await session.run_sync(accept, [mail(), mail(idempotency_key="k"), mail(idempotency_key="k")])
                with pytest.raises(MessageRejected):
                    await session.run_sync(accept, mail(to=["not-an-email"]))
                await session.commit()
                await session.run_sync(accept, mail())
                await session.rollback()
            return list(kept)
        finally:
            await async_engine.dispose()

    ids = asyncio.run(main())
    assert ids[1] == ids[2]
    assert [row.id for row in rows(engine)] == ids[:2]


def test_a_session_of_the_application_works_beside_its_own_rows(engine: Engine, accept: Accept) -> None:
    own = create_engine_of_the_application(engine)
    with own.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id int primary key, mail_id bigint)"))
    with Session(own) as session, session.begin():
        session.execute(sa.text("INSERT INTO orders VALUES (1, null)"))
        with rejected(session, "to"):
            accept(session, mail(to=[]))
        (mail_id,) = accept(session, mail(idempotency_key="order-1"))
        session.execute(sa.text("UPDATE orders SET mail_id = :id"), {"id": mail_id})
    with own.connect() as connection:
        assert connection.scalar(sa.text("SELECT mail_id FROM orders")) == rows(engine)[0].id
    own.dispose()


def create_engine_of_the_application(engine: Engine) -> Engine:
    return sa.create_engine(engine.url)


def test_what_was_inserted_is_counted_and_nudges_after_the_commit(
    session: Session, accept: Accept, make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    nudged = threading.Event()
    target = types.ModuleType("nudge_target")
    target.__dict__["nudge"] = lambda channel: nudged.set() if channel == "mail" else None
    monkeypatch.setitem(sys.modules, target.__name__, target)
    nudging = make_settings(dispatch={"nudge": "nudge_target:nudge"})
    before = accepted_total()
    accept(session, [mail(), mail(idempotency_key="k"), mail(idempotency_key="k")], settings=nudging)
    assert accepted_total() == before + 2
    assert not nudged.wait(0.1)
    session.commit()
    assert nudged.wait(5)
    nudged.clear()
    accept(session, mail(idempotency_key="k"), settings=nudging)  # writes nothing
    session.commit()
    assert not nudged.wait(0.1)
    assert accepted_total() == before + 2


def accepted_total() -> float:
    return REGISTRY.get_sample_value("messaging_accepted_total", {"channel": "mail"}) or 0
