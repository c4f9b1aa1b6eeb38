"""Tell listeners that somebody's inbox has changed: NOTIFY in the transaction that changes it, heard when it commits.

What is told is whose inbox, as ids, and nothing of what is in it: everybody who may connect to the database hears it.
PostgreSQL lets transactions that notify commit one after the other; those that touch no inbox do not wait for them.
Source: `NOTIFY` in PostgreSQL's manual.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import ARRAY, Connection, Text, bindparam, column, func, literal, select

#: What listeners listen to; one for each database.
CHANNEL = "messaging_inbox"

#: Octets of one notification; PostgreSQL takes less than 8,000.
MAX_PAYLOAD_OCTETS = 7_900


class Inbox(NamedTuple):
    """Whose notifications."""

    tenant_id: int
    recipient_id: int


_payloads = (
    func.unnest(bindparam("payloads", type_=ARRAY(Text())))
    .table_valued(column("payload", Text()))
    .render_derived(name="told")
)
_NOTIFY = select(func.count(func.pg_notify(literal(CHANNEL), _payloads.c.payload)))


def tell(connection: Connection, inboxes: Iterable[Inbox]) -> None:
    """Let listeners look at these inboxes once the connection's transaction has committed; one statement for all."""
    connection.execute(_NOTIFY, {"payloads": list(_written(sorted(set(inboxes))))})


def _written(inboxes: Iterable[Inbox]) -> Iterator[str]:
    """The inboxes as `tenant:recipient` with spaces between, in as few payloads as may be."""
    names: list[str] = []
    octets = 0
    for inbox in inboxes:
        name = f"{inbox.tenant_id}:{inbox.recipient_id}"
        if names and octets + len(name) + 1 > MAX_PAYLOAD_OCTETS:
            yield " ".join(names)
            names, octets = [], 0
        names.append(name)
        octets += len(name) + 1
    if names:
        yield " ".join(names)


def heard(payload: str) -> list[Inbox]:
    """The inboxes that a notification tells of.

    Raises: ValueError for what we did not write: anybody who may connect to the database may notify.
    """
    return [Inbox(int(tenant), int(recipient)) for tenant, _, recipient in (n.partition(":") for n in payload.split())]
