"""People whose inboxes tests look at."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from messaging import tenancy
from messaging.requests import SendInbox
from messaging.tenancy import Context

U, V = 41, 42


def note(recipient_id: int = U, **fields: Any) -> SendInbox:
    return SendInbox(**{"recipient_id": recipient_id, "title": "Leave", "content": "Please approve.", **fields})


def signed_in(user_id: int, tenant_id: int | None = None) -> AbstractContextManager[Context]:
    """Run as a person, of a tenant or of the only one."""
    return tenancy.acting_as(
        replace(tenancy.current(), tenant_id=tenant_id, user_id=user_id, user_name=f"user {user_id}")
    )
