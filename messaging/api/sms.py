"""Text messages: accept them, the providers, routes and bindings they go by."""

from collections.abc import Sequence
from typing import Any, Unpack, overload

from sqlalchemy.orm import Session

from messaging.api.calls import given, in_session
from messaging.api.process import environment
from messaging.clock import utc_now
from messaging.requests import MessageScope, SendSms
from messaging.sms import channel, connectivity, explaining, provider_admin, route_admin
from messaging.sms.acceptance import accept_sms
from messaging.sms.connectivity import ProviderTest
from messaging.sms.explaining import RouteExplanation
from messaging.sms.provider_admin import ProviderCheck, ProviderLine
from messaging.sms.provider_checks import ProviderFields
from messaging.sms.route_admin import BindingLine, RouteLine


@overload
def send_sms(request: SendSms, *, session: Session | None = None) -> int: ...
@overload
def send_sms(*, session: Session | None = None, **fields: Any) -> int: ...
def send_sms(request: SendSms | None = None, *, session: Session | None = None, **fields: Any) -> int:
    """Accept one text message; answers its record's id. It goes out once the transaction has committed.

    Takes a `SendSms`, or its fields as keywords. The number is E.164 (`+4915112345678`), the text at most 2,000
    characters; template, country, provider and quota are looked at when it is delivered.

    Raises:
        MessageRejected: The input cannot be accepted; names field and value. Nothing was written, and the transaction
            is still usable.
    """
    chosen = given("send_sms", SendSms, channel.NAME, request, fields)
    shared = environment()
    with in_session(session) as s:
        return accept_sms(s, [chosen], settings=shared.settings, now=utc_now(), single=True)[0]


def send_sms_batch(requests: Sequence[SendSms], *, session: Session | None = None) -> list[int]:
    """Accept 1 to 500 text messages, all or none, in one insert; answers ids in the order of the requests.

    Raises:
        MessageRejected: As `send_sms`, with the index of the item.
    """
    shared = environment()
    with in_session(session) as s:
        return accept_sms(s, requests, settings=shared.settings, now=utc_now(), single=False)


def add_sms_provider(*, session: Session | None = None, **fields: Unpack[ProviderFields]) -> int:
    """Add an SMS provider of this tenant; answers its id. See `messaging.sms.provider_admin` for what follows.

    Raises:
        ConfigRejected: A field cannot be saved, or its adapter could not send with it. Nothing was written.
    """
    environment()
    with in_session(session) as s:
        return provider_admin.add_provider(s, **fields)


def change_sms_provider(config_id: int, *, session: Session | None = None, **fields: Unpack[ProviderFields]) -> None:
    """Change fields of an SMS provider; the next attempt of each record that uses it goes by them within a second.

    Raises:
        ConfigRejected: As `add_sms_provider`; nothing was changed.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        provider_admin.change_provider(s, config_id, **fields)


def list_sms_providers(*, with_disabled: bool = False, session: Session | None = None) -> list[ProviderLine]:
    """This tenant's SMS providers, lowest priority first, without secrets."""
    base_url = environment().settings.public_base_url
    with in_session(session) as s:
        return provider_admin.list_providers(s, include_disabled=with_disabled, public_base_url=base_url)


def get_sms_provider(config_id: int, *, session: Session | None = None) -> ProviderLine:
    """One SMS provider of this tenant, disabled or not, without secrets. Raises: RecordNotFound."""
    base_url = environment().settings.public_base_url
    with in_session(session) as s:
        return provider_admin.get_provider(s, config_id, public_base_url=base_url)


def set_sms_provider_active(config_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable an SMS provider or enable it again; what was prepared with it goes out in any case.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        provider_admin.set_provider_active(s, config_id, is_active)


def check_sms_provider(config_id: int) -> ProviderCheck:
    """Whether an SMS provider of this tenant, disabled or not, has all that its adapter needs. Calls nobody.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return provider_admin.check_provider(environment().engine, config_id)


def try_sms_provider(config_id: int) -> ProviderTest:
    """Check an SMS provider of this tenant, disabled or not, and read something of its account; sends nothing.

    Takes up to 15 seconds.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    shared = environment()
    return connectivity.try_provider(shared.engine, shared.settings, config_id)


def add_sms_route(
    provider_config_id: int, region_code: str, *, priority: int = 100, session: Session | None = None
) -> int:
    """Let an SMS provider of this tenant serve a country (ISO 3166-1 alpha-2); answers the route's id.

    Raises:
        ConfigRejected: No such country, or there is such a route already.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: The provider belongs to the platform.
    """
    environment()
    with in_session(session) as s:
        return route_admin.add_route(s, provider_config_id, region_code, priority=priority)


def list_sms_routes(
    region_code: str | None = None, *, with_disabled: bool = False, session: Session | None = None
) -> list[RouteLine]:
    """This tenant's routes by country; None is all countries. Raises: ConfigRejected, for what is no country."""
    environment()
    with in_session(session) as s:
        return route_admin.list_routes(s, region_code, include_disabled=with_disabled)


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
    template_code: str,
    provider_config_id: int,
    region_code: str | None = None,
    *,
    external_template_id: str | None = None,
    sign_name: str | None = None,
    priority: int = 100,
    session: Session | None = None,
) -> int:
    """Say what an SMS template of this tenant is called at a provider, its own or the platform's; answers an id.

    Raises:
        ConfigRejected: A field cannot be saved, or there is such a binding already.
        RecordNotFound: No such template in this tenant, or no such provider.
    """
    environment()
    with in_session(session) as s:
        return route_admin.add_binding(
            s,
            template_code,
            provider_config_id,
            region_code,
            external_template_id=external_template_id,
            sign_name=sign_name,
            priority=priority,
        )


def list_sms_bindings(
    template_code: str | None = None, *, with_disabled: bool = False, session: Session | None = None
) -> list[BindingLine]:
    """The bindings of this tenant's SMS templates; None is all templates. Raises: RecordNotFound."""
    environment()
    with in_session(session) as s:
        return route_admin.list_bindings(s, template_code, include_disabled=with_disabled)


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


def which_provider(
    phone_number: str, *, scope: MessageScope = MessageScope.TENANT, template_code: str | None = None
) -> RouteExplanation:
    """Which provider a message of this tenant to this number would take now, and why, step by step. Sends nothing.

    Raises:
        MessageRejected: The number is none that a message is accepted for.
        TenantContextMissing: No tenant is set.
    """
    return explaining.explain_route(environment().engine, phone_number, scope=scope, template_code=template_code)
