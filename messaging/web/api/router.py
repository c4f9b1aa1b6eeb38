"""Every resource of the API, in the order in which paths are looked for: what is called most comes first."""

from messaging.web.api import (
    audit,
    dead_letters,
    inbox,
    me,
    operators,
    session,
    tokens,
    webhooks,
)
from messaging.web.api.resource import Resource

#: A new resource is one line above and one here.
RESOURCES: tuple[Resource, ...] = (
    inbox.routes,
    me.routes,
    tokens.routes,
    session.routes,
    operators.routes,
    dead_letters.routes,
    audit.routes,
    webhooks.routes,
)
