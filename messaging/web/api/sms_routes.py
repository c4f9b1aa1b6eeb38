"""`/sms/routes`: which provider serves which country. `/regions`: the countries there are."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from messaging import api
from messaging.web.api.configurations import (
    ADMINISTER,
    READ,
    SEND,
    ConfigQuery,
    Items,
    Rank,
    Switch,
    asked,
    left_out,
    paged,
)
from messaging.web.api.lists import Page
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Time

routes = Resource("sms routes")

#: ISO 3166-1 alpha-2, one of `/regions`.
RegionCode = Annotated[str, Field(pattern="^[A-Za-z]{2}$", examples=["DE"])]


class RegionShown(Shown):
    """A country or territory of ISO 3166-1."""

    #: Alpha-2.
    code: str
    name: str
    alpha3: str
    #: Digits without the plus; empty for one that has no calling code of its own.
    dial_code: str
    #: ISO 4217.
    currency: str | None
    continent: Literal["AF", "AN", "AS", "EU", "NA", "OC", "SA"]


class SmsRouteShown(Shown):
    """A route."""

    id: Id
    region_code: str
    #: Follows from the country.
    dial_code: str
    provider_config_id: Id
    #: Null: there is no such provider any more.
    provider_name: str | None
    provider_type: str | None
    #: Lower first.
    priority: int
    active: bool
    #: Whether messages take it: it and its provider are enabled.
    is_used: bool
    updated_at: Time


class SmsRouteChanged(Given):
    """What changes; what is left out stays."""

    provider_config_id: Id = left_out()
    region_code: RegionCode = left_out()
    priority: Rank = left_out()
    active: Switch = left_out()


class SmsRouteGiven(SmsRouteChanged):
    """A route to add."""

    provider_config_id: Id
    region_code: RegionCode
    priority: Rank = 100
    active: Switch = True


class SmsRouteQuery(ConfigQuery):
    """Which routes."""

    region_code: RegionCode | None = None
    provider_config_id: Id | None = None
    sort: Literal[
        "region_code",
        "-region_code",
        "priority",
        "-priority",
        "updated_at",
        "-updated_at",
        "id",
        "-id",
    ] = "region_code"


@routes.get("/regions", dependencies=SEND)
def list_regions(session: DbSession) -> Items[RegionShown]:
    """The countries that routes and bindings name, with their calling codes."""
    return Items(items=[RegionShown.model_validate(country) for country in api.list_regions(session=session)])


@routes.get("/sms/routes", dependencies=READ)
def list_sms_routes(session: DbSession, query: Annotated[SmsRouteQuery, Query()]) -> Page[SmsRouteShown]:
    """The tenant's routes."""
    lines = api.list_sms_routes(query.region_code, query.provider_config_id, session=session, **asked(query))
    return paged(lines, query, SmsRouteShown.model_validate)


@routes.get("/sms/routes/{route_id}", dependencies=READ)
def get_sms_route(session: DbSession, route_id: Id) -> SmsRouteShown:
    """One route, disabled or not."""
    return SmsRouteShown.model_validate(api.get_sms_route(route_id, session=session))


@routes.post("/sms/routes", status_code=201, dependencies=ADMINISTER)
def add_sms_route(session: DbSession, given: SmsRouteGiven) -> SmsRouteShown:
    """Let a provider of the tenant serve a country; from then on no default provider does."""
    route_id = api.add_sms_route(
        given.provider_config_id, given.region_code, priority=given.priority, active=given.active, session=session
    )
    return get_sms_route(session, route_id)


@routes.patch("/sms/routes/{route_id}", dependencies=ADMINISTER)
def change_sms_route(session: DbSession, route_id: Id, given: SmsRouteChanged) -> SmsRouteShown:
    """Change a route."""
    api.change_sms_route(route_id, session=session, **given.sent())
    return get_sms_route(session, route_id)


@routes.delete("/sms/routes/{route_id}", status_code=204, dependencies=ADMINISTER)
def delete_sms_route(session: DbSession, route_id: Id) -> None:
    """Remove a route; the country is served by those that are left, else by the defaults."""
    api.remove_sms_route(route_id, session=session)
