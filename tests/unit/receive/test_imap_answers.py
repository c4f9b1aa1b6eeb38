"""Answers of IMAP servers, as imaplib hands them over: the usual shape, and every other one (RFC 3501, 7)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from imapclient.exceptions import ProtocolError  # type: ignore[import-untyped]

from messaging.receive.imap_answers import Usual, fetched, numbers, usual_answer

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
        b'* 7 FETCH (UID 10 RFC822.SIZE 4321 INTERNALDATE "02-Mar-2026 09:00:00 +0000" BODY[HEADER]<0> {3}\r\n',
        b'* 7 FETCH (INTERNALDATE " 2-Mar-2026 10:00:00 +0100" FLAGS () UID 10 RFC822.SIZE 4321 BODY[HEADER] {3}\r\n',
    ],
)
def test_the_usual_answer_to_fetch(line: bytes) -> None:
    items = {b"RFC822.SIZE": 4321, b"INTERNALDATE": DATE}
    assert usual_answer(line) == Usual(10, items, b"BODY[HEADER]", 3)


@pytest.mark.parametrize(
    "line",
    [
        b"* 7 FETCH (UID 10 FLAGS (\\Seen))\r\n",
        b"* 7 FETCH (RFC822.SIZE 3 BODY[] {3}\r\n",
        b"* 7 FETCH (UID 10 BODY[] {3333333333333333}\r\n",
        b"* 7 FETCH (UID 10 BODY[] {3}\n",
        b"* 12 EXISTS\r\n",
        b"a1 OK done\r\n",
        b"",
    ],
)
def test_what_is_no_usual_answer(line: bytes) -> None:
    assert usual_answer(line) is None


@pytest.mark.parametrize(
    "date",
    [
        "02-Mar-2026 09:00:00 +0000",
        " 2-Mar-2026 10:00:00 +0100",
        "01-Mar-2026 22:30:00 -1030",
        "02-Mar-2026 9:00 +0000",
    ],
)
def test_both_readers_of_an_answer_agree(date: str) -> None:
    begin = f'1 (UID 10 RFC822.SIZE 3 INTERNALDATE "{date}" BODY[]<0> {{3}}'.encode()
    usual = usual_answer(b"* " + begin.replace(b"(", b"FETCH (", 1) + b"\r\n")
    assert usual is not None
    [(uid, items)] = fetched([(begin, b"abc"), b")"]).items()
    assert (usual.uid, usual.items[b"RFC822.SIZE"]) == (uid, items[b"RFC822.SIZE"])
    assert usual.items[b"INTERNALDATE"] == items[b"INTERNALDATE"] == DATE


@pytest.mark.parametrize("date", ["bad", "31-Feb-2026 09:00:00 +0000", "02-Mar-2026 25:00:00 +0000"])
def test_a_date_that_is_none(date: str) -> None:
    usual = usual_answer(f'* 1 FETCH (UID 10 INTERNALDATE "{date}" BODY[] {{3}}\r\n'.encode())
    assert usual is not None
    assert usual.items[b"INTERNALDATE"] is None


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
