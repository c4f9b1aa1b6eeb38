"""The models that seeds may make, and how a row is made of a seed's fields.

What a row names by its id, a seed names by the seed of that row: ids are those of one database.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, select

from messaging import config_admin
from messaging.config_kinds import Kind
from messaging.errors import ConfigRejected
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.mail.server_admin import SERVERS
from messaging.mail.template_admin import TEMPLATES as MAIL_TEMPLATES
from messaging.quota import TenantMessageQuota
from messaging.settings import MAX_STORABLE_COUNT
from messaging.sms.models import SmsProviderConfig, SmsProviderRegion, SmsTemplate, SmsTemplateProviderBinding
from messaging.sms.provider_admin import PROVIDERS
from messaging.sms.route_admin import BINDINGS, ROUTES
from messaging.sms.template_admin import TEMPLATES as SMS_TEMPLATES

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
    #: Finds a row that no second may stand beside; answers None where there may be any number.
    twins: Callable[[int, dict[str, Any]], Select[Any] | None]
    #: Whose rows they are: the tenant's, or the platform's about the tenant.
    is_platforms: bool = False
    #: Fields that hold the id of another row: its table, and whether it may be the platform's.
    references: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


def _new_quota(tenant_id: int, fields: dict[str, Any]) -> TenantMessageQuota:
    for name, value in fields.items():
        if value is not None and not (type(value) is int and 0 <= value <= MAX_STORABLE_COUNT):
            raise ConfigRejected(name, value, f"allowed: 0 to {MAX_STORABLE_COUNT}, or null for the default")
    return TenantMessageQuota(tenant_id=tenant_id, **fields)


def _kept(
    kind: Kind[Any],
    *,
    left_out: Collection[str] = (),
    unique_field: str | None = None,
    references: Mapping[str, tuple[str, bool]] | None = None,
) -> Model:
    """Rows that operators keep, too."""
    return Model(
        kind.model,
        tuple(name for name in kind.fields if name not in left_out),
        kind.secrets - {EXT_CONFIG},
        lambda _tenant_id, fields: config_admin.new(kind, fields),
        unique_field,
        lambda _tenant_id, fields: config_admin.twin_of(kind, fields),
        references=references or {},
    )


#: Fields of a template that hold ids of one database.
_IDS = ("preferred_server_config_id", "attachments")

MODELS = {
    MailTemplate.__tablename__: _kept(MAIL_TEMPLATES, left_out=_IDS, unique_field="code"),
    MailSendServerConfig.__tablename__: _kept(SERVERS),
    TenantMessageQuota.__tablename__: Model(
        TenantMessageQuota,
        ("mail_monthly_limit", "sms_monthly_limit"),
        frozenset(),
        _new_quota,
        "model",
        lambda tenant_id, _fields: select(TenantMessageQuota.id).where(TenantMessageQuota.tenant_id == tenant_id),
        is_platforms=True,
    ),
    SmsProviderConfig.__tablename__: _kept(PROVIDERS),
    SmsTemplate.__tablename__: _kept(SMS_TEMPLATES, unique_field="code"),
    SmsProviderRegion.__tablename__: _kept(
        ROUTES, references={"provider_config_id": (SmsProviderConfig.__tablename__, False)}
    ),
    SmsTemplateProviderBinding.__tablename__: _kept(
        BINDINGS,
        references={
            "template_id": (SmsTemplate.__tablename__, False),
            "provider_config_id": (SmsProviderConfig.__tablename__, True),
        },
    ),
}
