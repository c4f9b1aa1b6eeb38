"""A received report does to the record it is about what section 13 of `receive.md` says, and to nothing else."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from messaging.receive.link import LinkCounts
from messaging.settings import Settings
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.desk import counted
from tests.integration.receive.books import ACCEPTED, A, B, Books, C, failed

pytestmark = pytest.mark.postgres16

#: Type and result.
COUNTED = (("BOUNCE", "linked"), ("READ_RECEIPT", "linked"), ("BOUNCE", "unmatched"))


@pytest.fixture(autouse=True)
def _single_tenant() -> Iterator[None]:
    use_multi_tenancy(False)
    yield
    use_multi_tenancy(False)


@pytest.fixture
def books(engine: Engine, settings: Settings) -> Books:
    return Books(engine, settings)


@pytest.fixture
def statements(engine: Engine) -> Iterator[list[str]]:
    """What is asked of the database."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield asked
    event.remove(engine, "before_cursor_execute", note)


# Bounces


def test_a_hard_bounce_fails_its_record(books: Books) -> None:  # receive.md R2
    record_id = books.sent()
    received_id = books.bounce(record_id)
    assert books.link() == LinkCounts(linked=1)
    row = books.record(record_id)
    assert (row.status, row.version, row.error_code) == ("FAILED", 1, "BOUNCED")
    assert (row.bounced, row.bounce_code, row.bounced_recipients) == (True, "550 5.1.1", [A])
    assert row.error_message == "smtp; 550 5.1.1 no such user"
    told = row.recipient_results[A]
    assert (told["result"], told["code"], told["permanent"]) == ("bounced", "550 5.1.1", True)
    assert row.sent_at is not None
    mail = books.mail(received_id)
    assert (mail.link_status, mail.linked_send_record_id) == ("LINKED", record_id)


def test_a_delay_leaves_the_record_sent(books: Books) -> None:  # receive.md R38, bounce-02
    record_id = books.sent()
    received_id = books.bounce(record_id, failed(kind="DELAYED", reason="MAILBOX_FULL", status="4.2.2"))
    before = books.record(record_id)
    assert books.link() == LinkCounts(linked=1)
    assert books.record(record_id) == before
    assert (books.mail(received_id).link_status, books.suppressed()) == ("LINKED", [])


def test_a_delivery_leaves_the_record_sent(books: Books) -> None:
    record_id = books.sent()
    books.bounce(record_id, failed(kind="SUCCESS", reason="OTHER", reply_code="250", status="2.0.0"))
    before = books.record(record_id)
    assert books.link() == LinkCounts(linked=1)
    assert books.record(record_id) == before


def test_of_a_report_about_three_only_who_failed_is_marked(books: Books) -> None:  # receive.md R39, bounce-01
    record_id = books.sent(A, B, C)
    books.bounce(
        record_id,
        failed(A),
        failed(B, kind="DELAYED", reason="MAILBOX_FULL", reply_code="452", status="4.2.2"),
        failed(C, kind="SUCCESS", reason="OTHER", reply_code=None, status=None),
    )
    books.link()
    row = books.record(record_id)
    assert (row.status, row.bounced_recipients) == ("FAILED", [A])
    assert books.results(record_id) == {A: "bounced", B: "accepted", C: "accepted"}


def test_a_soft_bounce_fails_it_too_and_says_that_another_try_may_help(books: Books) -> None:  # receive.md R40
    record_id = books.sent()
    books.bounce(record_id, failed(kind="SOFT", reason="EXPIRED", reply_code=None, status="4.4.7"))
    books.link()
    row = books.record(record_id)
    assert (row.status, row.error_code, row.bounce_code) == ("FAILED", "BOUNCED", "4.4.7")
    assert row.recipient_results[A]["permanent"] is False
    assert books.suppressed() == []


@pytest.mark.parametrize(
    ("reply_code", "status", "shown"),
    [("550", "5.1.1", "550 5.1.1"), ("550", None, "550"), (None, "5.1.1", "5.1.1"), (None, None, None)],
)
def test_the_code_is_of_what_there_is(
    books: Books, reply_code: str | None, status: str | None, shown: str | None
) -> None:
    record_id = books.sent()
    books.bounce(record_id, failed(reply_code=reply_code, status=status))
    books.link()
    row = books.record(record_id)
    assert (row.bounced, row.bounce_code) == (True, shown)
    assert row.recipient_results[A]["code"] == (shown or "BOUNCED")


def test_the_record_shows_the_code_of_the_worst(books: Books) -> None:
    record_id = books.sent(A, B)
    books.bounce(record_id, failed(A, kind="SOFT", reason="EXPIRED", reply_code="451", status="4.4.7"), failed(B))
    books.link()
    row = books.record(record_id)
    assert (row.bounce_code, row.bounced_recipients) == ("550 5.1.1", [A, B])
    assert row.error_message == "smtp; 550 5.1.1 no such user"


@pytest.mark.parametrize("status", ["FAILED", "DEAD_LETTER"])
def test_what_ended_without_success_takes_note_of_a_bounce(books: Books, status: str) -> None:
    record_id = books.sent(A, B, status=status, error_code="SMTP_450", error_message="busy", recipient_results={})
    books.bounce(record_id)
    assert books.link() == LinkCounts(linked=1)
    row = books.record(record_id)
    assert (row.status, row.error_code, row.error_message) == (status, "SMTP_450", "busy")
    assert (row.bounced, row.bounce_code, row.bounced_recipients) == (True, "550 5.1.1", [A])
    assert books.results(record_id) == {A: "bounced"}


def test_two_bounces_about_two_recipients_add_up(books: Books) -> None:
    record_id = books.sent(A, B, C)
    books.bounce(record_id, failed(A))
    assert books.link() == LinkCounts(linked=1)
    books.bounce(record_id, failed(C, reason="MAILBOX_FULL", reply_code="552", status="5.2.2"))
    assert books.link() == LinkCounts(linked=1)
    row = books.record(record_id)
    assert (row.status, row.error_code, row.version) == ("FAILED", "BOUNCED", 2)
    assert (row.bounce_code, row.bounced_recipients) == ("550 5.1.1", [A, C])
    assert {a: r["code"] for a, r in row.recipient_results.items()} == {
        A: "550 5.1.1",
        B: "SMTP_250",
        C: "552 5.2.2",
    }


def test_two_bounces_in_one_look_add_up_too(books: Books) -> None:
    record_id = books.sent(A, B)
    books.bounce(record_id, failed(A))
    books.bounce(record_id, failed(B))
    assert books.link() == LinkCounts(linked=2)
    assert books.record(record_id).bounced_recipients == [A, B]
    assert [address for _, address, *_ in books.suppressed()] == [A, B]


def test_the_same_bounce_again_changes_nothing(books: Books) -> None:
    record_id = books.sent()
    books.bounce(record_id)
    books.link()
    before = books.record(record_id)
    books.bounce(record_id, failed(reply_code="554", status="5.0.0"))
    assert books.link() == LinkCounts(linked=1)
    assert books.record(record_id) == before


@pytest.mark.parametrize("status", ["PENDING", "SENDING", "RETRY"])
def test_a_bounce_waits_while_an_attempt_is_due_or_runs(books: Books, status: str) -> None:  # receive.md R59
    record_id = books.sent(status=status)
    received_id = books.bounce(record_id, age="30 hours")
    before = books.record(record_id)
    assert books.link() == LinkCounts(waiting=1)
    assert (books.record(record_id), books.mail(received_id).link_status) == (before, "PENDING")
    books.put(record_id, status="SENT", claimed_at=None, recipient_results={A: ACCEPTED})
    assert books.link() == LinkCounts(linked=1)
    assert books.record(record_id).status == "FAILED"


def test_a_delay_waits_for_no_attempt(books: Books) -> None:
    record_id = books.sent(status="SENDING")
    books.bounce(record_id, failed(kind="DELAYED", reason="OTHER", status="4.0.0"))
    assert books.link() == LinkCounts(linked=1)
    assert books.record(record_id).version == 0


# Whom of the recipients


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("Kim@example.org", "kim@EXAMPLE.org"),
        ("kim@example.org", "<kim@example.org>"),
        ("kim@example.org", "kim@example.org."),
        ("kim@xn--bcher-kva.example", "kim@bücher.example"),
        ("kim@xn--bcher-kva.example", "kim@BÜCHER.example"),
        ("jörg@example.org", "JO\u0308RG@example.org"),
        ('"kim"@example.org', "kim@example.org"),
        ("kim+orders@example.org", "kim@example.org"),
        ("kim@example.org", "kim+inbox@example.org"),
    ],
    ids=["case", "brackets", "dot", "idn", "idn-case", "composed", "quoted", "tag-lost", "tag-added"],
)
def test_a_recipient_is_known_in_the_reports_spelling(books: Books, ours: str, theirs: str) -> None:
    record_id = books.sent(ours, B)
    books.bounce(record_id, failed(theirs))
    books.link()
    assert books.record(record_id).bounced_recipients == [ours]
    assert [(address, reason) for _, address, reason, _ in books.suppressed()] == [
        (ours.lower(), "HARD_BOUNCE"),
    ]


def test_two_recipients_that_differ_in_case_alone_are_told_apart(books: Books) -> None:
    record_id = books.sent("Kim@example.org", "kim@example.org")
    books.bounce(record_id, failed("<kim@example.org>"))
    books.link()
    assert books.record(record_id).bounced_recipients == ["kim@example.org"]


def test_a_forward_is_known_by_its_original_recipient(books: Books) -> None:
    record_id = books.sent(A, B)
    books.bounce(record_id, failed("elsewhere@example.net", original_recipient=B))
    books.link()
    assert books.record(record_id).bounced_recipients == [B]


@pytest.mark.parametrize(
    ("resolved", "is_listed"),
    [("ben@example.net", False), ("ben", False), ("B@mail.example.org", True), ("b+x@example.net", True), ("b", True)],
    ids=["an alias of others", "a user behind it", "its server's name", "with a tag", "its local part"],
)
def test_an_address_is_listed_where_it_is_the_one_that_failed(books: Books, resolved: str, is_listed: bool) -> None:
    # Of ten people behind an alias one may have left, and nine still read what comes.
    record_id = books.sent(A, B)
    books.bounce(record_id, failed(resolved, original_recipient=B))
    books.link()
    assert books.record(record_id).bounced_recipients == [B]
    assert [address for _, address, *_ in books.suppressed()] == ([B] if is_listed else [])


def test_of_an_alias_and_itself_the_mailbox_itself_counts(books: Books) -> None:
    record_id = books.sent(A, B)
    books.bounce(record_id, failed("ben@example.net", original_recipient=B), failed(B))
    books.link()
    assert [address for _, address, *_ in books.suppressed()] == [B]


def test_the_original_recipient_counts_where_both_are_ours(books: Books) -> None:
    record_id = books.sent(A, B)
    books.bounce(record_id, failed(B, original_recipient=A))
    books.link()
    assert books.record(record_id).bounced_recipients == [A]


def test_recipients_in_copy_are_recipients(books: Books) -> None:
    record_id = books.sent(A, cc_addresses=[f"Bea <{B}>"], bcc_addresses=[C])
    books.bounce(record_id, failed(B), failed(C))
    books.link()
    assert books.record(record_id).bounced_recipients == [B, C]


def test_of_two_tags_of_one_mailbox_the_bare_name_is_neither(books: Books) -> None:
    record_id = books.sent("kim+a@example.org", "kim+b@example.org")
    books.bounce(record_id, failed("kim@example.org"))
    books.link()
    row = books.record(record_id)
    assert (row.status, row.bounced, row.bounced_recipients) == ("FAILED", True, None)
    assert books.suppressed() == []


@pytest.mark.parametrize("named", [None, "forwarded@example.net"])
def test_a_report_that_names_none_of_ours_is_about_the_only_recipient(books: Books, named: str | None) -> None:
    record_id = books.sent()
    books.bounce(record_id, failed(named))
    books.link()
    assert books.record(record_id).bounced_recipients == [A]
    # Behind an alias there may be several people: the address is of no use only where the report says so.
    assert [address for _, address, *_ in books.suppressed()] == ([A] if named is None else [])


def test_it_is_about_the_only_one_whose_server_took_the_mail(books: Books) -> None:
    refused = {**ACCEPTED, "result": "refused"}
    record_id = books.sent(A, B, recipient_results={A: refused, B: ACCEPTED})
    books.bounce(record_id, failed(None))
    books.link()
    assert books.record(record_id).bounced_recipients == [B]


def test_a_report_that_names_none_of_several_fails_the_record_and_marks_nobody(books: Books) -> None:
    record_id = books.sent(A, B)
    books.bounce(record_id, failed("forwarded@example.net"))
    books.link()
    row = books.record(record_id)
    assert (row.status, row.error_code, row.bounced, row.bounce_code) == ("FAILED", "BOUNCED", True, "550 5.1.1")
    assert (row.bounced_recipients, books.results(record_id)) == (None, {A: "accepted", B: "accepted"})
    books.bounce(record_id, failed(B))
    books.link()
    assert books.record(record_id).bounced_recipients == [B]


def test_a_bounce_without_any_group_is_told_by_its_summary(books: Books) -> None:
    record_id = books.sent()
    books.bounce(record_id, bounce_recipients=None)
    books.link()
    row = books.record(record_id)
    assert (row.status, row.bounce_code, row.bounced_recipients) == ("FAILED", "550 5.1.1", [A])


def test_of_a_text_only_those_are_kept_that_were_written_to(books: Books) -> None:
    record_id = books.sent(A, B)
    help_desk = failed("help@mx.example.net", from_text=True)
    received_id = books.bounce(record_id, help_desk, failed("A@Example.org", from_text=True))
    other_id = books.bounce(record_id, failed("help@mx.example.net", from_text=True))
    fields_id = books.bounce(record_id, failed(B), failed("elsewhere@example.net"))
    books.link()
    mail = books.mail(received_id)
    assert (mail.failed_recipients, len(mail.bounce_recipients)) == (["A@Example.org"], 1)
    assert books.mail(other_id).failed_recipients == ["help@mx.example.net"]  # it names none of ours
    assert len(books.mail(fields_id).bounce_recipients) == 2  # a report's own fields stay


# Finding the record


def test_the_candidate_that_is_ours_is_the_original(books: Books) -> None:  # receive.md R57
    record_id = books.sent()
    references = ["<first@elsewhere.example>", f"<{record_id}@example.org>"]
    received_id = books.bounce(None, reference_ids=references, original_message_id=references[0])
    assert books.link() == LinkCounts(linked=1)
    mail = books.mail(received_id)
    assert (mail.original_message_id, mail.reference_ids) == (references[1], references)
    assert books.record(record_id).status == "FAILED"


def test_of_two_that_are_ours_the_likelier_counts(books: Books) -> None:
    first, second = books.sent(), books.sent()
    books.bounce(None, reference_ids=[f"<{second}@example.org>", f"<{first}@example.org>"])
    books.link()
    assert [books.record(i).status for i in (first, second)] == ["SENT", "FAILED"]


def test_an_id_that_lost_its_brackets_is_known(books: Books) -> None:
    record_id = books.sent()
    books.bounce(None, reference_ids=[f"{record_id}@example.org"])
    assert books.link() == LinkCounts(linked=1)


def test_a_genuine_verp_address_names_the_record(books: Books) -> None:  # receive.md R68
    record_id, other = books.sent(), books.sent()
    received_id = books.bounce(None, verp_record_id=record_id)
    both_id = books.bounce(other, verp_record_id=record_id)
    assert books.link() == LinkCounts(linked=2)
    assert [books.record(i).status for i in (record_id, other)] == ["FAILED", "SENT"]
    for mail in (books.mail(received_id), books.mail(both_id)):
        assert (mail.linked_send_record_id, mail.original_message_id) == (record_id, f"<{record_id}@example.org>")


def test_fifty_bounces_are_one_look_up(books: Books, statements: list[str]) -> None:  # receive.md R58
    records = [books.sent() for _ in range(50)]
    for record_id in records:
        books.bounce(record_id, failed(kind="DELAYED", reason="OTHER"))
    statements.clear()
    assert books.link() == LinkCounts(linked=50)
    assert len([s for s in statements if "FROM mail_send_record" in s]) == 1
    assert len(statements) == 3  # what waits, the look-up, the links


def test_without_candidates_nothing_is_looked_up(books: Books, statements: list[str]) -> None:  # receive.md R45, R58
    received_id = books.bounce(None)
    statements.clear()
    assert books.link() == LinkCounts(unmatched=1)
    assert not [s for s in statements if "mail_send_record" in s]
    assert books.mail(received_id).link_status == "NONE"
    statements.clear()
    assert books.link() == LinkCounts()
    assert len(statements) == 1


def test_what_is_not_found_waits_for_a_day(books: Books) -> None:
    young = books.bounce(None, age="23 hours", reference_ids=["<unknown@example.org>"])
    old = books.bounce(None, age="25 hours", reference_ids=["<unknown@example.org>"])
    assert books.link() == LinkCounts(unmatched=1, waiting=1)
    assert [books.mail(i).link_status for i in (young, old)] == ["PENDING", "UNMATCHED"]


def test_what_is_old_is_looked_for_once_before_it_is_given_up(books: Books) -> None:
    books.bounce(books.sent(), age="70 hours")
    assert books.link() == LinkCounts(linked=1)


def test_a_crash_between_insert_and_link_loses_nothing(books: Books) -> None:  # receive.md R60
    books.bounce(books.sent())
    assert books.link(mailbox=2) == LinkCounts()
    assert books.link() == LinkCounts(linked=1)


def test_a_record_that_turns_up_late_is_found(books: Books) -> None:
    received_id = books.bounce(None, reference_ids=["<late@example.org>"])
    assert books.link() == LinkCounts(waiting=1)
    books.sent(message_id="<late@example.org>")
    assert books.link() == LinkCounts(linked=1)
    assert books.mail(received_id).link_status == "LINKED"


def test_reports_about_nothing_of_ours_keep_none_waiting(books: Books) -> None:
    for number in range(5):
        books.bounce(None, reference_ids=[f"<other-{number}@example.org>"])
    assert books.link(limit=3) == LinkCounts(waiting=3)
    record_id = books.sent()
    books.bounce(record_id)
    assert books.link(limit=3) == LinkCounts(waiting=2, linked=1)
    assert books.record(record_id).status == "FAILED"


def test_what_was_linked_and_what_was_given_up_is_counted(books: Books) -> None:
    before = {key: counted("messaging_link_total", type=key[0], result=key[1]) for key in COUNTED}
    books.bounce(books.sent())
    books.bounce(books.sent(B), failed(B, kind="DELAYED"))
    books.receipt(books.sent(C))
    books.bounce(None, age="25 hours", reference_ids=["<unknown@example.org>"])
    books.bounce(None, reference_ids=["<later@example.org>"])
    books.link()
    after = {key: counted("messaging_link_total", type=key[0], result=key[1]) - before[key] for key in COUNTED}
    assert after == {("BOUNCE", "linked"): 2, ("READ_RECEIPT", "linked"): 1, ("BOUNCE", "unmatched"): 1}


# Tenants


@pytest.fixture
def of_many(books: Books) -> Books:
    use_multi_tenancy(True)
    return books


def test_a_tenants_mailbox_speaks_of_its_own_mails(of_many: Books) -> None:  # receive.md R62
    mine, others = of_many.sent(tenant_id=7), of_many.sent(tenant_id=8)
    platforms = of_many.sent(tenant_id=-1)
    for record_id in (mine, others, platforms):
        of_many.bounce(record_id, tenant_id=7)
    of_many.bounce(None, verp_record_id=others, tenant_id=7)
    assert of_many.link(owner=7) == LinkCounts(linked=1, waiting=3)
    assert [of_many.record(i).status for i in (mine, others, platforms)] == ["FAILED", "SENT", "SENT"]
    assert of_many.suppressed() == [(7, A, "HARD_BOUNCE", mine)]


def test_the_platforms_mailbox_speaks_of_what_went_out_by_its_servers(of_many: Books) -> None:  # receive.md R61
    platform_server, own_server = of_many.server(-1), of_many.server(7)
    by_platform = of_many.sent(tenant_id=7, server_config_id=platform_server)
    by_own = of_many.sent(tenant_id=7, server_config_id=own_server)
    other = of_many.sent(B, tenant_id=8, server_config_id=platform_server)
    platforms = of_many.sent(C, tenant_id=-1, server_config_id=platform_server)
    for record_id, address in ((by_platform, A), (by_own, A), (other, B), (platforms, C)):
        of_many.bounce(record_id, failed(address), tenant_id=-1)
    assert of_many.link(owner=-1) == LinkCounts(linked=3, waiting=1)
    assert [of_many.record(i).status for i in (by_platform, by_own, other, platforms)] == [
        *("FAILED", "SENT", "FAILED", "FAILED"),
    ]
    assert of_many.suppressed() == [
        (7, A, "HARD_BOUNCE", by_platform),
        (8, B, "HARD_BOUNCE", other),
        (-1, C, "HARD_BOUNCE", platforms),
    ]


# Read receipts


def test_a_receipt_marks_its_record_read_and_leaves_it_sent(books: Books) -> None:  # receive.md R3
    record_id = books.sent()
    received_id = books.receipt(record_id)
    assert books.link() == LinkCounts(linked=1)
    row = books.record(record_id)
    assert (row.status, row.version, row.read_receipt_received) == ("SENT", 1, True)
    assert books.mail(received_id).linked_send_record_id == record_id


@pytest.mark.parametrize("disposition", ["deleted", "dispatched", "denied", "failed", "processed"])
def test_a_mail_that_was_not_shown_is_not_read(books: Books, disposition: str) -> None:  # receive.md R36
    record_id = books.sent()
    received_id = books.receipt(record_id, type_detail=disposition)
    assert books.link() == LinkCounts(linked=1)
    assert (books.record(record_id).read_receipt_received, books.record(record_id).version) == (False, 0)
    assert books.mail(received_id).link_status == "LINKED"


def test_a_receipt_that_does_not_say_how_it_was_disposed_of_counts(books: Books) -> None:
    record_id = books.sent()
    books.receipt(record_id, type_detail=None)
    books.link()
    assert books.record(record_id).read_receipt_received


@pytest.mark.parametrize(
    ("days_ago", "form"),
    [(1, "{}"), (3, "{}"), (-1, "{}"), (1, "{:.25}"), (1, "yesterday"), (None, "{}")],
    ids=["between", "before-it-was-sent", "after-now", "no-zone", "no-date", "none"],
)
def test_it_was_read_when_the_receipt_says_where_that_can_be(books: Books, days_ago: int | None, form: str) -> None:
    record_id = books.sent(sent_at=text("now() - interval '2 days'"))
    with books.engine.connect() as connection:
        now = connection.execute(text("SELECT date_trunc('second', now())")).scalar_one()
    told = now - timedelta(days=days_ago or 0)
    books.receipt(record_id, date_header=None if days_ago is None else form.format(format_datetime(told)))
    books.link()
    read_at = books.record(record_id).read_receipt_received_at
    if (days_ago, form) == (1, "{}"):
        assert read_at == told
    else:
        assert now <= read_at <= now + timedelta(minutes=10)


def test_the_first_receipt_stands(books: Books) -> None:
    record_id = books.sent(A, B)
    books.receipt(record_id)
    books.link()
    before = books.record(record_id)
    books.receipt(record_id)
    assert books.link() == LinkCounts(linked=1)
    assert books.record(record_id) == before


def test_one_reads_what_bounced_for_another(books: Books) -> None:
    record_id = books.sent(A, B)
    books.bounce(record_id)
    books.receipt(record_id)
    assert books.link() == LinkCounts(linked=2)
    row = books.record(record_id)
    assert (row.status, row.error_code, row.bounced_recipients) == ("FAILED", "BOUNCED", [A])
    assert (row.read_receipt_received, row.version) == (True, 2)


def test_a_receipt_waits_while_an_attempt_runs(books: Books) -> None:
    books.receipt(books.sent(status="RETRY"))
    assert books.link() == LinkCounts(waiting=1)


# The suppression list


def test_a_hard_bounce_puts_the_address_on_the_list(books: Books) -> None:  # receive.md R67
    record_id = books.sent("Kim@example.org")
    received_id = books.bounce(record_id, failed("kim@EXAMPLE.org"))
    books.link()
    assert books.suppressed() == [(0, "kim@example.org", "HARD_BOUNCE", record_id)]
    with books.engine.connect() as connection:
        note = connection.execute(text("SELECT note FROM suppression")).scalar_one()
    assert note == f"bounced with 550 5.1.1 (received mail {received_id})"


@pytest.mark.parametrize(
    "told",
    [
        failed(reason="SPAM", status="5.7.1"),
        failed(reason="POLICY", status="5.7.1"),
        failed(reason="RATE"),
        failed(is_doubtful=True),
        failed(reason="MAILBOX_FULL", status="5.2.2"),
        failed(kind="SOFT", status="4.4.7", reason="EXPIRED"),
        failed(kind="SOFT", status="4.1.1"),
        failed(kind="DELAYED", status="4.1.1"),
    ],
    ids=["spam", "policy", "rate", "doubtful", "full", "expired", "soft-unknown", "delayed-unknown"],
)
def test_what_says_nothing_about_the_address_does_not(books: Books, told: dict[str, Any]) -> None:  # receive.md R67
    books.bounce(books.sent(), told)
    assert books.link() == LinkCounts(linked=1)
    assert books.suppressed() == []


def test_of_several_only_the_useless_addresses_are_listed(books: Books) -> None:
    record_id = books.sent(A, B, C)
    books.bounce(record_id, failed(A, reason="SPAM", status="5.7.1"), failed(B), failed(C, reason="HOST_UNKNOWN"))
    books.link()
    assert [address for _, address, *_ in books.suppressed()] == [B, C]


def test_a_complaint_puts_who_complains_on_the_list(books: Books) -> None:  # receive.md R66
    record_id = books.sent(A, B)
    received_id = books.complaint(record_id, B)
    before = books.record(record_id)
    assert books.link() == LinkCounts(linked=1)
    assert books.suppressed() == [(0, B, "COMPLAINT", record_id)]
    assert books.record(record_id) == before
    assert books.mail(received_id).linked_send_record_id == record_id


@pytest.mark.parametrize("who", [(), ("hidden@example.net",)])
def test_a_complaint_that_hides_who_is_of_the_only_recipient(books: Books, who: tuple[str, ...]) -> None:
    alone, several = books.sent(), books.sent(B, C)
    books.complaint(alone, *who)
    books.complaint(several, *who)
    assert books.link() == LinkCounts(linked=2)
    assert books.suppressed() == [(0, A, "COMPLAINT", alone)]


def test_a_complaint_waits_for_no_attempt(books: Books) -> None:
    record_id = books.sent(status="RETRY")
    books.complaint(record_id, A)
    assert books.link() == LinkCounts(linked=1)
    assert books.record(record_id).version == 0
    assert [address for _, address, *_ in books.suppressed()] == [A]


@pytest.mark.parametrize("kind", ["not-spam", "auth-failure"])
def test_a_report_in_which_nobody_complains_lists_nobody(books: Books, kind: str) -> None:
    books.complaint(books.sent(), A, type_detail=kind)
    assert books.link() == LinkCounts(linked=1)
    assert books.suppressed() == []


@pytest.mark.parametrize(
    ("switched_off", "listed"),
    [("hard_bounces", ["COMPLAINT"]), ("complaints", ["HARD_BOUNCE"])],
)
def test_each_source_of_the_list_can_be_switched_off(
    engine: Engine, make_settings: Callable[..., Settings], switched_off: str, listed: list[str]
) -> None:
    books = Books(engine, make_settings(suppression={switched_off: False}))
    books.bounce(books.sent(A))
    books.complaint(books.sent(B), B)
    assert books.link() == LinkCounts(linked=2)
    assert [reason for _, _, reason, _ in books.suppressed()] == listed


@pytest.mark.parametrize("mail_type", ["AUTO_REPLY", "NORMAL"])
def test_an_answer_changes_nothing(books: Books, mail_type: str) -> None:  # receive.md R47, bounce-05
    record_id = books.sent()
    books.received(record_id, mail_type=mail_type, link_status="NONE")
    assert books.link() == LinkCounts()
    assert (books.record(record_id).version, books.suppressed()) == (0, [])
