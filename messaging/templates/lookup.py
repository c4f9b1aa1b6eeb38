"""Template rows, kept in the process for at most a second, whether found by id or by tenant and code.

A change is used by every worker's next attempt within that second. As bodies can be long, what is still fresh is not
read again with what is new (`messaging.config_cache`, whose rows are short, does so): each row has an age of its own.
Which row a record may use: `messaging.mail.templates`.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Table, or_, select, tuple_

from messaging.clock import Ticker
from messaging.db.connects import Connects

#: A template's columns.
Template = Mapping[str, Any]
#: A tenant's id, and a code of one of its templates.
Code = tuple[int, str]


class TemplateCache:
    """Templates of one table by id, and by tenant and code. Any thread may ask."""

    def __init__(self, engine: Connects, table: Table, *, ttl_seconds: float, ticker: Ticker) -> None:
        self._engine = engine
        self._table = table
        self._ttl = ttl_seconds
        self._ticker = ticker
        self._lock = threading.Lock()
        #: By id or code: when it was read, and the row, None where there is none.
        self._rows: dict[int | Code, tuple[float, Template | None]] = {}

    def ensure(self, ids: Iterable[int], codes: Iterable[Code]) -> None:
        """Have these no older than the promise, by one query at most. Raises what the driver raises."""
        with self._lock:
            self._ensure(set(ids), set(codes))

    def by_id(self, template_id: int) -> Template | None:
        """The template with this id, active or not, whoever owns it; None when there is none."""
        with self._lock:
            self._ensure({template_id}, set())
            return self._rows[template_id][1]

    def by_code(self, tenant_id: int, code: str) -> Template | None:
        """A tenant's active template; None when there is none, or a disabled one."""
        with self._lock:
            self._ensure(set(), {(tenant_id, code)})
            row = self._rows[tenant_id, code][1]
        return row if row is not None and row["active"] else None

    def _ensure(self, ids: set[int], codes: set[Code]) -> None:
        now = self._ticker()
        fresh_since = now - self._ttl
        missing_ids = {key for key in ids if not self._is_fresh(key, fresh_since)}
        missing_codes = {key for key in codes if not self._is_fresh(key, fresh_since)}
        if not missing_ids and not missing_codes:
            return
        rows = self._read(missing_ids, missing_codes)  # before anything is noted: a failed read tells of no absence
        self._rows = {key: entry for key, entry in self._rows.items() if entry[0] > fresh_since}
        self._rows |= dict.fromkeys((*missing_ids, *missing_codes), (now, None))
        for row in rows:
            for key in (row["id"], (row["tenant_id"], row["code"])):
                self._rows[key] = (now, row)

    def _is_fresh(self, key: int | Code, since: float) -> bool:
        entry = self._rows.get(key)
        return entry is not None and entry[0] > since

    def _read(self, ids: set[int], codes: set[Code]) -> list[Template]:
        t = self._table
        wanted = [t.c.id.in_(ids)] if ids else []
        if codes:
            wanted.append(tuple_(t.c.tenant_id, t.c.code).in_(codes))
        with self._engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(select(t).where(or_(*wanted)))]
