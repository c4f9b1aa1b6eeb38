"""Variables as a caller gives them, checked and written as JSON: what PostgreSQL can hold, the order of keys kept.

Nothing is converted silently: a number as a key, NaN or a date would come back as something else.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from messaging.errors import MessageRejected

#: Levels of objects and arrays within each other.
MAX_DEPTH = 100

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class VariableError(ValueError):
    """A value that cannot be kept; `path` names it, e.g. `order.lines[2].price`, and is empty for the whole."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} {reason}".strip())


def to_json(variables: Mapping[str, Any]) -> str:
    """The variables as a JSON object.

    Raises: VariableError, for what JSON has no form for and for text that no database column takes.
    """
    plain = _plain(variables, "", [])
    if not isinstance(plain, dict):
        raise VariableError("", "is not a mapping")
    return _to_json(plain)


def as_kept(variables: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    """The variables as a record would keep them, which is what a send renders: a tuple is a list by then.

    Raises: MessageRejected, naming `what`, when they cannot be kept.
    """
    try:
        kept: dict[str, Any] = json.loads(to_json(variables or {}))
    except VariableError as exc:
        raise MessageRejected(what, "variables", exc.path, exc.reason) from exc
    return kept


def value_text(value: Any) -> str:
    """A value for whoever takes texts only: a text as it is, nothing as an empty one, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _to_json(value)


def _plain(value: Any, path: str, within: list[int]) -> Any:
    """A value of exact JSON types; `within` are the ids of what it stands in."""
    match value:
        case None | True | False:
            return value
        case str():
            return _text(value, path)
        case int():
            return _number(value, path)
        case float():
            if not math.isfinite(value):
                raise VariableError(path, "is no finite number")
            return float(value)
        case Mapping() | list() | tuple():
            if id(value) in within:
                raise VariableError(path, "contains itself")
            if len(within) >= MAX_DEPTH:
                raise VariableError(path, f"is nested deeper than {MAX_DEPTH} levels")
            within.append(id(value))
            try:
                if isinstance(value, Mapping):
                    return {_key(key, path): _plain(item, _below(path, key), within) for key, item in value.items()}
                return [_plain(item, f"{path}[{position}]", within) for position, item in enumerate(value)]
            finally:
                within.pop()
        case _:
            raise VariableError(path, f"is {type(value).__name__}, for which JSON has no form")


def _below(path: str, key: object) -> str:
    return f"{path}.{key}" if path else f"{key}"


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise VariableError(path, f"has a key that is {type(key).__name__}, not text")
    return _text(key, path)


def _text(text: str, path: str) -> str:
    plain = str.__str__(text)
    if "\x00" in plain:
        raise VariableError(path, "holds a NUL character")
    if not plain.isascii():
        try:
            plain.encode()
        except UnicodeEncodeError as exc:
            raise VariableError(path, "holds a lone surrogate, which is no character") from exc
    return plain


def _number(number: int, path: str) -> int:
    plain = int(number)
    try:
        str(plain)
    except ValueError as exc:  # over 4,300 digits by default
        raise VariableError(path, "is a number of too many digits") from exc
    return plain
