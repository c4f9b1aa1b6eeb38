"""Before every attempt the suppression list is looked at: who is on it is not contacted, and keeps nobody waiting."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from messaging import suppression, tenancy
from messaging.delivery import requeue
from messaging.delivery.recipients import open_recipients
from messaging.delivery.status import SendStatus
from messaging.mail import unsubscribe as links
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.mail.records import read_story
from messaging.mail.unsubscribing import find_subscription, unsubscribe
from messaging.requests import SuppressionReason
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.desk import Desk, counted
from tests.integration.delivery.records import A, B, C, blocked

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

MakeDesk = Callable[..., Desk]


@contextmanager
def acting(desk: Desk, tenant_id: int = 0) -> Iterator[Session]:
    with tenancy.tenant(tenant_id), Session(desk.own) as session, session.begin():
        yield session


def put_on(desk: Desk, address: str, tenant_id: int = 0, **fields: Any) -> int:
    with acting(desk, tenant_id) as session:
        return suppression.add(session, channel="mail", address=address, **{"reason": "MANUAL", **fields})


def lift(desk: Desk, entry_id: int, tenant_id: int = 0) -> None:
    with acting(desk, tenant_id) as session:
        assert suppression.lift(session, entry_id, note="asked for it")


def retry(desk: Desk, record_id: int) -> None:
    with desk.own.begin() as connection:
        requeue.retry(connection, MAIL_SEND_RECORD, envelope_recipients, record_id, channel="mail")


def contacted(desk: Desk) -> list[str]:
    """Everybody whom the other side was told of, in order."""
    return [line.partition("<")[2].partition(">")[0] for line in desk.server.lines("RCPT")]


def results(desk: Desk, record_id: int) -> dict[str, str]:
    return {address: found["result"] for address, found in desk.records.row(record_id).recipient_results.items()}


def used(desk: Desk) -> dict[int, int]:
    with desk.own.connect() as connection:
        found = connection.execute(text("SELECT tenant_id, mail_used FROM tenant_message_usage"))
        return {row.tenant_id: row.mail_used for row in found}


def test_a_suppressed_address_gets_nothing_at_no_quota_and_no_contact(make_desk: MakeDesk) -> None:  # operate.md O64
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    entry = put_on(desk, A, tenant_id=7)
    before = counted("messaging_suppressed_total", channel="mail")
    alone, other, both = (
        desk.records.one(tenant_id=7),
        desk.records.one(tenant_id=8),
        desk.records.one(tenant_id=7, to=(A, B)),
    )
    assert desk.deliver(alone) == {"failed": 1}
    row = desk.records.row(alone)
    assert (row.status, row.error_code, row.prepared_at, row.retry_count) == (FAILED, "SUPPRESSED", None, 0)
    assert f"MANUAL (entry {entry})" in row.error_message
    assert A not in row.error_message  # it is logged
    assert results(desk, alone) == {A: "suppressed"}
    assert desk.server.lines() == []
    assert used(desk) == {}
    [attempt] = desk.records.attempts(alone)
    assert (attempt.outcome, attempt.category, attempt.error_code) == ("FAILED", "PERMANENT", "SUPPRESSED")

    assert desk.deliver(other, both) == {"sent": 2}
    assert contacted(desk) == [A, B]
    assert [t.recipients for t in desk.server.transactions] == [(A,), (B,)]
    assert results(desk, both) == {A: "suppressed", B: "accepted"}
    row = desk.records.row(both)
    assert (row.status, row.error_code) == (SENT, "SUPPRESSED")
    assert used(desk) == {7: 1, 8: 1}
    assert counted("messaging_suppressed_total", channel="mail") == before + 2

    lift(desk, entry, tenant_id=7)
    assert desk.deliver(desk.records.one(tenant_id=7)) == {"sent": 1}
    with tenancy.tenant(7):
        retry(desk, alone)
    assert desk.deliver(alone) == {"sent": 1}
    assert results(desk, alone) == {A: "accepted"}


def test_the_platforms_entries_are_the_platforms_alone(make_desk: MakeDesk) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    put_on(desk, A, tenant_id=-1)
    ours, theirs = desk.records.one(tenant_id=-1, scope="PLATFORM"), desk.records.one(tenant_id=7, scope="PLATFORM")
    assert desk.deliver(ours, theirs) == {"failed": 1, "sent": 1}
    assert desk.records.row(ours).error_code == "SUPPRESSED"


@pytest.mark.parametrize(
    ("listed", "stored"),
    [
        ("kim@example.org", "Kim@example.org"),
        ("KIM@EXAMPLE.ORG", "kim@example.org"),
        ("kim@example.org", "Kim Lee <kIM@example.org>"),
        ("KIM@xn--bcher-kva.example", "kim@xn--bcher-kva.example"),
        ("stra\u00dfe@example.org", "Stra\u00dfe@example.org"),
        ("ju\u0308rgen@example.org", "J\u00fcrgen@example.org"),
    ],
)
def test_an_address_is_found_however_it_is_spelled(desk: Desk, listed: str, stored: str) -> None:
    put_on(desk, listed)
    record_id = desk.records.one(to=(stored,))
    assert desk.deliver(record_id) == {"failed": 1}
    assert desk.server.lines() == []


def test_copies_and_blind_copies_are_looked_up_too(desk: Desk) -> None:
    put_on(desk, B)
    put_on(desk, C)
    record_id = desk.records.one(to=(A,), cc_addresses=[B], bcc_addresses=[f"Chris <{C}>"])
    assert desk.deliver(record_id) == {"sent": 1}
    assert contacted(desk) == [A]
    assert results(desk, record_id) == {A: "accepted", B: "suppressed", C: "suppressed"}


def test_a_retry_looks_again(desk: Desk) -> None:
    desk.server.refuse_rcpt("451 4.2.0 later", A)
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"retry": 1}
    put_on(desk, A)
    assert desk.deliver(record_id) == {"sent": 1}
    assert contacted(desk) == [A, B]
    assert results(desk, record_id) == {A: "suppressed", B: "accepted"}
    assert desk.records.row(record_id).error_code == "SUPPRESSED"


def test_suppressed_recipients_keep_the_others_neither_waiting_nor_closed(desk: Desk) -> None:
    put_on(desk, A)
    desk.server.refuse_rcpt("451 4.2.0 later", B, times=1)
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"retry": 1}
    assert results(desk, record_id) == {A: "suppressed", B: "deferred"}
    assert desk.deliver(record_id) == {"sent": 1}
    assert contacted(desk) == [B, B]


def test_who_was_suppressed_is_known_where_the_attempt_failed_as_a_whole(desk: Desk) -> None:
    put_on(desk, A)
    desk.server.on("MAIL", "451 4.3.0 later", times=1)
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"retry": 1}
    assert results(desk, record_id) == {A: "suppressed"}
    assert desk.deliver(record_id) == {"sent": 1}
    assert set(contacted(desk)) == {B}


def test_a_late_outcome_leaves_them_to_the_next_attempt(desk: Desk) -> None:  # T14
    put_on(desk, A)
    desk.server.on("EOD", hang=True, times=1)
    record_id = desk.records.one(to=(A, B))
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 5)
    assert desk.records.swept(record_id) == RETRY
    desk.server.release()
    assert sending.result(5) == {"retry": 1}
    assert results(desk, record_id) == {B: "accepted"}
    assert desk.deliver(record_id) == {"sent": 1}
    assert contacted(desk) == [B]
    assert results(desk, record_id) == {A: "suppressed", B: "accepted"}


def test_a_manual_retry_opens_them_again(desk: Desk) -> None:  # send.md section 9.4, C9
    entry = put_on(desk, A)
    desk.server.refuse_rcpt("550 5.1.1 unknown", B, times=1)
    record_id = desk.records.one(to=(A, B))
    assert desk.deliver(record_id) == {"failed": 1}
    retry(desk, record_id)
    assert desk.deliver(record_id) == {"sent": 1}  # still on the list
    assert results(desk, record_id) == {A: "suppressed", B: "accepted"}
    lift(desk, entry)
    again = desk.records.one(to=(A,), status=FAILED, recipient_results={A: {"result": "suppressed", "code": "x"}})
    retry(desk, again)
    assert desk.deliver(again) == {"sent": 1}


def test_an_entry_of_a_list_stops_mails_of_that_list_only(make_desk: MakeDesk) -> None:  # operate.md O65
    desk = make_desk(public_base_url="https://mail.example.com")
    desk.add_server()
    entry = put_on(desk, A, reason="UNSUBSCRIBED", list_name="news")
    same, other, none = (desk.records.one(unsubscribe_list=name) for name in ("news", "offers", None))
    assert desk.deliver(same, other, none) == {"failed": 1, "sent": 2}
    assert desk.records.row(same).error_code == "SUPPRESSED"
    assert f"UNSUBSCRIBED, list news (entry {entry})" in desk.records.row(same).error_message


def test_leaving_a_list_by_its_link(make_desk: MakeDesk) -> None:  # operate.md O65, the library's half
    desk = make_desk(multi_tenancy=True, public_base_url="https://mail.example.com")
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    first = desk.records.one(tenant_id=7, to=(f"Ann <{A}>",), unsubscribe_list="news")
    assert desk.deliver(first) == {"sent": 1}
    link = desk.records.row(first).headers["List-Unsubscribe"].strip("<>")
    token = link.removeprefix(f"https://mail.example.com{links.PATH}")

    with Session(desk.own) as session, session.begin():
        seen = find_subscription(session, token)  # a GET
        assert seen is not None
        assert (seen.tenant_id, seen.record_id, seen.list_name, seen.address, seen.is_on) == (7, first, "news", A, True)
        assert unsubscribe(session, token[:-1] + ("A" if token[-1] != "A" else "B")) is None
        assert find_subscription(session, "") is None
    assert desk.deliver(desk.records.one(tenant_id=7, unsubscribe_list="news")) == {"sent": 1}

    for _ in range(2):  # a POST, and the same again
        with Session(desk.own) as session, session.begin():
            left = unsubscribe(session, token)
            assert left is not None
            assert not left.is_on
    with acting(desk, 7) as session:
        [entry] = session.query(suppression.Suppression).all()
        assert (entry.address, entry.list, entry.reason, entry.record_id) == (A, "news", "UNSUBSCRIBED", first)
        seen = find_subscription(session, token)
        assert seen is not None
        assert not seen.is_on
    same, other, none, foreign = (
        desk.records.one(tenant_id=tenant, unsubscribe_list=name)
        for tenant, name in ((7, "news"), (7, "offers"), (7, None), (8, "news"))
    )
    assert desk.deliver(same, other, none, foreign) == {"failed": 1, "sent": 3}
    assert desk.records.row(same).error_code == "SUPPRESSED"


def test_a_link_whose_mail_is_gone_or_another_one_does_nothing(desk: Desk) -> None:
    record_id = desk.records.one(unsubscribe_list="news")
    tokens = [
        links.url("", record_id=record_id, tenant_id=0, list_name="news", address=address).removeprefix(links.PATH)
        for address in (A, B)
    ]
    with acting(desk) as session:
        assert unsubscribe(session, tokens[1]) is None  # the id was given to another mail
    desk.run("DELETE FROM mail_send_record")
    with acting(desk) as session:
        assert unsubscribe(session, tokens[0]) is None


def test_a_story_tells_who_was_suppressed_and_by_what(desk: Desk) -> None:
    put_on(desk, A, reason="COMPLAINT")
    failed, sent = desk.records.one(), desk.records.one(to=(A, B))
    desk.deliver(failed, sent)
    with acting(desk) as session:
        assert read_story(session, failed).why.startswith("SUPPRESSED: on the suppression list since ")
        story = read_story(session, sent)
    assert story.why.startswith(f"taken by the server, but not for {A}: SUPPRESSED: on the suppression list since ")
    assert next((r.address, r.result, r.code) for r in story.recipients) == (A, "suppressed", "SUPPRESSED")


def test_a_chunk_costs_one_look_up_whatever_its_tenants(make_desk: MakeDesk) -> None:
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    put_on(desk, A, tenant_id=3)
    ids = [desk.records.one(tenant_id=n % 5 + 1, to=(A, B)) for n in range(20)]
    statements: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "FROM suppression" in statement or "JOIN suppression" in statement:
            statements.append(statement)

    event.listen(desk.engine, "before_cursor_execute", note)
    assert desk.deliver(*ids) == {"sent": 20}
    event.remove(desk.engine, "before_cursor_execute", note)
    assert len(statements) == 1
    assert contacted(desk).count(A) == 16


def test_an_entry_of_an_open_transaction_stops_what_begins_after_its_commit(desk: Desk) -> None:
    first, second = desk.records.accept(count=2)
    with acting(desk) as session:
        suppression.add(session, channel="mail", address=A, reason=SuppressionReason.MANUAL)
        assert desk.deliver(first) == {"sent": 1}
    assert desk.deliver(second) == {"failed": 1}


def test_two_who_add_the_same_at_once_make_one_entry(desk: Desk) -> None:
    with acting(desk) as session:
        mine = suppression.add(session, channel="mail", address=A, reason=SuppressionReason.MANUAL)
        other = blocked(desk.own, lambda: put_on(desk, A.upper(), reason="COMPLAINT"))
    assert other.result(5) == mine
    with acting(desk) as session:
        assert [(e.id, e.reason) for e in session.query(suppression.Suppression)] == [(mine, "MANUAL")]


def test_an_entry_that_is_being_lifted_is_made_anew(desk: Desk) -> None:
    old = put_on(desk, A)
    with acting(desk) as session:
        assert suppression.lift(session, old, note="by mistake")
        other = blocked(desk.own, lambda: put_on(desk, A))
    assert other.result(5) != old
    assert desk.deliver(desk.records.one()) == {"failed": 1}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_interleaving_nobody_is_contacted_after_his_entry(desk: Desk, seed: int) -> None:
    """Entries are added and lifted before, between and in the midst of attempts.

    Who is on the list when an attempt begins, and until its end, is not contacted; who is not on it, is.
    """
    rng = random.Random(seed)
    addresses = [f"r{n}@example.org" for n in range(5)]
    entries: dict[str, int] = {}
    waiting: list[int] = []

    def change() -> str:
        address = rng.choice(addresses)
        if address in entries:
            lift(desk, entries.pop(address))
        else:
            entries[address] = put_on(desk, address)
        return address

    desk.server.on("RCPT", "451 4.2.0 later", times=6)  # so that some records have several attempts
    for _ in range(10):
        for _ in range(rng.randrange(3)):
            change()
        waiting += [desk.records.one(to=rng.sample(addresses, rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
        listed = set(entries)
        still_open = {r for i in waiting for r in _open(desk, i)}
        mark = len(contacted(desk))
        attempt = desk.begin(*waiting)
        changed = {change() for _ in range(rng.randrange(3))}
        attempt.result(20)
        reached = set(contacted(desk)[mark:])
        assert not reached & (listed - changed)
        assert still_open - listed - changed <= reached
        waiting = [i for i in waiting if desk.records.row(i).status == RETRY]


def _open(desk: Desk, record_id: int) -> list[str]:
    row = desk.records.row(record_id)
    return open_recipients(row.to_addresses, row.recipient_results)
