"""DKIM signatures (send.md section 8; RFC 6376, 8301, 8463), verified by dkimpy."""

import base64
import hashlib
import tracemalloc
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise

import dkim as dkimpy
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from dkim.canonicalization import Relaxed
from hypothesis import example, given
from hypothesis import strategies as st

from messaging.mail import dkim, mime
from messaging.mail.dkim import DkimConfigError
from messaging.mail.message import Message
from messaging.requests import BodyMode

AT = datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC)
DOMAIN, SELECTOR = "shop.example", "s2026"
#: Fields that a mail program shows or acts on: none may be added behind the signature.
FROZEN = ("From", "To", "Cc", "Reply-To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type")

HEADER = (
    "From: The Shop <shop@shop.example>\r\n"
    "To: ann@example.com,\r\n\tben@example.com\r\n"
    "Subject:  Your   order\r\n"
    "Date: Sun, 01 Mar 2026 09:05:07 +0000\r\n"
    "Message-ID: <17.9f3c@shop.example>\r\n"
    "List-Unsubscribe: <https://mail.example/hooks/unsubscribe/abc>\r\n"
    "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"
    "MIME-Version: 1.0\r\n"
    'Content-Type: text/plain; charset="utf-8"\r\n'
)
BODY = "Thank you. \r\n\r\n  Two  blanks\tand a tab\t \r\n.\r\n\r\n\r\n"
MAIL = (HEADER + "\r\n" + BODY).encode()


def _pem(key: object, encryption: KeySerializationEncryption | None = None, kind: str = "PKCS8") -> str:
    return key.private_bytes(  # type: ignore[attr-defined]
        Encoding.PEM, getattr(PrivateFormat, kind), encryption or NoEncryption()
    ).decode()


@cache
def rsa_key(bits: int = 2048) -> str:
    return _pem(generate_rsa_key(65537, bits))


@cache
def ed25519_key() -> str:
    return _pem(Ed25519PrivateKey.generate())


KEYS = {"rsa": rsa_key, "ed25519": ed25519_key}


@pytest.fixture(params=KEYS)
def key(request: pytest.FixtureRequest) -> str:
    return KEYS[request.param]()


def field_of(mail: bytes, key: str, at: datetime = AT) -> bytes:
    return dkim.sign(Message.of(mail), domain=DOMAIN, selector=SELECTOR, private_key_pem=key, signed_at=at)


def signed(mail: bytes, key: str) -> bytes:
    return field_of(mail, key) + mail


def passes(mail: bytes, key: str) -> bool:
    """What dkimpy says."""
    records = {f"{SELECTOR}._domainkey.{DOMAIN}.".encode(): dkim.public_key_record(key).encode()}
    try:
        return bool(dkimpy.verify(mail, dnsfunc=lambda name, timeout=5: records.get(name)))
    except dkimpy.ValidationError:
        return False


#: Made with `openssl genrsa 768`, as cryptography makes none so short.
SHORT_RSA_KEY = """\
-----BEGIN PRIVATE KEY-----
MIIB5QIBADANBgkqhkiG9w0BAQEFAASCAc8wggHLAgEAAmEAo1pMUByogWJ4hxK3
VhC7gVlhrYOr5LUaMMZCTqw5pPxxHshay2ew6fmXNlGj0LE9DKbVD0XpY0L2GSW5
ZaJ/Z7LLMDmaOT+jh1sKTyw9Lk254o8/WeJNVrF5Bt3DUF/VAgMBAAECYClcaco3
F2t7VW1ODeHa5r8/tH3Mwy9rs6/54zwsW4Qs7y+OJ38tSBxWODVmwoXK+nSKV/2D
M5pMKkFoSqmjViJcwfpd0F4k1veXNdQJ3b7ZjR3V+36WE6KGjd9ijG2dQQIxANhk
bTKGpu1DdR+TQv3JiEHjl3VTrZEbHr27bCEhrH1Rj6sw1+btJFGZEvsOn/LxXQIx
AMFAk71Zg9lyHq3Q2Ws91RbE++WaoMlDBEWYIROKvPzGSx3dsHkSztqLQ408xGRo
2QIxAIiafUTUNDS7zQht0nCb9OSDZG2wsXVVBYcI9i3EMDu8bVHIt8MUGUVZuN28
UcTwEQIwSWZ5tuWVCrYpqOM2cWEe2nMfKeo9P7RQnw5VIdMETQ4T4dgd+x6FqsRS
eAaooWqhAjEAm0KgNZpjvZYic2sDUfhaox8vUoxi3bTL0DBcc1q8i0MISPyugYdM
JzEEtSGYstQ5
-----END PRIVATE KEY-----
"""


class Pieces:
    """A body as it may come from a file: in chunks of any length."""

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks
        self.size = sum(map(len, chunks))

    def chunks(self) -> Iterator[bytes]:
        yield from self._chunks


def test_dkimpy_verifies_what_was_signed_and_sees_every_change(key: str) -> None:
    mail = signed(MAIL, key)
    assert passes(mail, key)
    assert not passes(mail.replace(b"Thank", b"thank"), key)
    assert not passes(mail.replace(b"Your", b"Our"), key)
    assert not passes(mail.replace(b"unsubscribe/abc", b"unsubscribe/abd"), key)
    assert not passes(mail, KEYS["rsa"]() if key == ed25519_key() else _pem(generate_rsa_key(65537, 1024)))


def test_what_relays_may_do_to_blanks_and_folds_does_no_harm(key: str) -> None:
    mail = signed(MAIL, key)
    assert passes(mail.replace(b",\r\n\tben@", b", ben@").replace(b"To: ", b"TO:  "), key)
    assert passes(mail.replace(b"Two  blanks\tand", b"Two blanks and") + b"\r\n\r\n", key)
    assert passes(b"Received: from a by b; Sun, 01 Mar 2026 09:05:08 +0000\r\n" + mail, key)


@pytest.mark.parametrize("name", FROZEN)
def test_nobody_can_add_a_field_that_readers_are_shown(name: str, key: str) -> None:
    mail = signed(MAIL, key)
    assert not passes(f"{name}: x\r\n".encode() + mail, key)
    assert not passes(mail.replace(b"\r\n\r\n", f"\r\n{name}: x\r\n\r\n".encode(), 1), key)


def test_both_unsubscribe_fields_are_covered_and_no_second_pair_can_be_added(key: str) -> None:  # RFC 8058, 4
    mail = signed(MAIL, key)
    for line in (
        b"List-Unsubscribe: <https://mail.example/hooks/unsubscribe/abc>\r\n",
        b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
    ):
        assert not passes(mail.replace(line, b""), key)
        assert not passes(line + mail, key)


def test_a_field_that_the_mail_has_not_may_be_added_where_lists_do(key: str) -> None:
    mail = signed(MAIL, key)
    assert passes(b"List-Id: <news.example>\r\n" + mail, key)


def test_the_signature_is_the_same_for_every_attempt_and_says_when_the_mail_was_prepared(key: str) -> None:
    field = field_of(MAIL, key)
    assert field == field_of(MAIL, key)
    tags = dkimpy.util.parse_tag_value(field.partition(b":")[2])
    assert tags[b"t"] == str(int(AT.timestamp())).encode()
    assert (tags[b"d"], tags[b"s"], tags[b"c"]) == (DOMAIN.encode(), SELECTOR.encode(), b"relaxed/relaxed")
    # A length would let anybody add to the body (RFC 6376, 8.2).
    assert b"l" not in tags


def test_the_field_is_folded_within_78_characters_and_its_names_stay_whole(key: str) -> None:
    field = field_of(MAIL, key)
    assert field.startswith(b"DKIM-Signature: v=1; a=")
    assert field.endswith(b"\r\n")
    lines = field[:-2].split(b"\r\n")
    assert max(map(len, lines)) <= 78
    assert all(line.startswith(b" ") for line in lines[1:])


def test_long_names_stay_whole() -> None:
    long = ".".join(["d" * 60] * 4)
    selector = "s" * 63
    field = dkim.sign(Message.of(MAIL), domain=long, selector=selector, private_key_pem=ed25519_key(), signed_at=AT)
    assert f"d={long};".encode() in field
    assert f"s={selector};".encode() in field


@pytest.mark.parametrize("bits", [1024, 3072])
def test_rsa_keys_of_any_allowed_size_sign_in_both_forms(bits: int) -> None:
    key = generate_rsa_key(65537, bits)
    for kind in ("PKCS8", "TraditionalOpenSSL"):
        pem = _pem(key, kind=kind)
        assert passes(signed(MAIL, pem), pem)
        assert signed(MAIL, pem.replace("\n", "\r\n")) == signed(MAIL, pem)
    dkim.check(domain=DOMAIN, selector=SELECTOR, private_key_pem=pem)


def test_public_key_and_body_hash_are_those_that_rfc_8463_prints() -> None:
    """Appendices A.1 to A.3."""
    secret = base64.b64decode("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=")
    pem = _pem(Ed25519PrivateKey.from_private_bytes(secret))
    assert dkim.public_key_record(pem) == "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
    body = b"Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n"
    field = field_of(b"From: a@b.example\r\n\r\n" + body, pem)
    assert dkimpy.util.parse_tag_value(field.partition(b":")[2])[b"bh"].replace(b" ", b"") == (
        b"2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8="
    )


LINE_PIECES = st.sampled_from([b" ", b"  ", b"\t", b" \t ", b"a", b"bc", b"=20", b"\xc3\xa9", b"."])
BODIES = st.lists(st.lists(LINE_PIECES, max_size=6).map(b"".join), max_size=12).map(
    lambda lines: b"".join(line + b"\r\n" for line in lines)
)


@given(body=BODIES, cuts=st.lists(st.integers(min_value=0, max_value=120), max_size=8))
@example(body=b"", cuts=[])
@example(body=b"\r\n\r\n \r\n", cuts=[1, 3])
@example(body=b"a\r\n\r\n\r\nb\r\n\r\n", cuts=[2, 4])
def test_the_body_hash_is_that_of_the_whole_body_wherever_it_is_cut(body: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    pieces = [body[start:end] for start, end in pairwise(places)]
    message = Message((b"From: a@b.example\r\n\r\n", Pieces(pieces)))
    field = dkim.sign(message, domain=DOMAIN, selector=SELECTOR, private_key_pem=ed25519_key(), signed_at=AT)
    found = dkimpy.util.parse_tag_value(field.partition(b":")[2])[b"bh"].replace(b" ", b"")
    assert found == base64.b64encode(hashlib.sha256(Relaxed.canonicalize_body(body)).digest())


@pytest.mark.parametrize("end", range(1, 8))
def test_the_end_of_the_header_may_be_cut_anywhere(end: int) -> None:
    place = MAIL.index(b"\r\n\r\n") + end - 2
    message = Message((MAIL[:place], MAIL[place:]))
    field = dkim.sign(message, domain=DOMAIN, selector=SELECTOR, private_key_pem=ed25519_key(), signed_at=AT)
    assert field == field_of(MAIL, ed25519_key())


def test_a_large_mail_is_signed_without_being_held() -> None:
    line = b"x" * 76 + b"\r\n"
    chunk = line * 800

    class Large:
        size = len(chunk) * 320

        def chunks(self) -> Iterator[bytes]:
            for _ in range(320):
                yield chunk

    message = Message((b"From: a@b.example\r\n\r\n", Large()))
    assert message.size > 19_000_000
    sign = {"domain": DOMAIN, "selector": SELECTOR, "private_key_pem": ed25519_key(), "signed_at": AT}
    dkim.sign(Message.of(MAIL), **sign)  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        dkim.sign(message, **sign)  # type: ignore[arg-type]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2_000_000


def test_what_mime_builds_verifies_non_ascii_names_and_all(key: str) -> None:
    content = mime.MailContent(
        message_id="<17.9f3c@shop.example>",
        date=AT,
        from_address="shop@shop.example",
        from_name="Bücher & Größen",
        to=["Ann Übel <ann@example.com>", "büro@example.com"],
        subject="Ihre Bestellung über 漢字 " * 8,
        body_mode=BodyMode.HTML_WITH_AUTHORED_PLAIN,
        body_html="<p>Grüße</p>\n" * 50,
        body_text="Grüße\n" * 50,
        headers={"References": "<a@b> <c@d>"},
    )
    message = mime.build(content)
    field = dkim.sign(message, domain=DOMAIN, selector=SELECTOR, private_key_pem=key, signed_at=AT)
    mail = b"".join(message.after(field).chunks())
    assert passes(mail, key)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: _pem(generate_rsa_key(65537, 512 * 2)).replace("M", "N", 3), "is no private key"),
        (lambda: "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "is no private key"),
        (lambda: "c2VjcmV0", "is no private key"),
        (lambda: "", "is no private key"),
        (lambda: "sécret \0", "is no private key"),
        (lambda: _pem(Ed25519PrivateKey.generate(), BestAvailableEncryption(b"x")), "protected by a passphrase"),
        (lambda: _pem(generate_private_key(SECP256R1())), "neither an RSA nor an Ed25519 key"),
        (lambda: SHORT_RSA_KEY, "an RSA key of 768 bits; allowed: 1024"),
    ],
)
def test_a_key_that_cannot_sign_is_named_and_not_shown(make: object, reason: str) -> None:
    pem = make()  # type: ignore[operator]
    for refused in (
        lambda: field_of(MAIL, pem),
        lambda: dkim.check(domain=DOMAIN, selector=SELECTOR, private_key_pem=pem),
        lambda: dkim.public_key_record(pem),
    ):
        with pytest.raises(DkimConfigError, match=reason) as error:
            refused()
        assert error.value.column == "dkim_private_key"
        assert error.value.__cause__ is None
        for line in pem.split("\n"):
            assert not line or line not in str(error.value)


@pytest.mark.parametrize(
    "name", ["", "a b", "shop.example\r\nX: y", "büro.example", "a..b", "-a.example", "s;t", "a" * 64]
)
def test_a_domain_or_a_selector_that_is_no_host_name_is_refused(name: str) -> None:
    given = {"private_key_pem": ed25519_key(), "signed_at": AT}
    with pytest.raises(DkimConfigError, match="dkim_domain is "):
        dkim.sign(Message.of(MAIL), domain=name, selector=SELECTOR, **given)  # type: ignore[arg-type]
    with pytest.raises(DkimConfigError, match="dkim_selector is "):
        dkim.sign(Message.of(MAIL), domain=DOMAIN, selector=name, **given)  # type: ignore[arg-type]
