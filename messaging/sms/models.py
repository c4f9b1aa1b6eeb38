"""Tables of the SMS channel: the send record, providers, routes, templates, bindings and receipts."""

import secrets
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    CHAR,
    JSON,
    BigInteger,
    Identity,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, ORMExecuteState, Session, UOWTransaction, mapped_column

from messaging.audit import SECRET, Noted
from messaging.db import reading
from messaging.db.active import Switchable
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.encryption import Encrypted
from messaging.db.filters import TenantOwned
from messaging.delivery.record import SendRecordColumns, send_record_constraints
from messaging.errors import ConfigRejected
from messaging.requests import Priority
from messaging.sms.ext_config import ExtConfig
from messaging.sms.regions import RegionCode, dial_code, region_code
from messaging.templates.models import TemplateColumns


class DeliveryStatus(StrEnum):
    """What the provider's receipts said of a message; apart from the record's own status."""

    #: Nothing final was heard.
    UNKNOWN = "UNKNOWN"
    #: On the handset.
    DELIVERED = "DELIVERED"
    #: The network could not deliver it.
    UNDELIVERED = "UNDELIVERED"
    #: Refused or aborted by the provider or the network.
    FAILED = "FAILED"


class Encoding(StrEnum):
    """How a text is coded on the air (3GPP TS 23.038)."""

    GSM7 = "GSM7"
    UCS2 = "UCS2"


class SmsSendRecord(SendRecordColumns, Base):
    """One accepted text message: what was asked, what was prepared, where it stands."""

    __tablename__ = "sms_send_record"
    __table_args__ = (
        one_of("priority", Priority, "priority"),
        one_of("delivery_status", DeliveryStatus, "delivery_status"),
        one_of("encoding", Encoding, "encoding"),
        # receipts
        Index(
            "ix_sms_send_provider_message",
            "provider_config_id",
            "provider_message_id",
            postgresql_where=text("provider_message_id IS NOT NULL"),
        ),
        # look-ups
        Index(
            "ix_sms_send_swept",
            "provider_config_id",
            "phone_number",
            postgresql_where=text("status = 'RETRY' AND swept_at IS NOT NULL"),
        ),
        # lists of one number
        Index("ix_sms_send_number", "tenant_id", "phone_number", "created_at", "id"),
        *send_record_constraints("sms_send_record", "sms_send"),
    )

    #: E.164 with the plus.
    phone_number: Mapped[str] = mapped_column(String(50))
    template_code: Mapped[str | None] = mapped_column(String(100))
    #: In the caller's order (hence not JSONB); some providers need them at every attempt.
    template_variables: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    #: Names a template asked for and did not get; null when it got all.
    missing_variables: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    #: At most 2,000 characters; final once prepared.
    content: Mapped[str | None] = mapped_column(Text)
    provider_config_id: Mapped[int | None] = mapped_column(BigInteger)
    provider_type: Mapped[str | None] = mapped_column(String(20))
    #: ISO 3166-1 alpha-2 of the number, or `001` of a non-geographic one.
    region_code: Mapped[str | None] = mapped_column(String(3))
    sign_name: Mapped[str | None] = mapped_column(String(50))
    external_template_id: Mapped[str | None] = mapped_column(String(100))
    #: Values by position, for providers that take no names.
    template_params: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    encoding: Mapped[str | None] = mapped_column(String(4))
    segments: Mapped[int | None] = mapped_column(SmallInteger)
    priority: Mapped[str | None] = mapped_column(String(10))
    provider_message_id: Mapped[str | None] = mapped_column(String(255))
    #: When its provider was asked about a lost reply and knew nothing, so that it is sent again; see
    #: `messaging.sms.look_up`.
    asked_at: Mapped[datetime | None] = mapped_column(Timestamp)
    delivery_status: Mapped[str] = mapped_column(String(20), server_default=DeliveryStatus.UNKNOWN)
    delivery_status_updated_at: Mapped[datetime | None] = mapped_column(Timestamp)


class SmsProviderConfig(Noted, TenantOwned, Switchable, Audited, Base):
    """An account at a provider. `active` hides it from routing; records prepared with it still go out."""

    __tablename__ = "sms_provider_config"
    __table_args__ = (
        Index("ix_sms_provider_config_default", "tenant_id", "is_default"),
        UniqueConstraint("receipt_token"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    name: Mapped[str] = mapped_column(String(100))
    description: Mapped[str | None] = mapped_column(String(500))
    #: A name of the registry, e.g. `TWILIO`.
    provider_type: Mapped[str] = mapped_column(String(20))
    api_key: Mapped[str | None] = mapped_column(Encrypted, deferred=True)
    api_secret: Mapped[str | None] = mapped_column(Encrypted, deferred=True)
    #: None: the provider's own.
    api_endpoint: Mapped[str | None] = mapped_column(String(500))
    account_id: Mapped[str | None] = mapped_column(String(255))
    #: What only this provider knows, e.g. `{"region": "eu"}`; what may be a secret is stored encrypted.
    ext_config: Mapped[dict[str, Any] | None] = mapped_column(ExtConfig, info={**SECRET})
    sender_number: Mapped[str | None] = mapped_column(String(50))
    sender_id: Mapped[str | None] = mapped_column(String(50))
    #: Messages a minute and a day; null or less than 1 is no limit.
    rate_limit_per_minute: Mapped[int | None] = mapped_column(Integer)
    daily_send_limit: Mapped[int | None] = mapped_column(Integer)
    #: Serves countries without a route; several may.
    is_default: Mapped[bool] = mapped_column(server_default="false")
    #: Lower first.
    priority: Mapped[int] = mapped_column(Integer, server_default="100")
    #: In the address of its receipts; unguessable.
    receipt_token: Mapped[str] = mapped_column(String(64), default=lambda: secrets.token_urlsafe(32), info={**SECRET})

    def __repr__(self) -> str:
        return f"SmsProviderConfig(id={self.id}, provider_type={self.provider_type!r})"


def _dial_code_of_insert(context: Any) -> str:
    """Of an insert that no object stands behind."""
    return dial_code(region_code(context.get_current_parameters()["region_code"], is_required=True))


class SmsProviderRegion(Noted, TenantOwned, Switchable, Audited, Base):
    """A route: a provider that serves a country."""

    __tablename__ = "sms_provider_region"
    __table_args__ = (
        UniqueConstraint("tenant_id", "provider_config_id", "region_code", name="uq_sms_provider_region_key"),
        Index("ix_sms_provider_region_code", "tenant_id", "region_code"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    provider_config_id: Mapped[int] = mapped_column(BigInteger)
    #: ISO 3166-1 alpha-2.
    region_code: Mapped[str] = mapped_column(RegionCode(is_required=True))
    #: Digits without the plus, always derived from the region; empty for a territory without a code of its own.
    dial_code: Mapped[str] = mapped_column(String(10), default=_dial_code_of_insert, server_default="")
    #: Lower first.
    priority: Mapped[int] = mapped_column(Integer, server_default="100")


class CountryRegion(Base):
    """A country of ISO 3166-1, of no tenant's; its columns are told at `messaging.sms.regions.Country`."""

    __tablename__ = "country_region"
    __table_args__ = (UniqueConstraint("alpha3"),)

    code: Mapped[str] = mapped_column(CHAR(2), primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    alpha3: Mapped[str] = mapped_column(CHAR(3))
    dial_code: Mapped[str] = mapped_column(String(10), server_default="")
    currency: Mapped[str | None] = mapped_column(CHAR(3))
    continent: Mapped[str] = mapped_column(CHAR(2))


class SmsTemplate(TemplateColumns, Base):
    """A text with placeholders (Jinja2)."""

    __tablename__ = "sms_template"
    __table_args__ = (UniqueConstraint("tenant_id", "code"),)

    content: Mapped[str | None] = mapped_column(Text)
    #: Whether typographic characters become those of the GSM alphabet.
    to_gsm: Mapped[bool] = mapped_column(server_default="false")
    #: Most segments of the final text; null is no cap.
    max_segments: Mapped[int | None] = mapped_column(SmallInteger)


class SmsTemplateProviderBinding(Noted, TenantOwned, Switchable, Audited, Base):
    """What a template is called at a provider, for one country or for any."""

    __tablename__ = "sms_template_provider_binding"
    __table_args__ = (
        UniqueConstraint(
            "tenant_id",
            "template_id",
            "provider_config_id",
            "region_code",
            name="uq_sms_template_provider_binding_key",
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    template_id: Mapped[int] = mapped_column(BigInteger)
    provider_config_id: Mapped[int] = mapped_column(BigInteger)
    #: Empty: any.
    region_code: Mapped[str] = mapped_column(RegionCode(is_required=False), server_default="")
    external_template_id: Mapped[str | None] = mapped_column(String(100))
    sign_name: Mapped[str | None] = mapped_column(String(50))
    #: Lower first.
    priority: Mapped[int] = mapped_column(Integer, server_default="100")


class SmsReceipt(TenantOwned, Audited, Base):
    """A receipt as it came, stored before it is applied."""

    __tablename__ = "sms_receipt"
    __table_args__ = (
        one_of("status", DeliveryStatus, "status"),
        Index("ix_sms_receipt_message", "provider_config_id", "provider_message_id"),
        Index("ix_sms_receipt_waiting", "received_at", postgresql_where=text("applied_at IS NULL")),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    provider_config_id: Mapped[int] = mapped_column(BigInteger)
    provider_message_id: Mapped[str | None] = mapped_column(String(255))
    status: Mapped[str | None] = mapped_column(String(20))
    #: When the provider says it happened.
    at: Mapped[datetime | None] = mapped_column(Timestamp)
    raw: Mapped[str] = mapped_column(Text)
    received_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())
    applied_at: Mapped[datetime | None] = mapped_column(Timestamp)


@event.listens_for(Session, "before_flush")
def _normalise_regions(session: Session, _context: UOWTransaction, _instances: Any | None) -> None:
    """Refuse what names no country before anything is written: the transaction stays usable."""
    for row in (*session.new, *session.dirty):
        if isinstance(row, SmsProviderRegion | SmsTemplateProviderBinding):
            _normalise_region(None, None, row)


@event.listens_for(SmsProviderRegion, "before_insert")
@event.listens_for(SmsProviderRegion, "before_update")
@event.listens_for(SmsTemplateProviderBinding, "before_insert")
@event.listens_for(SmsTemplateProviderBinding, "before_update")
def _normalise_region(_mapper: Any, _connection: Any, row: SmsProviderRegion | SmsTemplateProviderBinding) -> None:
    """Also what another listener has changed after the flush began."""
    region = region_code(row.region_code, is_required=isinstance(row, SmsProviderRegion))
    if region != row.region_code:
        row.region_code = region
    if isinstance(row, SmsProviderRegion):
        derived = dial_code(region)
        if derived != row.dial_code:
            row.dial_code = derived


@event.listens_for(Session, "do_orm_execute")
def _check_region_statement(state: ORMExecuteState) -> None:
    """Rows written by a statement: what it says of countries; a dial code follows, and no statement sets it."""
    if not (state.is_insert or state.is_update):
        return
    written = {mapper.class_ for mapper in state.all_mappers} & {SmsProviderRegion, SmsTemplateProviderBinding}
    if not written:
        return
    is_route = SmsProviderRegion in written
    for row in reading.written(state.statement, state.parameters):
        if "region_code" in row:
            region_code(row["region_code"], is_required=is_route)
        if is_route and ("dial_code" in row or (state.is_update and "region_code" in row)):
            reason = "a dial code follows from the country; change the object, or remove the route and add another"
            raise ConfigRejected("dial_code", row.get("dial_code"), reason)


@event.listens_for(Session, "before_flush")
def _check_templates(session: Session, _context: UOWTransaction, _instances: Any | None) -> None:
    """Refuse a template that could not be rendered, before anything is written: the transaction stays usable."""
    for row in (*session.new, *session.dirty):
        if isinstance(row, SmsTemplate):
            # Loads Jinja2, which a process that saves no template never needs.
            from messaging.sms.template_checks import check_row

            check_row(row)


@event.listens_for(Session, "do_orm_execute")
def _check_template_statement(state: ORMExecuteState) -> None:
    """The same for templates written by a statement, as far as it holds their values."""
    if (state.is_insert or state.is_update) and any(mapper.class_ is SmsTemplate for mapper in state.all_mappers):
        from messaging.sms.template_checks import check_statement

        check_statement(state.statement, state.parameters)


SMS_SEND_RECORD: Table = SmsSendRecord.__table__  # type: ignore[assignment]
SMS_PROVIDER_CONFIG: Table = SmsProviderConfig.__table__  # type: ignore[assignment]
SMS_PROVIDER_REGION: Table = SmsProviderRegion.__table__  # type: ignore[assignment]
SMS_TEMPLATE: Table = SmsTemplate.__table__  # type: ignore[assignment]
SMS_TEMPLATE_PROVIDER_BINDING: Table = SmsTemplateProviderBinding.__table__  # type: ignore[assignment]
SMS_RECEIPT: Table = SmsReceipt.__table__  # type: ignore[assignment]
