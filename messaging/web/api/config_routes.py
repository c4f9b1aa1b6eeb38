"""The routes that configurations have, whatever their kind: a page, one row, and what administrators do to it.

Which of them a kind has stands in its own module, one call each, named for method and path: the library's function that
does it, whose name is the operation's, the shape of what is given, the operation's description.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Path, Query
from sqlalchemy.orm import Session

from messaging.web.api.configurations import ADMINISTER, READ, ConfigQuery, asked, paged
from messaging.web.api.lists import Page
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown


class ConfigRoutes:
    """Routes of one kind, at `path` and below it."""

    def __init__(
        self, routes: Resource, path: str, id_name: str, *, read: Callable[..., Any], shown: type[Shown]
    ) -> None:
        """`id_name` is what paths call a row's id; `read` answers a row, which goes out as `shown`."""
        self._routes, self._path, self._read, self._shown = routes, path, read, shown
        self._one = f"{path}/{{{id_name}:id}}"
        self._id = Annotated[Id, Path(alias=id_name)]

    def read(self, session: Session, row_id: int) -> Shown:
        """One row as it is answered. Raises: RecordNotFound."""
        return self._shown.model_validate(self._read(row_id, session=session))

    def get_page(
        self, listed: Callable[..., Any], query: type[ConfigQuery], description: str, *, line: type[Shown] | None = None
    ) -> None:
        """`GET path`, for readers; a `line` is what a page shows of a row where it is not all of it."""
        shape = line or self._shown

        def handler(session: DbSession, query: ConfigQuery) -> Page[Shown]:
            return paged(listed(session=session, **asked(query)), query, shape.model_validate)

        handler.__annotations__ |= {"query": Annotated[query, Query()], "return": Page.__class_getitem__(shape)}
        self._add("GET", self._path, handler, listed, description, dependencies=READ)

    def get(self, description: str) -> None:
        """`GET path/{id}`, for readers."""

        def handler(session: DbSession, row_id: int) -> Shown:
            return self.read(session, row_id)

        handler.__annotations__ |= {"row_id": self._id, "return": self._shown}
        self._add("GET", self._one, handler, self._read, description, dependencies=READ)

    def post(self, add: Callable[..., int], given: type[Given], description: str) -> None:
        """`POST path`: `add` gets what stood in the body."""

        def handler(session: DbSession, given: Given) -> Shown:
            return self.read(session, add(session=session, **given.sent()))

        handler.__annotations__ |= {"given": given, "return": self._shown}
        self._add("POST", self._path, handler, add, description, status_code=201)

    def patch(self, change: Callable[..., None], given: type[Given], description: str) -> None:
        """`PATCH path/{id}`: what does not stand in the body stays as it is."""

        def handler(session: DbSession, row_id: int, given: Given) -> Shown:
            change(row_id, session=session, **given.sent())
            return self.read(session, row_id)

        handler.__annotations__ |= {"row_id": self._id, "given": given, "return": self._shown}
        self._add("PATCH", self._one, handler, change, description)

    def delete(self, delete: Callable[..., None], description: str, *, name: str | None = None) -> None:
        """`DELETE path/{id}`."""

        def handler(session: DbSession, row_id: int) -> None:
            delete(row_id, session=session)

        handler.__annotations__ |= {"row_id": self._id}
        self._add("DELETE", self._one, handler, delete, description, name=name, status_code=204)

    def post_copy(self, copy: Callable[..., int], given: type[Given], description: str) -> None:
        """`POST path/{id}/copy`: the body is what the copy has of its own."""

        def handler(session: DbSession, row_id: int, given: Given) -> Shown:
            return self.read(session, copy(row_id, session=session, **given.sent()))

        handler.__annotations__ |= {"row_id": self._id, "given": given, "return": self._shown}
        self._add("POST", f"{self._one}/copy", handler, copy, description, status_code=201)

    def post_default(self, choose: Callable[..., None], description: str, *, name: str) -> None:
        """`POST path/{id}/default`."""

        def handler(session: DbSession, row_id: int) -> Shown:
            choose(row_id, session=session)
            return self.read(session, row_id)

        handler.__annotations__ |= {"row_id": self._id, "return": self._shown}
        self._add("POST", f"{self._one}/default", handler, choose, description, name=name)

    def _add(
        self,
        method: str,
        path: str,
        handler: Callable[..., Any],
        function: Callable[..., Any],
        description: str,
        *,
        name: str | None = None,
        status_code: int = 200,
        dependencies: Any = ADMINISTER,
    ) -> None:
        """Add a route whose handler is annotated with its kind's shapes, which the framework reads."""
        handler.__name__ = name or function.__name__
        handler.__doc__ = description
        self._routes.add_api_route(path, handler, methods=[method], status_code=status_code, dependencies=dependencies)
