"""Header blocks (RFC 5322, 2.2)."""

import time

import pytest

from messaging.receive.addresses import Mailbox
from messaging.receive.headers import MAX_BLOCK_BYTES, MAX_FIELDS, header_block, parse_headers


def test_fields_are_found_in_any_case_and_in_their_order() -> None:
    headers = parse_headers(b"Subject: one\r\nX-A: 1\r\nx-a: 2\r\nSUBJECT: two\r\n\r\nSubject: body")
    assert list(headers) == ["subject", "x-a", "x-a", "subject"]
    assert len(headers) == 4
    assert headers.all("X-a") == ["1", "2"]
    assert headers.first("subject") == "one"
    assert "sUBJECT" in headers
    assert "to" not in headers
    assert (headers.first("to"), headers.all("to"), headers.raw("to"), headers.mailboxes("to")) == (None, [], [], [])


def test_several_names_are_asked_for_at_once() -> None:
    headers = parse_headers(b"List-Id: <a.example>\r\n\r\n")
    assert headers.has_any(frozenset({"precedence", "list-id"}))
    assert not headers.has_any(frozenset({"precedence", "list-post"}))


def test_a_line_without_end_or_colon_costs_no_more_than_its_length() -> None:
    started = time.process_time()
    assert len(parse_headers(b"Subject: one\r\n" + b"a" * 500_000 + b"\r\n\r\n")) == 1
    assert time.process_time() - started < 2


def test_values_are_unfolded_and_decoded() -> None:
    headers = parse_headers(b"Subject: =?utf-8?Q?caf?=\r\n =?utf-8?Q?=C3=A9?=\r\n\tlong\r\nBlank:\r\nEmpty: \r\n\r\n")
    assert headers.first("subject") == "café\tlong"
    assert headers.raw("subject") == ["=?utf-8?Q?caf?= =?utf-8?Q?=C3=A9?=\tlong"]
    assert headers.first("blank") == headers.first("empty") == ""


def test_the_addresses_of_all_fields_of_a_name() -> None:
    headers = parse_headers(b"To: a@example.com,\r\n b@example.com\r\nTo: =?utf-8?Q?=C3=A9?= <c@example.com>\r\n")
    assert headers.mailboxes("to") == [
        Mailbox("", "a@example.com"),
        Mailbox("", "b@example.com"),
        Mailbox("é", "c@example.com"),
    ]


@pytest.mark.parametrize(
    ("raw", "names", "body"),
    [
        (b"A: 1\r\nB: 2\r\n\r\nbody", ["a", "b"], b"body"),
        (b"A: 1\nB: 2\n\nbody", ["a", "b"], b"body"),
        (b"A: 1\rB: 2\r\rbody", ["a", "b"], b"body"),
        (b"A: 1\r\nB: 2\n\r\nbody", ["a", "b"], b"body"),
        (b"A: 1\nB: 2\r\n\nbody", ["a", "b"], b"body"),
        (b"A: 1\r\r\nB: 2\r\r\n\r\r\nbody", ["a", "b"], b"body"),
        (b"A: 1\nB: 2\n\rbody", ["a", "b"], b"body"),
        (b"\r\nbody", [], b"body"),
        (b"\nbody\n\nmore", [], b"body\n\nmore"),
        (b"A: 1", ["a"], b""),
        (b"A: 1\r\n", ["a"], b""),
        (b"", [], b""),
        # a line that is no field ends the block
        (b"A: 1\r\nbody begins\r\n\r\nmore", ["a"], b"body begins\r\n\r\nmore"),
        (b"body begins\r\n\r\nmore", [], b"body begins\r\n\r\nmore"),
        (b"A: 1\rbody begins\r\rmore", ["a"], b"body begins\r\rmore"),
        # unless fields go on
        (b"A: 1\r\nlost fold\r\nX-B: 2\r\n\r\nbody", ["a", "x-b"], b"body"),
        (b"From a@example.com Mon Nov  3\r\nA: 1\r\n\r\nbody", ["a"], b"body"),
        (b">From a@example.com Mon Nov  3\r\nA: 1\r\n\r\nbody", ["a"], b"body"),
        (b" stray fold\r\nA: 1\r\n\r\nbody", ["a"], b"body"),
        (b"A : 1\r\nB\t: 2\r\n\r\nbody", ["a", "b"], b"body"),
        (b"A: 1\r\n \r\nB: 2\r\n\r\nbody", ["a", "b"], b"body"),
        (b": none\r\nA: 1\r\n\r\nbody", ["a"], b"body"),
    ],
)
def test_where_a_block_ends(raw: bytes, names: list[str], body: bytes) -> None:
    headers, start = header_block(raw, 0, len(raw))
    assert list(headers) == names
    assert raw[start:] == body


def test_a_lost_fold_belongs_to_the_field_before_it() -> None:
    assert parse_headers(b"Subject: one\r\ntwo\r\nX-B: 2\r\n\r\n").first("subject") == "one two"


def test_a_block_within_a_message_is_read_where_it_is() -> None:
    raw = b"A: 1\r\n\r\nB: 2\r\n\r\nbody"
    assert header_block(raw, 8, len(raw))[0].all("b") == ["2"]
    assert header_block(raw, 8, 14)[1] == 14


def test_what_is_beyond_the_bounds_is_not_read_and_the_body_is_found() -> None:
    raw = b"X: " + b"a" * MAX_BLOCK_BYTES + b"\r\nB: 2\r\n\r\nbody"
    headers, start = header_block(raw, 0, len(raw))
    assert list(headers) == ["x"]
    assert raw[start:] == b"body"
    raw = b"A: 1\r\n" * (MAX_FIELDS + 1) + b"\r\nbody"
    headers, start = header_block(raw, 0, len(raw))
    assert len(headers) == MAX_FIELDS
    assert raw[start:] == b"body"
