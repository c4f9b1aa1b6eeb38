"""What an attempt makes of its record: every row of send.md section 9.4, and the moves T5 to T9. Pure."""

import random
from typing import Any

import pytest

from messaging.category import ErrorCategory, MarkerCode
from messaging.delivery.channel import Claim
from messaging.delivery.outcome import Failure, Outcome, judge
from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.delivery.status import SendStatus
from messaging.settings import RetrySettings

AT = "2026-01-02T03:04:05+00:00"
A, B, C = "a@example.org", "b@example.org", "c@example.org"
SETTINGS = RetrySettings(jitter=0)
BUDGET_USED = SETTINGS.max_retries

ACCEPTED = RecipientResult(RecipientStatus.ACCEPTED, "SMTP_250", "ok")
GONE = RecipientResult(RecipientStatus.REFUSED, "SMTP_550_5.1.1", "no such user", ErrorCategory.PERMANENT)
SYNTAX = RecipientResult(RecipientStatus.REFUSED, "SMTP_501_5.1.3", "bad address", ErrorCategory.INVALID_INPUT)
SUPPRESSED = RecipientResult(RecipientStatus.SUPPRESSED, "SUPPRESSED", "", ErrorCategory.PERMANENT)
GREY = RecipientResult(RecipientStatus.DEFERRED, "SMTP_450", "greylisted", ErrorCategory.TRANSIENT)
FLOOD = RecipientResult(RecipientStatus.DEFERRED, "SMTP_421_4.7.28", "flood", ErrorCategory.QUOTA)


def claim(retry_count: int = 0, results: dict[str, Any] | None = None) -> Claim:
    content = {"prepared_at": AT, "recipient_results": results or {}}
    return Claim(17, 4, 99, 0, retry_count, content, 0.0)


def entry(result: RecipientResult) -> dict[str, Any]:
    return {"result": str(result.status), "code": result.code, "text": result.text, "at": AT}


def decide(learnt: Any, *, retry_count: int = 0, before: dict[str, Any] | None = None, to: Any = (A, B)) -> Outcome:
    return judge(claim(retry_count, before), to, learnt, at=AT, retry=SETTINGS, rng=random.Random(1))


# Section 9.4, row by row


def test_all_accepted_is_sent() -> None:  # T6
    outcome = decide({A: ACCEPTED, B: ACCEPTED})
    assert (outcome.status, outcome.log_outcome, outcome.retry_count) == (SendStatus.SENT, "SENT", 0)
    assert (outcome.error_code, outcome.error_message, outcome.category) == (None, None, None)
    assert outcome.results == {A: entry(ACCEPTED), B: entry(ACCEPTED)}


def test_one_refused_for_good_and_one_accepted_is_sent_and_says_so() -> None:  # F9
    outcome = decide({A: ACCEPTED, B: GONE})
    assert (outcome.status, outcome.log_outcome) == (SendStatus.SENT, "PARTIAL")
    assert (outcome.error_code, outcome.error_message) == ("SMTP_550_5.1.1", "no such user")
    assert outcome.results == {A: entry(ACCEPTED), B: entry(GONE)}


def test_accepted_before_counts_as_accepted() -> None:
    outcome = decide({B: GONE}, before={A: entry(ACCEPTED)})
    assert (outcome.status, outcome.log_outcome) == (SendStatus.SENT, "PARTIAL")


def test_refused_before_is_remembered_when_the_last_open_one_accepts() -> None:
    outcome = decide({B: ACCEPTED}, before={A: entry(GONE)})
    assert (outcome.status, outcome.error_code) == (SendStatus.SENT, "SMTP_550_5.1.1")


def test_the_code_is_the_first_refusals_in_the_order_of_the_recipients() -> None:
    outcome = decide({C: GONE, A: ACCEPTED, B: SYNTAX}, to=(A, B, C))
    assert outcome.error_code == "SMTP_501_5.1.3"


@pytest.mark.parametrize("others", [{B: ACCEPTED}, {B: GONE}, {}])
def test_some_refused_for_now_is_retried(others: dict[str, RecipientResult]) -> None:  # T7, F9a, F9c
    outcome = decide({A: GREY, **others}, to=(A, *others))
    assert (outcome.status, outcome.retry_count, outcome.delay_seconds) == (SendStatus.RETRY, 1, 30)
    assert (outcome.error_code, outcome.category) == ("SMTP_450", ErrorCategory.TRANSIENT)
    assert outcome.results == {A: entry(GREY), **{r: entry(x) for r, x in others.items()}}


def test_a_rate_limit_among_the_open_ones_decides_the_wait() -> None:
    outcome = decide({A: GREY, B: FLOOD})
    assert (outcome.category, outcome.delay_seconds) == (ErrorCategory.QUOTA, 300)


def test_budget_used_up_with_one_accepted_is_sent() -> None:  # T8
    outcome = decide({A: ACCEPTED, B: GREY}, retry_count=BUDGET_USED)
    assert (outcome.status, outcome.log_outcome) == (SendStatus.SENT, "PARTIAL")
    assert (outcome.retry_count, outcome.delay_seconds) == (BUDGET_USED, None)


def test_budget_used_up_with_nobody_accepted_is_a_dead_letter() -> None:  # T8
    outcome = decide({A: GONE, B: GREY}, retry_count=BUDGET_USED)
    assert (outcome.status, outcome.log_outcome) == (SendStatus.DEAD_LETTER, "DEAD_LETTER")


def test_all_refused_for_good_is_failed_with_the_first_ones_code() -> None:  # T9, F9b
    outcome = decide({A: SYNTAX, B: GONE}, retry_count=BUDGET_USED)
    assert (outcome.status, outcome.log_outcome) == (SendStatus.FAILED, "FAILED")
    assert (outcome.error_code, outcome.category) == ("SMTP_501_5.1.3", ErrorCategory.INVALID_INPUT)


@pytest.mark.parametrize(
    "learnt", [{B: ACCEPTED}, {B: GREY}, {B: GONE}, Failure(ErrorCategory.TRANSIENT, "SMTP_421", "busy")]
)
def test_who_must_not_be_named_is_closed_whatever_became_of_the_others(learnt: Any) -> None:
    outcome = judge(
        claim(0, {}), (A, B), learnt, at=AT, retry=SETTINGS, rng=random.Random(1), suppressed={A: SUPPRESSED}
    )
    assert outcome.results is not None
    assert outcome.results[A]["result"] == "suppressed"
    assert outcome.suppressed == 1


def test_suppressed_counts_as_refused_for_good() -> None:
    assert decide({A: SUPPRESSED, B: ACCEPTED}).status is SendStatus.SENT
    assert decide({A: SUPPRESSED, B: GONE}).status is SendStatus.FAILED
    assert decide({A: SUPPRESSED, B: GREY}).status is SendStatus.RETRY


def test_with_nobody_open_nothing_is_sent_and_the_record_closes() -> None:
    assert decide({}, before={A: entry(ACCEPTED), B: entry(ACCEPTED)}).status is SendStatus.SENT
    assert decide({}, before={A: entry(GONE), B: entry(GONE)}).status is SendStatus.FAILED


# The attempt as a whole


@pytest.mark.parametrize("category", [c for c in ErrorCategory if c.is_retryable])
def test_a_failure_that_may_pass_is_retried_until_the_budget_is_used(category: ErrorCategory) -> None:  # T7, T8
    failure = Failure(category, "SMTP_421", "busy")
    assert decide(failure).status is SendStatus.RETRY
    assert decide(failure, retry_count=BUDGET_USED - 1).retry_count == BUDGET_USED
    assert decide(failure, retry_count=BUDGET_USED).status is SendStatus.DEAD_LETTER
    partly = {A: entry(ACCEPTED), B: entry(GREY)}
    assert decide(failure, retry_count=BUDGET_USED, before=partly).status is SendStatus.SENT


@pytest.mark.parametrize("category", [c for c in ErrorCategory if not c.is_retryable])
def test_a_failure_for_good_fails_at_once(category: ErrorCategory) -> None:  # T5, T9
    failure = Failure(category, "SMTP_535", "no")
    assert decide(failure).status is SendStatus.FAILED
    assert decide(failure, before={A: entry(ACCEPTED)}).status is SendStatus.SENT


@pytest.mark.parametrize(
    ("marker", "status"),
    [
        (MarkerCode.CONFIG_NOT_RESOLVABLE, SendStatus.FAILED),
        (MarkerCode.CREDENTIAL_UNREADABLE, SendStatus.FAILED),
        (MarkerCode.BODY_TOO_LARGE, SendStatus.FAILED),
        (MarkerCode.PREPARE_FAILED, SendStatus.RETRY),
        (MarkerCode.UNEXPECTED, SendStatus.RETRY),
    ],
)
def test_our_own_markers_end_or_retry(marker: MarkerCode, status: SendStatus) -> None:  # section 9.2
    from messaging.category import MARKER_CATEGORY

    assert decide(Failure(MARKER_CATEGORY[marker], marker, "x")).status is status


def test_an_attempt_that_failed_as_a_whole_leaves_the_recipients_as_they_were() -> None:
    outcome = decide(Failure(ErrorCategory.TRANSIENT, "SMTP_CONNECT", "refused"), before={A: entry(ACCEPTED)})
    assert (outcome.results, outcome.late_results, outcome.is_late_sent) == (None, None, False)


def test_an_unknown_reply_marks_the_record() -> None:  # C6
    unknown = Failure(ErrorCategory.TRANSIENT, "SMTP_NO_REPLY_AFTER_DATA", "no reply", is_uncertain=True)
    assert decide(unknown).is_uncertain
    assert decide(unknown, retry_count=BUDGET_USED).is_uncertain
    assert not decide(Failure(ErrorCategory.TRANSIENT, "SMTP_421", "busy")).is_uncertain


def test_a_wait_the_other_side_asks_for_is_kept() -> None:
    outcome = decide(Failure(ErrorCategory.TRANSIENT, "HTTP_503", "later", retry_after_seconds=900))
    assert outcome.delay_seconds == 900


# What may be added late (T14), and without text (C11)


@pytest.mark.parametrize(
    ("learnt", "before", "is_sent", "accepted"),
    [
        ({A: ACCEPTED, B: ACCEPTED}, {}, True, {A, B}),
        ({A: ACCEPTED, B: GONE}, {}, False, {A}),
        ({A: ACCEPTED, B: GREY}, {}, False, {A}),
        ({B: ACCEPTED}, {A: entry(GONE)}, True, {B}),
        ({A: GONE, B: GONE}, {}, False, set()),
    ],
)
def test_late_only_who_accepted_is_added(learnt: Any, before: Any, is_sent: bool, accepted: set[str]) -> None:
    outcome = decide(learnt, before=before)
    assert outcome.is_late_sent == is_sent
    assert outcome.late_results is not None
    assert {r for r, e in outcome.late_results.items() if e["result"] == "accepted"} == accepted


def test_without_text_the_facts_stay() -> None:
    outcome = decide({A: ACCEPTED, B: GREY}).without_text()
    assert (outcome.status, outcome.error_code, outcome.error_message) == (SendStatus.RETRY, "SMTP_450", None)
    assert outcome.results is not None
    assert {r: e["result"] for r, e in outcome.results.items()} == {A: "accepted", B: "deferred"}
    assert {e["text"] for e in outcome.results.values()} == {""}
