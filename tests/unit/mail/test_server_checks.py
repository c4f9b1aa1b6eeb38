"""What a mail server's configuration may hold: each refusal names field and value, and no secret."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from messaging.db.encryption import use_keys
from messaging.errors import ConfigRejected
from messaging.mail.server_checks import check_together, checked


def pem(key: Any) -> str:
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


ED25519 = pem(ed25519.Ed25519PrivateKey.generate())
DKIM = {"dkim_domain": "example.org", "dkim_selector": "s1", "dkim_private_key": ED25519}

WHOLE: dict[str, Any] = {
    "protocol": "SMTP",
    "ssl_enabled": False,
    "starttls_enabled": True,
    "username": "shop@example.org",
    "from_address": None,
    "envelope_sender": None,
    "verp": False,
    "dkim_domain": None,
    "dkim_selector": None,
    "dkim_private_key": None,
}


@pytest.fixture(autouse=True)
def _keys(secrets_key: str) -> None:
    use_keys((secrets_key,))


@pytest.mark.parametrize(
    ("field", "given", "stored"),
    [
        ("name", "  Out ", "Out"),
        ("description", " ", None),
        ("host", "Mail.Example.COM.", "mail.example.com"),
        ("host", "mail_server", "mail_server"),
        ("host", "bücher.example", "xn--bcher-kva.example"),
        ("host", "192.0.2.1", "192.0.2.1"),
        ("host", "[2001:db8::1]", "2001:db8::1"),
        ("port", 65535, 65535),
        ("username", "", None),
        ("password", " p w ", " p w "),
        ("password", "", None),
        ("from_address", "Shop <shop@example.org>", "Shop <shop@example.org>"),
        ("reply_to_address", "a@x.com; b@y.com", "a@x.com, b@y.com"),
        ("daily_send_limit", 0, 0),
        ("rate_limit_per_minute", None, None),
        ("sequence", -1, -1),
    ],
)
def test_a_field_is_stored_trimmed_and_a_blank_one_as_none(field: str, given: object, stored: object) -> None:
    assert checked({field: given}) == {field: stored}


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("name", " "),
        ("name", None),
        ("name", "x" * 101),
        ("name", "a\nb"),
        ("name", 5),
        ("description", "x" * 501),
        ("protocol", "HTTP"),
        ("host", ""),
        ("host", "mail.example.com:25"),
        ("host", "smtp://mail.example.com"),
        ("host", "mail server"),
        ("host", "-mail.example.com"),
        ("host", "mail..example.com"),
        ("host", "x" * 64),
        ("port", 0),
        ("port", 65_536),
        ("port", "25"),
        ("port", True),
        ("ssl_enabled", None),
        ("from_address", "shop"),
        ("from_address", "a@example.org, b@example.org"),
        ("from_name", "x" * 101),
        ("reply_to_address", "support@, broken"),
        ("envelope_sender", "bounces@"),
        ("daily_send_limit", -1),
        ("rate_limit_per_minute", 2**31),
        ("rate_limit_per_minute", 1.5),
        ("dkim_domain", "exa mple.org"),
        ("dkim_selector", "s_1"),
        ("sequence", None),
    ],
)
def test_a_field_that_cannot_be_used_is_refused_by_name_and_value(field: str, given: object) -> None:
    with pytest.raises(ConfigRejected, match=field) as refused:
        checked({field: given})
    assert (refused.value.field, refused.value.value) == (field, given)
    assert str(given)[:50] in str(refused.value).encode().decode("unicode_escape")


def test_a_field_that_is_none_is_a_programming_error() -> None:
    with pytest.raises(TypeError, match="tenant_id"):
        checked({"tenant_id": 7})


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"ssl_enabled": True}, "starttls_enabled"),
        ({"protocol": "SMTPS"}, "starttls_enabled"),
        ({"username": None}, "from_address"),
        ({"username": "apikey"}, "from_address"),
        ({"verp": True, "envelope_sender": "x" * 36 + "@example.org"}, "verp"),
        ({"dkim_domain": "example.org"}, "dkim_selector"),
        ({**DKIM, "dkim_private_key": None}, "dkim_private_key"),
        ({**DKIM, "dkim_domain": None, "dkim_private_key": True}, "dkim_domain"),
        ({**DKIM, "dkim_private_key": "no key"}, "dkim_private_key"),
        ({**DKIM, "dkim_private_key": pem(ec.generate_private_key(ec.SECP256R1()))}, "dkim_private_key"),
    ],
)
def test_what_does_not_fit_together_is_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigRejected, match=field) as refused:
        check_together(WHOLE | changed)
    assert refused.value.field == field
    secret = changed.get("dkim_private_key")
    if isinstance(secret, str):
        assert refused.value.value is None
        assert secret[:20] not in str(refused.value)


def test_an_rsa_key_that_is_too_short_is_refused() -> None:
    weak = (
        "-----BEGIN RSA PRIVATE KEY-----\n"
        "MIIBOwIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\n"
        "KUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQJAIJLixBy2qpFoS4DSmoEm\n"
        "o3qGy0t6z09AIJtH+5OeRV1be+N4cDYJKffGzDa88vQENZiRm0GRq6a+HPGQMd2k\n"
        "TQIhAKMSvzIBnni7ot/OSie2TmJLY4SwTQAevXysE2RbFDYdAiEBCUEaRQnMnbp7\n"
        "9mxDXDf6AU0cN/RPBjb9qSHDcWZHGzUCIG2Es59z8ugGrDY+pxLQnwfotadxd+Uy\n"
        "v/Ow5T0q5gIJAiEAyS4RaI9YG8EWx/2w0T67ZUVAw8eOMB6BIUg0Xcu+3okCIBOs\n"
        "/5OiPgoTdSy7bcF9IGpSE8ZgGKzgYQVZeN97YE00\n"
        "-----END RSA PRIVATE KEY-----\n"
    )
    with pytest.raises(ConfigRejected, match="dkim_private_key"):
        check_together(WHOLE | DKIM | {"dkim_private_key": weak})


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"starttls_enabled": False, "ssl_enabled": True, "protocol": "SMTPS"},
        {"username": "apikey", "from_address": "shop@example.org"},
        {"verp": True, "envelope_sender": "x" * 35 + "@example.org"},
        DKIM,
        {**DKIM, "dkim_private_key": pem(rsa.generate_private_key(65537, 1024))},
        {**DKIM, "dkim_private_key": True},
    ],
)
def test_what_fits_together_passes(changed: dict[str, Any]) -> None:
    check_together(WHOLE | changed)
