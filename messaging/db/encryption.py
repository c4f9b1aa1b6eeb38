"""Credentials at rest: a column type that encrypts with the first key and decrypts with any (Fernet); and MACs.

The keys are handed in once per process by `use_keys`; a value stays a ciphertext until it is read through the ORM or
`decrypt`. What is signed for the outside (addresses, links) uses keys derived from the same list (RFC 5869).
"""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from messaging.errors import ConfigurationError


class CredentialUnreadable(Exception):
    """A stored secret cannot be decrypted with any key in use. Says nothing of the secret."""


class MacPurpose(StrEnum):
    """What a MAC is for: each has keys of its own. A value that changes makes what was signed before unreadable."""

    #: The record id in an envelope sender.
    VERP = "verp"
    #: The token of an unsubscribe link.
    UNSUBSCRIBE = "unsubscribe"


class _KeyRing:
    """The keys of a process, for both uses."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.fernet = MultiFernet([Fernet(key) for key in keys])
        secrets = [base64.urlsafe_b64decode(key) for key in keys]
        self.mac_keys = {purpose: [_derived(secret, purpose) for secret in secrets] for purpose in MacPurpose}


def _derived(secret: bytes, purpose: MacPurpose) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=b"messaging mac " + purpose.encode()).derive(secret)


_keys: _KeyRing | None = None


def use_keys(keys: tuple[str, ...]) -> None:
    """Set the keys of this process: the first encrypts and signs, all decrypt and verify."""
    global _keys
    _keys = _KeyRing(keys)


@contextmanager
def keys_put_back() -> Iterator[None]:
    """After the block the keys of before it are in use again, whatever was said within."""
    global _keys
    before = _keys
    try:
        yield
    finally:
        _keys = before


def _key_ring() -> _KeyRing:
    if _keys is None:
        raise ConfigurationError(
            "no encryption key is in use; call messaging.configure() or set MESSAGING_SECRETS_KEYS"
        )
    return _keys


def mac(purpose: MacPurpose, message: bytes, *, octets: int) -> bytes:
    """The first `octets` (1 to 32) of the HMAC-SHA-256 of `message`, by the key derived from the first key in use."""
    return _hmac(_key_ring().mac_keys[purpose][0], message, octets)


def is_mac(given: bytes, purpose: MacPurpose, message: bytes, *, octets: int) -> bool:
    """Whether `given` is what `mac` answers with any key in use. Takes as long for a wrong one as for a right one."""
    is_right = False
    for key in _key_ring().mac_keys[purpose]:
        is_right |= hmac.compare_digest(_hmac(key, message, octets), given)
    return is_right


def _hmac(key: bytes, message: bytes, octets: int) -> bytes:
    if not 1 <= octets <= hashlib.sha256().digest_size:
        raise ValueError(f"a MAC of {octets} octets")
    return hmac.digest(key, message, "sha256")[:octets]


def encrypt(secret: str) -> str:
    """The ciphertext to store."""
    return _key_ring().fernet.encrypt(secret.encode()).decode("ascii")


def decrypt(ciphertext: str) -> str:
    """The secret.

    Raises: CredentialUnreadable.
    """
    try:
        return _key_ring().fernet.decrypt(ciphertext.encode()).decode()
    except (InvalidToken, UnicodeError) as exc:
        raise CredentialUnreadable("a stored credential cannot be decrypted with any key of SECRETS_KEYS") from exc


class Encrypted(TypeDecorator[str]):
    """Text that is stored encrypted. Ciphertexts are longer than their secrets and differ each time."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else encrypt(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:
        return None if value is None else decrypt(value)
