"""`/sms/template-bindings`: what a template is called at a provider, for one country or for any."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from messaging import api
from messaging.web.api.configurations import ADMINISTER, READ, ConfigQuery, Line50, Rank, Switch, asked, left_out, paged
from messaging.web.api.lists import Page
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Text, Time
from messaging.web.api.sms_routes import RegionCode

routes = Resource("sms template bindings")

_ExternalId = Annotated[Text, Field(max_length=100)]


class SmsBindingShown(Shown):
    """A binding."""

    id: Id
    template_id: Id
    #: Null: there is no such template any more.
    template_code: str | None
    provider_config_id: Id
    #: Null: of the platform, or not there any more.
    provider_name: str | None
    #: Empty: any country.
    region_code: str
    external_template_id: str | None
    sign_name: str | None
    #: Lower first.
    priority: int
    active: bool
    updated_at: Time


class SmsBindingChanged(Given):
    """What changes; what is left out stays, null takes a value away."""

    template_id: Id = left_out()
    provider_config_id: Id = left_out()
    #: Null: any country.
    region_code: RegionCode | None = left_out()
    external_template_id: _ExternalId | None = left_out()
    sign_name: Line50 | None = left_out()
    priority: Rank = left_out()
    active: Switch = left_out()


class SmsBindingGiven(SmsBindingChanged):
    """A binding to add."""

    template_id: Id
    provider_config_id: Id
    region_code: RegionCode | None = None
    external_template_id: _ExternalId | None = None
    sign_name: Line50 | None = None
    priority: Rank = 100
    active: Switch = True


class SmsBindingQuery(ConfigQuery):
    """Which bindings."""

    template_id: Id | None = None
    provider_config_id: Id | None = None
    sort: Literal["template_id", "-template_id", "priority", "-priority", "updated_at", "-updated_at", "id", "-id"] = (
        "template_id"
    )


@routes.get("/sms/template-bindings", dependencies=READ)
def list_sms_bindings(session: DbSession, query: Annotated[SmsBindingQuery, Query()]) -> Page[SmsBindingShown]:
    """The bindings of the tenant's templates."""
    fields = asked(query)
    lines = api.list_sms_bindings(fields.pop("template_id"), session=session, **fields)
    return paged(lines, query, SmsBindingShown.model_validate)


@routes.get("/sms/template-bindings/{binding_id}", dependencies=READ)
def get_sms_binding(session: DbSession, binding_id: Id) -> SmsBindingShown:
    """One binding, disabled or not."""
    return SmsBindingShown.model_validate(api.get_sms_binding(binding_id, session=session))


@routes.post("/sms/template-bindings", status_code=201, dependencies=ADMINISTER)
def add_sms_binding(session: DbSession, given: SmsBindingGiven) -> SmsBindingShown:
    """Say what a template is called at a provider, the tenant's own or the platform's.

    From then on the template goes out by bound providers only.
    """
    binding_id = api.add_sms_binding(
        given.template_id,
        given.provider_config_id,
        given.region_code,
        external_template_id=given.external_template_id,
        sign_name=given.sign_name,
        priority=given.priority,
        active=given.active,
        session=session,
    )
    return get_sms_binding(session, binding_id)


@routes.patch("/sms/template-bindings/{binding_id}", dependencies=ADMINISTER)
def change_sms_binding(session: DbSession, binding_id: Id, given: SmsBindingChanged) -> SmsBindingShown:
    """Change a binding."""
    api.change_sms_binding(binding_id, session=session, **given.sent())
    return get_sms_binding(session, binding_id)


@routes.delete("/sms/template-bindings/{binding_id}", status_code=204, dependencies=ADMINISTER)
def delete_sms_binding(session: DbSession, binding_id: Id) -> None:
    """Remove a binding; a template with none left goes out by the first provider of each country."""
    api.remove_sms_binding(binding_id, session=session)
