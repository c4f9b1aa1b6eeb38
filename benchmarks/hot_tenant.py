"""A burst of one tenant, whose mails all change one usage row, against the same burst spread over 100 tenants.

Measured: mails a second from the commit that makes them due to the last SENT, multi-tenancy on, every mail charged to
its tenant's monthly quota (unlimited, which is counted all the same), one platform server for all. They take turns on
one system, and what was charged is compared with what was sent.

What would make it lie: rows whose quota is not charged; a first mail of each tenant that opens its month in the
measured time of one and not of the other (both have been charged before).
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.drain import Ours
from benchmarks.harness.figure import Figure, at_least, compare, exactly, interleave, medians
from benchmarks.harness.stand import Stand

MAILS = 4000
TENANTS = 100
#: Tenant by number of the mail.
HOT, SPREAD = "1000", f"n % {TENANTS}"


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("hot_tenant")
    database.run("UPDATE mail_send_server_config SET tenant_id = -1")
    with stand.system("hot_tenant", variables={"MESSAGING_MULTI_TENANCY": "true"}) as system:
        system.pause()
        ours = Ours(stand.sink, database, system)

        def drain(tenant: str, mails: int = MAILS) -> float:
            return ours.drain(database.pending(mails, {"tenant_id": tenant}), mails)

        for tenant in (HOT, SPREAD):
            drain(tenant, 1000)
        results = medians(interleave({"hot": partial(drain, HOT), "spread": partial(drain, SPREAD)}))
        charged = database.scalar("SELECT sum(mail_used) FROM tenant_message_usage")
    yield compare(
        "burst of one tenant", "mails/s", results["hot"], results["spread"], f"over {TENANTS} tenants", at_least(0.8)
    )
    yield Figure(
        "burst of one tenant, mails charged",
        charged,
        "mails",
        against=f"records accepted: {ours.accepted}",
        ratio=charged / ours.accepted,
        bar=exactly(1),
    )
