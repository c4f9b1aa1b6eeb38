"""Credentials at rest: a column type that encrypts with the first key and decrypts with any (Fernet).

The keys are handed in once per process by `use_keys`; a value stays a ciphertext until it is read through the ORM or
`decrypt`.
"""

from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from messaging.errors import ConfigurationError


class CredentialUnreadable(Exception):
    """A stored secret cannot be decrypted with any key in use. Says nothing of the secret."""


_keys: MultiFernet | None = None


def use_keys(keys: tuple[str, ...]) -> None:
    """Set the keys of this process: the first encrypts, all decrypt."""
    global _keys
    _keys = MultiFernet([Fernet(key) for key in keys])


def _multi_fernet() -> MultiFernet:
    if _keys is None:
        raise ConfigurationError(
            "no encryption key is in use; call messaging.configure() or set MESSAGING_SECRETS_KEYS"
        )
    return _keys


def encrypt(secret: str) -> str:
    """The ciphertext to store."""
    return _multi_fernet().encrypt(secret.encode()).decode("ascii")


def decrypt(ciphertext: str) -> str:
    """The secret.

    Raises: CredentialUnreadable.
    """
    try:
        return _multi_fernet().decrypt(ciphertext.encode()).decode()
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
