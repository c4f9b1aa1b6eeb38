"""Who is acting: the current tenant, on whose behalf rows are read and written. Restored on exit."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from messaging.errors import ConfigurationError

#: The tenant that owns the platform's own rows.
PLATFORM_TENANT_ID = -1

#: The tenant of every row while multi-tenancy is off.
SINGLE_TENANT_ID = 0


@dataclass(frozen=True, slots=True)
class Context:
    """On whose behalf the running code acts."""

    tenant_id: int | None = None
    user_id: int | None = None
    user_name: str | None = None
    #: W3C trace id of the caller, 32 hex digits.
    trace_id: str | None = None
    #: The caller's span in that trace, 16 hex digits.
    span_id: str | None = None
    #: What the request over HTTP is called.
    request_id: str | None = None
    #: Who acts, for the audit log, such as `operator:5`; None is the library's caller.
    actor: str | None = None
    #: Whether reads see all tenants; writes must then name theirs.
    cross_tenant: bool = False
    #: Whether the code acts for the system and no user's permission is asked.
    skip_permission: bool = False

    def __post_init__(self) -> None:
        """Refuse what no column holds here, where it is named, and not in the middle of a caller's transaction."""
        for name in ("tenant_id", "user_id"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not -(2**63) <= value < 2**63):
                raise TypeError(f"{name} of a context is an integer of 64 bits, not {value!r}")
        for name in ("user_name", "trace_id", "span_id", "request_id", "actor"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} of a context is text, not {value!r}")


_context: ContextVar[Context] = ContextVar("messaging_context", default=Context())  # noqa: B039 - frozen


def current() -> Context:
    """The context of the running code."""
    return _context.get()


class _Acting(AbstractContextManager[Context]):
    """A context for the block; a class, as a generator takes three times as long."""

    __slots__ = ("_context", "_reset")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._reset: Token[Context]

    def __enter__(self) -> Context:
        self._reset = _context.set(self._context)
        return self._context

    def __exit__(self, *_: object) -> None:
        _context.reset(self._reset)


def acting_as(context: Context) -> AbstractContextManager[Context]:
    """Run with exactly this context."""
    return _Acting(context)


def tenant(tenant_id: int) -> AbstractContextManager[Context]:
    """Run as one tenant: reads and writes are confined to its rows, even inside `all_tenants()`."""
    return _Acting(_as_tenant(current(), tenant_id))


def of_record(content: Mapping[str, Any]) -> AbstractContextManager[Context]:
    """Run as the tenant of a send record with these columns, on behalf of the request that brought it."""
    acting = _as_tenant(current(), content["tenant_id"])
    if content["trace_id"] is not None or content["request_id"] is not None:
        acting = replace(
            acting, trace_id=content["trace_id"], span_id=content["span_id"], request_id=content["request_id"]
        )
    return _Acting(acting)


@lru_cache(maxsize=1024, typed=True)
def _as_tenant(context: Context, tenant_id: int) -> Context:
    """Kept, as a worker asks for it with each message."""
    return replace(context, tenant_id=tenant_id, cross_tenant=False, skip_permission=True)


@contextmanager
def all_tenants() -> Iterator[Context]:
    """Run across tenants, for scans of the system: no filter on reads, and a write must name its tenant."""
    with acting_as(replace(current(), tenant_id=None, cross_tenant=True, skip_permission=True)) as context:
        yield context


@contextmanager
def trace(trace_id: str) -> Iterator[Context]:
    """Run with a caller's W3C trace id, so that its records and log lines can be found by it."""
    with acting_as(replace(current(), trace_id=trace_id)) as context:
        yield context


_multi_tenancy: bool | None = None


def use_multi_tenancy(is_on: bool) -> None:
    """Say for this process whether rows belong to tenants (`MULTI_TENANCY`)."""
    global _multi_tenancy
    _multi_tenancy = is_on


@contextmanager
def multi_tenancy_unsaid() -> Iterator[None]:
    """Nobody has said it within the block; afterwards what was said before holds again."""
    global _multi_tenancy
    before, _multi_tenancy = _multi_tenancy, None
    try:
        yield
    finally:
        _multi_tenancy = before


def is_multi_tenancy() -> bool:
    """Whether rows belong to tenants.

    Raises: ConfigurationError, before anybody said: unfiltered reads must not be what silence means.
    """
    if _multi_tenancy is None:
        raise ConfigurationError("this process is not configured; call messaging.configure() first")
    return _multi_tenancy


def is_single_tenant() -> bool:
    """Whether somebody said that rows belong to no tenants. An unconfigured process is not that."""
    return _multi_tenancy is False


def tiers(tenant_id: int) -> tuple[int, ...]:
    """Whose rows may serve a record of this tenant, in order: its own, then the platform's."""
    if not is_multi_tenancy():
        return (SINGLE_TENANT_ID,)
    return (PLATFORM_TENANT_ID,) if tenant_id == PLATFORM_TENANT_ID else (tenant_id, PLATFORM_TENANT_ID)
