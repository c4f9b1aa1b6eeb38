"""Questions before something is done: one page for all of them, which the script shows as a dialog."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from messaging.web.console.pages import page, url


def ask_first(
    request: Request,
    title: str,
    text: str,
    *,
    verb: str,
    action: str,
    leave: str,
    what: dict[str, Any] | None = None,
    is_dangerous: bool = False,
    remark: str | None = None,
    max_remark: int = 500,
    error: str = "",
    refusal: str = "",
    fields: dict[str, str] | None = None,
) -> Response:
    """Ask; with a `remark` (what stands in it) a text is asked, too. Paths are the console's."""
    return page(
        request,
        "confirm.html",
        status=422 if error else 409 if refusal else 200,
        title=title,
        text=text,
        refusal=refusal,
        verb=verb,
        is_dangerous=is_dangerous,
        what=what or {},
        action=url(request, action),
        fields=fields or {},
        remark=remark is not None,
        remark_text=remark or "",
        max_remark=max_remark,
        error=error,
        leave=url(request, leave),
    )
