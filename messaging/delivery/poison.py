"""What of a message that no worker could process goes into the dead-letter store: its body and whom it names. Pure."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: Longest stored payload, as JSON text in UTF-8; a longer body is cut to what fits.
MAX_PAYLOAD_BYTES = 256 * 1024

#: Largest bigint: a larger number is no id.
_MAX_ID = 2**63 - 1


class PoisonType(StrEnum):
    """`event_type` of a dead letter from the broker."""

    #: The body cannot be decoded, or the message is no task at all.
    UNDECODABLE = "UNDECODABLE"
    #: A content type that is not accepted, a missing header, arguments that do not fit.
    INVALID_TASK = "INVALID_TASK"
    #: No task of this name.
    UNKNOWN_TASK = "UNKNOWN_TASK"
    #: A bug: the task raised something nobody foresaw.
    TASK_RAISED = "TASK_RAISED"
    #: A message that was redelivered too often, since it ends its worker.
    WORKER_LOST = "WORKER_LOST"


@dataclass(frozen=True, kw_only=True)
class PoisonMessage:
    """One message that no worker could process."""

    type: PoisonType
    queue: str
    #: As it came: bytes or text, or decoded arguments.
    body: Any
    #: What was raised, in words.
    error: str
    task_name: str | None = None
    task_id: str | None = None
    worker_name: str | None = None
    #: Whether what it asks for is lost without this message, so that it is archived even beside another like it.
    is_only_copy: bool = False


def storable_payload(body: Any) -> Any:
    """`body` as JSON that a jsonb column takes, never None.

    Bytes that are not UTF-8 become `{"base64": ...}`; text that is not JSON becomes a JSON string. NUL is removed, lone
    surrogates are replaced, and what is over the limit is cut and kept as text.
    """
    if isinstance(body, bytes | bytearray | memoryview):
        raw = bytes(body)
        try:
            body = raw.decode()
        except UnicodeDecodeError:
            # The object's braces, key and quotes take 14 bytes, and base64 four for three.
            return {"base64": base64.b64encode(raw[: (MAX_PAYLOAD_BYTES - 14) // 4 * 3]).decode()}
    if isinstance(body, str):
        text = body
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            return _cut(_clean_text(text))
    else:
        text = repr(body)
    try:
        cleaned = _clean(body)
        size = len(json.dumps(cleaned, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError):
        # Not JSON after all: NaN, or an argument of a type of its own.
        return _cut(_clean_text(text))
    if cleaned is None:
        return "null"
    return cleaned if size <= MAX_PAYLOAD_BYTES else _cut(_clean_text(text))


def find_record_id(payload: Any) -> int | None:
    """The record id among the arguments: `record_id` by name, else the first one; number or numeric string."""
    for mapping in _mappings(payload):
        found = _as_id(mapping.get("record_id"))
        if found is not None:
            return found
    return _first_argument(_positional(payload))


def find_tenant_id(payload: Any) -> int | None:
    """A `tenant_id` that the message names itself."""
    for mapping in _mappings(payload):
        found = _as_id(mapping.get("tenant_id"), minimum=-1)
        if found is not None:
            return found
    return None


def clean_error(text: str, limit: int) -> str:
    """An exception's text as a text column takes it."""
    return _clean_text(text)[:limit]


def _clean(value: Any) -> Any:
    match value:
        case str():
            return _clean_text(value)
        case Mapping():
            return {_clean_text(str(key)): _clean(item) for key, item in value.items()}
        case list() | tuple():
            return [_clean(item) for item in value]
        case _:
            return value


def _clean_text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _cut(text: str) -> str:
    """As much of `text` as fits, measured as a JSON string."""
    if len(json.dumps(text, ensure_ascii=False).encode()) <= MAX_PAYLOAD_BYTES:
        return text
    low, high = 0, min(len(text), MAX_PAYLOAD_BYTES)
    while low < high:
        middle = (low + high + 1) // 2
        if len(json.dumps(text[:middle], ensure_ascii=False).encode()) <= MAX_PAYLOAD_BYTES:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _mappings(payload: Any) -> Iterator[Mapping[str, Any]]:
    """Where arguments have names: an object by itself, the keyword arguments of a task, its one argument."""
    if isinstance(payload, Mapping):
        yield payload
        if isinstance(payload.get("kwargs"), Mapping):
            yield payload["kwargs"]
    elif isinstance(payload, list | tuple) and len(payload) > 1 and isinstance(payload[1], Mapping):
        yield payload[1]
    for argument in _positional(payload)[:1]:
        if isinstance(argument, Mapping):
            yield argument


def _positional(payload: Any) -> Sequence[Any]:
    arguments = payload.get("args") if isinstance(payload, Mapping) else payload
    if not isinstance(payload, Mapping):
        # The body of a task: arguments, named arguments, options.
        arguments = payload[0] if isinstance(payload, list | tuple) and payload else None
    return arguments if isinstance(arguments, list | tuple) else ()


def _first_argument(arguments: Sequence[Any]) -> int | None:
    """A delivery's first argument is a list of pairs of record id and version, any other's may be the id."""
    first: Any = arguments[0] if arguments else None
    for _ in range(2):
        if isinstance(first, list | tuple) and first:
            first = first[0]
    return _as_id(first)


def _as_id(value: Any, *, minimum: int = 1) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        digits = value.strip()
        if not digits.removeprefix("-").isascii() or not digits.removeprefix("-").isdigit() or len(digits) > 20:
            return None
        value = int(digits)
    return value if isinstance(value, int) and minimum <= value <= _MAX_ID else None
