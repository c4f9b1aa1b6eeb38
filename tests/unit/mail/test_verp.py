"""Envelope senders that name their record (send.md section 8) and are read back as bounces bring them."""

import base64
import re

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from messaging.db.encryption import use_keys
from messaging.mail import verp
from messaging.mail.addresses import parse_mailbox
from messaging.mail.verp import MAX_RECORD_ID, VerpError

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()

SENDERS = [
    pytest.param("bounces@example.org", r"bounces\+17-[0-9a-f]{8}@example\.org", id="plain"),
    pytest.param("bounces+eu@example.org", r"bounces\+eu\+17-[0-9a-f]{8}@example\.org", id="a plus of its own"),
    pytest.param('"mail team"@example.org', r'"mail team\+17-[0-9a-f]{8}"@example\.org', id="quoted"),
    pytest.param(r'"a\"b@c"@example.org', r'"a\\"b@c\+17-[0-9a-f]{8}"@example\.org', id="quoted, with an at sign"),
    pytest.param("büro@xn--bro-hoa.example", r"büro\+17-[0-9a-f]{8}@xn--bro-hoa\.example", id="not ASCII"),
    pytest.param("b@[192.0.2.1]", r"b\+17-[0-9a-f]{8}@\[192\.0\.2\.1\]", id="an address literal"),
]


@pytest.fixture(autouse=True, scope="module")
def _keys() -> None:
    use_keys((KEY,))


@pytest.mark.parametrize(("sender", "expected"), SENDERS)
def test_the_mark_goes_to_the_end_of_the_local_part_and_leaves_an_address(sender: str, expected: str) -> None:
    marked = verp.address(sender, 17)
    assert re.fullmatch(expected, marked)
    assert parse_mailbox(marked).address == marked
    assert verp.address(sender, 17) == marked
    assert verp.read(marked) == 17


@given(st.integers(min_value=1, max_value=MAX_RECORD_ID))
def test_every_id_is_read_back(record_id: int) -> None:
    assert verp.read(verp.address("bounces@example.org", record_id)) == record_id


@pytest.mark.parametrize(
    "brought",
    [
        pytest.param("{LOCAL}@EXAMPLE.ORG", id="in capitals"),
        pytest.param("<{local}@example.org>", id="in angle brackets"),
        pytest.param("The Shop <{local}@example.org>", id="behind a name"),
        pytest.param('"Shop <x>, The" <{local}@example.org>', id="behind a quoted name"),
        pytest.param(" {local}@example.org\r\n", id="among blanks"),
        pytest.param("rfc822; {local}@example.org", id="as a field of a report has it (RFC 3464, 2.1.2)"),
        pytest.param("rfc822;<{local}@example.org>", id="in brackets within a report"),
        pytest.param("SRS0=h4sh=T7=example.org={local}@forwarder.example", id="rewritten by a forwarder"),
        pytest.param("SRS1=h4sh=first.example==h4sh=T7=example.org={local}@second.example", id="forwarded twice"),
        pytest.param("prvs=0123456789={local}@example.org", id="tagged against false bounces (BATV)"),
        pytest.param("{xtext}@example.org", id="in xtext (RFC 3461, 4)"),
        pytest.param("{local}@relay.example", id="at another domain"),
        pytest.param('"{local}"@example.org', id="quoted on the way"),
    ],
)
def test_a_mark_is_read_in_every_form_that_bounces_bring(brought: str) -> None:  # receive.md R68
    local = verp.address("bounces@example.org", 90_071).partition("@")[0]
    text = brought.format(local=local, LOCAL=local.upper(), xtext=local.replace("+", "+2B"))
    assert verp.read(text) == 90_071


def test_an_address_that_a_listed_key_marked_is_read_and_one_of_a_dropped_key_is_not() -> None:
    marked = verp.address("bounces@example.org", 17)
    other = Fernet.generate_key().decode()
    try:
        use_keys((other, KEY))
        assert verp.read(marked) == 17
        assert verp.address("bounces@example.org", 17) != marked
        use_keys((other,))
        assert verp.read(marked) is None
    finally:
        use_keys((KEY,))


def test_what_we_did_not_mark_is_nobodys() -> None:  # receive.md R68
    marked = verp.address("bounces@example.org", 17)
    mac = marked.partition("-")[2].partition("@")[0]
    wrong = f"{int(mac, 16) ^ 1:08x}"
    for text in (
        f"bounces+17-{wrong}@example.org",
        f"bounces+18-{mac}@example.org",
        f"bounces+017-{mac}@example.org",
        f"bounces+-17-{mac}@example.org",
        f"bounces+17-{mac}x@example.org",
        f"bounces+17-{mac[:7]}@example.org",
        f"bounces+17{mac}@example.org",
        f"bounces+{MAX_RECORD_ID + 1}-{mac}@example.org",
        f"bounces+١٧-{mac}@example.org",
        f"bounces@example.org+17-{mac}",
        "bounces@example.org",
        "",
        "@",
        "<>",
        "MAILER-DAEMON",
    ):
        assert verp.read(text) is None, text


@given(st.text(max_size=300))
def test_any_text_may_be_asked_about(text: str) -> None:
    assert verp.read(text) is None


def test_a_sender_is_marked_as_long_as_the_result_is_an_address() -> None:
    room = 64 - len(f"+{MAX_RECORD_ID}-01234567")
    longest = "b" * room + "@example.org"
    assert len(verp.address(longest, MAX_RECORD_ID).partition("@")[0]) == 64
    assert verp.read(verp.address(longest, MAX_RECORD_ID)) == MAX_RECORD_ID
    with pytest.raises(VerpError, match="a local part of 65 octets; allowed: 64"):
        verp.address("b" + longest, MAX_RECORD_ID)
    # Octets, not characters.
    with pytest.raises(VerpError, match="a local part of 65 octets; allowed: 64"):
        verp.address("ü" + "b" * (room - 1) + "@example.org", MAX_RECORD_ID)
    domain = ".".join(["d" * 60] * 4)
    with pytest.raises(VerpError, match="an address of 258 octets; allowed: 254"):
        verp.address(f"bb@{domain}", 17)
    with pytest.raises(VerpError, match="no address"):
        verp.address("bounces", 17)
