"""`/sms/providers`: the accounts that text messages go out by. Their secrets go in and never come out."""

from typing import Annotated, Any, Literal

from pydantic import Field

from messaging import api
from messaging.web.api.config_routes import ConfigRoutes
from messaging.web.api.configurations import (
    ADMINISTER,
    READ,
    ConfigQuery,
    Description,
    Line50,
    Line255,
    Line500,
    Name,
    Rank,
    RateLimit,
    Secret,
    Switch,
    WindowsShown,
    left_out,
    windows_shown,
)
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Text, Time
from messaging.web.api.talking import talks

routes = Resource("sms providers")

#: A name of the registry; an application may add its own.
_ProviderType = Annotated[Text, Field(min_length=1, max_length=20, examples=["TWILIO"])]
_Key = Annotated[Text, Field(max_length=255, json_schema_extra={"writeOnly": True})]
#: What only this provider knows; its values are written and never answered.
_ExtConfig = Annotated[dict[str, Any], Field(json_schema_extra={"writeOnly": True}, examples=[{"region": "eu"}])]


class SmsProviderShown(Shown):
    """A provider without its secrets."""

    id: Id
    name: str
    description: str | None
    provider_type: str
    has_api_key: bool
    has_api_secret: bool
    #: Which keys `ext_config` has.
    ext_keys: list[str]
    #: Null: the provider's own.
    api_endpoint: str | None
    account_id: str | None
    sender_number: str | None
    sender_id: str | None
    #: Messages a day and a minute; null or 0 is no limit.
    daily_send_limit: int | None
    rate_limit_per_minute: int | None
    #: Serves countries without a route; several may.
    is_default: bool
    active: bool
    #: Lower first.
    priority: int
    created_at: Time
    updated_at: Time
    updated_by: str | None


class SmsProviderDetail(SmsProviderShown):
    """A provider, with where it calls us; whoever knows that address can send receipts."""

    receipt_path: str
    #: Null where the web application has no public address.
    receipt_url: str | None
    inbound_url: str | None
    #: Whether each message says where its receipts go; else that is set in the provider's console.
    is_told_receipt_url: bool


class SmsProviderChanged(Given):
    """What changes; what is left out stays, null takes a value away."""

    name: Name = left_out()
    description: Description | None = left_out()
    provider_type: _ProviderType = left_out()
    api_key: _Key | None = left_out()
    api_secret: Secret | None = left_out()
    api_endpoint: Line500 | None = left_out()
    account_id: Line255 | None = left_out()
    #: As a whole: what it has not is taken away.
    ext_config: _ExtConfig | None = left_out()
    sender_number: Line50 | None = left_out()
    sender_id: Line50 | None = left_out()
    rate_limit_per_minute: RateLimit | None = left_out()
    daily_send_limit: RateLimit | None = left_out()
    is_default: Switch = left_out()
    active: Switch = left_out()
    priority: Rank = left_out()


class SmsProviderGiven(SmsProviderChanged):
    """A provider to add."""

    name: Name
    provider_type: _ProviderType


class SmsProviderQuery(ConfigQuery):
    """Which providers."""

    sort: Literal[
        "priority",
        "-priority",
        "name",
        "-name",
        "provider_type",
        "-provider_type",
        "updated_at",
        "-updated_at",
        "id",
        "-id",
    ] = "priority"


class ProviderTestShown(Shown):
    """What came of a test."""

    success: bool
    provider_type: str
    #: Whether it was called: not where something is missing, nor where the provider has nothing to read.
    was_called: bool
    latency_ms: int
    #: Null on success.
    error_message: str | None


providers = ConfigRoutes(routes, "/sms/providers", "provider_id", read=api.get_sms_provider, shown=SmsProviderShown)
providers.get_page(api.list_sms_providers, SmsProviderQuery, "The tenant's providers.")
providers.get("One provider, disabled or not.")
providers.post(
    api.add_sms_provider,
    SmsProviderGiven,
    "Add a provider; what its adapter could not send with is refused.",
)
providers.patch(
    api.change_sms_provider,
    SmsProviderChanged,
    "Change a provider; the next attempt of every message that uses it goes by it within a second.",
)
providers.delete(
    api.delete_sms_provider,
    "Delete a provider with its routes; what still has to go out by it fails. Disable it to let that go out.",
)
providers.post_copy(
    api.copy_sms_provider,
    SmsProviderChanged,
    "Add a provider like this one but for what is given; without its secrets, disabled and no default unless given.",
)


@routes.get("/sms/providers/{provider_id}/callbacks", dependencies=ADMINISTER)
def get_sms_provider_callbacks(session: DbSession, provider_id: Id) -> SmsProviderDetail:
    """A provider with the addresses to set in its console: whoever knows them can send receipts and messages to us."""
    return SmsProviderDetail.model_validate(api.get_sms_provider(provider_id, session=session))


@routes.post("/sms/providers/{provider_id}/test", dependencies=[*ADMINISTER, talks()])
def test_sms_provider(provider_id: Id) -> ProviderTestShown:
    """Check a provider, a disabled one too, and read something of its account; sends nothing and takes seconds."""
    return ProviderTestShown.model_validate(api.try_sms_provider(provider_id))


@routes.get("/sms/providers/{provider_id}/windows", dependencies=READ)
def get_sms_provider_windows(provider_id: Id) -> WindowsShown:
    """How much of the provider's windows of this day and this minute is taken; 503 while the counters are away."""
    return windows_shown(api.sms_provider_windows, provider_id)
