"""What text messages go by: routes to countries, bindings of templates, the countries themselves."""

from typing import Unpack

from sqlalchemy.orm import Session

from messaging.api.calls import in_session, number_if_given
from messaging.api.process import environment
from messaging.config_lists import Lines, ListFields
from messaging.sms import route_admin
from messaging.sms.regions import Country
from messaging.sms.route_admin import BindingLine, RouteLine
from messaging.sms.route_checks import BindingFields, RouteFields


def add_sms_route(
    provider_config_id: int,
    region_code: str,
    *,
    priority: int = 100,
    active: bool = True,
    session: Session | None = None,
) -> int:
    """Let an SMS provider of this tenant serve a country (ISO 3166-1 alpha-2); answers the route's id.

    Raises:
        ConfigRejected: No such country, no such provider in this tenant, or there is such a route already.
    """
    environment()
    with in_session(session) as s:
        return route_admin.add_route(s, provider_config_id, region_code, priority=priority, active=active)


def change_sms_route(route_id: int, *, session: Session | None = None, **fields: Unpack[RouteFields]) -> None:
    """Change fields of a route of this tenant.

    Raises:
        ConfigRejected: As `add_sms_route`; nothing was changed.
        RecordNotFound: No such route in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        route_admin.change_route(s, route_id, **fields)


def list_sms_routes(
    region_code: str | None = None,
    provider_config_id: int | None = None,
    *,
    session: Session | None = None,
    **asked: Unpack[ListFields],
) -> Lines[RouteLine]:
    """This tenant's routes by country; None is all countries, and all providers.

    Raises:
        ConfigRejected: The country is none.
        ValueError, TypeError: They name what was asked and what is allowed.
    """
    provider_config_id = number_if_given("provider_config_id", provider_config_id)
    environment()
    with in_session(session) as s:
        return route_admin.list_routes(s, region_code, provider_config_id, **asked)


def get_sms_route(route_id: int, *, session: Session | None = None) -> RouteLine:
    """One route of this tenant, disabled or not. Raises: RecordNotFound."""
    environment()
    with in_session(session) as s:
        return route_admin.get_route(s, route_id)


def set_sms_route_active(route_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a route of this tenant or enable it again. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with in_session(session) as s:
        route_admin.set_route_active(s, route_id, is_active)


def remove_sms_route(route_id: int, *, session: Session | None = None) -> None:
    """Remove a route of this tenant. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with in_session(session) as s:
        route_admin.remove_route(s, route_id)


def add_sms_binding(
    template: int | str,
    provider_config_id: int,
    region_code: str | None = None,
    *,
    external_template_id: str | None = None,
    sign_name: str | None = None,
    priority: int = 100,
    active: bool = True,
    session: Session | None = None,
) -> int:
    """Say what an SMS template of this tenant, by id or code, is called at a provider, its own or the platform's.

    Answers an id. No country is any.

    Raises:
        ConfigRejected: A field cannot be saved, no such template or provider, or there is such a binding already.
        RecordNotFound: No template of this code in this tenant.
    """
    environment()
    with in_session(session) as s:
        return route_admin.add_binding(
            s,
            template,
            provider_config_id,
            region_code,
            external_template_id=external_template_id,
            sign_name=sign_name,
            priority=priority,
            active=active,
        )


def change_sms_binding(binding_id: int, *, session: Session | None = None, **fields: Unpack[BindingFields]) -> None:
    """Change fields of a binding of this tenant.

    Raises:
        ConfigRejected: As `add_sms_binding`; nothing was changed.
        RecordNotFound: No such binding in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        route_admin.change_binding(s, binding_id, **fields)


def list_sms_bindings(
    template: int | str | None = None,
    provider_config_id: int | None = None,
    *,
    session: Session | None = None,
    **asked: Unpack[ListFields],
) -> Lines[BindingLine]:
    """The bindings of this tenant's SMS templates; None is all templates, and all providers.

    Raises:
        RecordNotFound: No template of this code in this tenant.
        ValueError, TypeError: They name what was asked and what is allowed.
    """
    if not isinstance(template, str):
        template = number_if_given("template", template)
    provider_config_id = number_if_given("provider_config_id", provider_config_id)
    environment()
    with in_session(session) as s:
        return route_admin.list_bindings(s, template, provider_config_id, **asked)


def get_sms_binding(binding_id: int, *, session: Session | None = None) -> BindingLine:
    """One binding of this tenant, disabled or not. Raises: RecordNotFound."""
    environment()
    with in_session(session) as s:
        return route_admin.get_binding(s, binding_id)


def set_sms_binding_active(binding_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a binding of this tenant or enable it again. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with in_session(session) as s:
        route_admin.set_binding_active(s, binding_id, is_active)


def remove_sms_binding(binding_id: int, *, session: Session | None = None) -> None:
    """Remove a binding of this tenant. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with in_session(session) as s:
        route_admin.remove_binding(s, binding_id)


def list_regions(*, session: Session | None = None) -> list[Country]:
    """The countries of ISO 3166-1 by code, which routes and bindings name; those of every tenant."""
    environment()
    with in_session(session) as s:
        return route_admin.list_regions(s)
