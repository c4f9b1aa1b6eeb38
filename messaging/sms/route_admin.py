"""Routes and bindings kept by operators: which provider serves a country, and what a template is called at a provider.

Runs in the caller's transaction and tenant. A route leads to a provider of the same tenant; a binding belongs to a
template of the tenant and may name a provider of the platform, as the platform's providers serve tenants, too.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging import field_checks, tenancy
from messaging.db.active import with_disabled
from messaging.db.own_rows import created, get_own, owner_of, set_active
from messaging.errors import ConfigRejected, RecordNotFound
from messaging.field_checks import MAX_NUMBER, number, text
from messaging.sms import provider_admin
from messaging.sms.models import SmsProviderConfig, SmsProviderRegion, SmsTemplate, SmsTemplateProviderBinding
from messaging.sms.regions import region_code as checked_region

_R, _B = SmsProviderRegion, SmsTemplateProviderBinding

_CHECKS = {
    "external_template_id": text(100),
    "sign_name": text(50),
    "priority": number(-MAX_NUMBER, MAX_NUMBER),
}


@dataclass(frozen=True, slots=True)
class RouteLine:
    """A route as lists show it."""

    id: int
    tenant_id: int
    region_code: str
    #: Digits without the plus.
    dial_code: str
    priority: int
    active: bool
    provider_config_id: int
    #: None: there is no such provider any more.
    provider_name: str | None
    provider_type: str | None
    #: Whether messages take it: it and its provider are enabled.
    is_used: bool


@dataclass(frozen=True, slots=True)
class BindingLine:
    """A binding as lists show it."""

    id: int
    tenant_id: int
    template_id: int
    #: None: there is no such template any more.
    template_code: str | None
    provider_config_id: int
    #: None: of the platform, or not there any more.
    provider_name: str | None
    #: Empty: any.
    region_code: str
    external_template_id: str | None
    sign_name: str | None
    priority: int
    active: bool


def add_route(session: Session, provider_config_id: int, region_code: str, *, priority: int = 100) -> int:
    """Let a provider serve a country; answers the route's id. From then on no default provider serves that country.

    Raises:
        ConfigRejected: The country is none, the priority no number, or there is such a route already.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: The provider belongs to the platform.
    """
    region = checked_region(region_code, is_required=True)
    values = field_checks.checked({"priority": priority}, _CHECKS, what="a route", secrets=())
    provider = get_own(session, SmsProviderConfig, provider_config_id, what=provider_admin.WHAT)
    same = select(_R).where(_R.provider_config_id == provider.id, _R.region_code == region)
    row = _R(tenant_id=provider.tenant_id, provider_config_id=provider.id, region_code=region, **values, **created())
    return _add(session, row, same, "region_code", region, f"a route of SMS provider {provider.id}")


def list_routes(session: Session, region_code: str | None = None, *, include_disabled: bool = False) -> list[RouteLine]:
    """The tenant's routes by country, lowest priority first; None is all countries.

    Raises:
        ConfigRejected: The country is none.
    """
    statement = select(_R).order_by(_R.tenant_id, _R.region_code, _R.priority, _R.id)
    if region_code is not None:
        statement = statement.where(_R.region_code == checked_region(region_code, is_required=True))
    rows = session.scalars(with_disabled(statement) if include_disabled else statement).all()
    providers = _by_id(session, SmsProviderConfig, {row.provider_config_id for row in rows})
    lines = []
    for row in rows:
        provider = providers.get(row.provider_config_id)
        shown = {name: getattr(row, name) for name in RouteLine.__dataclass_fields__ if hasattr(row, name)}
        name, provider_type = (provider.name, provider.provider_type) if provider is not None else (None, None)
        is_used = row.active and provider is not None and provider.active
        lines.append(RouteLine(**shown, provider_name=name, provider_type=provider_type, is_used=is_used))
    return lines


def remove_route(session: Session, route_id: int) -> None:
    """Remove a route. The country is served by those that are left, else by the tenant's defaults, else the platform.

    Raises:
        RecordNotFound: No such route in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    session.delete(get_own(session, _R, route_id, what="route"))
    session.flush()


def set_route_active(session: Session, route_id: int, is_active: bool) -> None:
    """Disable a route or enable it again. Raises: as `remove_route`."""
    set_active(session, get_own(session, _R, route_id, what="route"), is_active)


def add_binding(
    session: Session,
    template_code: str,
    provider_config_id: int,
    region_code: str | None = None,
    *,
    external_template_id: str | None = None,
    sign_name: str | None = None,
    priority: int = 100,
) -> int:
    """Say what a template is called at a provider; answers the binding's id. No country is any.

    From then on the template goes out by bound providers only.

    Raises:
        ConfigRejected: A field cannot be saved, or there is such a binding already; nothing was written.
        RecordNotFound: No such template in this tenant, or no such provider in it and the platform.
    """
    region = checked_region(region_code, is_required=False)
    given = {"external_template_id": external_template_id, "sign_name": sign_name, "priority": priority}
    values = field_checks.checked(given, _CHECKS, what="a binding", secrets=())
    template = _template(session, template_code)
    owner = owner_of(session, SmsProviderConfig, provider_config_id) if _is_id(provider_config_id) else None
    if owner is None or owner not in tenancy.tiers(template.tenant_id):
        raise RecordNotFound(f"no {provider_admin.WHAT} {provider_config_id}")
    names = {"template_id": template.id, "provider_config_id": provider_config_id, "region_code": region}
    same = select(_B).where(*(getattr(_B, name) == value for name, value in names.items()))
    row = _B(tenant_id=template.tenant_id, **names, **values, **created())
    what = f"a binding of SMS template {template.code!r} to SMS provider {provider_config_id}"
    return _add(session, row, same, "region_code", region or "any country", what)


def list_bindings(
    session: Session, template_code: str | None = None, *, include_disabled: bool = False
) -> list[BindingLine]:
    """The tenant's bindings by template, lowest priority first; None is all templates.

    Raises:
        RecordNotFound: No such template in this tenant.
    """
    statement = select(_B).order_by(_B.tenant_id, _B.template_id, _B.priority, _B.id)
    if template_code is not None:
        statement = statement.where(_B.template_id == _template(session, template_code).id)
    rows = session.scalars(with_disabled(statement) if include_disabled else statement).all()
    templates = _by_id(session, SmsTemplate, {row.template_id for row in rows})
    providers = _by_id(session, SmsProviderConfig, {row.provider_config_id for row in rows})
    lines = []
    for row in rows:
        shown = {name: getattr(row, name) for name in BindingLine.__dataclass_fields__ if hasattr(row, name)}
        template, provider = templates.get(row.template_id), providers.get(row.provider_config_id)
        code, name = template and template.code, provider and provider.name
        lines.append(BindingLine(**shown, template_code=code, provider_name=name))
    return lines


def remove_binding(session: Session, binding_id: int) -> None:
    """Remove a binding. A template with none left goes out by the first provider of each country.

    Raises:
        RecordNotFound: No such binding in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    session.delete(get_own(session, _B, binding_id, what="binding"))
    session.flush()


def set_binding_active(session: Session, binding_id: int, is_active: bool) -> None:
    """Disable a binding or enable it again. Raises: as `remove_binding`."""
    set_active(session, get_own(session, _B, binding_id, what="binding"), is_active)


def _add(session: Session, row: Any, same: Any, field: str, value: str, what: str) -> int:
    """Raises: ConfigRejected, when there is one already; of two that add it at once the second is told so, too."""
    twin = session.scalars(with_disabled(same)).first()
    if twin is None:
        try:
            with session.begin_nested():
                session.add(row)
            row_id: int = row.id
            return row_id
        except IntegrityError as exc:
            constraint = exc.orig.diag.constraint_name if exc.orig is not None else None  # type: ignore[attr-defined]
            if constraint != f"uq_{row.__tablename__}_key":
                raise
    number = "" if twin is None else f", {twin.id}{'' if twin.active else ' (disabled)'}"
    raise ConfigRejected(field, value, f"there is {what} for it already{number}")


def _template(session: Session, code: str) -> SmsTemplate:
    """The tenant's template, disabled or not. Raises: RecordNotFound."""
    found = session.scalars(with_disabled(select(SmsTemplate).where(SmsTemplate.code == code))).all()
    if len(found) != 1:
        reason = "names one in several tenants; say which tenant" if found else "is none of this tenant"
        raise RecordNotFound(f"SMS template {code!r} {reason}")
    return found[0]


def _by_id(session: Session, kind: Any, ids: Collection[int]) -> dict[int, Any]:
    """Rows that the tenant may see, disabled ones too."""
    return {row.id: row for row in session.scalars(with_disabled(select(kind).where(kind.id.in_(ids))))}


def _is_id(value: object) -> bool:
    return type(value) is int and 1 <= value < 2**63
