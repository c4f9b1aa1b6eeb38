"""Routes and bindings kept by operators: which provider serves a country, and what a template is called at a provider.

Runs in the caller's transaction and tenant. A route leads to a provider of the same tenant; a binding belongs to a
template of the tenant and may name a provider of the platform, as the platform's providers serve tenants, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from sqlalchemy import ColumnElement, and_, exists, select
from sqlalchemy.orm import Session

from messaging import config_admin, config_lists, tenancy
from messaging.config_kinds import Kind, Twin
from messaging.config_lists import Lines, ListFields
from messaging.db.active import with_disabled
from messaging.db.filters import owning_tenant
from messaging.db.own_rows import owner_of
from messaging.errors import ConfigRejected, RecordNotFound
from messaging.sms import provider_admin, template_admin
from messaging.sms.models import (
    CountryRegion,
    SmsProviderConfig,
    SmsProviderRegion,
    SmsTemplate,
    SmsTemplateProviderBinding,
)
from messaging.sms.regions import Country
from messaging.sms.regions import region_code as checked_region
from messaging.sms.route_checks import BindingFields, RouteFields, checked_binding, checked_route

_R, _B, _P, _T = SmsProviderRegion, SmsTemplateProviderBinding, SmsProviderConfig, SmsTemplate


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
    updated_at: datetime


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
    updated_at: datetime


def _check_route(session: Session, values: Mapping[str, Any]) -> None:
    if "provider_config_id" in values:
        _check_id(session, _P, "provider_config_id", values["provider_config_id"], provider_admin.WHAT)


def _check_binding(session: Session, values: Mapping[str, Any]) -> None:
    if "template_id" in values:
        _check_id(session, _T, "template_id", values["template_id"], template_admin.WHAT)
    if "provider_config_id" in values:
        _check_id(
            session, _P, "provider_config_id", values["provider_config_id"], provider_admin.WHAT, may_be_shared=True
        )


def _check_id(
    session: Session, kind: type[Any], field: str, row_id: int, what: str, *, may_be_shared: bool = False
) -> None:
    """Refuse an id of what is not this tenant's; `may_be_shared`: the platform's will do, too."""
    owner, own = owner_of(session, kind, row_id), owning_tenant()
    if owner is not None and (own is None or owner == own):
        return
    if owner == tenancy.PLATFORM_TENANT_ID:
        if may_be_shared:
            return
        raise ConfigRejected(field, row_id, f"this {what} belongs to the platform; a tenant names its own")
    raise ConfigRejected(field, row_id, f"there is no such {what}")


def _like_route(row: Mapping[str, Any]) -> Twin:
    provider_id, region = row["provider_config_id"], row["region_code"]
    same = select(_R).where(_R.provider_config_id == provider_id, _R.region_code == region)
    return Twin(same, "region_code", f"there is a route of SMS provider {provider_id} for it already")


def _like_binding(row: Mapping[str, Any]) -> Twin:
    names = ("template_id", "provider_config_id", "region_code")
    same = select(_B).where(*(getattr(_B, name) == row[name] for name in names))
    what = f"a binding of SMS template {row['template_id']} to SMS provider {row['provider_config_id']}"
    return Twin(same, "region_code", f"there is {what} for it already")


#: What stands where nothing is given.
_DEFAULTS: Mapping[str, Any] = {"priority": 100, "active": True}
_OF_ROUTE = _P.id == _R.provider_config_id
_OF_BINDING = _P.id == _B.provider_config_id

ROUTES = Kind(
    what="route",
    model=_R,
    line=RouteLine,
    fields=tuple(RouteFields.__annotations__),
    defaults=_DEFAULTS,
    check=checked_route,
    check_references=_check_route,
    order=("tenant_id", "region_code", "priority"),
    searched=("region_code",),
    computed={
        "provider_name": select(_P.name).where(_OF_ROUTE).scalar_subquery(),
        "provider_type": select(_P.provider_type).where(_OF_ROUTE).scalar_subquery(),
        "is_used": and_(_R.active, exists().where(_OF_ROUTE, _P.active)),
    },
    twin=_like_route,
)
BINDINGS = Kind(
    what="binding",
    model=_B,
    line=BindingLine,
    fields=tuple(BindingFields.__annotations__),
    defaults=_DEFAULTS,
    check=checked_binding,
    check_references=_check_binding,
    order=("tenant_id", "template_id", "priority"),
    searched=("external_template_id", "sign_name"),
    computed={
        "template_code": select(_T.code).where(_T.id == _B.template_id).scalar_subquery(),
        "provider_name": select(_P.name).where(_OF_BINDING).scalar_subquery(),
    },
    twin=_like_binding,
)


def add_route(
    session: Session, provider_config_id: int, region_code: str, *, priority: int = 100, active: bool = True
) -> int:
    """Let a provider serve a country; answers the route's id. From then on no default provider serves that country.

    Raises:
        ConfigRejected: The country is none, the tenant has no such provider, a field cannot be saved, or there is such
            a route already. Nothing was written.
    """
    fields: RouteFields = {
        "provider_config_id": provider_config_id,
        "region_code": region_code,
        "priority": priority,
        "active": active,
    }
    return config_admin.add(session, ROUTES, fields)


def change_route(session: Session, route_id: int, **fields: Unpack[RouteFields]) -> None:
    """Change the fields that are given.

    Raises:
        ConfigRejected: As `add_route`; nothing was changed.
        RecordNotFound: No such route in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.change(session, ROUTES, route_id, fields)


def list_routes(
    session: Session,
    region_code: str | None = None,
    provider_config_id: int | None = None,
    **asked: Unpack[ListFields],
) -> Lines[RouteLine]:
    """The tenant's routes by country, lowest priority first; None is all countries, and all providers.

    Raises:
        ConfigRejected: The country is none.
        ValueError, TypeError: As `messaging.config_lists.listed`.
    """
    conditions: list[ColumnElement[bool]] = []
    if region_code is not None:
        conditions.append(_R.region_code == checked_region(region_code, is_required=True))
    if provider_config_id is not None:
        conditions.append(_R.provider_config_id == provider_config_id)
    return config_lists.listed(session, ROUTES, asked, *conditions)


def get_route(session: Session, route_id: int) -> RouteLine:
    """One of them, disabled or not. Raises: RecordNotFound."""
    return config_lists.shown(session, ROUTES, route_id)


def remove_route(session: Session, route_id: int) -> None:
    """Remove a route. The country is served by those that are left, else by the tenant's defaults, else the platform.

    What is prepared goes out by the provider that it has.

    Raises:
        RecordNotFound: No such route in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, ROUTES, route_id)


def set_route_active(session: Session, route_id: int, is_active: bool) -> None:
    """Disable a route or enable it again. Raises: as `remove_route`."""
    config_admin.switch(session, ROUTES, route_id, is_active)


def add_binding(
    session: Session,
    template: int | str,
    provider_config_id: int,
    region_code: str | None = None,
    *,
    external_template_id: str | None = None,
    sign_name: str | None = None,
    priority: int = 100,
    active: bool = True,
) -> int:
    """Say what a template, by its id or code, is called at a provider; answers the binding's id. No country is any.

    From then on the template goes out by bound providers only.

    Raises:
        ConfigRejected: A field cannot be saved, the tenant has no such template, there is no such provider in it and
            the platform, or there is such a binding already. Nothing was written.
        RecordNotFound: No template of this code in this tenant.
    """
    fields: BindingFields = {
        "template_id": _template_id(session, template),
        "provider_config_id": provider_config_id,
        "region_code": region_code,
        "external_template_id": external_template_id,
        "sign_name": sign_name,
        "priority": priority,
        "active": active,
    }
    return config_admin.add(session, BINDINGS, fields)


def change_binding(session: Session, binding_id: int, **fields: Unpack[BindingFields]) -> None:
    """Change the fields that are given.

    Raises:
        ConfigRejected: As `add_binding`; nothing was changed.
        RecordNotFound: No such binding in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.change(session, BINDINGS, binding_id, fields)


def list_bindings(
    session: Session,
    template: int | str | None = None,
    provider_config_id: int | None = None,
    **asked: Unpack[ListFields],
) -> Lines[BindingLine]:
    """The tenant's bindings by template, lowest priority first; None is all templates, and all providers.

    Raises:
        RecordNotFound: No template of this code in this tenant.
        ValueError, TypeError: As `messaging.config_lists.listed`.
    """
    conditions: list[ColumnElement[bool]] = []
    if template is not None:
        conditions.append(_B.template_id == _template_id(session, template))
    if provider_config_id is not None:
        conditions.append(_B.provider_config_id == provider_config_id)
    return config_lists.listed(session, BINDINGS, asked, *conditions)


def get_binding(session: Session, binding_id: int) -> BindingLine:
    """One of them, disabled or not. Raises: RecordNotFound."""
    return config_lists.shown(session, BINDINGS, binding_id)


def remove_binding(session: Session, binding_id: int) -> None:
    """Remove a binding. A template with none left goes out by the first provider of each country.

    What is prepared keeps the names that it has.

    Raises:
        RecordNotFound: No such binding in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    config_admin.delete(session, BINDINGS, binding_id)


def set_binding_active(session: Session, binding_id: int, is_active: bool) -> None:
    """Disable a binding or enable it again. Raises: as `remove_binding`."""
    config_admin.switch(session, BINDINGS, binding_id, is_active)


def list_regions(session: Session) -> list[Country]:
    """The countries that they may name, by code."""
    columns = [getattr(CountryRegion, name) for name in Country.__dataclass_fields__]
    return [Country(*row) for row in session.execute(select(*columns).order_by(CountryRegion.code))]


def _template_id(session: Session, template: int | str) -> int:
    """Raises: RecordNotFound, for a code that the tenant has no template of."""
    if not isinstance(template, str):
        return template
    found = session.scalars(with_disabled(select(_T.id).where(_T.code == template))).all()
    if len(found) != 1:
        reason = "names one in several tenants; say which tenant" if found else "is none of this tenant"
        raise RecordNotFound(f"SMS template {template!r} {reason}")
    return found[0]
