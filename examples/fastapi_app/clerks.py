"""Who calls our HTTP API: the shop's clerks, by the shop's own keys."""

from fastapi import Request
from sqlalchemy import Engine, select

from examples.fastapi_app.tables import Clerk
from messaging.access.roles import PERMISSIONS, Role
from messaging.tenancy import SINGLE_TENANT_ID
from messaging.web.auth import Identity


class ShopKeys:
    """An authenticator; see `messaging.web.auth.Authenticator`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def authenticate(self, request: Request) -> Identity | None:
        """The clerk whose key the request carries."""
        key = request.headers.get("x-shop-key")
        if key is None:
            return None
        with self._engine.connect() as connection:
            clerk_id = connection.scalar(select(Clerk.id).where(Clerk.key == key))
        if clerk_id is None:
            return None
        return Identity(f"user:{clerk_id}", SINGLE_TENANT_ID, PERMISSIONS[Role.OPERATOR], user_id=clerk_id)
