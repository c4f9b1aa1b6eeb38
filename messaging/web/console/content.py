"""What a mail says, from answers of their own: its HTML for a frame that may nothing, its source, its files.

All of it is written by strangers. No answer here is one that a browser would run, whatever address it is asked by.
"""

import base64
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, BinaryIO
from urllib.parse import quote

from fastapi import Path, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from messaging import api
from messaging.access.roles import Permission
from messaging.api import stories
from messaging.errors import PreparationError
from messaging.web.api.resource import Caller, needs
from messaging.web.api.shapes import Id
from messaging.web.console.audience import seen_by
from messaging.web.console.pages import Pages, url
from messaging.web.errors import ApiError

routes = Pages()

#: A page in itself: no script, no form, no picture of another origin, in our frame only.
FRAMED = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
INERT = "sandbox; default-src 'none'; frame-ancestors 'none'"

#: Pictures within a mail that are shown, and the octets of all of them.
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_PICTURE_OCTETS = 4 * 1024 * 1024
#: Octets of a file that are read at once.
_CHUNK_OCTETS = 64 * 1024


@routes.get("/mail/{record_id}/html", dependencies=[needs(Permission.READ)])
def show_html(request: Request, caller: Caller, record_id: Id) -> Response:
    """The HTML of a mail, for the frame on its page."""
    if request.headers.get("sec-fetch-dest", "iframe") != "iframe":
        # In a tab of its own it could lead elsewhere by itself.
        return RedirectResponse(url(request, f"/mail/{record_id}"), 303)
    with seen_by(caller):
        story = api.get_record(record_id, channel="mail", with_bodies=True)
        html = story.body_html or ""  # type: ignore[union-attr]
        for content_id, picture in _pictures(record_id, story.files, html):  # type: ignore[union-attr]
            html = html.replace(f"cid:{content_id}", picture)
    return HTMLResponse(html, headers={"content-security-policy": FRAMED, "x-frame-options": "SAMEORIGIN"})


@routes.get("/mail/{record_id}/source", dependencies=[needs(Permission.READ)])
def show_source(caller: Caller, record_id: Id, download: Annotated[bool, Query()] = False) -> Response:
    """A mail as it goes over the wire, as text or as a file."""
    with seen_by(caller), _at_hand():
        source = stories.get_mail_source(record_id)
    if download:
        return Response(source, headers=as_file(f"mail-{record_id}.eml"), media_type="application/octet-stream")
    return Response(source, headers={"content-security-policy": INERT}, media_type="text/plain; charset=utf-8")


@routes.get("/mail/{record_id}/files/{place}", dependencies=[needs(Permission.READ)])
def download_file(caller: Caller, record_id: Id, place: Annotated[int, Path(ge=0, le=999)]) -> Response:
    """A file of a mail: always saved, never shown."""
    with seen_by(caller), _at_hand():
        file, content = stories.open_mail_file(record_id, place)
    return StreamingResponse(_chunks(content), headers=as_file(file.file_name), media_type="application/octet-stream")


@contextmanager
def _at_hand() -> Iterator[None]:
    """Says of a file that the store does not give that it is so. Raises: ApiError."""
    try:
        yield
    except PreparationError as exc:
        raise ApiError(409, f"A file is not at hand: {exc}.", code="not_at_hand") from exc


def _pictures(record_id: int, files: list[dict[str, object]], html: str) -> Iterator[tuple[str, str]]:
    """The pictures that the HTML names by their content ids, as `data:` addresses."""
    left = _MAX_PICTURE_OCTETS
    for place, file in enumerate(files):
        content_id, content_type = str(file.get("content_id") or ""), str(file.get("content_type") or "").lower()
        if not content_id or content_type not in _PICTURES or f"cid:{content_id}" not in html:
            continue
        try:
            _, opened = stories.open_mail_file(record_id, place)
        except PreparationError:
            continue  # shown as a picture that is missing, which it is
        with closing(opened):
            octets = opened.read(left + 1)
        if len(octets) > left:
            continue
        left -= len(octets)
        yield content_id, f"data:{content_type};base64,{base64.b64encode(octets).decode()}"


def _chunks(content: BinaryIO) -> Iterator[bytes]:
    with closing(content):
        while chunk := content.read(_CHUNK_OCTETS):
            yield chunk


def as_file(name: str) -> dict[str, str]:
    """Headers of what is saved under a name that a stranger gave: only as data (RFC 6266, RFC 8187)."""
    plain = name.replace("/", "_").replace("\\", "_").lstrip(".") or "file"
    shown = "".join(c if c.isprintable() else "_" for c in plain)[:150]
    return {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(shown, safe='')}",
        "content-security-policy": INERT,
    }
