"""The models that seeds may make, and how a row is made of a seed's fields.

What a row names by its id, a seed names by the seed of that row: ids are those of one database.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import Select, select

from messaging.errors import ConfigRejected
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.mail.server_admin import new_server
from messaging.mail.server_checks import SECRET_FIELDS, ServerFields
from messaging.mail.template_checks import DEFAULTS, FIELDS, check_template
from messaging.quota import TenantMessageQuota
from messaging.settings import MAX_STORABLE_COUNT
from messaging.sms.models import SmsProviderConfig, SmsProviderRegion, SmsTemplate, SmsTemplateProviderBinding
from messaging.sms.provider_admin import new_provider
from messaging.sms.provider_checks import SECRET_FIELDS as PROVIDER_SECRETS
from messaging.sms.provider_checks import ProviderFields
from messaging.sms.route_checks import BindingFields, RouteFields, checked_binding, checked_route
from messaging.sms.template_checks import DEFAULTS as SMS_DEFAULTS
from messaging.sms.template_checks import FIELDS as SMS_FIELDS
from messaging.sms.template_checks import check_template as check_sms_template

#: The field whose single values may be secrets.
EXT_CONFIG = "ext_config"


@dataclass(frozen=True, slots=True)
class Model:
    """How rows of one table are made from seeds."""

    table: type[Any]
    fields: tuple[str, ...]
    secrets: frozenset[str]
    #: The row of these fields, not in a session yet. Raises ConfigRejected.
    new: Callable[[int, dict[str, Any]], Any]
    #: Of rows that agree in this field a tenant has one; None: any number.
    unique_field: str | None
    #: Finds a row that no second may stand beside; None: there may be any number.
    twins: Callable[[int, dict[str, Any]], Select[Any]] | None
    #: Whose rows they are: the tenant's, or the platform's about the tenant.
    is_platforms: bool = False
    #: Fields that hold the id of another row: its table, and whether it may be the platform's.
    references: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


def _new_template(_tenant_id: int, fields: dict[str, Any]) -> MailTemplate:
    whole = dict.fromkeys(FIELDS) | DEFAULTS | fields
    check_template(whole)
    return MailTemplate(**whole)


def _new_server(_tenant_id: int, fields: dict[str, Any]) -> MailSendServerConfig:
    return new_server(**cast("ServerFields", fields))


def _new_quota(tenant_id: int, fields: dict[str, Any]) -> TenantMessageQuota:
    for name, value in fields.items():
        if value is not None and not (type(value) is int and 0 <= value <= MAX_STORABLE_COUNT):
            raise ConfigRejected(name, value, f"allowed: 0 to {MAX_STORABLE_COUNT}, or null for the default")
    return TenantMessageQuota(tenant_id=tenant_id, **fields)


def _new_sms_template(_tenant_id: int, fields: dict[str, Any]) -> SmsTemplate:
    whole = dict.fromkeys(SMS_FIELDS) | dict(SMS_DEFAULTS) | fields
    check_sms_template(whole)
    return SmsTemplate(**whole)


def _new_route(_tenant_id: int, fields: dict[str, Any]) -> SmsProviderRegion:
    given = {"region_code": None} | fields
    return SmsProviderRegion(**checked_route(given))


def _routes_of(_tenant_id: int, fields: dict[str, Any]) -> Select[Any]:
    row = _new_route(_tenant_id, fields)
    t = SmsProviderRegion
    return select(t.id).where(t.provider_config_id == row.provider_config_id, t.region_code == row.region_code)


def _new_binding(_tenant_id: int, fields: dict[str, Any]) -> SmsTemplateProviderBinding:
    given = {"region_code": None} | fields
    return SmsTemplateProviderBinding(**checked_binding(given))


def _bindings_of(_tenant_id: int, fields: dict[str, Any]) -> Select[Any]:
    row = _new_binding(_tenant_id, fields)
    t = SmsTemplateProviderBinding
    return select(t.id).where(
        t.template_id == row.template_id,
        t.provider_config_id == row.provider_config_id,
        t.region_code == row.region_code,
    )


#: Fields of a template that hold ids of one database.
_IDS = ("preferred_server_config_id", "attachments")

MODELS = {
    MailTemplate.__tablename__: Model(
        MailTemplate,
        tuple(name for name in FIELDS if name not in _IDS),
        frozenset(),
        _new_template,
        "code",
        lambda _tenant_id, fields: select(MailTemplate.id).where(MailTemplate.code == fields["code"]),
    ),
    MailSendServerConfig.__tablename__: Model(
        MailSendServerConfig, tuple(ServerFields.__annotations__), SECRET_FIELDS, _new_server, None, None
    ),
    TenantMessageQuota.__tablename__: Model(
        TenantMessageQuota,
        ("mail_monthly_limit", "sms_monthly_limit"),
        frozenset(),
        _new_quota,
        "model",
        lambda tenant_id, _fields: select(TenantMessageQuota.id).where(TenantMessageQuota.tenant_id == tenant_id),
        is_platforms=True,
    ),
    SmsProviderConfig.__tablename__: Model(
        SmsProviderConfig,
        tuple(ProviderFields.__annotations__),
        PROVIDER_SECRETS - {EXT_CONFIG},
        lambda _tenant_id, fields: new_provider(**cast("ProviderFields", fields)),
        None,
        None,
    ),
    SmsTemplate.__tablename__: Model(
        SmsTemplate,
        SMS_FIELDS,
        frozenset(),
        _new_sms_template,
        "code",
        lambda _tenant_id, fields: select(SmsTemplate.id).where(SmsTemplate.code == fields["code"]),
    ),
    SmsProviderRegion.__tablename__: Model(
        SmsProviderRegion,
        tuple(RouteFields.__annotations__),
        frozenset(),
        _new_route,
        None,
        _routes_of,
        references={"provider_config_id": (SmsProviderConfig.__tablename__, False)},
    ),
    SmsTemplateProviderBinding.__tablename__: Model(
        SmsTemplateProviderBinding,
        tuple(BindingFields.__annotations__),
        frozenset(),
        _new_binding,
        None,
        _bindings_of,
        references={
            "template_id": (SmsTemplate.__tablename__, False),
            "provider_config_id": (SmsProviderConfig.__tablename__, True),
        },
    ),
}
