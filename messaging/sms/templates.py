"""The text of a message that is being prepared: the caller's, else its template's, and what it comes to on the air."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from messaging import quota
from messaging.category import MarkerCode
from messaging.errors import PreparationError
from messaging.sms import segments
from messaging.sms.acceptance import MAX_CONTENT_CHARS
from messaging.sms.segments import Segments
from messaging.templates.filling import check_storable, fail, fill
from messaging.templates.render import Renderer, Source


class Templates(Protocol):
    """Where templates are looked up; see `messaging.templates.lookup`."""

    def by_code(self, tenant_id: int, code: str, /) -> Mapping[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Text:
    """What will be sent."""

    content: str
    size: Segments
    #: Names that the template asked for and did not get, as it wrote them.
    missing: tuple[str, ...] = ()


def find_template(record: Mapping[str, Any], cache: Templates) -> Mapping[str, Any] | None:
    """The active template of a record's code in the tier of its scope; None when it names none.

    Raises: PreparationError, `TEMPLATE_NOT_FOUND`: no tier falls back to another.
    """
    code = record["template_code"]
    if code is None:
        return None
    row = cache.by_code(template_tier(record), code)
    if row is None:
        raise PreparationError(
            MarkerCode.TEMPLATE_NOT_FOUND, f"no active SMS template {code!r} for this tenant and scope"
        )
    return row


def template_tier(record: Mapping[str, Any]) -> int:
    """Whose templates a record uses: those of whoever pays for it."""
    return quota.bucket(record["scope"], record["tenant_id"])


def text_of(record: Mapping[str, Any], template: Mapping[str, Any] | None, renderer: Renderer) -> Text:
    """The text of a record with this template. The caller's goes out as it is; the template's cap holds for both.

    Raises: PreparationError, `RENDER_FAILED`, `RENDER_EMPTY`, `CONTENT_TOO_LONG`.
    """
    content: str | None = record["content"]
    missing: tuple[str, ...] = ()
    if content is None:
        assert template is not None  # acceptance wants one of the two
        content, missing = _rendered(template, record["template_variables"] or {}, renderer)
    size = segments.count(content)
    cap = None if template is None else template["max_segments"]
    if template is not None and cap is not None and size.segments > cap:
        reason = f"the text comes to {size.segments} segments in {size.encoding}, and max_segments is {cap}"
        fail(_named(template), MarkerCode.CONTENT_TOO_LONG, reason)
    return Text(content, size, missing)


def _rendered(
    template: Mapping[str, Any], variables: Mapping[str, Any], renderer: Renderer
) -> tuple[str, tuple[str, ...]]:
    rendered = fill(
        _named(template),
        {"content": Source(template["content"] or "", escape=False, one_line=False)},
        variables,
        renderer,
        is_strict=template["strict"],
        too_long=lambda column: MarkerCode.CONTENT_TOO_LONG,
    )
    content = rendered.texts["content"]
    check_storable(_named(template), "content", content)
    if template["to_gsm"]:
        content = segments.to_gsm(content)
    if not content.strip():
        fail(_named(template), MarkerCode.RENDER_EMPTY, "content is blank once rendered")
    if len(content) > MAX_CONTENT_CHARS:
        reason = f"content has {len(content)} characters; at most {MAX_CONTENT_CHARS} fit"
        fail(_named(template), MarkerCode.CONTENT_TOO_LONG, reason)
    return content, rendered.missing


def _named(template: Mapping[str, Any]) -> str:
    return f"SMS template {template['id']} ({template['code']})"
