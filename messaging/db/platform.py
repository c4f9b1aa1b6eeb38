"""What is the platform's alone: tables without a tenant of their own, which no tenant reads or changes."""

from messaging.db.filters import owning_tenant
from messaging.errors import TenantMismatch
from messaging.tenancy import PLATFORM_TENANT_ID, is_single_tenant


def require_platform(what: str) -> None:
    """Let nobody on but the platform and the system; with multi-tenancy off, anybody. `what` says what is asked.

    Raises: TenantMismatch.
    """
    if not is_single_tenant() and owning_tenant() not in (None, PLATFORM_TENANT_ID):
        raise TenantMismatch(f"{what} by the platform; a tenant cannot do that")
