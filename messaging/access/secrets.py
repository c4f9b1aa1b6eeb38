"""The secrets by which callers are known: made at random, shown once, kept as a hash."""

import base64
import hashlib
import secrets

#: Octets at random: nobody guesses one, so that its hash needs no salt and no slowness.
_OCTETS = 32


def make() -> str:
    """A new secret, URL-safe."""
    return base64.urlsafe_b64encode(secrets.token_bytes(_OCTETS)).decode().rstrip("=")


def hashed(secret: str) -> str:
    """What is stored: SHA-256 in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()
