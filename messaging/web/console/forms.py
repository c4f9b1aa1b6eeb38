"""Forms made of the API's own shapes: what is asked, what was typed, and what is wrong with it, field by field.

What the API takes a form takes, no more and no less: the shape judges both. What was typed is shown again after an
error, but for secrets, which go in and never come out.
"""

import json
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fastapi import Depends, Request
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from starlette.datastructures import FormData

from messaging.errors import ChangedMeanwhile
from messaging.web.api.shapes import Given

#: Characters of a text that stands in one line.
_LINE_CHARS = 500
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")

#: The field that says which state of a row a form was made of.
AS_OF = "as_of"


async def _posted(request: Request) -> AsyncIterator[FormData]:
    form = await request.form(max_fields=200, max_files=1)
    try:
        yield form
    finally:
        await form.close()


#: What a browser sent.
Posted = Annotated[FormData, Depends(_posted)]


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that is asked."""

    name: str
    label: str
    #: `text`, `area`, `number`, `flag`, `choice`, `secret`, `list`, `json`, `time`.
    kind: str
    is_required: bool
    #: Whether it may be empty, which is then null.
    is_nullable: bool
    hint: str = ""
    max_chars: int | None = None
    #: Values and what they are called.
    options: Sequence[tuple[str, str]] = ()
    #: A secret that is a JSON object.
    is_object: bool = False


@dataclass
class Form:
    """A form with what stands in it."""

    fields: Sequence[Field]
    #: What stands in each field, as text; of a flag `yes` or nothing.
    texts: dict[str, str] = field(default_factory=dict)
    #: What is wrong, by field.
    errors: dict[str, str] = field(default_factory=dict)
    #: Secrets that are set.
    is_set: frozenset[str] = frozenset()
    #: Of the row that it was made of.
    as_of: str = ""
    #: What is wrong with all of it.
    error: str = ""

    def refuse(self, name: str | None, reason: str) -> None:
        """Note what is wrong, at its field where there is one."""
        if any(one.name == name for one in self.fields):
            self.errors[str(name)] = reason
        else:
            self.error = f"{name}: {reason}" if name else reason


def fields_of(
    shape: type[Given],
    *,
    labels: Mapping[str, str],
    hints: Mapping[str, str] | None = None,
    options: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    leave_out: Sequence[str] = (),
    secrets: Collection[str] = (),
) -> list[Field]:
    """The fields of a shape in its order, each of the kind that its annotation is of; `secrets` are never shown."""
    found = []
    for name, info in shape.model_fields.items():
        if name in leave_out:
            continue
        types, is_nullable = _types(info.annotation)
        chosen = (options or {}).get(name) or _options(types)
        kind = "secret" if name in secrets else "choice" if chosen else _kind(name, types, info)
        found.append(
            Field(
                name,
                labels.get(name) or name.replace("_", " ").capitalize(),
                kind,
                info.is_required(),
                is_nullable,
                (hints or {}).get(name, ""),
                None if kind in ("list", "json") else _max_chars(info),
                chosen,
                is_object=(get_origin(types[0]) or types[0]) is dict,
            )
        )
    return found


def filled(fields: Sequence[Field], row: Any, *, as_of: datetime | None = None) -> Form:
    """The form of a row; a secret is only told to be there."""
    form = Form(fields, as_of=as_of.isoformat() if as_of else "")
    form.is_set = frozenset(one.name for one in fields if getattr(row, f"has_{one.name}", False))
    for one in fields:
        if one.kind != "secret":
            form.texts[one.name] = _text(getattr(row, one.name, None))
    return form


def blank(fields: Sequence[Field], **texts: str) -> Form:
    """The form of a new row."""
    return Form(fields, dict(texts))


def read(fields: Sequence[Field], posted: FormData, shape: type[Given], *, stored: Form | None = None) -> Any:
    """What was typed, as the shape has it; or the form with its errors.

    A field that was empty and may be so is null; one that may not be is left out, as a secret is that was not typed.
    """
    form = Form(fields, as_of=_one(posted, AS_OF), is_set=stored.is_set if stored else frozenset())
    values: dict[str, Any] = {}
    for one in fields:
        text = _one(posted, one.name)
        try:
            if one.kind == "secret":
                if _one(posted, f"{one.name}_remove"):
                    values[one.name] = None
                elif text:
                    values[one.name] = _object(text) if one.is_object else text
                continue
            form.texts[one.name] = text
            if one.kind == "flag":
                values[one.name] = bool(text)
            elif text.strip():
                values[one.name] = _value(one, text)
            elif one.is_nullable:
                values[one.name] = None
            elif one.is_required:
                raise ValueError("is needed")
        except ValueError as exc:
            form.errors[one.name] = str(exc)
    if form.errors:
        return form
    try:
        return shape.model_validate(values)
    except ValidationError as exc:
        for fault in exc.errors(include_url=False, include_context=False, include_input=False):
            form.refuse(str(fault["loc"][0]) if fault["loc"] else None, _words(fault["msg"]))
        return form


def typed(fields: Sequence[Field], posted: FormData, *, stored: Form | None = None) -> Form:
    """The form as it was typed, to be shown again."""
    form = Form(fields, as_of=_one(posted, AS_OF), is_set=stored.is_set if stored else frozenset())
    form.texts = {one.name: _one(posted, one.name) for one in fields if one.kind != "secret"}
    return form


def seen_at(posted: FormData) -> datetime:
    """The state of the row that the form was made of. Raises: ChangedMeanwhile, where that cannot be read."""
    try:
        return datetime.fromisoformat(_one(posted, AS_OF)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ChangedMeanwhile("the form does not say which state it was made of") from None


def _one(posted: FormData, name: str) -> str:
    value = posted.get(name)
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


def _types(annotation: Any) -> tuple[list[Any], bool]:
    """What a value may be, without wrappings, and whether it may be null."""
    if get_origin(annotation) is Annotated:
        return _types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        found = [_types(one) for one in get_args(annotation)]
        types = [one for members, _ in found for one in members if one is not type(None)]
        return types, any(type(None) in members or is_nullable for members, is_nullable in found)
    return [annotation], annotation is type(None)


def _options(types: Sequence[Any]) -> list[tuple[str, str]]:
    for one in types:
        if get_origin(one) is Literal:
            return [(str(value), str(value)) for value in get_args(one)]
        if isinstance(one, type) and issubclass(one, Enum):
            return [(str(member.value), str(member.value).replace("_", " ").capitalize()) for member in one]
    return []


def _kind(name: str, types: Sequence[Any], info: FieldInfo) -> str:
    one = types[0]
    origin = get_origin(one) or one
    if _is_secret(info):
        return "secret"
    if origin is bool:
        return "flag"
    if origin is int:
        return "number"
    if origin is list:
        return "list"
    if origin is dict:
        return "json"
    if origin is datetime:
        return "time"
    limit = _max_chars(info)
    return "area" if (limit is not None and limit > _LINE_CHARS) or name == "description" else "text"


def _is_secret(info: FieldInfo) -> bool:
    return any(
        isinstance(extra, dict) and extra.get("writeOnly")
        for extra in (getattr(one, "json_schema_extra", None) for one in _all_metadata(info))
    )


def _max_chars(info: FieldInfo) -> int | None:
    limits = [getattr(one, "max_length", None) for one in _all_metadata(info)]
    return next((limit for limit in limits if limit is not None), None)


def _all_metadata(info: FieldInfo) -> list[Any]:
    """What is said of a value within `Annotated`, in a union too."""

    def inner(annotation: Any) -> list[Any]:
        if get_origin(annotation) is Annotated:
            first, *more = get_args(annotation)
            flat = [deep for one in more for deep in (one, *getattr(one, "metadata", ()))]
            return flat + inner(first)
        return [one for member in get_args(annotation) for one in inner(member)]

    return [info, *info.metadata, *inner(info.annotation)]


def _value(one: Field, text: str) -> Any:
    match one.kind:
        case "number":
            if not _WHOLE.fullmatch(text):
                raise ValueError("is not a whole number")
            # Ids are decimal strings on the wire.
            return text.strip() if one.name.endswith("_id") else int(text)
        case "list":
            return [part.strip() for part in re.split(r"[,\n]", text) if part.strip()]
        case "json":
            return _object(text)
        case "choice":
            return text
        case "area" | "text":
            return text if one.kind == "area" else text.strip()
    return text.strip()


def _object(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError('is no JSON such as {"name": "Ann"}') from None
    if not isinstance(found, dict):
        raise ValueError('is no JSON object such as {"name": "Ann"}')
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, indent=2)
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    return str(value)


def _words(message: str) -> str:
    """What pydantic says, as it stands beside a field."""
    return message.removeprefix("Value error, ").replace("Input should be", "should be")
