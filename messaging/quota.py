"""Monthly quotas: how many messages a bucket may send, how many it has sent, and who may look and change.

A bucket is a tenant, or -1 for what is sent with scope PLATFORM. Its limit: the column of its quota row, else the
setting's default, else unlimited; 0 lets nothing out. Who charges, and when: `messaging.delivery.write_back`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import (
    CHAR,
    BigInteger,
    CheckConstraint,
    Identity,
    Table,
    UniqueConstraint,
    cast,
    event,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, ORMExecuteState, Session, mapped_column

from messaging import audit
from messaging.audit import Noted
from messaging.db import platform
from messaging.db.base import Audited, Base
from messaging.db.filters import owning_tenant
from messaging.errors import TenantContextMissing, TenantMismatch
from messaging.requests import MessageScope
from messaging.settings import MAX_STORABLE_COUNT, QuotaSettings
from messaging.tenancy import PLATFORM_TENANT_ID, SINGLE_TENANT_ID, is_multi_tenancy, is_single_tenant


class TenantMessageQuota(Noted, Audited, Base):
    """A tenant's own limits, written by the platform only. Null falls back to the setting, 0 lets nothing out."""

    __tablename__ = "tenant_message_quota"
    __table_args__ = (
        UniqueConstraint("tenant_id"),
        CheckConstraint("mail_monthly_limit >= 0 AND sms_monthly_limit >= 0", name="limits"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    tenant_id: Mapped[int] = mapped_column(BigInteger)
    mail_monthly_limit: Mapped[int | None] = mapped_column(BigInteger)
    sms_monthly_limit: Mapped[int | None] = mapped_column(BigInteger)


class TenantMessageUsage(Audited, Base):
    """What a bucket has used in a month; never reset, never expired."""

    __tablename__ = "tenant_message_usage"
    __table_args__ = (UniqueConstraint("tenant_id", "period"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    tenant_id: Mapped[int] = mapped_column(BigInteger)
    #: `YYYY-MM` in `QUOTA__TIMEZONE`.
    period: Mapped[str] = mapped_column(CHAR(7))
    mail_used: Mapped[int] = mapped_column(BigInteger, server_default="0")
    sms_used: Mapped[int] = mapped_column(BigInteger, server_default="0")
    #: The limits in force at the last charge; null is unlimited.
    mail_limit: Mapped[int | None] = mapped_column(BigInteger)
    sms_limit: Mapped[int | None] = mapped_column(BigInteger)
    version: Mapped[int] = mapped_column(BigInteger, server_default="0")


TENANT_MESSAGE_QUOTA: Table = TenantMessageQuota.__table__  # type: ignore[assignment]
TENANT_MESSAGE_USAGE: Table = TenantMessageUsage.__table__  # type: ignore[assignment]


def bucket(scope: str, tenant_id: int) -> int:
    """Whose quota a record of this scope and owner is charged to."""
    if not is_multi_tenancy():
        return SINGLE_TENANT_ID
    return PLATFORM_TENANT_ID if scope == MessageScope.PLATFORM else tenant_id


def period(now: datetime, timezone: str) -> str:
    """The calendar month of an aware time in a zone of the time zone database, as `YYYY-MM`."""
    return f"{now.astimezone(ZoneInfo(timezone)):%Y-%m}"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a bucket has used of its quota in the current month."""

    tenant_id: int
    #: `YYYY-MM` in `QUOTA__TIMEZONE`.
    period: str
    mail_used: int
    #: As it stands now, whatever was in force at the last charge; None is unlimited.
    mail_limit: int | None
    sms_used: int = 0
    sms_limit: int | None = None

    @property
    def mail_remaining(self) -> int | None:
        """How many more may go out; None is unlimited, and 0 too where a limit was lowered below what is used."""
        return _remaining(self.mail_used, self.mail_limit)

    @property
    def sms_remaining(self) -> int | None:
        """The same of text messages."""
        return _remaining(self.sms_used, self.sms_limit)


def _remaining(used: int, limit: int | None) -> int | None:
    return None if limit is None else max(0, limit - used)


@dataclass(frozen=True, slots=True)
class MonthUsage:
    """What a bucket used in one month, with the limit in force at its last charge."""

    period: str
    mail_used: int
    mail_limit: int | None
    sms_used: int = 0
    sms_limit: int | None = None


def usage(session: Session, tenant_id: int | None, quota: QuotaSettings) -> Usage:
    """This month's use of a bucket; None is the current tenant's. Zeros where nothing was charged yet.

    The month is that of the database's clock, as it is for a charge.

    Raises:
        TenantMismatch: Another tenant's, and neither the platform nor the system asks.
        TenantContextMissing: None is given and no tenant is set.
    """
    return standing(session, _visible_bucket(tenant_id), quota)


def standing(session: Session, bucket: int, quota: QuotaSettings) -> Usage:
    """As `usage`, of any bucket, for who has found out already whose it is."""
    now = func.to_char(func.timezone(quota.timezone, func.now()), "YYYY-MM")
    month = select(literal(bucket, BigInteger).label("tenant_id"), cast(now, CHAR(7)).label("period")).subquery()
    limits = TenantMessageQuota
    statement = (
        select(
            month.c.period,
            func.coalesce(TenantMessageUsage.mail_used, 0),
            func.coalesce(limits.mail_monthly_limit, cast(quota.mail_monthly_default, BigInteger)),
            func.coalesce(TenantMessageUsage.sms_used, 0),
            func.coalesce(limits.sms_monthly_limit, cast(quota.sms_monthly_default, BigInteger)),
        )
        .select_from(month)
        .outerjoin(
            TenantMessageUsage,
            (TenantMessageUsage.tenant_id == month.c.tenant_id) & (TenantMessageUsage.period == month.c.period),
        )
        .outerjoin(TenantMessageQuota, TenantMessageQuota.tenant_id == month.c.tenant_id)
    )
    return Usage(bucket, *session.execute(statement).one())


def history(session: Session, tenant_id: int | None, *, months: int = 24) -> Sequence[MonthUsage]:
    """A bucket's months in which something was charged, newest first. Raises: as `usage`."""
    t = TenantMessageUsage
    statement = (
        select(t.period, t.mail_used, t.mail_limit, t.sms_used, t.sms_limit)
        .where(t.tenant_id == _visible_bucket(tenant_id))
        .order_by(t.period.desc())
        .limit(months)
    )
    return [MonthUsage(*row) for row in session.execute(statement)]


class Unchanged(Enum):
    """What a limit that is not given means."""

    UNCHANGED = "UNCHANGED"


UNCHANGED: Final = Unchanged.UNCHANGED


def set_limits(
    session: Session,
    tenant_id: int,
    *,
    mail: int | Unchanged | None = UNCHANGED,
    sms: int | Unchanged | None = UNCHANGED,
) -> None:
    """Set a bucket's monthly limits in the caller's transaction; they hold for the next charge.

    None is the setting's default, 0 lets nothing out.

    Raises:
        TenantMismatch: Neither the platform nor the system sets them; or multi-tenancy is off and it is not tenant 0.
        ValueError: A limit is no whole number from 0 to 2**63 - 1.
    """
    require_platform()
    if is_single_tenant():
        _visible_bucket(tenant_id)
    limits = {"mail_monthly_limit": mail, "sms_monthly_limit": sms}
    given = {name: _limit(limit) for name, limit in limits.items() if limit is not UNCHANGED}
    q = TenantMessageQuota
    columns = (q.id, q.mail_monthly_limit, q.sms_monthly_limit)
    found = session.execute(select(*columns).where(q.tenant_id == tenant_id).with_for_update()).mappings()
    stood = found.one_or_none()
    statement = insert(TenantMessageQuota).values(tenant_id=tenant_id, **given)
    if given:
        statement = statement.on_conflict_do_update(
            index_elements=["tenant_id"], set_={**given, "updated_at": func.now()}
        )
    else:
        statement = statement.on_conflict_do_nothing(index_elements=["tenant_id"])
    session.execute(statement)
    _note_limits(session, tenant_id, None if stood is None else dict(stood), given)


def _note_limits(
    session: Session, tenant_id: int, stood: Mapping[str, Any] | None, given: Mapping[str, int | None]
) -> None:
    """In the platform's log, as a quota is the platform's to set."""
    q = TENANT_MESSAGE_QUOTA
    whose = {"tenant_id": tenant_id}
    if stood is None:
        row_id: int = session.scalars(select(q.c.id).where(q.c.tenant_id == tenant_id)).one()
        audit.note(session, "create", q, row_id, after={**whose, **given})
        return
    changed = {name: limit for name, limit in given.items() if stood[name] != limit}
    if changed:
        before = {**whose, **{name: stood[name] for name in changed}}
        audit.note(session, "update", q, stood["id"], before=before, after={**whose, **changed})


def _limit(value: int | Unchanged | None) -> int | None:
    if value is None or (type(value) is int and 0 <= value <= MAX_STORABLE_COUNT):
        return value
    raise ValueError(f"a monthly limit is {value!r}; allowed: 0 to {MAX_STORABLE_COUNT}, or None for the default")


def _visible_bucket(tenant_id: int | None) -> int:
    if is_single_tenant():
        if tenant_id not in (None, SINGLE_TENANT_ID):
            raise TenantMismatch(f"there is no quota of tenant {tenant_id}: multi-tenancy is off, all is in tenant 0")
        return SINGLE_TENANT_ID
    own = owning_tenant()
    if tenant_id is None:
        if own is None:
            raise TenantContextMissing("whose quota? the system has none of its own; name the tenant")
        return own
    if own not in (None, PLATFORM_TENANT_ID, tenant_id):
        raise TenantMismatch(f"the quota of tenant {tenant_id} is for that tenant and the platform to see")
    return tenant_id


def require_platform() -> None:
    """Raises: TenantMismatch, where a tenant acts and not the platform or the system."""
    platform.require_platform("monthly limits are set")


@event.listens_for(TenantMessageQuota, "before_insert")
@event.listens_for(TenantMessageQuota, "before_update")
@event.listens_for(TenantMessageQuota, "before_delete")
def _only_the_platform_writes(mapper: Any, connection: Any, row: TenantMessageQuota) -> None:
    require_platform()


@event.listens_for(Session, "do_orm_execute")
def _only_the_platform_executes(state: ORMExecuteState) -> None:
    is_write = state.is_insert or state.is_update or state.is_delete
    if is_write and any(issubclass(mapper.class_, TenantMessageQuota) for mapper in state.all_mappers):
        require_platform()
