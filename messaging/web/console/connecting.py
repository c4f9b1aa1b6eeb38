"""Trials of what a configuration connects to: asked for, then told in one line, with how long it took."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from messaging.access.roles import Permission
from messaging.web.api.resource import DbSession, needs
from messaging.web.api.shapes import Id
from messaging.web.api.talking import talks
from messaging.web.console.config import ConfigPages
from messaging.web.console.pages import done, page, url

_KEEP = [needs(Permission.ADMINISTER)]


@dataclass(frozen=True, slots=True)
class Tested:
    """What came of it."""

    success: bool
    latency_ms: int | None
    greeting: str | None
    error: str | None
    further: str = ""


#: Tries one configuration.
Test = Callable[[int], Tested]


def add_test(pages: ConfigPages, text: str, test: Test, *, verb: str = "Test") -> None:
    """Add the two routes of a trial of `pages`; what is tried is the saved state, a disabled one's too."""
    name = pages.path.strip("/").replace("-", "_")

    def ask(request: Request, session: DbSession, row_id: Id) -> Response:
        row = pages.get(row_id, session=session)
        return page(
            request,
            "confirm.html",
            title=f"{verb} {pages.one} {row_id}?",
            text=f"{text} It takes seconds.",
            refusal="",
            verb=verb,
            is_dangerous=False,
            what={"Name": row.name},
            action=url(request, f"{pages.path}/{row_id}/test"),
            fields={},
            remark=False,
            leave=url(request, f"{pages.path}/{row_id}"),
        )

    def run(request: Request, row_id: Id) -> Response:
        # No transaction waits for a server that says nothing.
        row = pages.get(row_id)
        told = test(row_id)
        took = "" if told.latency_ms is None else f" within {told.latency_ms} ms"
        said = f"{told.greeting!r}" if told.greeting else ""
        words = (
            f"{row.name} answers{took}. {said} {told.further}"
            if told.success
            else f"{row.name} does not work: {told.error}. {told.further}"
        )
        return done(request, url(request, f"{pages.path}/{row_id}"), words.strip(), is_refusal=not told.success)

    pages.routes.add_api_route(
        f"{pages.path}/{{row_id}}/test", ask, methods=["GET"], dependencies=_KEEP, operation_id=f"{name}_ask_test"
    )
    pages.routes.add_api_route(
        f"{pages.path}/{{row_id}}/test",
        run,
        methods=["POST"],
        dependencies=[*_KEEP, talks()],
        operation_id=f"{name}_test",
    )
