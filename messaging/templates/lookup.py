"""Templates by id and by tenant and code, kept in the process for at most a second.

The same promise as that of configurations (`messaging.config_cache`): a change is used by every worker's next
preparation within that second, whoever wrote it. Refilled by one query for all that is in use.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Engine, Table, and_, or_, select, tuple_

from messaging.clock import Ticker

#: A template's columns.
Template = Mapping[str, Any]


class TemplateCache:
    """Templates of one table. Any thread may ask."""

    def __init__(self, engine: Engine, table: Table, *, ttl_seconds: float, ticker: Ticker) -> None:
        self._engine = engine
        self._table = table
        self._ttl = ttl_seconds
        self._ticker = ticker
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._by_id: dict[int, Template | None] = {}
        self._by_code: dict[tuple[int, str], Template | None] = {}

    def ensure(self, ids: Iterable[int], codes: Iterable[tuple[int, str]]) -> None:
        """Have these ids and these tenants' codes, no older than the promise. Raises what the driver raises."""
        with self._lock:
            self._ensure(set(ids), set(codes))

    def by_id(self, template_id: int) -> Template | None:
        """The template with this id, active or not; None when there is none."""
        with self._lock:  # looked up under the lock: another thread's refill may hold none of this one's
            self._ensure({template_id}, set())
            return self._by_id[template_id]

    def by_code(self, tenant_id: int, code: str) -> Template | None:
        """The tenant's active template with this code; None when there is none."""
        with self._lock:
            self._ensure(set(), {(tenant_id, code)})
            return self._by_code[tenant_id, code]

    def _ensure(self, ids: set[int], codes: set[tuple[int, str]]) -> None:
        now = self._ticker()
        if now - self._read_at < self._ttl:
            if ids <= self._by_id.keys() and codes <= self._by_code.keys():
                return
            # Something new within the second: read it with the rest, which keeps one age for all.
            ids = ids | self._by_id.keys()
            codes = codes | self._by_code.keys()
        self._read(ids, codes)
        self._read_at = now

    def _read(self, ids: set[int], codes: set[tuple[int, str]]) -> None:
        t = self._table
        named = and_(t.c.active, tuple_(t.c.tenant_id, t.c.code).in_(codes))
        with self._engine.connect() as connection:
            rows: list[Template] = [
                dict(row._mapping) for row in connection.execute(select(t).where(or_(t.c.id.in_(ids), named)))
            ]
        self._by_id = dict.fromkeys(ids, None) | {row["id"]: row for row in rows}
        self._by_code = dict.fromkeys(codes, None) | {
            (row["tenant_id"], row["code"]): row for row in rows if row["active"]
        }
