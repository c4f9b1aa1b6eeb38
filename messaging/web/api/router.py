"""Every resource of the API, in the order in which paths are looked for: what is called most comes first."""

from messaging.web.api import me, tokens
from messaging.web.api.resource import Resource

#: A new resource is one line here.
RESOURCES: tuple[Resource, ...] = (
    me.routes,
    tokens.routes,
)
