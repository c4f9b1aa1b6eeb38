"""Writes an event for each endpoint that listens, inside the statement that changes the record (`delivery.announcing`).

Workers ask who listens once within `CONFIG_CACHE_TTL_SECONDS`, so that a tenant without an endpoint costs nothing; that
an endpoint is active and wants the event is looked at again in the statement itself.
"""

import threading
from collections.abc import Collection
from functools import cache

from sqlalchemy import Connection, select

from messaging.clock import Ticker
from messaging.delivery.announcing import Announcement
from messaging.webhooks.models import ABOUT_CHANNELS, WEBHOOK_ENDPOINT, WEBHOOK_SEND_RECORD

#: Endpoints are read as they stand when the record changes: one that was added before hears it.
_INSERT = f"""
            INSERT INTO {WEBHOOK_SEND_RECORD.name} (tenant_id, scope, endpoint_id, event_type, about_channel,
                about_record_id, payload, trace_id, span_id, request_id)
            SELECT t.tenant_id, 'TENANT', e.id, t.event_type, t.channel, t.record_id, t.data, t.trace_id, t.span_id,
                t.request_id
            FROM told t JOIN {WEBHOOK_ENDPOINT.name} e ON e.tenant_id = t.tenant_id
            WHERE e.active AND (e.event_types IS NULL OR jsonb_exists(e.event_types, t.event_type))
            ORDER BY t.record_id, e.id"""  # noqa: S608 - our own names

_LISTENING = select(WEBHOOK_ENDPOINT.c.tenant_id).where(WEBHOOK_ENDPOINT.c.active).distinct()


@cache
def announcement(channel: str) -> Announcement | None:
    """What a change of a channel's records adds to be told of; None for a channel that nothing is told of."""
    return Announcement(channel, _INSERT) if channel in ABOUT_CHANNELS else None


class EndpointWatch:
    """Who listens, as one look a second says; one per process, for any thread."""

    def __init__(self, *, ttl_seconds: float, ticker: Ticker) -> None:
        self._ttl = ttl_seconds
        self._ticker = ticker
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._tenants: frozenset[int] = frozenset()

    def find(
        self, connection: Connection, channel: str, tenant_ids: Collection[int] | None = None
    ) -> Announcement | None:
        """As `Announcer` says. For connections whose transaction is our own and as young as the change."""
        found = announcement(channel)
        if found is None:
            return None
        tenants = self._listening(connection)
        is_heard = bool(tenants) if tenant_ids is None else not tenants.isdisjoint(tenant_ids)
        return found if is_heard else None

    def _listening(self, connection: Connection) -> frozenset[int]:
        with self._lock:
            now = self._ticker()
            if now - self._looked_at >= self._ttl:
                self._tenants = frozenset(connection.execute(_LISTENING).scalars())
                self._looked_at = now
            return self._tenants


class EndpointsAtHand:
    """Who listens is asked by each change itself: for callers' transactions, which may see an older state than ours."""

    def find(
        self, connection: Connection, channel: str, tenant_ids: Collection[int] | None = None
    ) -> Announcement | None:
        """As `Announcer` says."""
        return announcement(channel)


AT_HAND = EndpointsAtHand()
