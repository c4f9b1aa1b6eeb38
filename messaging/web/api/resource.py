"""How a resource of the HTTP API is written: plain functions, each with what it needs, run in one thread hop.

A handler runs in a thread, in the tenant of its caller. One that takes `DbSession` runs in one transaction: committed
before the answer is sent, rolled back on any exception. What it returns is made JSON in the same thread.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.params import Depends as DependsParam
from pydantic import TypeAdapter
from sqlalchemy.orm import Session
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import Response

from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.settings import Settings
from messaging.web.api.shapes import Id
from messaging.web.auth import IDENTITY, Identity
from messaging.web.errors import ApiError, Problem, unauthenticated
from messaging.web.paths import BASE


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency that refuses callers who have none of some permissions; of no permissions: whom nobody knows."""

    any_of: tuple[Permission, ...]
    #: Whether only a person may call, not a service.
    is_personal: bool = False

    async def __call__(self, request: Request) -> None:
        """Raises: ApiError, 401 for nobody known (or no person), 403 for one who may not."""
        identity: Identity | None = request.scope.get(IDENTITY)
        if identity is None:
            raise unauthenticated()
        if self.is_personal and identity.user_id is None:
            raise unauthenticated("this is for one person: sign in, or send a token that has a user_id")
        if self.any_of and not identity.may(*self.any_of):
            allowed = f"roles with it: {', '.join(self.roles)}"
            raise ApiError(403, f"this needs the permission {' or '.join(self.any_of)}; {allowed}")

    @property
    def roles(self) -> list[str]:
        """Which roles may call."""
        return [role for role in Role if not self.any_of or not PERMISSIONS[role].isdisjoint(self.any_of)]


def needs(*any_of: Permission) -> Any:
    """For `dependencies=[...]`: the caller must have one of these; of none: only be known."""
    return Depends(Needs(any_of))


def needs_user() -> Any:
    """For `dependencies=[...]`: the caller must act for a person of the application, whose `user_id` is then set."""
    return Depends(Needs((), is_personal=True))


async def _anybody() -> None:
    """Nothing is needed."""


def open_to_all() -> Any:
    """For `dependencies=[...]`: who calls need not be known."""
    return Depends(_anybody)


async def _caller(request: Request) -> Identity:
    identity: Identity | None = request.scope.get(IDENTITY)
    if identity is None:
        raise unauthenticated()
    return identity


async def _session(request: Request) -> Session:
    """Begun by the handler's thread: this one waits for nothing."""
    return Session(request.app.state.engine, expire_on_commit=False)


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _idempotency_key(
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=255,
            pattern="^[!-~]+$",
            description="Sent again with the same key, a request answers what it answered first and does nothing.",
        ),
    ] = None,
) -> str | None:
    return key


#: The caller.
Caller = Annotated[Identity, Depends(_caller)]
#: The handler's transaction.
DbSession = Annotated[Session, Depends(_session)]
#: The settings of this process.
ProcessSettings = Annotated[Settings, Depends(_settings)]
#: The header `Idempotency-Key`; None where it is not sent.
IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]


def problems(statuses: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """For `responses=...`: further errors that an operation may answer."""
    return {status: {"model": Problem, "description": text} for status, text in sorted(statuses.items())}


class _IdConvertor(Convertor[str]):
    """A part of a path that may be an id: `/messages/batch` is then none of `/messages/{id}`, whatever the method."""

    regex = "[0-9]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("id", _IdConvertor())


class Resource(APIRouter):
    """The routes of one resource, below `BASE`. Every route says whom it is for: `needs(...)` or `open_to_all()`."""

    def __init__(self, tag: str, *, prefix: str = BASE) -> None:
        super().__init__(prefix=prefix, tags=[tag])

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As FastAPI's; the operation is named for the function, and its errors are declared."""
        dependencies: Sequence[DependsParam] = options.get("dependencies") or ()
        asked = [one.dependency for one in dependencies if isinstance(one.dependency, Needs)]
        if not asked and not any(one.dependency is _anybody for one in dependencies):
            raise TypeError(f"{endpoint.__name__} does not say what it needs")
        methods = set(options.get("methods") or ("GET",))
        declared = _problems(path, methods, asked) | (options.get("responses") or {})
        extra = dict(options.get("openapi_extra") or {})
        for need in asked:
            extra |= {"security": [{"token": []}, {"session": []}], "x-roles": need.roles}
        status_code = options.get("status_code") or 200
        options |= {
            "status_code": status_code,
            "responses": declared,
            "openapi_extra": extra,
            "operation_id": options.get("operation_id") or endpoint.__name__,
        }
        for name, parameter in inspect.signature(endpoint).parameters.items():
            if parameter.annotation is Id:
                path = path.replace(f"{{{name}}}", f"{{{name}:id}}")
        super().add_api_route(path, _in_one_hop(endpoint, status_code), **options)


def _problems(path: str, methods: set[str], asked: Sequence[Needs]) -> dict[int | str, dict[str, Any]]:
    """The errors that an operation may answer."""
    statuses = {422: "Invalid input", 429: "Too many requests", 500: "A fault here", 503: "The database is away"}
    if asked:
        statuses |= {401: "Nobody known", 403: "Not allowed"}
    if "{" in path:
        statuses[404] = "Not found"
    if methods - {"GET"}:
        statuses |= {403: "Not allowed", 409: "The state does not allow it"}
    if methods & {"POST", "PUT", "PATCH"}:
        statuses |= {408: "The body did not come in time", 413: "The body is too large"}
    return problems(statuses)


def _in_one_hop(endpoint: Callable[..., Any], status_code: int) -> Callable[..., Any]:
    """A handler that answers a response made within its own thread; an async one stays as it is."""
    if inspect.iscoroutinefunction(endpoint):
        return endpoint
    signature = inspect.signature(endpoint)
    session_name = next((name for name, one in signature.parameters.items() if one.annotation is DbSession), None)
    shape = signature.return_annotation
    is_response = isinstance(shape, type) and issubclass(shape, Response)
    adapter = None if shape is None or is_response else TypeAdapter(shape)

    def answer(given: dict[str, Any]) -> Response:
        result = endpoint(**given)
        if isinstance(result, Response):
            return result
        if adapter is None:
            return Response(status_code=status_code)
        return Response(adapter.dump_json(result), status_code, media_type="application/json")

    @wraps(endpoint)
    def run(**given: Any) -> Response:
        if session_name is None:
            return answer(given)
        session: Session = given[session_name]
        with session, session.begin():
            return answer(given)

    return run
