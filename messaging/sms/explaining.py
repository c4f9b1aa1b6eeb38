"""Which provider a number would take and why, told step by step by what workers decide with. Sends nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from messaging import tenancy
from messaging.clock import boot_seconds
from messaging.config_cache import Config
from messaging.db.filters import owning_tenant
from messaging.errors import MessageRejected, PreparationError, TenantContextMissing
from messaging.requests import MessageScope
from messaging.sms.models import SMS_TEMPLATE
from messaging.sms.numbers import NumberError, parse_number, region_of
from messaging.sms.planning import BindingCache, plan
from messaging.sms.regions import dial_code
from messaging.sms.routing import RouteCache, Tier
from messaging.sms.templates import find_template
from messaging.templates.lookup import TemplateCache


@dataclass(frozen=True, slots=True)
class RouteExplanation:
    """The answer, and how it comes about."""

    #: E.164.
    phone_number: str
    #: ISO 3166-1 alpha-2, `001`, or None.
    region_code: str | None
    #: One sentence each, in the order in which workers decide.
    steps: list[str]
    #: None where a message would fail.
    provider_config_id: int | None
    provider_name: str | None
    provider_type: str | None
    external_template_id: str | None
    sign_name: str | None
    #: The marker it would fail with; None where a provider takes it.
    error_code: str | None
    error_message: str | None


def explain_route(
    engine: Engine, phone_number: str, *, scope: MessageScope, template_code: str | None = None
) -> RouteExplanation:
    """What would become of a message of the current tenant to this number, with this template, if it were sent now.

    Raises:
        MessageRejected: The number is none that a message is accepted for.
        TenantContextMissing: With multi-tenancy on no tenant is set, or all of them are.
    """
    try:
        number = parse_number(phone_number)
    except NumberError as exc:
        raise MessageRejected("sms", "phone_number", phone_number, str(exc)) from exc
    record = {
        "tenant_id": _acting_tenant(),
        "scope": scope,
        "phone_number": number,
        "template_code": template_code,
        **dict.fromkeys(("provider_config_id", "external_template_id", "sign_name")),
    }
    steps: list[str] = []
    region = region_of(number)
    try:
        planned = _decide(engine, record, region, steps)
    except PreparationError as exc:
        steps.append(f"so it fails: {exc}")
        return RouteExplanation(number, region, steps, None, None, None, None, None, exc.marker, str(exc))
    config = planned.config
    steps.append(f"so it goes out by {_shown(config)}")
    return RouteExplanation(
        phone_number=number,
        region_code=region,
        steps=steps,
        provider_config_id=config["id"],
        provider_name=config["name"],
        provider_type=config["provider_type"],
        external_template_id=planned.external_template_id,
        sign_name=planned.sign_name,
        error_code=None,
        error_message=None,
    )


def _decide(engine: Engine, record: Mapping[str, Any], region: str | None, steps: list[str]) -> Any:
    routes = RouteCache(engine, ttl_seconds=0, ticker=boot_seconds)
    bindings = BindingCache(engine, ttl_seconds=0, ticker=boot_seconds)
    steps.append(_region_step(record["phone_number"], region))
    template = find_template(record, TemplateCache(engine, SMS_TEMPLATE, ttl_seconds=0, ticker=boot_seconds))
    if region is not None:
        providers: Sequence[Config] = ()
        for tier in routes.tiers(region, record["tenant_id"]):
            steps.append(_tier_step(tier, region))
            if tier.configs:
                providers = tier.configs
                break
        if template is not None and providers:
            steps.extend(_binding_steps(template, bindings, providers, region))
    return plan(record, template, routes, bindings)


def _region_step(number: str, region: str | None) -> str:
    if region is None:
        return f"{number} is of no country that its numbering plan knows"
    if region == "001":
        return f"{number} is of no country (001): routes name none, defaults may serve it"
    code = dial_code(region)
    return f"{number} is of {region}" + (f", calling code +{code}" if code else "")


def _tier_step(tier: Tier, region: str) -> str:
    whose = {tenancy.PLATFORM_TENANT_ID: "the platform's ", tenancy.SINGLE_TENANT_ID: ""}.get(
        tier.tenant_id, f"tenant {tier.tenant_id}'s "
    )
    what = f"{whose}{f'routes to {region}' if tier.is_precise else 'default providers'}"
    ignored = f" (not counted, as disabled or not its own: {_listed(tier.ignored_ids)})" if tier.ignored_ids else ""
    if not tier.configs:
        return f"{what}: none{ignored}"
    return f"{what}: {', '.join(map(_shown, tier.configs))}{ignored}; nothing after this is looked at"


def _binding_steps(
    template: Mapping[str, Any], bindings: BindingCache, providers: Sequence[Config], region: str
) -> Iterator[str]:
    bound = bindings.of(template)
    if not bound:
        yield f"template {template['code']!r} has no bindings: the first provider takes it"
        return
    eligible = {config["id"] for config in providers}
    for binding in bound:
        where = binding["region_code"] or "any country"
        fits = binding["provider_config_id"] in eligible and binding["region_code"] in ("", region)
        yield (
            f"binding {binding['id']}: SMS provider {binding['provider_config_id']} for {where}, priority"
            f" {binding['priority']}: {'fits' if fits else 'does not fit'}"
        )


def _shown(config: Config) -> str:
    return f"SMS provider {config['id']} ({config['name']}, {config['provider_type']})"


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


def _acting_tenant() -> int:
    """Raises: TenantContextMissing."""
    if not tenancy.is_multi_tenancy():
        return tenancy.SINGLE_TENANT_ID
    owner = owning_tenant()
    if owner is None:
        raise TenantContextMissing("which provider serves a number depends on the tenant; use `with tenant(id):`")
    return owner
