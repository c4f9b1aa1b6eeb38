"""A mail goes out by SMTP, its report comes back as octets, and the next mail to that address is stopped.

Nothing between the two is made up: the report is parsed, classified, stored and linked as a fetch does it.
"""

from collections.abc import Callable
from email.utils import format_datetime
from itertools import count

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from messaging import suppression, tenancy
from messaging.clock import utc_now
from messaging.delivery import requeue
from messaging.mail import verp
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.receive.arrival import Incoming, Origin, Reader
from messaging.receive.classify.chain import classify
from messaging.receive.link import LinkCounts, Linker
from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.store import Store
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.desk import Desk
from tests.integration.delivery.records import A, B, C

MakeDesk = Callable[..., Desk]

MAILBOX = 5

_numbers = count(1)


class ReturnPath:
    """The mailbox that reports come to."""

    def __init__(self, desk: Desk, owner: int = 0) -> None:
        self._owner = owner
        self._reader = Reader(ParseLimits(), parse=parse, parse_envelope=parse_envelope, classify=classify)
        self._store = Store(desk.engine, None)
        self._linker = Linker(desk.engine, desk.settings)
        self._count = 0

    def gets(self, message: str) -> LinkCounts:
        """A mail comes in and is linked."""
        self._count += 1
        octets = message.replace("\n", "\r\n").encode()
        origin = Origin(MAILBOX, self._owner, "INBOX")
        list(self._store.keep([self._reader.read(origin, Incoming(str(self._count), len(octets), octets))]))
        return self.links()

    def links(self) -> LinkCounts:
        """As at the start of a fetch."""
        return self._linker.link_pending(MAILBOX, owner_tenant_id=self._owner, limit=100)


def header_of(desk: Desk, number: int = -1) -> str:
    """The header block of a message as it went out."""
    return desk.server.transactions[number].content.partition(b"\r\n\r\n")[0].decode().replace("\r\n", "\n")


def report(
    *groups: tuple[str, str, str, str],
    returned: str = "",
    to: str = "shop@example.org",
    text_part: str = "It could not be delivered.",
) -> str:
    """A delivery status notification (RFC 3464); a group is recipient, action, status and diagnostic."""
    fields = "\n".join(
        f"Final-Recipient: rfc822; {recipient}\nAction: {action}\nStatus: {status}\n"
        f"Diagnostic-Code: smtp; {diagnostic}\n"
        for recipient, action, status, diagnostic in groups
    )
    back = f"--b\nContent-Type: text/rfc822-headers\n\n{returned}\n\n" if returned else ""
    return (
        f"Return-Path: <>\nFrom: Mail Delivery System <MAILER-DAEMON@mx.example.net>\nTo: {to}\n"
        f"Subject: Undelivered Mail Returned to Sender\nMessage-ID: <report-{next(_numbers)}@mx.example.net>\n"
        f"Date: {format_datetime(utc_now())}\nAuto-Submitted: auto-replied\nMIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
        f"--b\nContent-Type: text/plain\n\n{text_part}\n\n"
        f"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.net\n\n{fields}\n{back}--b--\n"
    )


def unknown_user(address: str) -> tuple[str, str, str, str]:
    return address, "failed", "5.1.1", f"550 5.1.1 <{address}>: Recipient address rejected: User unknown"


def results(desk: Desk, record_id: int) -> dict[str, str]:
    return {address: found["result"] for address, found in desk.records.row(record_id).recipient_results.items()}


def used(desk: Desk) -> dict[int, int]:
    with desk.own.connect() as connection:
        found = connection.execute(text("SELECT tenant_id, mail_used FROM tenant_message_usage"))
        return {row.tenant_id: row.mail_used for row in found}


def test_of_a_report_about_three_the_failure_alone_counts(desk: Desk) -> None:  # bounce-01, receive.md R39
    record_id = desk.records.one(to=(A, B, C))
    desk.deliver(record_id)
    groups = (
        (A, "delivered", "2.0.0", "250 ok"),
        (B, "delayed", "4.2.2", "452 4.2.2 full"),
        (C, "failed", "5.1.1", "550 5.1.1 unknown"),
    )
    assert ReturnPath(desk).gets(report(*groups, returned=header_of(desk))) == LinkCounts(linked=1)
    row = desk.records.row(record_id)
    assert (row.status, row.bounce_code, row.bounced_recipients) == ("FAILED", "550 5.1.1", [C])
    assert results(desk, record_id) == {A: "accepted", B: "accepted", C: "bounced"}


def test_a_delay_leaves_the_mail_sent_until_it_fails(desk: Desk) -> None:  # bounce-02, receive.md R38
    record_id = desk.records.one()
    desk.deliver(record_id)
    mailbox, header = ReturnPath(desk), header_of(desk)
    assert mailbox.gets(report((A, "delayed", "4.4.1", "451 no answer"), returned=header)) == LinkCounts(linked=1)
    assert (desk.records.row(record_id).status, desk.records.row(record_id).bounced) == ("SENT", False)
    assert mailbox.gets(report((A, "failed", "4.4.7", "451 gave up"), returned=header)) == LinkCounts(linked=1)
    row = desk.records.row(record_id)  # receive.md R40
    assert (row.status, row.bounce_code, row.recipient_results[A]["permanent"]) == ("FAILED", "451 4.4.7", False)
    assert desk.deliver(desk.records.one()) == {"sent": 1}


def test_the_returned_header_alone_names_the_mail(desk: Desk) -> None:  # bounce-03, receive.md R41
    record_id = desk.records.one()
    desk.deliver(record_id)
    header = f"Message-ID: {desk.records.row(record_id).message_id}\nTo: {A}"
    told = report((A, "failed", "5.1.1", ""), returned=header).replace("Diagnostic-Code: smtp; \n", "")
    assert ReturnPath(desk).gets(told) == LinkCounts(linked=1)
    assert (desk.records.row(record_id).status, desk.records.row(record_id).bounce_code) == ("FAILED", "5.1.1")


def test_an_address_that_bounced_gets_nothing_until_it_is_lifted(make_desk: MakeDesk) -> None:  # operate.md O64
    desk = make_desk(multi_tenancy=True)
    use_multi_tenancy(True)
    desk.add_server(tenant_id=-1)
    mailbox = ReturnPath(desk, owner=-1)
    first = desk.records.one(tenant_id=7)
    assert desk.deliver(first) == {"sent": 1}
    told = report(unknown_user(A), returned=header_of(desk))
    assert mailbox.gets(told) == LinkCounts(linked=1)  # receive.md R2, R41, R61
    row = desk.records.row(first)
    assert (row.status, row.error_code, row.bounce_code, row.bounced_recipients) == (
        *("FAILED", "BOUNCED", "550 5.1.1", [A]),
    )
    contacted, charged = len(desk.server.lines("RCPT")), used(desk)

    again = desk.records.one(tenant_id=7)
    assert desk.deliver(again) == {"failed": 1}
    row = desk.records.row(again)
    assert (row.error_code, results(desk, again)) == ("SUPPRESSED", {A: "suppressed"})
    assert (len(desk.server.lines("RCPT")), used(desk)) == (contacted, charged)

    of_another, with_another = desk.records.one(tenant_id=8), desk.records.one(tenant_id=7, to=(A, B))
    assert desk.deliver(of_another, with_another) == {"sent": 2}
    assert results(desk, with_another) == {A: "suppressed", B: "accepted"}

    with tenancy.tenant(7), Session(desk.own) as session, session.begin():
        [entry] = session.scalars(text("SELECT id FROM suppression WHERE tenant_id = 7"))
        assert suppression.lift(session, entry, note="has a mailbox again")
    assert desk.deliver(desk.records.one(tenant_id=7)) == {"sent": 1}


def test_a_manual_retry_goes_to_the_bounced_alone(desk: Desk) -> None:  # send.md F18a
    record_id = desk.records.one(to=(A, B, C))
    desk.deliver(record_id)
    full = (B, "failed", "5.2.2", "552 5.2.2 mailbox is full")
    later = (C, "delayed", "4.2.1", "450 4.2.1 try later")
    assert ReturnPath(desk).gets(report(full, later, returned=header_of(desk))) == LinkCounts(linked=1)
    assert results(desk, record_id) == {A: "accepted", B: "bounced", C: "accepted"}
    with desk.own.begin() as connection:
        requeue.retry(connection, MAIL_SEND_RECORD, envelope_recipients, record_id, channel="mail")
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.server.copies() == {A: 1, B: 2, C: 1}
    row = desk.records.row(record_id)
    assert (row.status, row.bounced, row.bounce_code, row.bounced_recipients) == ("SENT", False, None, None)


def test_a_bounce_that_comes_before_the_outcome_is_applied_after_it(desk: Desk) -> None:  # receive.md R59
    mailbox = ReturnPath(desk)
    desk.server.on("EOD", hang=True)
    record_id = desk.records.one()
    sending = desk.begin(record_id)
    desk.server.wait_for_command("EOD", 10)
    message_id = desk.records.row(record_id).message_id
    assert mailbox.gets(report(unknown_user(A), returned=f"Message-ID: {message_id}")) == LinkCounts(waiting=1)
    assert desk.records.row(record_id).status == "SENDING"
    desk.server.release()
    assert sending.result(10) == {"sent": 1}
    assert mailbox.links() == LinkCounts(linked=1)
    assert desk.records.row(record_id).status == "FAILED"


@pytest.mark.parametrize("is_genuine", [True, False])
def test_a_bounce_without_any_message_id_is_known_by_the_address_it_came_to(  # receive.md R68
    make_desk: MakeDesk, is_genuine: bool
) -> None:
    desk = make_desk()
    desk.add_server(envelope_sender="bounces@example.org", verp=True)
    record_id = desk.records.one()
    desk.deliver(record_id)
    address = verp.address("bounces@example.org", record_id)
    assert desk.server.transactions[-1].sender == address
    local, _, domain = address.partition("@")
    forged = f"{local[:-1]}{'0' if local[-1] != '0' else '1'}@{domain}"
    found = ReturnPath(desk).gets(report(unknown_user(A), to=address if is_genuine else forged))
    assert found == (LinkCounts(linked=1) if is_genuine else LinkCounts())
    assert desk.records.row(record_id).status == ("FAILED" if is_genuine else "SENT")


def test_a_refusal_as_spam_says_nothing_about_the_address(desk: Desk) -> None:  # receive.md R67
    mailbox = ReturnPath(desk)
    for told in (
        (A, "failed", "5.7.1", "554 5.7.1 Message rejected as spam"),
        (A, "failed", "5.1.1", f"550 5.1.1 <{A}> - 192.0.2.7 has sent to too many recipients this hour"),  # bounce-04
    ):
        record_id = desk.records.one()
        assert desk.deliver(record_id) == {"sent": 1}
        assert mailbox.gets(report(told, returned=header_of(desk))) == LinkCounts(linked=1)
        assert desk.records.row(record_id).status == "FAILED"
    assert desk.deliver(desk.records.one()) == {"sent": 1}


def test_a_complaint_stops_the_next_mail(desk: Desk) -> None:  # receive.md R66
    record_id = desk.records.one()
    desk.deliver(record_id)
    complaint = (
        "From: <complaints@provider.example>\nTo: abuse@example.org\nSubject: FW: Order 17\n"
        f"Date: {format_datetime(utc_now())}\nMessage-ID: <arf-1@provider.example>\nMIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\n\n'
        "--b\nContent-Type: text/plain\n\nThis is an email abuse report.\n\n"
        "--b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\nUser-Agent: Loop/1.0\nVersion: 1\n"
        f"Original-Rcpt-To: <{A}>\n\n"
        f"--b\nContent-Type: message/rfc822\n\n{header_of(desk)}\n\nThank you.\n\n--b--\n"
    )
    mailbox = ReturnPath(desk)
    quoted = complaint.replace("multipart/report; report-type=feedback-report", "multipart/mixed").replace(
        "message/feedback-report", "text/plain"
    )
    assert mailbox.gets(quoted.replace("arf-1", "person-1")) == LinkCounts()  # a person quotes it
    assert mailbox.gets(complaint) == LinkCounts(linked=1)
    assert desk.records.row(record_id).status == "SENT"
    stopped = desk.records.one()
    assert desk.deliver(stopped) == {"failed": 1}
    assert "COMPLAINT" in desk.records.row(stopped).error_message


def test_a_read_receipt_is_noted_with_its_time(desk: Desk) -> None:  # receive.md R3, R36
    record_id = desk.records.one()
    desk.deliver(record_id)
    desk.run("UPDATE mail_send_record SET sent_at = now() - interval '1 hour'")
    message_id = desk.records.row(record_id).message_id
    at = utc_now().replace(microsecond=0)
    receipt = (
        f"From: <{A}>\nTo: shop@example.org\nSubject: Read: Order 17\nDate: {format_datetime(at)}\n"
        "Message-ID: <mdn-1@example.net>\nMIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=disposition-notification; boundary="b"\n\n'
        "--b\nContent-Type: text/plain\n\nIt was displayed.\n\n"
        f"--b\nContent-Type: message/disposition-notification\n\nFinal-Recipient: rfc822; {A}\n"
        f"Original-Message-ID: {message_id}\nDisposition: manual-action/MDN-sent-manually; DISPOSITION\n\n--b--\n"
    )
    mailbox = ReturnPath(desk)
    deleted = receipt.replace("DISPOSITION", "deleted").replace("mdn-1", "mdn-0")
    assert mailbox.gets(deleted) == LinkCounts(linked=1)
    assert not desk.records.row(record_id).read_receipt_received
    assert mailbox.gets(receipt.replace("DISPOSITION", "displayed")) == LinkCounts(linked=1)
    row = desk.records.row(record_id)
    assert (row.status, row.read_receipt_received, row.read_receipt_received_at) == ("SENT", True, at)


@pytest.mark.parametrize(
    ("subject", "more"),
    [("Re: Order 17", ""), ("Automatic reply: Order 17", "Auto-Submitted: auto-replied\n")],
    ids=["a-person", "a-vacation-notice"],
)
def test_an_answer_changes_nothing(desk: Desk, subject: str, more: str) -> None:  # receive.md R47, bounce-05
    record_id = desk.records.one()
    desk.deliver(record_id)
    message_id = desk.records.row(record_id).message_id
    before = desk.records.row(record_id)
    answer = (
        f"From: Kim <{A}>\nTo: shop@example.org\nSubject: {subject}\nDate: {format_datetime(utc_now())}\n"
        f"Message-ID: <answer@example.net>\nIn-Reply-To: {message_id}\n{more}\n"
        "The offer was rejected by my boss. Error 550 5.1.1, as they say.\n"
    )
    assert ReturnPath(desk).gets(answer) == LinkCounts()
    assert desk.records.row(record_id) == before
    assert desk.deliver(desk.records.one()) == {"sent": 1}


@pytest.mark.parametrize(
    "signs",
    [
        "From: <>\nAuto-Submitted: auto-replied\n",
        f"From: {A}\nReturn-Path: <>\n",
        f"From: {A}\nPrecedence: bulk\n",
        f"From: {A}\nPrecedence: list\n",
    ],
    ids=["auto-replied", "null-return-path", "bulk", "list"],
)
def test_a_machine_is_never_answered(desk: Desk, signs: str) -> None:  # bounce-06
    desk.deliver(desk.records.one())
    assert "\nAuto-Submitted: auto-generated\n" in header_of(desk)
    accepted = select(func.count()).select_from(MAIL_SEND_RECORD)
    with desk.own.connect() as connection:
        before = connection.execute(accepted).scalar_one()
    ReturnPath(desk).gets(
        f"{signs}To: shop@example.org\nSubject: Order 17\nMessage-ID: <answer@example.net>\n\nThanks.\n"
    )
    with desk.own.connect() as connection:
        assert connection.execute(accepted).scalar_one() == before == 1
    assert len(desk.server.transactions) == 1
