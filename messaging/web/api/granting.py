"""Whose access a caller may make, change or end."""

from messaging.access.roles import PERMISSIONS, Role
from messaging.web.auth import Identity
from messaging.web.errors import ApiError


def may_grant(caller: Identity, role: Role) -> None:
    """Raises: ApiError 403, for a role that may do more than the caller: else an administrator became the platform."""
    if not caller.permissions >= PERMISSIONS[role]:
        raise ApiError(403, f"the role {role} may do more than the caller", field="role")
