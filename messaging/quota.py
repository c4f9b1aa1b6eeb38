"""Monthly quotas: how many messages a bucket may send, and how many it has sent.

A bucket is a tenant, or -1 for what is sent with scope PLATFORM. Who charges, and when: `messaging.delivery`.
"""

from sqlalchemy import CHAR, BigInteger, Identity, Table, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from messaging.db.base import Audited, Base
from messaging.requests import MessageScope
from messaging.tenancy import PLATFORM_TENANT_ID, SINGLE_TENANT_ID, is_multi_tenancy


class TenantMessageQuota(Audited, Base):
    """A tenant's own limits, written by the platform only. Null falls back to the setting, 0 lets nothing out."""

    __tablename__ = "tenant_message_quota"
    __table_args__ = (UniqueConstraint("tenant_id"),)

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
