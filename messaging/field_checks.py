"""Checks of the single fields of a configuration; each answers the value as it is stored, or says what is allowed.

What must fit together, and what a field means, is known where the configuration is.
"""

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import idna

from messaging.errors import ConfigRejected

#: Answers the value to store. Raises ValueError with the reason against it.
Check: TypeAlias = Callable[[Any], Any]

#: Largest value of an integer column.
MAX_NUMBER = 2**31 - 1
MAX_PORT = 65_535

#: Underscores are in no host name (RFC 1123), but in names that containers are called by.
HOST_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
#: Half a character, which UTF-8 cannot hold.
_SURROGATE = re.compile("[\ud800-\udfff]")


def checked(
    given: Mapping[str, Any], checks: Mapping[str, Check], *, what: str, secrets: Collection[str]
) -> dict[str, Any]:
    """The fields as they are stored; a refused secret is not repeated.

    Raises: ConfigRejected, naming the field; TypeError for a field that `what` has none of.
    """
    stored: dict[str, Any] = {}
    for field, value in given.items():
        if field not in checks:
            raise TypeError(f"{what} has no field {field!r}; it has {', '.join(checks)}")
        try:
            stored[field] = checks[field](value)
        except ValueError as exc:
            raise ConfigRejected(field, value, str(exc), is_secret=field in secrets) from exc
    return stored


def text(max_chars: int, *, is_required: bool = False) -> Callable[[Any], str | None]:
    """A line of text, trimmed; a blank one is None."""

    def check(value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ValueError("allowed: text")
        line = (value or "").strip()
        if _CONTROL.search(line):
            raise ValueError("allowed: no control characters")
        if _SURROGATE.search(line):
            raise ValueError("allowed: whole characters, and it has half of one")
        if len(line) > max_chars:
            raise ValueError(f"it has {len(line)} characters; allowed: {max_chars}")
        if is_required and not line:
            raise ValueError("it is required")
        return line or None

    return check


def secret(max_chars: int | None = None) -> Callable[[Any], str | None]:
    """A secret, as it is given; an empty one is None."""

    def check(value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ValueError("is no text")
        if "\0" in (value or "") or _SURROGATE.search(value or ""):
            raise ValueError("holds what no secret can")
        if max_chars is not None and len(value or "") > max_chars:
            raise ValueError(f"allowed: {max_chars} characters")
        return value or None

    return check


def number(low: int, high: int, *, is_required: bool = True) -> Callable[[Any], int | None]:
    """A whole number within bounds; None where it is not required."""

    def check(value: Any) -> int | None:
        if value is None and not is_required:
            return None
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"allowed: {low} to {high}" + ("" if is_required else ", or none"))
        return value

    return check


def switch(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError("allowed: True or False")
    return value


def one_of(*allowed: str) -> Callable[[Any], str]:
    """One of these texts."""

    def check(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"allowed: {', '.join(allowed)}")
        return str(value)

    return check


def host(value: Any) -> str:
    """A host name in lower case, as A-labels, or an IP address without brackets; required."""
    given = text(255, is_required=True)(value) or ""
    try:
        return str(ipaddress.ip_address(given.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    name = given.lower().removesuffix(".")
    if not name.isascii():
        try:
            name = idna.encode(name).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            raise ValueError("allowed: a host name or an IP address") from None
    if not HOST_NAME.fullmatch(name):
        raise ValueError("allowed: a host name or an IP address, without scheme and port")
    return name
