"""`messaging route ...` and `messaging binding ...`: who serves a country, and what a template is called there."""

from dataclasses import asdict
from typing import Annotated

import typer

from messaging.cli.acting import EXIT_WRONG, acting_for, print_json
from messaging.cli.providers import Priority
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, given, member, whole_number
from messaging.requests import MessageScope

route = typer.Typer(help="Which providers serve which countries.")
binding = typer.Typer(help="What SMS templates are called at providers.")

_Provider = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="PROVIDER", help="A provider's id.")]
_Region = Annotated[str, typer.Argument(metavar="COUNTRY", help="ISO 3166-1 alpha-2, such as DE.")]
_ToRegion = Annotated[str | None, typer.Option("--country", metavar="COUNTRY", help="ISO 3166-1 alpha-2; any.")]
_Id = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID")]
_Disabled = Annotated[bool, typer.Option("--all", help="Disabled ones too.")]


@route.command("add")
def add_route(region: _Region, provider_id: _Provider, priority: Priority = None, tenant: Tenant = None) -> None:
    """Let a provider serve a country and print the route's id; default providers serve it no more."""
    from messaging import api

    with acting_for(tenant):
        typer.echo(api.add_sms_route(provider_id, region, **given(priority=priority)))


@route.command("list")
def list_routes(
    region: _ToRegion = None, include_disabled: _Disabled = False, as_json: AsJson = False, tenant: AnyTenant = None
) -> None:
    """List routes by country, lowest priority first."""
    from messaging import api
    from messaging.terminal import print_routes

    with acting_for(tenant, may_be_all=True):
        lines = api.list_sms_routes(region, active="all" if include_disabled else "true")
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_routes(lines)


@route.command("remove")
def remove_route(route_id: _Id, tenant: Tenant = None) -> None:
    """Remove a route; what was prepared by it still goes out."""
    from messaging import api

    with acting_for(tenant):
        api.remove_sms_route(route_id)
    typer.echo(f"route {route_id} is removed")


@route.command()
def explain(
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="E.164, such as +4915112345678.")],
    template: Annotated[str | None, typer.Option(metavar="CODE", help="With this template.")] = None,
    scope: Annotated[
        MessageScope, typer.Option(parser=member(MessageScope), metavar="SCOPE", help="tenant or platform.")
    ] = MessageScope.TENANT,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> int:
    """Say which provider a message to a number would take and why; sends nothing. Exit 1 when none would."""
    from messaging import api
    from messaging.terminal import print_explanation

    with acting_for(tenant):
        explanation = api.which_provider(number, scope=scope, template_code=template)
    if as_json:
        print_json(asdict(explanation))
    else:
        print_explanation(explanation)
    return EXIT_WRONG if explanation.error_code else 0


@binding.command("add")
def add_binding(
    template: Annotated[str, typer.Argument(metavar="TEMPLATE", help="An SMS template's code.")],
    provider_id: _Provider,
    region: _ToRegion = None,
    external_template_id: Annotated[str | None, typer.Option(help="What the provider calls it.")] = None,
    sign_name: Annotated[str | None, typer.Option(help="The signature that goes with it.")] = None,
    priority: Priority = None,
    tenant: Tenant = None,
) -> None:
    """Bind a template to a provider and print the binding's id; it goes out by bound providers only from then on."""
    from messaging import api

    fields = given(external_template_id=external_template_id, sign_name=sign_name, priority=priority)
    with acting_for(tenant):
        typer.echo(api.add_sms_binding(template, provider_id, region, **fields))


@binding.command("list")
def list_bindings(
    template: Annotated[str | None, typer.Option(metavar="CODE", help="Of this template.")] = None,
    include_disabled: _Disabled = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List bindings by template, lowest priority first."""
    from messaging import api
    from messaging.terminal import print_bindings

    with acting_for(tenant, may_be_all=True):
        lines = api.list_sms_bindings(template, active="all" if include_disabled else "true")
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_bindings(lines)


@binding.command("remove")
def remove_binding(binding_id: _Id, tenant: Tenant = None) -> None:
    """Remove a binding; what was prepared by it still goes out."""
    from messaging import api

    with acting_for(tenant):
        api.remove_sms_binding(binding_id)
    typer.echo(f"binding {binding_id} is removed")
