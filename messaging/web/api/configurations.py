"""What the resources of configurations have in common: pages of lists, fields that may be left out, usual fields."""

from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from messaging.access.roles import Permission
from messaging.api import SendWindows
from messaging.config_lists import MAX_SEARCH_CHARS, Lines, ListFields
from messaging.field_checks import MAX_NUMBER, MAX_PORT
from messaging.rate_limit import RateLimitUnavailable
from messaging.web.api.lists import Numbered, Page, Switched
from messaging.web.api.resource import needs
from messaging.web.api.shapes import Shown, Text
from messaging.web.errors import ApiError

_Item = TypeVar("_Item")
_Line = TypeVar("_Line")

#: Who may look at configurations, who keeps them, and who is told what a form for sending needs.
READ = [needs(Permission.READ)]
ADMINISTER = [needs(Permission.ADMINISTER)]
SEND = [needs(Permission.SEND, Permission.READ)]

Name = Annotated[Text, Field(min_length=1, max_length=100)]
Description = Annotated[Text, Field(max_length=500)]
Line50 = Annotated[Text, Field(max_length=50)]
Line255 = Annotated[Text, Field(max_length=255)]
Line500 = Annotated[Text, Field(max_length=500)]
#: Written and never answered. Long enough for a private key of 16,384 bits in PEM.
Secret = Annotated[Text, Field(max_length=20_000, json_schema_extra={"writeOnly": True})]
Switch = Annotated[bool, Field(strict=True)]
Port = Annotated[int, Field(strict=True, ge=1, le=MAX_PORT)]
#: Messages; 0 is no limit.
RateLimit = Annotated[int, Field(strict=True, ge=0, le=MAX_NUMBER)]
#: Lower first.
Rank = Annotated[int, Field(strict=True, ge=-MAX_NUMBER, le=MAX_NUMBER)]


def left_out() -> Any:
    """The default of a field that need not be in a body: `sent()` has it only where it was. The schema shows none.

    A client that fills in defaults would change what nobody meant to.
    """
    return Field(default=None, json_schema_extra=_without_default)


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class ConfigQuery(Switched):
    """Which configurations; a subclass says by which columns they are sorted, beginning with the list's own order."""

    #: A part of a name or code, in any case.
    search: Annotated[Text, Field(min_length=1, max_length=MAX_SEARCH_CHARS)] | None = None


class Items(Shown, Generic[_Item]):
    """A whole list, which is short."""

    items: list[_Item]


class WindowsShown(Shown):
    """How much of a configuration's windows is taken; a limit that is null is off, and nothing is counted."""

    daily_send_limit: int | None
    #: Of the day in the time zone of the quotas.
    sent_this_day: int
    rate_limit_per_minute: int | None
    sent_this_minute: int


def windows_shown(ask: Callable[[int], SendWindows], config_id: int) -> WindowsShown:
    """The answer of a configuration's windows. Raises: ApiError, 503, when they cannot be asked."""
    try:
        return WindowsShown.model_validate(ask(config_id))
    except RateLimitUnavailable as exc:
        raise ApiError(503, str(exc)) from exc


def asked(query: ConfigQuery) -> dict[str, Any]:
    """The query as the library takes it, filters of the kind included."""
    return {name: getattr(query, name) for name in type(query).model_fields}


def page_asked(query: Numbered) -> ListFields:
    """Which page of a list whose rows cannot be disabled."""
    return {"page": query.page, "size": query.size, "sort": query.sort}


def paged(lines: Lines[_Line], query: Numbered, shape: Callable[[_Line], _Item]) -> Page[_Item]:
    """The answer of a list."""
    return Page(items=[shape(line) for line in lines], page=query.page, size=query.size, total=lines.total)
