"""One-click links (RFC 8058; send.md section 8): signed, readable by us alone, the same for each attempt."""

import base64
import re
from urllib.parse import urlsplit

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from messaging.db.encryption import use_keys
from messaging.mail import header_fields, unsubscribe

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
BASE = "https://mail.example.com"
LIST, ADDRESS = "weekly news", "ann@example.com"

BIGINTS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@pytest.fixture(autouse=True, scope="module")
def _keys() -> None:
    use_keys((KEY,))


def link(base: str = BASE, record_id: int = 123_456, tenant_id: int = 7) -> str:
    return unsubscribe.url(base, record_id=record_id, tenant_id=tenant_id, list_name=LIST, address=ADDRESS)


def token_of(url: str) -> str:
    return url.rpartition("/")[2]


@given(record_id=BIGINTS, tenant_id=BIGINTS)
def test_a_token_says_which_record_of_which_tenant(record_id: int, tenant_id: int) -> None:
    token = unsubscribe.read(token_of(link(record_id=record_id, tenant_id=tenant_id)))
    assert token is not None
    assert (token.record_id, token.tenant_id) == (record_id, tenant_id)


def test_a_record_has_one_link_and_each_record_another() -> None:
    assert link() == link()
    links = {link(record_id=i, tenant_id=t) for i in range(1, 300) for t in (-1, 0, 7)}
    assert len(links) == 299 * 3


@pytest.mark.parametrize("base", [BASE, BASE + "/", "https://example.com/mail", "http://localhost:8000"])
def test_the_link_is_a_url_that_needs_no_escape_and_shows_neither_list_nor_address(base: str) -> None:
    found = link(base)
    assert found.startswith(base.rstrip("/") + "/hooks/unsubscribe/")
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token_of(found))
    assert urlsplit(found).geturl() == found
    decoded = base64.urlsafe_b64decode(token_of(found) + "==")
    for secret in ("ann", "example.com@", "weekly", "news"):
        assert secret.encode() not in decoded
        assert secret not in token_of(found)


def test_a_token_tells_whether_a_record_is_still_the_one_it_was_made_for() -> None:
    token = unsubscribe.read(token_of(link()))
    assert token is not None
    assert token.is_about(list_name=LIST, address=ADDRESS)
    assert not token.is_about(list_name=LIST, address="bob@example.com")
    assert not token.is_about(list_name="other", address=ADDRESS)


def test_every_changed_token_is_refused() -> None:  # operate.md O65
    token = token_of(link())
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place, char in enumerate(token):
        other = alphabet[(alphabet.index(char) + 1) % 64]
        assert unsubscribe.read(token[:place] + other + token[place + 1 :]) is None
    for changed in (token[:-1], token[1:], token + "A", token + "=", token + "\n", " " + token, token.upper(), ""):
        assert unsubscribe.read(changed) is None


@given(st.text(max_size=100) | st.from_regex(r"[A-Za-z0-9_-]{30,70}", fullmatch=True))
def test_any_text_may_come_as_a_token(text: str) -> None:
    assert unsubscribe.read(text) is None


def test_every_listed_key_reads_and_a_dropped_one_does_not() -> None:
    token = token_of(link())
    other = Fernet.generate_key().decode()
    try:
        use_keys((other, KEY))
        read = unsubscribe.read(token)
        assert read is not None
        assert read.is_about(list_name=LIST, address=ADDRESS)
        use_keys((other,))
        assert unsubscribe.read(token) is None
    finally:
        use_keys((KEY,))


def test_the_fields_are_those_of_rfc_8058_on_one_line_each() -> None:
    found = link(record_id=10**9)
    fields = unsubscribe.header_fields(found)
    assert fields == {"List-Unsubscribe": f"<{found}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    lines = [header_fields.literal_field(name, value) for name, value in fields.items()]
    assert lines == [f"List-Unsubscribe: <{found}>", "List-Unsubscribe-Post: List-Unsubscribe=One-Click"]
    assert len(lines[0]) < 120
