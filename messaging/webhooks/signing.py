"""Secrets of endpoints, and the headers by which an application knows that an event is ours (Standard Webhooks).

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md.
"""

import base64
import binascii
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from standardwebhooks import Webhook

#: What a secret begins with.
PREFIX = "whsec_"
#: Octets of a secret that we make, and of one that is given.
SECRET_OCTETS, MIN_OCTETS, MAX_OCTETS = 32, 24, 64


def new_secret() -> str:
    """A secret nobody else has."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_OCTETS)).decode("ascii")


def check_secret(secret: str) -> None:
    """Refuse what is no secret of the standard. Raises: ValueError, which does not repeat it."""
    try:
        octets = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        octets = b""
    if not secret.startswith(PREFIX) or not MIN_OCTETS <= len(octets) <= MAX_OCTETS:
        raise ValueError(f"allowed: {PREFIX} and the base64 of {MIN_OCTETS} to {MAX_OCTETS} octets")


def signed_headers(keys: Sequence[str], event_id: str, body: str, *, at: datetime) -> dict[str, str]:
    """The three headers; one signature for each key, so that an application may know either while one is replaced.

    `event_id` is the same for each attempt, `at` is the attempt's time.
    """
    moment = at.astimezone(UTC)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": " ".join(Webhook(key).sign(event_id, moment, body) for key in keys),
    }
