"""What a stored mail asks to change about the mail of ours that it is about."""

from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.mail.reported_recipients import ReportedRecipient
from messaging.receive.classification import BounceRecipient
from messaging.receive.reports import Complained, Displayed, Failed, Narrowed, change_of, narrowed
from messaging.receive.vocabulary import BounceKind, BounceReason

A, B = "a@example.org", "b@example.org"


def mail(*recipients: BounceRecipient, **columns: Any) -> dict[str, Any]:
    """A row of the columns that are looked at."""
    return {
        "mail_type": "BOUNCE",
        "type_detail": None,
        "date_header": None,
        "smtp_reply_code": None,
        "enhanced_status_code": None,
        "diagnostic_message": None,
        "bounce_kind": "HARD",
        "hard_bounce": False,
        "bounce_recipients": [one.as_json() for one in recipients] or None,
        **columns,
    }


HARD = BounceRecipient(
    BounceKind.HARD, BounceReason.USER_UNKNOWN, recipient=A, status="5.1.1", reply_code="550", diagnostic="no such user"
)
SOFT = BounceRecipient(BounceKind.SOFT, BounceReason.EXPIRED, recipient=B, status="4.4.7")
DELAYED = BounceRecipient(BounceKind.DELAYED, recipient=B, status="4.2.1")


def test_of_a_bounce_those_that_failed_count_the_worst_first() -> None:
    assert change_of(mail(DELAYED, SOFT, HARD)) == Failed(
        (
            ReportedRecipient((A,), "550 5.1.1", "no such user", is_permanent=True, is_useless=True),
            ReportedRecipient((B,), "4.4.7", None, is_permanent=False, is_useless=False),
        )
    )


@pytest.mark.parametrize("kind", ["DELAYED", "SUCCESS", None])
def test_what_did_not_fail_changes_nothing(kind: str | None) -> None:
    assert change_of(mail(DELAYED, bounce_kind=kind)) is None


def test_who_it_was_sent_to_is_asked_before_what_that_was_resolved_to() -> None:
    told = BounceRecipient(BounceKind.HARD, recipient="x@example.net", original_recipient=A)
    change = change_of(mail(told))
    assert isinstance(change, Failed)
    assert change.reported[0].names == (A, "x@example.net")


def test_words_alone_do_not_make_an_address_useless() -> None:
    told = BounceRecipient(BounceKind.HARD, BounceReason.USER_UNKNOWN, recipient=A, is_doubtful=True)
    change = change_of(mail(told))
    assert isinstance(change, Failed)
    assert not change.reported[0].is_useless


def test_a_bounce_without_a_group_is_told_by_its_summary() -> None:
    columns = {
        "smtp_reply_code": "550",
        "enhanced_status_code": "5.1.1",
        "diagnostic_message": "no",
        "hard_bounce": True,
    }
    assert change_of(mail(**columns)) == Failed((ReportedRecipient((), "550 5.1.1", "no", True, True),))


@pytest.mark.parametrize(
    ("disposition", "is_read"),
    [("displayed", True), ("Displayed ", True), (None, True), ("deleted", False), ("denied", False)],
)
def test_a_receipt_counts_when_the_mail_was_shown(disposition: str | None, is_read: bool) -> None:
    row = mail(mail_type="READ_RECEIPT", type_detail=disposition, date_header="Mon, 2 Mar 2026 10:00:00 +0100")
    assert change_of(row) == (Displayed(datetime(2026, 3, 2, 9, tzinfo=UTC)) if is_read else None)


@pytest.mark.parametrize("date_header", [None, "", "yesterday", "Mon, 2 Mar 2026 10:00:00"])
def test_a_receipt_may_not_say_when(date_header: str | None) -> None:
    assert change_of(mail(mail_type="READ_RECEIPT", date_header=date_header)) == Displayed(None)


@pytest.mark.parametrize(
    ("kind", "is_complaint"),
    [("abuse", True), ("fraud", True), ("opt-out", True), (None, True), ("not-spam", False), ("auth-failure", False)],
)
def test_a_feedback_report_is_a_complaint_where_somebody_complains(kind: str | None, is_complaint: bool) -> None:
    row = mail(BounceRecipient(BounceKind.SUCCESS, recipient=A), mail_type="FEEDBACK_REPORT", type_detail=kind)
    assert change_of(row) == (Complained((ReportedRecipient((A,)),)) if is_complaint else None)
    hidden = mail(mail_type="FEEDBACK_REPORT", type_detail="abuse")
    assert change_of(hidden) == Complained(())


@pytest.mark.parametrize("mail_type", ["NORMAL", "AUTO_REPLY", "CALENDAR_INVITE", "UNKNOWN"])
def test_other_mail_changes_nothing(mail_type: str) -> None:
    assert change_of(mail(HARD, mail_type=mail_type)) is None


def test_of_a_text_those_stay_that_were_written_to() -> None:
    ours = BounceRecipient(BounceKind.HARD, recipient="A@Example.org", from_text=True)
    others = BounceRecipient(BounceKind.HARD, recipient="help@example.net", from_text=True)
    assert narrowed(mail(others, ours), [A, B]) == Narrowed([ours.as_json()], ["A@Example.org"])
    assert narrowed(mail(others), [A, B]) is None  # none of ours: nothing is known better
    assert narrowed(mail(ours), [A, B]) is None
    assert narrowed(mail(), [A, B]) is None
    forwarded = BounceRecipient(BounceKind.HARD, recipient="x@example.net")
    assert narrowed(mail(forwarded, HARD), [A, B]) is None  # a report's own fields


def test_a_delay_among_those_of_a_text_is_no_failure() -> None:
    ours = BounceRecipient(BounceKind.DELAYED, recipient=A, from_text=True)
    others = BounceRecipient(BounceKind.HARD, recipient="help@example.net", from_text=True)
    assert narrowed(mail(others, ours), [A]) == Narrowed([ours.as_json()], [])
