"""Who looks at a page, and whose rows it shows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from messaging import tenancy
from messaging.access.roles import Permission
from messaging.web.auth import Identity


def is_platform(caller: Identity) -> bool:
    """Whether a page shows rows of all tenants, and whose."""
    return (
        tenancy.is_multi_tenancy()
        and caller.may(Permission.PLATFORM)
        and caller.tenant_id == tenancy.PLATFORM_TENANT_ID
    )


def sees_platform(caller: Identity) -> bool:
    """Whether a caller sees what belongs to no tenant: the platform, or with one tenant its platform operators."""
    return is_platform(caller) or (not tenancy.is_multi_tenancy() and caller.may(Permission.PLATFORM))


@contextmanager
def seen_by(caller: Identity, tenant_id: int | None = None) -> Iterator[None]:
    """Run for whose rows a page is about: the caller's own; to the platform those of one tenant, or (None) of all."""
    if not is_platform(caller):
        yield
        return
    context = replace(tenancy.current(), tenant_id=tenant_id, cross_tenant=tenant_id is None)
    with tenancy.acting_as(context):
        yield
