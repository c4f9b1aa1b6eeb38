"""Secrets and signatures of webhooks, held to the standard's own example and library."""

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from messaging.webhooks.signing import check_secret, new_secret, signed_headers

#: The example that the library of the standard is tested with.
SECRET, EVENT_ID, AT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
BODY, SIGNATURE = '{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_signature_is_that_of_the_standard() -> None:
    headers = signed_headers([SECRET], EVENT_ID, BODY, at=datetime.fromtimestamp(AT, UTC))
    assert headers == {
        "webhook-id": EVENT_ID,
        "webhook-timestamp": str(AT),
        "webhook-signature": SIGNATURE,
    }


def test_each_key_signs() -> None:
    keys = [new_secret(), new_secret()]
    headers = signed_headers(keys, "evt_1", '{"a":"ü"}', at=datetime.now(UTC))
    for key in keys:
        assert Webhook(key).verify('{"a":"ü"}', headers) == {"a": "ü"}


def test_secrets_differ_and_are_long() -> None:
    made = {new_secret() for _ in range(20)}
    assert len(made) == 20
    for secret in made:
        check_secret(secret)


@pytest.mark.parametrize(
    "secret",
    [
        *("", "whsec_", "secret", "whsec_short", "whsec_ä" * 8, base64.b64encode(b"x" * 32).decode()),
        *("whsec_" + base64.b64encode(b"x" * octets).decode() for octets in (23, 65)),
    ],
    ids=str,
)
def test_what_is_no_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(ValueError, match="allowed") as raised:
        check_secret(secret)
    assert not secret.removeprefix("whsec_") or secret.removeprefix("whsec_") not in str(raised.value)
