"""Address grammar: send.md section 3.2, test points A2 to A10 and A23, cases addr-01 to addr-05."""

import email
import email.policy
import email.utils
import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from messaging.mail.addresses import (
    MAX_NAME_CHARS,
    AddressError,
    Mailbox,
    canonical_mailbox,
    from_canonical,
    parse_mailbox,
    parse_mailbox_list,
    parse_reply_to,
)

LOCAL_64 = "l" * 64
DOMAIN_189 = ".".join(["d" * 62] * 3)

ACCEPTED = [
    # everyday
    ("alice@example.com", "", "alice@example.com"),
    ("Bob Smith <bob@example.com>", "Bob Smith", "bob@example.com"),  # A4
    ("Bob<bob@example.com>", "Bob", "bob@example.com"),
    ("<bob@example.com>", "", "bob@example.com"),
    ("  bob@example.com ", "", "bob@example.com"),
    ("< bob@example.com >", "", "bob@example.com"),
    ("Bob   Smith <bob@example.com>", "Bob Smith", "bob@example.com"),
    ("o'brien+tag=x@example.com", "", "o'brien+tag=x@example.com"),
    ("a!#$%&'*+-/=?^_`{|}~z@example.com", "", "a!#$%&'*+-/=?^_`{|}~z@example.com"),
    ("user%other.example@example.com", "", "user%other.example@example.com"),
    ("A.B.C@example.com", "", "A.B.C@example.com"),
    # the domain's case means nothing, the local part's may
    ("John@EXAMPLE.Com", "", "John@example.com"),
    ("John <John@EXAMPLE.Com>", "John", "John@example.com"),
    # display names
    ('"Lee, Kevin" <kevin@example.com>', "Lee, Kevin", "kevin@example.com"),  # addr-01
    ("John Q. Public <j@example.com>", "John Q. Public", "j@example.com"),  # A23
    ("J.R.R. Tolkien <j@example.com>", "J.R.R. Tolkien", "j@example.com"),
    ('"John \\"Jo\\" Public" <j@example.com>', 'John "Jo" Public', "j@example.com"),
    ('John "the man" Public <j@example.com>', "John the man Public", "j@example.com"),
    ('"a@evil.example" <j@example.com>', "a@evil.example", "j@example.com"),
    ('"<a@evil.example>" <j@example.com>', "<a@evil.example>", "j@example.com"),
    ('"" <j@example.com>', "", "j@example.com"),
    ('" " <j@example.com>', "", "j@example.com"),
    ('"a  b" <j@example.com>', "a  b", "j@example.com"),
    ("Jörg Müller <j@example.com>", "Jörg Müller", "j@example.com"),
    ("山田 太郎 <t@example.com>", "山田 太郎", "t@example.com"),
    ("👩\u200d🚀 Ada <ada@example.com>", "👩\u200d🚀 Ada", "ada@example.com"),
    # RFC 2047
    ("=?utf-8?q?J=C3=B6rg?= <j@example.com>", "Jörg", "j@example.com"),
    ("=?UTF-8?B?SsO2cmc=?= <j@example.com>", "Jörg", "j@example.com"),
    ("=?iso-8859-1*de?Q?J=F6rg_M?= Smith <j@example.com>", "Jörg M Smith", "j@example.com"),
    ("Mr =?utf-8?q?J=C3=B6rg?= Smith <j@example.com>", "Mr Jörg Smith", "j@example.com"),
    ("=?utf-8?q?a?= =?utf-8?q?b?= <j@example.com>", "ab", "j@example.com"),
    ("=?utf-8?q?J=C3?= =?utf-8?q?=B6rg?= <j@example.com>", "Jörg", "j@example.com"),
    ("=?utf-8?q?a?= =?iso-8859-1?q?=E9?= c <j@example.com>", "aé c", "j@example.com"),
    ('"=?utf-8?q?a?=" <j@example.com>', "=?utf-8?q?a?=", "j@example.com"),  # never decoded within quotes
    ("=?x-unknown?q?a?= <j@example.com>", "=?x-unknown?q?a?=", "j@example.com"),
    ("=?utf-8?b?%%%?= <j@example.com>", "=?utf-8?b?%%%?=", "j@example.com"),
    # quoted local parts, in their shortest spelling (RFC 5321, 4.1.2)
    ('"john smith"@example.com', "", '"john smith"@example.com'),
    ('"a@b"@example.com', "", '"a@b"@example.com'),
    ('"a..b"@example.com', "", '"a..b"@example.com'),
    ('".a"@example.com', "", '".a"@example.com'),
    ('"a,b;c:d<e>(f)[g]"@example.com', "", '"a,b;c:d<e>(f)[g]"@example.com'),
    (r'"a\"b\\c"@example.com', "", r'"a\"b\\c"@example.com'),
    (r'"\j\o"@example.com', "", "jo@example.com"),
    ('"john"@example.com', "", "john@example.com"),
    ('J <"john smith"@example.com>', "J", '"john smith"@example.com'),
    # address literals
    ("user@[192.0.2.1]", "", "user@[192.0.2.1]"),
    ("user@[IPv6:2001:db8::1]", "", "user@[IPv6:2001:db8::1]"),
    ("user@[ipv6:2001:DB8:0:0::1]", "", "user@[IPv6:2001:db8::1]"),
    ("U <user@[192.0.2.1]>", "U", "user@[192.0.2.1]"),
    # comments
    ("user@example.com (work)", "", "user@example.com"),
    ("user@example.com(work)", "", "user@example.com"),
    ("user@example.com (a (nested \\) one) b@c.example) (second)", "", "user@example.com"),
    ("Bob <bob@example.com> (work)", "Bob", "bob@example.com"),
    ("(work) bob@example.com", "", "bob@example.com"),
    ("Bob (work) Smith <bob@example.com>", "Bob Smith", "bob@example.com"),
    # IDN
    ("info@bücher.example", "", "info@xn--bcher-kva.example"),  # addr-03
    ("info@BÜCHER.Example", "", "info@xn--bcher-kva.example"),
    ("info@bu\u0308cher.example", "", "info@xn--bcher-kva.example"),
    ("info@straße.example", "", "info@xn--strae-oqa.example"),
    ("info@例え.テスト", "", "info@xn--r8jz45g.xn--zckzah"),
    ("info@xn--bcher-kva.example", "", "info@xn--bcher-kva.example"),
    # SMTPUTF8
    ("jörg@example.com", "", "jörg@example.com"),  # addr-04
    ("用户@例え.テスト", "", "用户@xn--r8jz45g.xn--zckzah"),
    ("J <jörg.m@example.com>", "J", "jörg.m@example.com"),
    # special-use and single-label domains: no DNS is asked
    ("a@host.test", "", "a@host.test"),
    ("a@printer.local", "", "a@printer.local"),
    ("a@localhost", "", "a@localhost"),
    ("a@1.example", "", "a@1.example"),
    # limits
    (f"{LOCAL_64}@example.com", "", f"{LOCAL_64}@example.com"),
    (f"{'ö' * 32}@example.com", "", f"{'ö' * 32}@example.com"),
    (f"{LOCAL_64}@{'d' * 63}.{'e' * 63}.{'f' * 61}", "", f"{LOCAL_64}@{'d' * 63}.{'e' * 63}.{'f' * 61}"),
    (f'"{"n" * MAX_NAME_CHARS}" <a@example.com>', "n" * MAX_NAME_CHARS, "a@example.com"),
]

REJECTED = [
    "",
    " ",
    "not-an-email",  # A2
    "a@example.com, b@example.com",  # A3
    "a@example.com b@example.com",
    "a@example.com;b@example.com",
    "a@example.com\nb@example.com",
    "g: a@x.com;",  # A5
    "g:;",
    "undisclosed-recipients:;",
    "g: a@x.com, b@x.com;",
    "user @example.com",  # A23
    "user@ example.com",
    "user@example .com",
    "user name@example.com",
    "Bob bob@example.com",
    "a@example.com,",  # A23
    ",a@example.com",
    "a@example.com;",
    "Bob <b@example.com>,",
    "Lee, Kevin <kevin@example.com>",  # addr-02
    "John Smith, Jr <john@example.com>",  # addr-02
    "user@good.example(x)evil.example",  # addr-05
    "user@good.example (x) evil.example",
    "user@good.example(x).evil.example",
    "user@good(x).example",
    "user@(x)good.example",
    "user(x)@good.example",
    "us(x)er@good.example",
    "user@example.com (unclosed",
    "user@example.com (a (b)",
    "user@example.com x)",
    "@example.com",
    "user@",
    "user",
    "@",
    '""@example.com',
    ".a@example.com",
    "a.@example.com",
    "a..b@example.com",
    "a@.example.com",
    "a@example.com.",
    "a@example..com",
    "a@-example.com",
    "a@example-.com",
    "a@exam_ple.com",
    "a@exa!mple.com",
    "a@b@example.com",
    'a"b"@example.com',
    '"a"b@example.com',
    '"a".b@example.com',
    '"a" @example.com',
    '"unclosed@example.com',
    '"unclosed <a@example.com>',
    "a\\b@example.com",
    "a,b@example.com",
    "a:b@example.com",
    "a[b]@example.com",
    "<>",
    "Bob <>",
    "Bob <bob>",
    "Bob <bob@example.com",
    "Bob bob@example.com>",
    "Bob <bob@example.com>> ",
    "Bob <<bob@example.com>>",
    "Bob <bob@example.com> junk",
    "Bob <a@example.com> <b@example.com>",
    "a@example.com <b@example.com>",
    "Bob <a@example.com, b@example.com>",
    "Bob <@relay.example:bob@example.com>",
    "Bob <bob smith@example.com>",
    "Bob <bob @example.com>",
    "Sales: Team <a@example.com>",
    "Sales [EU] <a@example.com>",
    "Sales @ Acme <a@example.com>",
    ". <a@example.com>",
    "mailto:a@example.com",
    # address literals
    "a@[]",
    "a@[192.0.2.256]",
    "a@[192.0.2]",
    "a@[192.0.2.1",
    "a@[192.0.2.1]x",
    "a@[IPv6:fe80::1%eth0]",
    "a@[IPv6:192.0.2.1]",
    "a@[2001:db8::1]",
    "a@[example.com]",
    # encoded-words: never in an address, and no way to smuggle a line break
    "=?utf-8?q?a?=@example.com",
    '"=?utf-8?q?a?="@example.com',
    "x=?utf-8?q?=61=62?=evil@example.com",
    "=?utf-8?q?a=0D=0ABcc:_e=40e.com?= <a@example.com>",
    "=?utf-8?b?YQpi?= <a@example.com>",
    "=?utf-8?q?a=00b?= <a@example.com>",
    "=?utf-8?q?=FF?= <a@example.com>",
    # controls
    "a\x00@example.com",
    "a@exam\x00ple.com",
    "a@example.com\r\n",
    "\na@example.com",
    "a@example.com\r\nBcc: e@e.com",
    '"a\r\n b" <a@example.com>',
    '"a\\\nb"@example.com',
    "a\t@example.com",
    "Bob\t<bob@example.com>",
    "Bob\x7f <bob@example.com>",
    "Bob\x85 <bob@example.com>",
    "Bob\u2028 <bob@example.com>",
    "a@example.com (x\ry)",
    "a\ud800@example.com",
    "Bob\udc00 <bob@example.com>",
    # Unicode that hides or splits
    "a\u00a0b@example.com",
    "\u3000a@example.com",
    "a\u200bb@example.com",
    "a\u202eb@example.com",
    "a@good\u200b.example",
    "a@good\u00adevil.example",
    "a@good\u3002example",
    "a@ex\u2100mple.com",
    "a@\u2764.example",
    "a\uff20example.com",
    "a@bücher..example",
    "a@-bücher.example",
    "a@bücher_.example",
    "a@xn--bücher.example",
    # limits, in octets
    f"l{LOCAL_64}@example.com",
    f"{'ö' * 33}@example.com",
    f'"{"a b" * 21}"@example.com',
    f"a@{'d' * 64}.com",
    f"a@{'ü' * 60}.com",
    f"{LOCAL_64}@{'d' * 63}.{'e' * 63}.{'f' * 62}",
    f"Bob <{LOCAL_64}@{DOMAIN_189}.com>",
    f'"{"n" * (MAX_NAME_CHARS + 1)}" <a@example.com>',
    f"{'n' * (MAX_NAME_CHARS + 1)} <a@example.com>",
    "(" * 20_000 + ")" * 20_000 + "a@example.com",
]


@pytest.mark.parametrize(("text", "name", "address"), ACCEPTED)
def test_an_accepted_entry_is_one_mailbox(text: str, name: str, address: str) -> None:
    mailbox = parse_mailbox(text)
    assert mailbox == Mailbox(name, address)
    assert parse_mailbox(mailbox.canonical()) == mailbox
    assert from_canonical(mailbox.canonical()) == mailbox
    assert canonical_mailbox(text) == mailbox.canonical()


@pytest.mark.parametrize("text", REJECTED)
def test_a_rejected_entry_names_a_reason(text: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_mailbox(text)
    assert str(caught.value)
    with pytest.raises(AddressError):
        canonical_mailbox(text)


def test_a_name_with_specials_is_stored_quoted() -> None:
    assert canonical_mailbox("John Q. Public <j@example.com>") == '"John Q. Public" <j@example.com>'
    assert canonical_mailbox("Jörg Müller <j@example.com>") == "Jörg Müller <j@example.com>"
    assert Mailbox('a"\\b', "j@example.com").canonical() == '"a\\"\\\\b" <j@example.com>'


def test_only_a_local_part_that_is_not_ascii_leaves_an_address_that_is_not() -> None:  # which needs SMTPUTF8
    assert not parse_mailbox("jörg@example.com").address.isascii()
    assert parse_mailbox("info@bücher.example").address.isascii()


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (None, None),
        ("", None),
        ("  ", None),  # A10
        ("\r\n", None),
        ("a@x.com", "a@x.com"),
        (" a@x.com,b@y.com\t", "a@x.com,b@y.com"),  # step 1: as it is, trimmed
        ("a@x.com; b@y.com\nc@z.com", "a@x.com, b@y.com, c@z.com"),  # A7
        ('"Smith, John" <j@x.com>, ops@x.com', '"Smith, John" <j@x.com>, ops@x.com'),  # A8
        ('"Smith, John" <j@x.com>; ops@x.com', '"Smith, John" <j@x.com>, ops@x.com'),  # A9
        ('"a;b" <j@x.com>,ops@x.com', '"a;b" <j@x.com>,ops@x.com'),
        ('"a\\";b" <j@x.com>;ops@x.com', '"a\\";b" <j@x.com>, ops@x.com'),
        ('<"a>;b"@x.com>; ops@x.com', '<"a>;b"@x.com>, ops@x.com'),
        ("a@x.com;", "a@x.com"),
        (";,\r\n a@x.com ,;, b@x.com", "a@x.com, b@x.com"),
        ("a@bücher.example", "a@bücher.example"),
    ],
)
def test_reply_to_is_normalised(text: str | None, stored: str | None) -> None:
    assert parse_reply_to(text) == stored


@pytest.mark.parametrize(
    "text",
    [
        "support@, broken",  # A6
        "a@x.com,",
        "a@x.com,, b@x.com",
        "a@x.com b@x.com",
        ";;",
        "g: a@x.com;",
        "g: a@x.com, b@x.com;",
        '"a\nb" <a@x.com>',
        "Bob <a@x.com\n>",
        '"open <a@x.com>; b@x.com',
        "a@x.com\x00",
        "a@x.com; b",
        f"{'a' * 60}@x.com," * 4 + "b@x.com",
        "a@x.com;" * 100_000,
    ],
)
def test_a_bad_reply_to_is_rejected(text: str) -> None:
    with pytest.raises(AddressError):
        parse_reply_to(text)


def test_a_list_parses_to_its_mailboxes() -> None:
    assert parse_mailbox_list('"Smith, John" <j@x.com> (home), ops@bücher.example') == [
        Mailbox("Smith, John", "j@x.com"),
        Mailbox("", "ops@xn--bcher-kva.example"),
    ]


# Texts that are made of the grammar's own pieces come close to its edges far more often than random ones.
PIECES = st.sampled_from(
    ["a", "b.c", ".", "..", "@", "@", "@example.com", "<", ">", '"', '"', "\\", "(", ")", ",", ";", ":", "[", "]", " ",
     " ", "[192.0.2.1]", "=?utf-8?q?=C3=B6?=", "=?utf-8?b?YQ==?=", "=?", "?=", "ö", "bücher", ".example", "\u00a0",
     "\u200d", "\r\n", "\t", "\x00", "\u2028", "e\u0301", "Bob", "🎉", "'", "-"]
)  # fmt: skip
NEARLY = st.lists(PIECES, max_size=14).map("".join)
QUOTED = st.text(max_size=12).map(lambda t: '"' + re.sub(r'(["\\])', r"\\\1", t) + '"')
LIKELY = st.builds(
    "{} <{}@{}>".format,
    st.one_of(QUOTED, NEARLY),
    st.one_of(QUOTED, st.text(max_size=8), st.just("a")),
    st.sampled_from(["example.com", "bücher.example", "[192.0.2.1]", "[IPv6:::1]", "EXAMPLE.com"]),
)


def accepted(text: str) -> Mailbox | None:
    try:
        return parse_mailbox(text)
    except AddressError:
        return None


def semantic(address: str) -> tuple[str, str]:
    """Local part without its quoting, and domain."""
    local, _, domain = address.rpartition("@")
    if local.startswith('"'):
        local = re.sub(r"\\(.)", r"\1", local[1:-1])
    return local, domain


@given(st.one_of(NEARLY, LIKELY, st.text()))
@settings(deadline=None)  # a busy machine is no failure
@example('"=?utf-8?q?a?=" <a@b>')
@example("=?utf-8?q?=3D=3Futf-8=3Fq=3Fa=3F=3D?= <a@b>")
def test_what_is_accepted_is_stable_and_holds_no_control(text: str) -> None:
    mailbox = accepted(text)
    if mailbox is None:
        return
    stored = mailbox.canonical()
    assert parse_mailbox(stored) == mailbox
    assert from_canonical(stored) == mailbox
    assert canonical_mailbox(text) == canonical_mailbox(stored) == stored
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in stored)
    local, domain = semantic(mailbox.address)
    assert local
    assert domain.isascii()
    assert len(mailbox.address.rpartition("@")[0].encode()) <= 64
    assert len(mailbox.address.encode()) <= 254


@given(st.one_of(NEARLY, LIKELY))
@settings(deadline=None)  # a busy machine is no failure
def test_the_standard_library_reads_the_same_address(text: str) -> None:
    mailbox = accepted(text)
    if mailbox is None:
        return
    stored = mailbox.canonical()
    header = email.message_from_string(f"To: {stored}\n\n", policy=email.policy.default)["To"]
    (address,) = header.addresses
    assert (address.username, address.domain) == semantic(mailbox.address)
    # `parseaddr` reads no domain literal in Python 3.11.2, Debian 12's.
    if "=?" not in mailbox.display_name and "[" not in address.domain:
        assert semantic(email.utils.parseaddr(stored)[1]) == semantic(mailbox.address)


@given(st.one_of(NEARLY, st.lists(st.one_of(LIKELY, NEARLY), max_size=4).map("; ".join)))
@settings(deadline=None)  # a busy machine is no failure
def test_a_stored_reply_to_is_a_list_and_stays_as_it_is(text: str) -> None:
    try:
        stored = parse_reply_to(text)
    except AddressError:
        return
    if stored is not None:
        assert parse_reply_to(stored) == stored
        assert parse_mailbox_list(stored)
