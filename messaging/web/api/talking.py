"""Operations that may hold a thread for seconds: they talk to servers that say nothing, or render whatever is written.

Few run at once, and fewer of one tenant, so that threads are left for everything else; one more is told to come again.
"""

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Depends, Request

from messaging import tenancy
from messaging.web.errors import ApiError
from messaging.web.limits import Limits, Slots

#: The part of the threads that may be held so at once, and what of that one tenant may have.
_PART, _PART_OF_ONE = 4, 2
#: Seconds after which whoever found no room may come again: most tests are done by then.
_AGAIN_SECONDS = 5


def slots(limits: Limits) -> Slots:
    """Those of one process."""
    in_all = max(1, limits.threads // _PART)
    return Slots(in_all, of_one=max(1, in_all // _PART_OF_ONE))


async def _talking(request: Request) -> AsyncIterator[None]:
    """Raises: ApiError 429, while the tenant or all have as many as may be."""
    held: Slots = request.app.state.talks
    tenant_id = tenancy.current().tenant_id
    if not held.take(tenant_id):
        again = {"retry-after": str(_AGAIN_SECONDS)}
        raise ApiError(
            429, "as many requests that take seconds are worked on as may be at once; come again", headers=again
        )
    try:
        yield
    finally:
        held.give_back(tenant_id)


def talks() -> Any:
    """For `dependencies=[...]`: the handler talks to other servers."""
    return Depends(_talking)


def renders() -> Any:
    """For `dependencies=[...]`: the handler renders a template for somebody who looks at what comes of it."""
    return Depends(_talking)
