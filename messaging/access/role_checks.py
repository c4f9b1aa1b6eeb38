"""What a token or an operator may be: a role that fits the tenant, a person's id that fits its column."""

from messaging import tenancy
from messaging.access.roles import Role
from messaging.errors import ConfigRejected
from messaging.tenancy import PLATFORM_TENANT_ID

#: Largest value of a bigint column.
_MAX_USER_ID = 2**63 - 1


def checked_role(role: Role | str) -> Role:
    """The role. Raises: ConfigRejected; the platform's one belongs to the platform's tenant alone."""
    if role not in Role.__members__:
        raise ConfigRejected("role", role, f"allowed: {', '.join(Role)}")
    if role == Role.PLATFORM and tenancy.is_multi_tenancy() and tenancy.current().tenant_id != PLATFORM_TENANT_ID:
        raise ConfigRejected("role", role, "is the platform's; allowed in tenant -1 only")
    return Role(role)


def checked_user(user_id: int | None) -> int | None:
    """The id. Raises: ConfigRejected."""
    if user_id is None or (type(user_id) is int and abs(user_id) <= _MAX_USER_ID):
        return user_id
    raise ConfigRejected("user_id", user_id, "allowed: a whole number of 64 bits, or none")
