"""Who calls the HTTP API: an identity that an authenticator finds, and what it may do.

An application that mounts the API behind its own users hands in an authenticator of its own.
"""

import inspect
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

import anyio.to_thread
from starlette.requests import Request

from messaging import tenancy
from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.tenancy import PLATFORM_TENANT_ID, SINGLE_TENANT_ID

#: In the scope of a request that is asked about again while its answer goes on: nobody has done anything by that, so a
#: session that nobody uses still ends.
ONLY_LOOKS = "messaging.only_looks"


#: Where a request's scope keeps who sent it.
IDENTITY = "messaging.identity"


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller who is known."""

    #: For the audit log: `token:7`, `operator:5`, an application's `user:12`.
    actor: str
    #: Whose rows it reads and writes; -1 is the platform. Ignored while multi-tenancy is off.
    tenant_id: int
    permissions: frozenset[Permission]
    #: The person whose inbox it has; None: nobody's.
    user_id: int | None = None
    #: As rows and the audit log show it.
    user_name: str | None = None

    def may(self, *permissions: Permission) -> bool:
        """Whether it has any of these."""
        return not self.permissions.isdisjoint(permissions)


class Authenticator(Protocol):
    """Tells who sent a request; asked once for each, before its body is read."""

    def authenticate(self, request: Request) -> Awaitable[Identity | None] | Identity | None:
        """None: nobody known, which is answered 401 where somebody must be. May be `async def`, or run in a thread.

        One that knows callers by a cookie refuses changes that pages of other sites ask for:
        `messaging.web.sign_in.require_same_origin` does.

        Raises: ApiError, for what shall be answered instead.
        """


class Everybody:
    """`API__REQUIRE_AUTH=false`: whoever calls may do everything, as on a developer's machine."""

    async def authenticate(self, request: Request) -> Identity:
        """See `Authenticator`."""
        return Identity("anybody", PLATFORM_TENANT_ID, PERMISSIONS[Role.PLATFORM])


async def ask(authenticator: Authenticator, request: Request) -> Identity | None:
    """The authenticator's answer, without holding the loop."""
    if inspect.iscoroutinefunction(authenticator.authenticate):
        found: Identity | None = await authenticator.authenticate(request)
        return found
    answer = await anyio.to_thread.run_sync(authenticator.authenticate, request)
    return await answer if isinstance(answer, Awaitable) else answer


def acting_context(identity: Identity) -> tenancy.Context:
    """On whose behalf a handler runs: what the identity says, with the running request's id and trace, nothing else."""
    request = tenancy.current()
    return tenancy.Context(
        tenant_id=identity.tenant_id if tenancy.is_multi_tenancy() else SINGLE_TENANT_ID,
        user_id=identity.user_id,
        user_name=identity.user_name,
        actor=identity.actor,
        trace_id=request.trace_id,
        span_id=request.span_id,
        request_id=request.request_id,
    )
