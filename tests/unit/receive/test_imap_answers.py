"""Answers of IMAP servers, as imaplib hands them over: the usual shape, and every other one (RFC 3501, 7)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from imapclient.exceptions import ProtocolError  # type: ignore[import-untyped]

from messaging.receive.imap_answers import fetched, numbers

DATE = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([b"1 2 3"], [1, 2, 3]),
        ([b"1", b"2"], [1, 2]),
        ([b"4 5 (MODSEQ 12)"], [4, 5]),
        ([b"", None], []),
        ([b"1 x 2"], [1]),
        ([b"12345678901"], []),
        ([(b"1 {3}", b"abc")], []),
    ],
)
def test_numbers_of_a_search(answer: list[Any], found: list[int]) -> None:
    assert list(numbers(answer)) == found


@pytest.mark.parametrize(
    "line",
    [
        b'7 (UID 10 RFC822.SIZE 4321 INTERNALDATE "02-Mar-2026 09:00:00 +0000" BODY[HEADER]<0> {3}',
        b'7 (INTERNALDATE "02-Mar-2026 09:00:00 +0000" FLAGS (\\Seen) UID 10 RFC822.SIZE 4321 BODY[HEADER] {3}',
    ],
)
def test_the_usual_answer_to_fetch(line: bytes) -> None:
    [(uid, items)] = fetched([(line, b"abc"), b")"]).items()
    assert uid == 10
    assert items == {b"RFC822.SIZE": 4321, b"INTERNALDATE": DATE, b"BODY[HEADER]": b"abc"}


def test_both_readers_of_an_answer_agree() -> None:
    answer = [
        (b'1 (UID 10 RFC822.SIZE 3 INTERNALDATE " 2-Mar-2026 10:00:00 +0100" BODY[]<0> {3}', b"abc"),
        b")",
        (b"2 (UID 11 RFC822.SIZE 0 BODY[]<0> {0}", b""),
        b")",
    ]
    usual = fetched(answer)
    # Flags behind the literal: not the usual shape any more.
    other = fetched([answer[0], b" FLAGS ())", answer[2], b")"])
    for uid in (10, 11):
        assert usual[uid][b"RFC822.SIZE"] == other[uid][b"RFC822.SIZE"]
        assert usual[uid][b"BODY[]"] == other[uid][b"BODY[]<0>"]
    assert usual[10][b"INTERNALDATE"] == other[10][b"INTERNALDATE"] == DATE


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([None], {}),
        ([b"3 (FLAGS (\\Seen) UID 7)"], {7}),
        ([(b"4 (BODY[]<0> {3}", b"abc"), b" UID 10)"], {10}),
        ([(b"4 (UID 10 BODY[]<0> {3}", b"abc"), b")", b"3 (FLAGS (\\Seen) UID 7)"], {7, 10}),
        ([b'4 (UID 10 BODY[] "short")'], {10}),
        ([b"4 (UID 10 BODY[] NIL)"], {10}),
    ],
)
def test_answers_of_other_shapes(answer: list[Any], found: set[int]) -> None:
    assert set(fetched(answer)) == set(found)


@pytest.mark.parametrize("line", [b"x", b"1", b"1 (UID", b"1 (UID x)", b"1 (UID 1 BODY[] {5}", b"1 (UID 1 FLAGS)"])
def test_what_is_no_answer_raises(line: bytes) -> None:
    with pytest.raises((ProtocolError, ValueError)):
        fetched([line])


def test_a_date_that_is_none_costs_no_mail() -> None:
    line = b'1 (UID 1 RFC822.SIZE 3 INTERNALDATE "nonsense" BODY[] {3}'
    assert fetched([(line, b"abc"), b")"])[1][b"INTERNALDATE"] is None
