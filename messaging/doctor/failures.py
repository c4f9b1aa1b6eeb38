"""Sends that failed of late: a password that a server no longer takes, a used up quota, a template that is gone."""

from sqlalchemy import Connection, func, literal_column, select

from messaging.category import MarkerCode
from messaging.channels import ChannelFacts
from messaging.delivery.status import SendStatus
from messaging.doctor.findings import MAX_NAMED, Finding, Findings, Level

#: Records of a channel, by id, that are looked at: the look costs the same however many there are.
NEWEST_RECORDS = 1_000

#: Of one tenant: so many failures, and more than this share of what ended, are worth a look.
MIN_FAILED, MIN_SHARE = 3, 0.2

#: Failures that somebody wanted.
_WANTED = (MarkerCode.CANCELLED, MarkerCode.SUPPRESSED)


def look_at_failures(connection: Connection, channel: ChannelFacts) -> Findings:
    """Of each tenant by itself, as that of a small one would be lost among all. Nothing where nothing failed."""
    c = channel.table.c
    newest = select(c.tenant_id, c.status, c.error_code, c.updated_at).order_by(c.id.desc()).limit(NEWEST_RECORDS)
    t = newest.subquery().c
    rows = connection.execute(
        select(t.tenant_id, t.status, t.error_code, func.count().label("count"))
        .where(
            t.status.in_((SendStatus.SENT, SendStatus.FAILED, SendStatus.DEAD_LETTER)),
            t.updated_at > func.now() - literal_column("interval '1 hour'"),
        )
        .group_by(t.tenant_id, t.status, t.error_code)
        .order_by(t.tenant_id, func.count().desc())
    )
    ended: dict[int, int] = {}
    codes: dict[int, dict[str, int]] = {}
    for tenant_id, status, code, count in rows:
        if code in _WANTED:
            continue
        ended[tenant_id] = ended.get(tenant_id, 0) + count
        if status != SendStatus.SENT:
            of = codes.setdefault(tenant_id, {})
            of[code or "without a code"] = of.get(code or "without a code", 0) + count
    failed = {tenant_id: sum(of.values()) for tenant_id, of in codes.items()}
    if not failed:
        return
    check = f"{channel.name}: failed sends"
    bad = [id_ for id_, count in failed.items() if count >= MIN_FAILED and count > MIN_SHARE * ended[id_]]
    if not bad:
        detail = f"{sum(failed.values())} of {sum(ended.values())} that ended within the hour"
        yield Finding(check, Level.OK, detail)
        return
    told = [f"tenant {id_}: {failed[id_]} of {ended[id_]}, by {_counted(codes[id_])}" for id_ in bad[:MAX_NAMED]]
    yield Finding(check, Level.WARN, f"within the hour failed of {'; '.join(told)}", _advice(channel))


def _counted(codes: dict[str, int]) -> str:
    return ", ".join(f"{code} ({count})" for code, count in codes.items())


def _advice(channel: ChannelFacts) -> str:
    if channel.name == "webhook":
        return "messaging webhook deliveries, mend the endpoint, then messaging webhook retry ID..."
    return "messaging list --error CODE; mend what messaging show ID tells, then messaging retry --error CODE"
