"""`/sms/routes`: which provider serves which country. `/regions`: the countries there are."""

from typing import Annotated, Literal

from pydantic import Field

from messaging import api
from messaging.web.api.config_routes import ConfigRoutes
from messaging.web.api.configurations import (
    SEND,
    ConfigQuery,
    Items,
    Rank,
    Switch,
    left_out,
)
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


sms_routes = ConfigRoutes(routes, "/sms/routes", "route_id", read=api.get_sms_route, shown=SmsRouteShown)
sms_routes.get_page(api.list_sms_routes, SmsRouteQuery, "The tenant's routes.")
sms_routes.get("One route, disabled or not.")
sms_routes.post(
    api.add_sms_route,
    SmsRouteGiven,
    "Let a provider of the tenant serve a country; from then on no default provider does.",
)
sms_routes.patch(api.change_sms_route, SmsRouteChanged, "Change a route.")
sms_routes.delete(
    api.remove_sms_route,
    "Remove a route; the country is served by those that are left, else by the defaults.",
    name="delete_sms_route",
)
