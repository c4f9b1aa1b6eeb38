"""Passwords of operators: Argon2id (RFC 9106), slow on purpose, so that a stolen table tells none."""

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from messaging.errors import ConfigRejected, PasswordsBusy

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_CHARS = 12
#: What is longer is no password, but work for us.
MAX_CHARS = 256

#: Hashes at once: each takes 64 MiB.
_HASHING = threading.BoundedSemaphore(2)
#: Callers at once, those who wait for their turn among them: each holds a thread, and who is not signed in may call.
MAX_CALLERS = 6
_CALLERS = threading.BoundedSemaphore(MAX_CALLERS)


@lru_cache(maxsize=1)
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # of the extra `web`; the library itself has no operators

    return PasswordHasher()


def hashed(password: str, *, user_name: str) -> str:
    """What is stored.

    Raises:
        ConfigRejected: It is too short, too long, or the name itself.
        PasswordsBusy: As many are being looked at as may be.
    """
    text = _normal(password)
    if not MIN_CHARS <= len(text) <= MAX_CHARS:
        raise ConfigRejected("password", None, f"has to have {MIN_CHARS} to {MAX_CHARS} characters", is_secret=True)
    if text.casefold() == user_name.casefold():
        raise ConfigRejected("password", None, "is the user name", is_secret=True)
    with _turn():
        return _hasher().hash(text)


def is_right(password_hash: str | None, password: str) -> bool:
    """Whether a password is the one that was hashed. Takes as long where there is no hash: who is unknown stays so.

    Raises: PasswordsBusy.
    """
    from argon2.exceptions import InvalidHashError, VerificationError

    text = _normal(password)
    with _turn():
        known = password_hash or _nobodys()
        try:
            _hasher().verify(known, text[: MAX_CHARS + 1])
        except (VerificationError, InvalidHashError):
            return False
    return password_hash is not None and len(text) <= MAX_CHARS


def is_outdated(password_hash: str) -> bool:
    """Whether it was hashed with other parameters than those of today."""
    return _hasher().check_needs_rehash(password_hash)


@contextmanager
def _turn() -> Iterator[None]:
    """One of those who hash. Raises: PasswordsBusy, rather than let one more thread wait."""
    if not _CALLERS.acquire(blocking=False):
        raise PasswordsBusy
    try:
        with _HASHING:
            yield
    finally:
        _CALLERS.release()


@lru_cache(maxsize=1)
def _nobodys() -> str:
    return _hasher().hash("the password of nobody")


def _normal(password: str) -> str:
    """The same characters however a keyboard composes them (NIST SP 800-63B, section 3.1.1.2)."""
    return unicodedata.normalize("NFKC", password.encode("utf-8", "replace").decode())
