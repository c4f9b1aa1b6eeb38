"""`/hooks/unsubscribe/{token}`: leaving a mailing list (RFC 8058, `operate.md` section 16).

A GET only shows a page with a button, as whatever scans mails follows their links. A POST leaves the list: a mail
program's one-click request and the button alike, whatever its form holds; the token says who may.
"""

import base64
import hashlib
from html import escape
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from messaging.db.session import transaction
from messaging.mail import unsubscribe as links
from messaging.mail.unsubscribing import find_subscription, unsubscribe
from messaging.web.calls import Call, CallReader

STYLE = (
    "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:15vh auto;padding:0 1rem}"
    "button{font:inherit;padding:.5rem 1.2rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

#: Of the pages here: no script, our own style, and the form goes where the page came from.
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


def router(engine: Engine, read_call: CallReader) -> APIRouter:
    """The page and the request."""
    routes = APIRouter()
    path = f"{links.PATH}{{token}}"

    @routes.get(path)
    def show(token: str, call: Annotated[Call, Depends(read_call)]) -> Response:
        with Session(engine) as session:
            found = find_subscription(session, token)
        if found is None:
            return _unknown()
        return _asking(found.list_name) if found.is_on else _left(found.list_name)

    @routes.post(path)
    def leave(token: str, call: Annotated[Call, Depends(read_call)]) -> Response:
        with transaction(engine) as session:
            found = unsubscribe(session, token)
        return _unknown() if found is None else _left(found.list_name)

    return routes


def _asking(list_name: str) -> Response:
    # Without `action` the form goes to the address of the page, whatever stands before our path outside.
    form = '<form method="post"><button name="List-Unsubscribe" value="One-Click">Unsubscribe</button></form>'
    return _page("Unsubscribe", f"<p>Get no more mails of the list <b>{escape(list_name)}</b>?</p>{form}")


def _left(list_name: str) -> Response:
    return _page("Unsubscribed", f"<p>You get no more mails of the list <b>{escape(list_name)}</b>.</p>")


def _unknown() -> Response:
    return _page("Not found", "<p>This link is not, or no longer, of a mailing list of ours.</p>", status=404)


def _page(title: str, content: str, *, status: int = 200) -> Response:
    """A whole page; `content` is HTML."""
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{content}</body></html>"
    )
    return Response(text, status, {"content-security-policy": POLICY}, "text/html")
