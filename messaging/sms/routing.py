"""Which providers serve a country, in order: routes before defaults, the tenant's before the platform's.

Four tiers, of which the first that has a usable provider is taken whole; they are never merged (`sms.md` section 5.1).
What is read is kept in the process for at most a second, so that a change is used by every worker's next attempt.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, select

from messaging import config_cache, tenancy
from messaging.category import MarkerCode
from messaging.clock import Ticker
from messaging.config_cache import Config, ConfigCache, KeyedRows
from messaging.db.connects import Connects
from messaging.db.encryption import CredentialUnreadable, decrypt
from messaging.errors import PreparationError
from messaging.requests import MessageScope
from messaging.sms.ext_config import unseal
from messaging.sms.models import SMS_PROVIDER_CONFIG, SMS_PROVIDER_REGION
from messaging.sms.providers.base import ProviderConfig
from messaging.sms.receipt_address import receipt_url
from messaging.sms.regions import countries
from messaging.suppression import Subject, sender_name

#: A tenant's id, and a country.
_Served: TypeAlias = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Tier:
    """The providers that one tenant has for a country, by routes or by default."""

    tenant_id: int
    #: Whether by routes to the country.
    is_precise: bool
    #: Usable ones, in order.
    configs: list[Config]
    #: Providers of routes that do not count: disabled, gone, or another tenant's.
    ignored_ids: tuple[int, ...] = ()


#: Accounts whose decrypted form is kept.
MAX_KEPT_ACCOUNTS = 1000


class RouteCache:
    """Provider configurations, and by whom countries are served. Any thread may ask."""

    def __init__(
        self, engine: Connects, *, ttl_seconds: float, ticker: Ticker, public_base_url: str | None = None
    ) -> None:
        self._public_base_url = public_base_url
        self._configs = ConfigCache(
            engine, SMS_PROVIDER_CONFIG, ttl_seconds=ttl_seconds, ticker=ticker, rank="priority"
        )
        self._routes: KeyedRows[_Served] = KeyedRows(engine, _read_routes, ttl_seconds=ttl_seconds, ticker=ticker)
        #: By id: a row, and what `provider_config` made of it.
        self._accounts: dict[int, tuple[Config, ProviderConfig]] = {}

    def account(self, config: Config) -> ProviderConfig:
        """As `provider_config`, for a row of this cache: decrypted once for as long as the row is cached.

        Raises: PreparationError, `CREDENTIAL_UNREADABLE`.
        """
        row, account = self._accounts.get(config["id"], (None, None))
        if account is None or row is not config:
            account = provider_config(config, self._public_base_url)
            if len(self._accounts) >= MAX_KEPT_ACCOUNTS:
                self._accounts.clear()
            self._accounts[config["id"]] = (config, account)
        return account

    def ensure(self, tenants: Iterable[int], regions: Iterable[str], ids: Iterable[int]) -> None:
        """Have what records of these tenants to these regions and with these providers need, by two queries at most.

        `regions` may hold `001` and others that are no countries. Raises what the driver raises.
        """
        owners = {owner for tenant_id in tenants for owner in tenancy.tiers(tenant_id)}
        served = [(owner, region) for owner in owners for region in set(regions) & countries().keys()]
        self._routes.ensure(served)
        by_routes = [route["provider_config_id"] for key in served for route in self._routes.get(key)]
        self._configs.ensure([*ids, *by_routes], owners)

    def find(self, config_id: int) -> Config | None:
        """The configuration with this id, active or not; None when there is none."""
        return self._configs.find(config_id)

    def tiers(self, region: str, owner_tenant_id: int) -> Iterator[Tier]:
        """Who might serve a record of this tenant to this region; the first tier that has configurations does."""
        for tenant_id in tenancy.tiers(owner_tenant_id):
            yield self._precise(tenant_id, region)
            yield Tier(tenant_id, False, self._configs.defaults(tenant_id))

    def providers_for(self, region: str, owner_tenant_id: int) -> list[Config]:
        """The providers for a region in order of preference; empty when nobody serves it."""
        return next((tier.configs for tier in self.tiers(region, owner_tenant_id) if tier.configs), [])

    def _precise(self, tenant_id: int, region: str) -> Tier:
        """A tenant's routes lead to its own providers: another's account is not its to use."""
        routes = self._routes.get((tenant_id, region)) if region in countries() else ()
        usable, ignored = [], []
        for route in routes:
            config = self._configs.find(route["provider_config_id"])
            if config is not None and config["active"] and config["tenant_id"] == tenant_id:
                usable.append((route["priority"], config["priority"], config["id"], config))
            else:
                ignored.append(route["provider_config_id"])
        usable.sort(key=lambda entry: entry[:3])
        return Tier(tenant_id, True, [config for *_, config in usable], tuple(ignored))


def suppression_subject(record: Mapping[str, Any], routes: RouteCache) -> Subject:
    """What the suppression list is asked: the number, and the sender of its provider; the platform's may be shared."""
    number, config_id = record["phone_number"], record["provider_config_id"]
    config = None if config_id is None else routes.find(config_id)
    sender = "" if config is None else (config["sender_number"] or config["sender_id"] or "")
    return Subject({number: number}, sender=sender_name(sender), sender_tenants=tenancy.tiers(record["tenant_id"])[1:])


def pinned(record: Mapping[str, Any], routes: RouteCache) -> Config:
    """The provider that the request names, disabled or not: the record's tenant's, or of scope PLATFORM the platform's.

    Raises: PreparationError, `CONFIG_NOT_RESOLVABLE`.
    """
    config_id, tenant_id = record["provider_config_id"], record["tenant_id"]
    config = routes.find(config_id)
    may_be = tenancy.tiers(tenant_id) if record["scope"] == MessageScope.PLATFORM else tenancy.tiers(tenant_id)[:1]
    if config is not None and config["tenant_id"] in may_be:
        return config
    if config is not None and config["tenant_id"] == tenancy.PLATFORM_TENANT_ID:
        reason = "belongs to the platform: a tenant's message names none of its providers, only falls back to them"
    else:
        reason = "is none of this tenant and scope"
    raise PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, f"SMS provider {config_id} {reason}")


def find_visible_by_id(record: Mapping[str, Any], routes: RouteCache) -> Config:
    """The provider a prepared record was given: own or the platform's, disabled or not.

    Raises: PreparationError, `CONFIG_NOT_RESOLVABLE`, when it is gone.
    """
    return config_cache.find_visible_by_id(
        routes, record["provider_config_id"], record["tenant_id"], what="SMS provider"
    )


def provider_config(config: Config, public_base_url: str | None = None) -> ProviderConfig:
    """A configuration in the adapters' terms, its secrets decrypted; receipts come to us at `public_base_url`.

    Raises: PreparationError, `CREDENTIAL_UNREADABLE`.
    """
    values = {name: config[name] for name in ProviderConfig.__dataclass_fields__ if name in config}
    readers = {"api_key": decrypt, "api_secret": decrypt, "ext_config": unseal}
    for name, read in readers.items():
        try:
            values[name] = None if config[name] is None else read(config[name])
        except CredentialUnreadable as exc:
            raise PreparationError(
                MarkerCode.CREDENTIAL_UNREADABLE, f"{name} of SMS provider {config['id']}: {exc}"
            ) from exc
    address = receipt_url(public_base_url, config["provider_type"], config["receipt_token"])
    return ProviderConfig(**values, receipt_url=address)


def _read_routes(connection: Connection, keys: Collection[_Served]) -> Iterator[tuple[_Served, Mapping[str, Any]]]:
    t = SMS_PROVIDER_REGION
    tenants, regions = {tenant_id for tenant_id, _ in keys}, {region for _, region in keys}
    statement = (
        select(t.c.tenant_id, t.c.region_code, t.c.provider_config_id, t.c.priority)
        .where(t.c.tenant_id.in_(tenants), t.c.region_code.in_(regions), t.c.active)
        .order_by(t.c.priority, t.c.id)
    )
    for row in connection.execute(statement):
        # A refill asks for some countries of some tenants; their product may hold more.
        if (key := (row.tenant_id, row.region_code)) in keys:
            yield key, dict(row._mapping)
