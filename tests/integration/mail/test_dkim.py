"""DKIM signatures before a verifier that shares nothing with what signs: Perl's Mail::DKIM (RSA; RFC 6376)."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from messaging.mail import dkim, mime
from messaging.requests import BodyMode
from tests.far_end import dkim_verifier

AT = datetime(2026, 3, 1, 9, 5, 7, tzinfo=UTC)
DOMAIN, SELECTOR = "shop.example", "s2026"


@pytest.fixture(scope="module", params=[1024, 2048])
def key(request: pytest.FixtureRequest) -> str:
    made = generate_private_key(65537, request.param)
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def signed(key: str) -> bytes:
    message = mime.build(
        mime.MailContent(
            message_id="<17.9f3c@shop.example>",
            date=AT,
            from_address="shop@shop.example",
            from_name="Bücher & Größen",
            to=["Ann Übel <ann@example.com>", "ben@example.com"],
            subject="Ihre Bestellung über 漢字 " * 8,
            body_mode=BodyMode.HTML_WITH_AUTHORED_PLAIN,
            body_html="<p>Grüße</p>  \n" * 50,
            body_text="Two  blanks \n\n.\n\n\n",
        )
    )
    field = dkim.sign(message, domain=DOMAIN, selector=SELECTOR, private_key_pem=key, signed_at=AT)
    return b"".join(message.after(field).chunks())


@pytest.fixture
def verdicts(key: str) -> Callable[..., list[str]]:
    """What the verifier says of each mail."""

    def verify(*mails: bytes) -> list[str]:
        record = dkim.public_key_record(key)
        return [dkim_verifier.verify(mail, domain=DOMAIN, selector=SELECTOR, record=record) for mail in mails]

    return verify


def test_the_verifier_passes_what_was_sent(signed: bytes, verdicts: Callable[..., Sequence[str]]) -> None:
    refolded = signed.replace(b",\r\n ben@", b", ben@")
    received = b"Received: from a by b; Sun, 01 Mar 2026 09:05:08 +0000\r\n" + signed + b"\r\n"
    assert verdicts(signed, refolded, received) == ["pass"] * 3


def test_the_verifier_fails_what_was_changed(signed: bytes, verdicts: Callable[..., Sequence[str]]) -> None:
    assert verdicts(
        signed.replace(b"Two", b"One"),
        signed.replace(b"ann@", b"eve@"),
        b"Subject: another\r\n" + signed,
        signed.replace(b"\r\n\r\n", b"\r\nReply-To: eve@example.com\r\n\r\n", 1),
    ) == ["fail (body has been altered)", *["fail (message has been altered)"] * 3]
