"""Usage and limits of monthly quotas: who sees and sets which. How they are charged: `delivery/test_quota.py`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging import quota, tenancy
from messaging.errors import TenantContextMissing, TenantMismatch
from messaging.quota import TENANT_MESSAGE_USAGE, MonthUsage, TenantMessageQuota, Usage
from messaging.settings import QuotaSettings
from tests.conftest import MakeSettings

PLATFORM = tenancy.PLATFORM_TENANT_ID
UNLIMITED = QuotaSettings()
THIS_MONTH = quota.period(datetime.now(UTC), "UTC")


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    tenancy.use_multi_tenancy(True)
    with Session(engine) as session:
        yield session
    tenancy.use_multi_tenancy(False)


def use(session: Session, tenant_id: int, *, month: str = THIS_MONTH, **columns: Any) -> None:
    session.execute(insert(TENANT_MESSAGE_USAGE).values(tenant_id=tenant_id, period=month, **columns))


def set_limits(session: Session, tenant_id: int, mail: int | None) -> None:
    with tenancy.tenant(PLATFORM):
        quota.set_limits(session, tenant_id, mail=mail)


def test_a_tenant_sees_its_own_usage_and_no_other(session: Session) -> None:
    use(session, 7, mail_used=30, mail_limit=99)
    set_limits(session, 7, 100)
    with tenancy.tenant(7):  # operate.md O43
        seen = quota.usage(session, 7, UNLIMITED)
        assert seen == quota.usage(session, None, UNLIMITED) == Usage(7, THIS_MONTH, mail_used=30, mail_limit=100)
        assert seen.mail_remaining == 70
        for other in (8, PLATFORM):
            with pytest.raises(TenantMismatch, match=f"tenant {other} "):
                quota.usage(session, other, UNLIMITED)
            with pytest.raises(TenantMismatch):
                quota.history(session, other)


def test_the_platform_sees_any_usage(session: Session) -> None:
    use(session, 7, mail_used=30)
    use(session, PLATFORM, mail_used=4)
    with tenancy.tenant(PLATFORM):
        assert quota.usage(session, 7, UNLIMITED).mail_used == 30
        assert quota.usage(session, None, UNLIMITED) == Usage(PLATFORM, THIS_MONTH, 4, None)
    with tenancy.all_tenants():
        assert quota.usage(session, 7, UNLIMITED).mail_used == 30
        with pytest.raises(TenantContextMissing):
            quota.usage(session, None, UNLIMITED)


def test_a_tenant_that_was_charged_nothing_has_zeros(session: Session) -> None:
    with tenancy.tenant(7):  # operate.md O43
        assert quota.usage(session, 7, UNLIMITED) == Usage(7, THIS_MONTH, 0, None)
        assert quota.usage(session, 7, UNLIMITED).mail_remaining is None
        assert quota.history(session, 7) == []


def test_with_no_tenant_set_nothing_is_seen(session: Session) -> None:
    with pytest.raises(TenantContextMissing):
        quota.usage(session, 7, UNLIMITED)


@pytest.mark.parametrize(
    ("own", "default", "limit"),
    [
        pytest.param("no row", 50, 50, id="no quota row: the default"),
        pytest.param("no row", None, None, id="no default either: unlimited"),
        pytest.param(None, 50, 50, id="null column: the default"),
        pytest.param(0, 50, 0, id="0: nothing"),
        pytest.param(70, 50, 70, id="its own"),
        pytest.param(70, 0, 70, id="its own beats a default of nothing"),
    ],
)
def test_a_limit_is_the_rows_else_the_default_else_none(
    session: Session, own: int | str | None, default: int | None, limit: int | None
) -> None:
    if own != "no row":
        set_limits(session, 7, own)  # type: ignore[arg-type]  # operate.md O40
    use(session, 7, mail_used=60, mail_limit=1)
    with tenancy.tenant(7):
        seen = quota.usage(session, 7, QuotaSettings(mail_monthly_default=default))
    assert seen.mail_limit == limit
    assert seen.mail_remaining == (None if limit is None else max(0, limit - 60))


def test_history_is_the_months_with_charges_newest_first(session: Session) -> None:
    use(session, 7, month="2025-12", mail_used=5, mail_limit=10)
    use(session, 7, month="2026-02", mail_used=7)
    use(session, 8, month="2026-01", mail_used=9)
    with tenancy.tenant(7):
        assert quota.history(session, 7) == [MonthUsage("2026-02", 7, None), MonthUsage("2025-12", 5, 10)]
        assert quota.history(session, 7, months=1) == [MonthUsage("2026-02", 7, None)]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Niue"])
def test_usage_is_shown_for_the_month_of_the_quotas_zone(session: Session, zone: str) -> None:
    month = quota.period(datetime.now(UTC), zone)  # quota-02
    with tenancy.tenant(7):
        assert quota.usage(session, 7, QuotaSettings(timezone=zone)).period == month


def test_a_tenant_cannot_set_limits_by_any_way(session: Session) -> None:
    set_limits(session, 7, 100)
    session.commit()
    row = session.scalars(select(TenantMessageQuota)).one()
    with tenancy.tenant(7):  # operate.md O44
        for write in (
            lambda: quota.set_limits(session, 7, mail=1000),
            lambda: session.execute(update(TenantMessageQuota).values(mail_monthly_limit=1000)),
            lambda: session.execute(delete(TenantMessageQuota)),
            lambda: session.execute(insert(TenantMessageQuota).values(tenant_id=8)),
        ):
            with pytest.raises(TenantMismatch, match="set by the platform"):
                write()
        row.mail_monthly_limit = 1000
        with pytest.raises(TenantMismatch):
            session.flush()
        session.rollback()
        session.add(TenantMessageQuota(tenant_id=8))
        with pytest.raises(TenantMismatch):
            session.flush()
        session.rollback()
        assert quota.usage(session, 7, UNLIMITED).mail_limit == 100


def test_a_limit_is_set_changed_and_taken_back(session: Session) -> None:
    defaults = QuotaSettings(mail_monthly_default=50)
    for given, holds in ((100, 100), (0, 0), (None, 50), (2**63 - 1, 2**63 - 1)):
        set_limits(session, 7, given)
        with tenancy.tenant(7):
            assert quota.usage(session, 7, defaults).mail_limit == holds
    with tenancy.tenant(PLATFORM):
        quota.set_limits(session, 7)
        assert quota.usage(session, 7, defaults).mail_limit == 2**63 - 1


@pytest.mark.parametrize("limit", [-1, 2**63, 1.5, True, "10"])
def test_what_is_no_limit_is_refused_before_the_database_sees_it(session: Session, limit: Any) -> None:
    with pytest.raises(ValueError, match="monthly limit"):
        set_limits(session, 7, limit)


def test_the_table_holds_no_limit_below_zero(session: Session) -> None:
    with tenancy.tenant(PLATFORM):
        session.add(TenantMessageQuota(tenant_id=7, mail_monthly_limit=-1))
        with pytest.raises(IntegrityError, match="ck_tenant_message_quota_limits"):
            session.flush()


def test_without_multi_tenancy_there_is_one_bucket(engine: Engine, make_settings: MakeSettings) -> None:
    tenancy.use_multi_tenancy(False)
    with Session(engine) as session:
        quota.set_limits(session, 0, mail=3)
        use(session, 0, mail_used=2)
        assert quota.usage(session, None, UNLIMITED) == quota.usage(session, 0, UNLIMITED)
        assert quota.usage(session, None, UNLIMITED).mail_remaining == 1
        with pytest.raises(TenantMismatch, match="multi-tenancy is off"):
            quota.usage(session, 7, UNLIMITED)
        with pytest.raises(TenantMismatch, match="multi-tenancy is off"):
            quota.set_limits(session, 7, mail=3)


def test_text_messages_have_limits_and_use_of_their_own(session: Session) -> None:
    with tenancy.all_tenants():
        quota.set_limits(session, 7, mail=5)
        quota.set_limits(session, 7, sms=3)
    session.execute(
        TENANT_MESSAGE_USAGE.insert().values(
            tenant_id=7, period=THIS_MONTH, mail_used=1, mail_limit=5, sms_used=4, sms_limit=3
        )
    )
    with tenancy.tenant(7):
        seen = quota.usage(session, None, UNLIMITED)
        assert seen == Usage(7, THIS_MONTH, 1, 5, sms_used=4, sms_limit=3)
        assert (seen.mail_remaining, seen.sms_remaining) == (4, 0)
        assert quota.history(session, None) == [MonthUsage(THIS_MONTH, 1, 5, 4, 3)]
