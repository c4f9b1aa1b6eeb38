"""`GET /me`: whom this API takes the caller for."""

from messaging import tenancy
from messaging.access.roles import Permission
from messaging.web.api.resource import Caller, Resource, needs
from messaging.web.api.shapes import Shown, TenantId, UserId

routes = Resource("access")


class Me(Shown):
    """The caller."""

    #: Such as `token:7` or `operator:5`.
    actor: str
    #: Whose rows it reads and writes; -1 is the platform, 0 the only tenant while multi-tenancy is off.
    tenant_id: TenantId
    #: The person of the application it acts for.
    user_id: UserId | None
    user_name: str | None
    permissions: list[Permission]


@routes.get("/me", dependencies=[needs()])
def get_me(caller: Caller) -> Me:
    """Whom this API takes the caller for, and what it may do."""
    return Me(
        actor=caller.actor,
        tenant_id=tenancy.current().tenant_id or tenancy.SINGLE_TENANT_ID,
        user_id=caller.user_id,
        user_name=caller.user_name,
        permissions=sorted(caller.permissions),
    )
