"""Endpoints as a worker uses them: read for a chunk at once, kept for at most a second; ended when they say so."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Text, func, select, type_coerce, update

from messaging.category import MarkerCode
from messaging.clock import Ticker
from messaging.config_cache import KeyedRows
from messaging.db.encryption import CredentialUnreadable, decrypt
from messaging.errors import PreparationError
from messaging.webhooks.models import WEBHOOK_ENDPOINT

_E = WEBHOOK_ENDPOINT.c


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an event goes, and how it is signed."""

    id: int
    url: str
    #: Each signs.
    keys: tuple[str, ...] = field(repr=False)


class EndpointCache:
    """One per process, for any thread; secrets stay encrypted."""

    def __init__(self, engine: Engine, *, ttl_seconds: float, ticker: Ticker) -> None:
        self._engine = engine
        self._rows = KeyedRows[int](engine, _read, ttl_seconds=ttl_seconds, ticker=ticker)

    def ensure(self, ids: Iterable[int]) -> None:
        """Have these endpoints, by one query at most. Raises what the driver raises."""
        self._rows.ensure(ids)

    def find_url(self, endpoint_id: int) -> str | None:
        """Where an endpoint is; None for one that is gone."""
        row = next(iter(self._rows.get(endpoint_id)), None)
        return None if row is None else row["url"]

    def get(self, endpoint_id: int, tenant_id: int, *, now: datetime) -> Endpoint:
        """The endpoint of a record of this tenant.

        Raises: PreparationError: CONFIG_NOT_RESOLVABLE, it is gone; ENDPOINT_DISABLED; CREDENTIAL_UNREADABLE.
        """
        row = next(iter(self._rows.get(endpoint_id)), None)
        if row is None or row["tenant_id"] != tenant_id:
            raise PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, f"webhook endpoint {endpoint_id} is gone")
        if not row["active"]:
            raise PreparationError(MarkerCode.ENDPOINT_DISABLED, f"webhook endpoint {endpoint_id} is disabled")
        try:
            newest, *replaced = decrypt(row["secret"]).split()
        except CredentialUnreadable as exc:
            marker = MarkerCode.CREDENTIAL_UNREADABLE
            raise PreparationError(marker, f"the secret of webhook endpoint {endpoint_id}: {exc}") from exc
        until = row["replaced_secret_until"]
        keys = (newest, *replaced) if until is not None and now < until else (newest,)
        return Endpoint(endpoint_id, row["url"], keys)

    def note_gone(self, endpoint: Endpoint) -> bool:
        """It says that it is not there any more: disable it, unless it has been pointed elsewhere meanwhile."""
        statement = (
            update(WEBHOOK_ENDPOINT)
            .where(_E.id == endpoint.id, _E.url == endpoint.url, _E.active)
            .values(active=False, gone_at=func.now(), updated_at=func.now())
        )
        with self._engine.begin() as connection:
            return bool(connection.execute(statement.returning(_E.id)).one_or_none())


_COLUMNS = (_E.id, _E.tenant_id, _E.active, _E.url, _E.replaced_secret_until, type_coerce(_E.secret, Text))


def _read(connection: Connection, ids: Collection[int]) -> Iterable[tuple[int, Mapping[str, Any]]]:
    for row in connection.execute(select(*_COLUMNS).where(_E.id.in_(ids))):
        yield row.id, dict(row._mapping)
