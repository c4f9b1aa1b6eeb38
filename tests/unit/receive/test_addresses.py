"""Address lists as they come (RFC 5322, 3.4 and 4.4)."""

import pytest

from messaging.receive.addresses import MAX_ADDRESSES, Mailbox, parse_addresses


@pytest.mark.parametrize(
    ("value", "mailboxes"),
    [
        ("", []),
        (" , ;, ", []),
        ("a@example.com", [("", "a@example.com")]),
        ("<a@example.com>", [("", "a@example.com")]),
        ("Ann <a@example.com>", [("Ann", "a@example.com")]),
        ('"Ann" <a@example.com>', [("Ann", "a@example.com")]),
        ('"Last, First" <a@example.com>, b@example.com', [("Last, First", "a@example.com"), ("", "b@example.com")]),
        (r'"A \"quoted\" \\ one" <a@example.com>', [(r'A "quoted" \ one', "a@example.com")]),
        ("a@example.com (Ann (the first))", [("Ann (the first)", "a@example.com")]),
        ("Ann <a@example.com> (at work)", [("Ann", "a@example.com")]),
        # RFC 2047, 6.2: structure first
        ("=?utf-8?Q?Last=2C_First?= <a@example.com>", [("Last, First", "a@example.com")]),
        ("=?utf-8?Q?Last,_First?= <a@example.com>", [("Last, First", "a@example.com")]),
        ("=?utf-8?Q?a?= =?utf-8?Q?b?= <a@example.com>", [("ab", "a@example.com")]),
        ('"=?utf-8?Q?caf=C3=A9?=" <a@example.com>', [("café", "a@example.com")]),
        ("a@example.com (=?utf-8?Q?caf=C3=A9?=)", [("café", "a@example.com")]),
        ("=?utf-8?B?QW5uIDxhQGV4YW1wbGUuY29tPg==?=", [("Ann", "a@example.com")]),
        ("<=?utf-8?Q?a=40example.com?=>", [("", "a@example.com")]),
        # groups
        ("undisclosed-recipients:;", []),
        ("Team: Ann <a@example.com>, b@example.com; c@example.com",
         [("Ann", "a@example.com"), ("", "b@example.com"), ("", "c@example.com")]),
        # obsolete and broken forms
        ("a@example.com; b@example.com", [("", "a@example.com"), ("", "b@example.com")]),
        ("<@relay.example,@hub.example:a@example.com>", [("", "a@example.com")]),
        ("a @ example.com", [("", "a@example.com")]),
        ("Ann a@example.com", [("Ann", "a@example.com")]),
        ("a@example.com b@example.com", [("", "a@example.com"), ("", "b@example.com")]),
        ("<a@example.com> <b@example.com>", [("", "a@example.com"), ("", "b@example.com")]),
        ('"a@example.com"', [("", "a@example.com")]),
        ("'a@example.com'", [("", "a@example.com")]),
        ("<<a@example.com>>", [("", "a@example.com")]),
        ("<mailto:a@example.com>", [("", "a@example.com")]),
        ("smtp:a@example.com", [("", "a@example.com")]),
        ("Ann <a@example.com", [("Ann", "a@example.com")]),
        ('"Ann <a@example.com>', [("Ann", "a@example.com")]),
        ('Ann "the first" <a@example.com>', [("Ann the first", "a@example.com")]),
        ("Ann (the first <a@example.com>", [("Ann the first", "a@example.com")]),
        ("Last, First <a@example.com>", [("Last, First", "a@example.com")]),
        ("root, Ann <a@example.com>", [("", "root"), ("Ann", "a@example.com")]),
        # rare and right
        ('"john doe"@example.com', [("", '"john doe"@example.com')]),
        ('"a,b"@example.com, c@example.com', [("", '"a,b"@example.com'), ("", "c@example.com")]),
        ("<\"a>b\"@example.com>", [("", '"a>b"@example.com')]),
        ("a@[192.0.2.1], b@[IPv6:2001:db8::1]", [("", "a@[192.0.2.1]"), ("", "b@[IPv6:2001:db8::1]")]),
        ("Ann (comment, with @) <a@example.com>", [("Ann", "a@example.com")]),
        # no address
        ("MAILER-DAEMON", [("", "MAILER-DAEMON")]),
        ("MAILER-DAEMON (Mail System)", [("Mail System", "MAILER-DAEMON")]),
        ("Mail System <>", [("Mail System", "")]),
        ("<>", []),
        ("Mail System <MAILER-DAEMON>", [("Mail System", "MAILER-DAEMON")]),
        ("a\x00@example.com", [("", "a@example.com")]),
    ],
)  # fmt: skip
def test_parse_addresses(value: str, mailboxes: list[tuple[str, str]]) -> None:
    assert parse_addresses(value) == [Mailbox(*one) for one in mailboxes]


def test_a_list_has_at_most_10_000_addresses() -> None:
    assert len(parse_addresses("a@example.com," * (MAX_ADDRESSES + 5))) == MAX_ADDRESSES


def test_octets_beyond_ascii_are_read() -> None:
    assert parse_addresses("Bö <ö@example.com>".encode().decode("ascii", "surrogateescape")) == [
        Mailbox("Bö", "ö@example.com")
    ]
