"""Read receipts, complaints and invitations: what is read out of them beside their type."""

from datetime import UTC, datetime

import pytest

from messaging.receive.classify.chain import classify
from messaging.receive.vocabulary import MailType
from tests.unit.receive.classify.mails import ORIGINAL_ID, mail, type_of

REPORT = "Content-Type: multipart/report; report-type={}; boundary=b"


def receipt(*fields: str, lines: tuple[str, ...] = ()) -> str | None:
    body = "--b\r\nContent-Type: message/disposition-notification\r\n\r\n" + "\r\n".join(fields) + "\r\n--b--\r\n"
    return classify(mail(REPORT.format("disposition-notification"), *lines, body=body)).detail


# receive.md R35
def test_a_receipt_by_its_type_alone_and_with_bounce_like_text() -> None:
    receipts = [
        mail(REPORT.format("disposition-notification"), body="--b\r\n\r\nread\r\n--b--\r\n"),
        mail(
            REPORT.format("disposition-notification"),
            "Subject: Undeliverable",
            body="--b\r\n\r\n550 5.1.1 rejected, returned to sender\r\n--b--\r\n",
            sender="mailer-daemon@mx.example",
        ),
    ]
    assert [type_of(message) for message in receipts] == ["read_receipt", "read_receipt"]


@pytest.mark.parametrize(  # receive.md R36
    ("disposition", "expected"),
    [
        ("manual-action/MDN-sent-manually; displayed", "displayed"),
        ("automatic-action/MDN-sent-automatically; deleted", "deleted"),
        ("manual-action/MDN-sent-manually; displayed/error", "displayed"),
        ("manual-action/MDN-sent-manually; displayed/warning,expired", "displayed"),
        ("manual-action/MDN-sent-manually;dispatched", "dispatched"),
        ("manual-action / MDN-sent-manually ; Denied", "denied"),
        ("automatic-action/MDN-sent-automatically;\r\n failed/failure", "failed"),
        ("manual-action/MDN-sent-manually (yes; really); processed (quickly)", "processed"),
        ("displayed", "displayed"),
        ("manual-action/MDN-sent-manually", None),
        ("manual-action/MDN-sent-manually;", None),
        ("", None),
        ("x; " + "y" * 300, "y" * 50),
    ],
)
def test_what_was_done_with_the_mail(disposition: str, expected: str | None) -> None:
    assert receipt(f"Original-Message-ID: {ORIGINAL_ID}", f"Disposition: {disposition}") == expected


def test_a_receipt_is_of_its_date_and_about_what_it_names() -> None:
    body = (
        f"--b\r\nContent-Type: message/disposition-notification\r\n\r\nOriginal-Message-ID: {ORIGINAL_ID}\r\n--b--\r\n"
    )
    found = classify(
        mail(
            REPORT.format("disposition-notification"),
            "Date: Mon, 4 Mar 2024 09:15:00 +0100",
            "In-Reply-To: <other@shop.example>",
            body=body,
        )
    )
    assert found.type is MailType.READ_RECEIPT
    assert found.reported_at == datetime(2024, 3, 4, 8, 15, tzinfo=UTC)
    assert found.reference_ids == (ORIGINAL_ID, "<other@shop.example>")
    assert [one.recipient for one in found.recipients] == ["kim@customer.example"]


def test_a_receipt_within_a_forwarded_mail_is_the_forwarders_business() -> None:
    inner = f"{REPORT.format('disposition-notification')}\r\n\r\n--b\r\n\r\nread\r\n--b--\r\n"
    outer = f"--o\r\n\r\nlook\r\n--o\r\nContent-Type: message/rfc822\r\n\r\n{inner}\r\n--o--\r\n"
    assert type_of(mail("Content-Type: multipart/mixed; boundary=o", body=outer)) == "normal"


def complaint(*fields: str, original: str = "") -> tuple[str | None, list[str | None], tuple[str, ...]]:
    body = (
        "--b\r\nContent-Type: message/feedback-report\r\n\r\n"
        + "\r\n".join(fields)
        + f"\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n{original}\r\n--b--\r\n"
    )
    found = classify(mail(REPORT.format("feedback-report"), body=body))
    assert found.type is MailType.FEEDBACK_REPORT
    return found.detail, [one.recipient for one in found.recipients], found.reference_ids


ORIGINAL = f"From: orders@shop.example\r\nTo: lee@customer.example\r\nMessage-ID: {ORIGINAL_ID}\r\n\r\nhello"


@pytest.mark.parametrize(  # receive.md R66
    ("fields", "expected"),
    [
        (("Feedback-Type: abuse", "Original-Rcpt-To: <kim@customer.example>"), ["kim@customer.example"]),
        (("Feedback-Type: abuse", "Original-Rcpt-To: rfc822; kim@customer.example"), ["kim@customer.example"]),
        (
            (
                "Feedback-Type: abuse",
                "Original-Rcpt-To: kim@customer.example",
                "Original-Rcpt-To: max@customer.example",
            ),
            ["kim@customer.example", "max@customer.example"],
        ),
        (("Feedback-Type: opt-out", "Removal-Recipient: kim@customer.example"), ["kim@customer.example"]),
        (("Feedback-Type: abuse",), ["lee@customer.example"]),
        (("Feedback-Type: abuse", "Original-Rcpt-To: redacted@customer.example"), ["lee@customer.example"]),
        (("Feedback-Type: auth-failure", "Original-Rcpt-To: kim@customer.example"), []),
        (("Feedback-Type: not-spam", "Original-Rcpt-To: kim@customer.example"), []),
    ],
)
def test_who_complains(fields: tuple[str, ...], expected: list[str]) -> None:
    detail, recipients, references = complaint(*fields, original=ORIGINAL)
    assert detail == fields[0].partition(": ")[2]
    assert recipients == expected
    assert references[0] == ORIGINAL_ID


def test_a_complaint_that_hides_everything_names_nobody() -> None:
    hidden = "From: orders@shop.example\r\nTo: <redacted>\r\n\r\nhello"
    assert complaint("Feedback-Type: abuse", "Original-Rcpt-To: redacted", original=hidden) == ("abuse", [], ())


def test_a_complaint_without_a_type_is_one() -> None:
    assert complaint("User-Agent: x", original=ORIGINAL)[0] is None


@pytest.mark.parametrize(  # receive.md R48
    ("method", "expected"),
    [
        ("REQUEST", "calendar_invite"),
        ("reply", "calendar_invite"),
        ("CANCEL", "calendar_invite"),
        ("COUNTER", "calendar_invite"),
        ("ADD", "calendar_invite"),
        ("REFRESH", "calendar_invite"),
        ("DECLINECOUNTER", "calendar_invite"),
        ("PUBLISH", "normal"),
        ("", "normal"),
        ("NONSENSE", "normal"),
    ],
)
def test_an_invitation_by_the_method_of_root_part_parameter_and_object(method: str, expected: str) -> None:
    bare = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    told = bare.replace("BEGIN:VEVENT", f"METHOD:{method}\r\nBEGIN:VEVENT", 1)
    nested = (
        "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: {}\r\n\r\n{}--c--\r\n--b--\r\n"
    )
    multipart = "Content-Type: multipart/mixed; boundary=b"
    mails = [
        mail(f"Content-Type: text/calendar; method={method}", body=bare),
        mail("Content-Type: text/calendar", body=told),
        mail("Content-Type: application/ics", body=told),
        mail(multipart, body=nested.format(f"text/calendar; method={method}", bare)),
        mail(multipart, body=nested.format("TEXT/Calendar", told)),
    ]
    assert {type_of(message) for message in mails} == {expected}


def test_the_parameter_stands_above_the_object() -> None:
    body = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n"
    assert type_of(mail("Content-Type: text/calendar; method=PUBLISH", body=body)) == "normal"
    assert type_of(mail('Content-Type: text/calendar; method=""', body=body)) == "calendar_invite"
