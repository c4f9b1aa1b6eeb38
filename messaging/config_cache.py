"""Server and provider configurations, kept in the process for at most a second, secrets still encrypted.

A change is used by every worker's next attempt within that second, whoever wrote it: there is no copy in Redis, so
nothing to evict and nothing stale to write back. One query reads what a chunk needs and is not there.
"""

import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Table, Text, and_, or_, select, type_coerce

from messaging import tenancy
from messaging.category import MarkerCode
from messaging.clock import Ticker, boot_seconds
from messaging.db.connects import Connects
from messaging.db.encryption import Encrypted
from messaging.db.filters import foreign, owning_tenant
from messaging.errors import PreparationError, RecordNotFound, shown_value

#: A configuration's columns; credentials as ciphertext.
Config = Mapping[str, Any]


class ConfigCache:
    """Configurations of one table by id, and each tenant's defaults. Any thread may ask."""

    def __init__(
        self, engine: Connects, table: Table, *, ttl_seconds: float, ticker: Ticker, rank: str = "sequence"
    ) -> None:
        """`rank`: the column by which a tenant's defaults are ordered, lowest first."""
        self._engine = engine
        self._table = table
        self._rank = rank
        self._ttl = ttl_seconds
        self._ticker = ticker
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._by_id: dict[int, Config | None] = {}
        self._defaults: dict[int, list[Config]] = {}

    def ensure(self, ids: Iterable[int], tenants: Iterable[int]) -> None:
        """Have these ids and these tenants' defaults, no older than the promise. Raises what the driver raises."""
        with self._lock:
            self._ensure(set(ids), set(tenants))

    def find(self, config_id: int) -> Config | None:
        """The configuration with this id, active or not; None when there is none."""
        with self._lock:  # looked up under the lock: another thread's refill may hold none of this one's
            if not (self._is_fresh() and config_id in self._by_id):
                self._ensure({config_id}, set())
            return self._by_id.get(config_id)

    def defaults(self, tenant_id: int) -> list[Config]:
        """A tenant's active defaults in order of preference."""
        with self._lock:
            if not (self._is_fresh() and tenant_id in self._defaults):
                self._ensure(set(), {tenant_id})
            return self._defaults.get(tenant_id, [])

    def _is_fresh(self) -> bool:
        return self._ticker() - self._read_at < self._ttl

    def _ensure(self, ids: set[int], tenants: set[int]) -> None:
        now = self._ticker()
        if now - self._read_at >= self._ttl:
            self._by_id, self._defaults = {}, {}
            self._read(ids, tenants)
            self._read_at = now
            return
        # What is new within the second is read by itself and ends with the rest. To read all again would keep all for
        # as long as there is something new, and a mail of each of a thousand tenants would read a thousand rows.
        ids, tenants = ids - self._by_id.keys(), tenants - self._defaults.keys()
        if ids or tenants:
            self._read(ids, tenants)

    def _read(self, ids: set[int], tenants: set[int]) -> None:
        t = self._table
        columns = [type_coerce(c, Text).label(c.name) if isinstance(c.type, Encrypted) else c for c in t.c]
        statement = (
            select(*columns)
            .where(or_(t.c.id.in_(ids), and_(t.c.tenant_id.in_(tenants), t.c.is_default, t.c.active)))
            .order_by(t.c[self._rank], t.c.id)
        )
        with self._engine.connect() as connection:
            rows: list[Config] = [dict(row._mapping) for row in connection.execute(statement)]
        by_id: dict[int, Config | None] = dict.fromkeys(ids)
        defaults: dict[int, list[Config]] = {tenant: [] for tenant in tenants}
        for row in rows:
            by_id[row["id"]] = row
            if row["tenant_id"] in defaults and row["is_default"] and row["active"]:
                defaults[row["tenant_id"]].append(row)
        self._by_id |= by_id
        self._defaults |= defaults


_Key = TypeVar("_Key", bound=Hashable)


class KeyedRows(Generic[_Key]):
    """Rows by a key that many of them may share, each key read again once it is older than the promise. Any thread."""

    def __init__(
        self,
        engine: Connects,
        read: Callable[[Connection, Collection[_Key]], Iterable[tuple[_Key, Mapping[str, Any]]]],
        *,
        ttl_seconds: float,
        ticker: Ticker,
    ) -> None:
        """`read` answers the rows of some keys by one query, in the order in which they are kept."""
        self._engine = engine
        self._read = read
        self._ttl = ttl_seconds
        self._ticker = ticker
        self._lock = threading.Lock()
        #: When a key was read, and its rows.
        self._rows: dict[_Key, tuple[float, list[Mapping[str, Any]]]] = {}

    def ensure(self, keys: Iterable[_Key]) -> None:
        """Have these keys' rows, by one query at most. Raises what the driver raises."""
        with self._lock:
            self._ensure(set(keys))

    def get(self, key: _Key) -> Sequence[Mapping[str, Any]]:
        """The key's rows; empty when there are none."""
        with self._lock:
            self._ensure({key})
            return self._rows[key][1]

    def _ensure(self, keys: set[_Key]) -> None:
        now = self._ticker()
        missing = {key for key in keys if key not in self._rows or now - self._rows[key][0] >= self._ttl}
        if not missing:
            return
        read: dict[_Key, list[Mapping[str, Any]]] = {key: [] for key in missing}
        with self._engine.connect() as connection:
            for key, row in self._read(connection, missing):
                read[key].append(row)
        fresh = {key: entry for key, entry in self._rows.items() if now - entry[0] < self._ttl}
        self._rows = fresh | {key: (now, rows) for key, rows in read.items()}


class Configs(Protocol):
    """Where a configuration is found by its id."""

    def find(self, config_id: int, /) -> Config | None: ...


def find_visible_by_id(configs: Configs, config_id: int, tenant_id: int, *, what: str) -> Config:
    """The configuration a prepared record of this tenant was given: own or the platform's, disabled or not.

    Raises: PreparationError, `CONFIG_NOT_RESOLVABLE`, when it is gone; `what` says of which kind.
    """
    config = configs.find(config_id)
    if config is None or config["tenant_id"] not in tenancy.tiers(tenant_id):
        raise PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, f"{what} {config_id} is gone")
    return config


def own_config(engine: Engine, table: Table, config_id: object, *, what: str) -> Config:
    """A configuration of the current tenant as it stands now, disabled or not, secrets still encrypted.

    Raises:
        RecordNotFound: No such configuration in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    if not isinstance(config_id, int) or isinstance(config_id, bool):
        raise TypeError(f"a {what} id is an int, not {shown_value(config_id)}")
    owner = owning_tenant()
    config = None
    if 1 <= config_id < 2**63:
        config = ConfigCache(engine, table, ttl_seconds=0, ticker=boot_seconds, rank="id").find(config_id)
    if config is not None and owner is not None and config["tenant_id"] != owner:
        if config["tenant_id"] == tenancy.PLATFORM_TENANT_ID:
            raise foreign(f"{what} {config_id}", tenancy.PLATFORM_TENANT_ID)
        config = None
    if config is None:
        raise RecordNotFound(f"no {what} {shown_value(config_id)}")
    return config
