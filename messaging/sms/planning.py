"""What a text message goes out by and under which names: its provider, and what its template is called there.

Settled once, at preparation; a retry never switches. Source: `sms.md` sections 5.2 and 6.3.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from messaging.category import MarkerCode
from messaging.clock import Ticker
from messaging.config_cache import Config, KeyedRows
from messaging.db.connects import Connects
from messaging.errors import PreparationError
from messaging.sms.models import SMS_TEMPLATE_PROVIDER_BINDING
from messaging.sms.numbers import region_of
from messaging.sms.routing import RouteCache, pinned
from messaging.templates.given import value_text

#: A row of `sms_template_provider_binding`.
Binding = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What preparation writes down of a record's way."""

    config: Config
    external_template_id: str | None
    sign_name: str | None
    #: None where the number is of no country and none was needed.
    region_code: str | None


class BindingCache:
    """The active bindings of templates, no older than the promise. Any thread may ask."""

    def __init__(self, engine: Connects, *, ttl_seconds: float, ticker: Ticker) -> None:
        self._rows: KeyedRows[int] = KeyedRows(engine, _read_bindings, ttl_seconds=ttl_seconds, ticker=ticker)

    def ensure(self, template_ids: Iterable[int]) -> None:
        """Have these templates' bindings, by one query at most. Raises what the driver raises."""
        self._rows.ensure(template_ids)

    def of(self, template: Mapping[str, Any]) -> list[Binding]:
        """A template's active bindings in its own tier, lowest priority first."""
        return [row for row in self._rows.get(template["id"]) if row["tenant_id"] == template["tenant_id"]]


def plan(
    record: Mapping[str, Any], template: Mapping[str, Any] | None, routes: RouteCache, bindings: BindingCache
) -> Plan:
    """The way of an unprepared record; `template` is its template's row, None where it names none.

    Raises: PreparationError, `REGION_NOT_RESOLVABLE`, `CONFIG_NOT_RESOLVABLE`, `NO_TEMPLATE_BINDING`.
    """
    # A worker has found it out already, to read the routes.
    region = record.get("region_code") or region_of(record["phone_number"])
    is_pinned = record["provider_config_id"] is not None
    if region is None and not (is_pinned and template is None):
        raise PreparationError(
            MarkerCode.REGION_NOT_RESOLVABLE, "the number is of no country that its numbering plan knows"
        )
    providers = [pinned(record, routes)] if is_pinned else routes.providers_for(region or "", record["tenant_id"])
    if not providers:
        raise PreparationError(
            MarkerCode.CONFIG_NOT_RESOLVABLE,
            f"no SMS provider for {region}: it has no route with an enabled provider, and no enabled provider is a"
            " default",
        )
    asked = {name: _given(record[name]) for name in ("external_template_id", "sign_name")}
    bound = [] if template is None else bindings.of(template)
    if template is None or not bound:
        return Plan(providers[0], **asked, region_code=region)
    chosen = choose(bound, providers, region or "")
    if chosen is None:
        eligible = ", ".join(str(config["id"]) for config in providers)
        raise PreparationError(
            MarkerCode.NO_TEMPLATE_BINDING,
            f"SMS template {template['code']!r} has bindings, but none for {region} to an eligible provider"
            f" ({eligible})",
        )
    binding, config = chosen
    names = {name: _given(binding[name]) or value for name, value in asked.items()}
    return Plan(config, **names, region_code=region)


def choose(bound: Sequence[Binding], providers: Sequence[Config], region: str) -> tuple[Binding, Config] | None:
    """The binding to use and its provider, from those that serve the country; None when none fits.

    Of one provider's bindings that of the country goes before that of any, then the lower priority; between providers
    the lower priority of their bindings decides, then their order.
    """
    best: dict[int, Binding] = {}
    for binding in sorted(bound, key=lambda row: (row["region_code"] == "", row["priority"], row["id"])):
        if binding["region_code"].upper() in ("", region):
            best.setdefault(binding["provider_config_id"], binding)
    candidates = [(best[config["id"]], config) for config in providers if config["id"] in best]
    return min(candidates, key=lambda candidate: candidate[0]["priority"], default=None)


def template_params(template: Mapping[str, Any] | None, variables: Mapping[str, Any] | None) -> list[str]:
    """Values by position, for providers that take no names: in the order in which the template's text names them.

    Without a template, or where its text names nothing, all of them in the caller's order. A missing one is empty.
    """
    from messaging.templates.names import named_variables, value_at  # loads Jinja2, which only workers need

    given = variables or {}
    paths = named_variables(template["content"] or "") if template is not None else ()
    return [value_text(value) for value in ([value_at(given, path) for path in paths] if paths else given.values())]


def _given(text: str | None) -> str | None:
    """None for what is blank."""
    return (text or "").strip() or None


def _read_bindings(connection: Connection, keys: Collection[int]) -> Iterator[tuple[int, Binding]]:
    t = SMS_TEMPLATE_PROVIDER_BINDING
    names = ("id", "tenant_id", "template_id", "provider_config_id", "region_code", "priority")
    statement = (
        select(*(t.c[name] for name in names), t.c.external_template_id, t.c.sign_name)
        .where(t.c.template_id.in_(keys), t.c.active)
        .order_by(t.c.priority, t.c.id)
    )
    for row in connection.execute(statement):
        yield row.template_id, dict(row._mapping)
