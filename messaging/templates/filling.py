"""A record's template filled in: whatever goes wrong is the error that preparation knows, without a variable's value.

Which template a record has and what its texts are for is each channel's.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from messaging.category import MarkerCode
from messaging.errors import PreparationError
from messaging.templates.errors import RenderedTooLong, RenderError
from messaging.templates.render import Rendered, Renderer, Source

#: Characters of missing names that an error repeats.
MAX_NAMES_CHARS = 300


def fill(
    what: str,
    sources: Mapping[str, Source],
    variables: Mapping[str, Any],
    renderer: Renderer,
    *,
    is_strict: bool,
    too_long: Callable[[str], MarkerCode],
) -> Rendered:
    """Columns of the template that `what` names. `too_long` answers the marker of a column that comes out too long.

    Raises: PreparationError, `RENDER_FAILED` or that of `too_long`; says where.
    """
    try:
        rendered = renderer.render(sources, variables)
    except RenderedTooLong as exc:
        fail(what, too_long(exc.column), str(exc), exc)
    except RenderError as exc:
        fail(what, MarkerCode.RENDER_FAILED, str(exc), exc)
    if is_strict and rendered.missing:
        names = ", ".join(rendered.missing)
        shown = names if len(names) <= MAX_NAMES_CHARS else names[:MAX_NAMES_CHARS] + "…"
        fail(what, MarkerCode.RENDER_FAILED, f"it is strict and misses {shown}")
    return rendered


def check_storable(what: str, column: str, text: str | None) -> None:
    """No column takes a NUL or half a surrogate pair, and a template can write either.

    Raises: PreparationError, `RENDER_FAILED`.
    """
    if text is None:
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        reason = "a lone surrogate, which is no character"
    else:
        if "\x00" not in text:
            return
        reason = "a NUL character"
    fail(what, MarkerCode.RENDER_FAILED, f"{column} comes out with {reason}")


def fail(what: str, marker: MarkerCode, reason: str, cause: Exception | None = None) -> NoReturn:
    """Raises: PreparationError of this template."""
    raise PreparationError(marker, f"{what}: {reason}") from cause
