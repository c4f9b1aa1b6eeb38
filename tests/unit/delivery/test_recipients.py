"""Results per recipient: who is open, what a merge keeps (send.md section 9.4)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.category import ErrorCategory
from messaging.delivery.recipients import (
    REOPENED_BY_RETRY,
    RecipientResult,
    RecipientStatus,
    has_accepted,
    merge,
    only_accepted,
    open_recipients,
)

AT = "2026-01-02T03:04:05+00:00"
A, B = "a@example.org", "b@example.org"


def result(status: RecipientStatus) -> RecipientResult:
    category = None if status is RecipientStatus.ACCEPTED else ErrorCategory.TRANSIENT
    return RecipientResult(status, f"CODE_{status}", f"text of {status}", category)


def stored(status: RecipientStatus) -> dict[str, Any]:
    return {"result": str(status), "code": f"CODE_{status}", "text": f"text of {status}", "at": AT}


@pytest.mark.parametrize(
    ("status", "is_open"),
    [
        (RecipientStatus.ACCEPTED, False),
        (RecipientStatus.REFUSED, False),
        (RecipientStatus.SUPPRESSED, False),
        (RecipientStatus.BOUNCED, False),
        (RecipientStatus.DEFERRED, True),
    ],
)
def test_only_who_was_refused_for_now_is_open(status: RecipientStatus, is_open: bool) -> None:
    assert open_recipients([A], {A: stored(status)}) == ([A] if is_open else [])


def test_who_was_never_named_is_open_and_the_order_is_kept() -> None:
    assert open_recipients([B, A], {}) == [B, A]
    assert open_recipients([B, A, "c@example.org"], {A: stored(RecipientStatus.ACCEPTED)}) == [B, "c@example.org"]


def test_a_manual_retry_opens_all_that_are_closed_but_the_accepted() -> None:
    assert set(RecipientStatus) - REOPENED_BY_RETRY == {RecipientStatus.ACCEPTED, RecipientStatus.DEFERRED}


def test_a_merge_stores_what_was_learnt() -> None:
    assert merge({}, {A: result(RecipientStatus.REFUSED)}, AT) == {A: stored(RecipientStatus.REFUSED)}


@given(before=st.sampled_from(RecipientStatus), learnt=st.sampled_from(RecipientStatus))
def test_once_accepted_is_accepted_for_ever(before: RecipientStatus, learnt: RecipientStatus) -> None:
    given_results = {A: stored(before)}
    merged = merge(given_results, {A: result(learnt)}, "2027-01-01T00:00:00+00:00")
    expected = before if before is RecipientStatus.ACCEPTED else learnt
    assert merged[A]["result"] == expected
    assert given_results == {A: stored(before)}  # the row's own are not touched


def test_a_late_outcome_may_add_who_accepted_only() -> None:
    learnt = {status.value: result(status) for status in RecipientStatus}
    assert set(only_accepted(learnt)) == {"accepted"}


def test_somebody_accepted() -> None:
    assert not has_accepted({})
    assert not has_accepted({s: stored(s) for s in RecipientStatus if s is not RecipientStatus.ACCEPTED})
    assert has_accepted({s: stored(s) for s in RecipientStatus})
