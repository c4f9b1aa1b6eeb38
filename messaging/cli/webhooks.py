"""`messaging webhook ...`: addresses of applications that are told what becomes of messages, and what was told."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messaging.cli.acting import acting_for, print_json, refused
from messaging.cli.records import MAX_PAGE
from messaging.cli.secrets import SecretFrom, secret_from
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, given, member, whole_number
from messaging.delivery.status import SendStatus
from messaging.errors import MessagingError

if TYPE_CHECKING:
    from messaging.webhooks.deliveries import WebhookDelivery
    from messaging.webhooks.endpoint_admin import WebhookEndpointLine

webhook = typer.Typer(help="Addresses of an application that are told what becomes of its messages.")

_id = whole_number(1, MAX_ID)
EndpointId = Annotated[int, typer.Argument(parser=_id, metavar="ID", help="The endpoint's id.")]
DeliveryIds = Annotated[list[int], typer.Argument(parser=_id, metavar="ID...", help="Ids of deliveries.")]
_Text = Annotated[str | None, typer.Option()]
_Events = Annotated[
    str | None,
    typer.Option(metavar="TYPES", help="Comma list such as message.sent,message.bounced; all without it, or with all."),
]


@webhook.command()
def add(
    name: Annotated[str, typer.Option()],
    url: Annotated[str, typer.Option()],
    events: _Events = None,
    description: _Text = None,
    signing_secret_from: SecretFrom = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """Add an endpoint; prints its id and the secret by which it checks signatures, which is shown this once."""
    from messaging import api

    fields = given(name=name, url=url, description=description) | _event_types(events)
    with acting_for(tenant):
        if signing_secret_from is not None:
            fields["secret"] = secret_from(signing_secret_from, option="--signing-secret-from", prompt="Secret")
        made = api.add_webhook_endpoint(**fields)
    _print_secret(asdict(made), as_json=as_json)


@webhook.command()
def change(
    endpoint_id: EndpointId,
    name: _Text = None,
    url: _Text = None,
    events: _Events = None,
    description: _Text = None,
    tenant: Tenant = None,
) -> None:
    """Change what is given, and nothing else; an empty description takes it away."""
    from messaging import api

    fields = given(name=name, url=url, description=description) | _event_types(events)
    with acting_for(tenant):
        api.change_webhook_endpoint(endpoint_id, **fields)
    typer.echo(f"webhook endpoint {endpoint_id} is changed; what is told next goes by it")


@webhook.command("list")
def list_endpoints(
    include_disabled: Annotated[bool, typer.Option("--all", help="Disabled ones too.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List endpoints by name; no secrets."""
    from messaging import api

    with acting_for(tenant, may_be_all=True):
        lines = api.list_webhook_endpoints(active="all" if include_disabled else "true")
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        _print_endpoints(lines)


@webhook.command()
def enable(endpoint_id: EndpointId, tenant: Tenant = None) -> None:
    """Tell a disabled endpoint again what happens from now on."""
    _switch(endpoint_id, tenant, is_active=True)
    typer.echo(f"webhook endpoint {endpoint_id} is enabled")


@webhook.command()
def disable(endpoint_id: EndpointId, tenant: Tenant = None) -> None:
    """Tell an endpoint nothing more; what it has not been told yet fails, and can be retried once it is enabled."""
    _switch(endpoint_id, tenant, is_active=False)
    typer.echo(f"webhook endpoint {endpoint_id} is disabled")


@webhook.command()
def delete(endpoint_id: EndpointId, tenant: Tenant = None) -> None:
    """Delete an endpoint; what it has not been told yet fails."""
    from messaging import api

    with acting_for(tenant):
        api.delete_webhook_endpoint(endpoint_id)
    typer.echo(f"webhook endpoint {endpoint_id} is deleted")


@webhook.command("rotate-secret")
def rotate_secret(
    endpoint_id: EndpointId,
    keep_hours: Annotated[
        int | None, typer.Option(parser=whole_number(0, 720), metavar="N", help="The old one signs as well; 24.")
    ] = None,
    signing_secret_from: SecretFrom = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """Replace an endpoint's secret; prints the new one, which is shown this once."""
    from messaging import api

    fields = given(keep_hours=keep_hours)
    with acting_for(tenant):
        if signing_secret_from is not None:
            fields["secret"] = secret_from(signing_secret_from, option="--signing-secret-from", prompt="Secret")
        made = api.rotate_webhook_secret(endpoint_id, **fields)
    _print_secret(asdict(made), as_json=as_json)


@webhook.command("test")
def try_endpoint(endpoint_id: EndpointId, tenant: Tenant = None) -> None:
    """Tell an endpoint a webhook.test event; prints the delivery's id."""
    from messaging import api

    with acting_for(tenant):
        typer.echo(api.try_webhook_endpoint(endpoint_id))


@webhook.command("deliveries")
def list_deliveries(
    endpoint: Annotated[int | None, typer.Option(parser=_id, metavar="ID", help="Those of this endpoint.")] = None,
    status: Annotated[
        SendStatus | None, typer.Option(parser=member(SendStatus), metavar="STATUS", help="Such as failed.")
    ] = None,
    record: Annotated[int | None, typer.Option(parser=_id, metavar="ID", help="Those about this message.")] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 20,
    before: Annotated[
        int | None, typer.Option(parser=_id, metavar="ID", help="Go on below this one, as told at the end.")
    ] = None,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List what endpoints were told and are to be told, newest first."""
    from messaging import api

    with acting_for(tenant, may_be_all=True):
        lines = api.list_webhook_deliveries(
            endpoint_id=endpoint, status=status, about_record_id=record, limit=limit, before=before
        )
    if as_json:
        print_json({"deliveries": [asdict(line) for line in lines], "next_before": lines.next_before})
        return
    _print_deliveries(lines)
    if lines.next_before is not None:
        typer.echo(f"more: --before {lines.next_before}")


@webhook.command()
def retry(delivery_ids: DeliveryIds, tenant: Tenant = None) -> int:
    """Tell once more what waits or has failed. Those that cannot be are named, exit 2."""
    from messaging import api

    code = 0
    with acting_for(tenant):
        for delivery_id in delivery_ids:
            try:
                api.retry(delivery_id, channel="webhook")
            except MessagingError as exc:
                code = refused(str(exc))
            else:
                typer.echo(f"{delivery_id} is told again")
    return code


def _switch(endpoint_id: int, tenant: str | None, *, is_active: bool) -> None:
    from messaging import api

    with acting_for(tenant):
        api.change_webhook_endpoint(endpoint_id, active=is_active)


def _event_types(events: str | None) -> dict[str, Any]:
    """Nothing where they are not given."""
    if events is None:
        return {}
    types = [one.strip() for one in events.split(",") if one.strip()]
    return {"event_types": None if types == ["all"] else types}


def _print_secret(made: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(made)
    else:
        typer.echo(made["id"])
        typer.echo(made["secret"])


def _print_endpoints(lines: Sequence["WebhookEndpointLine"]) -> None:
    from rich.text import Text

    from messaging.terminal import console_for_people, table

    shown = table("id", "tenant", "name", "url", "events", "state")
    for line in lines:
        state = "enabled" if line.active else "gone" if line.gone_at else "disabled"
        events = "all" if line.event_types is None else ", ".join(line.event_types)
        shown.add_row(str(line.id), str(line.tenant_id), Text(line.name), Text(line.url), events, state)
    console_for_people().print(shown if lines else "no webhook endpoints")


def _print_deliveries(lines: Sequence["WebhookDelivery"]) -> None:
    from rich.text import Text

    from messaging.terminal import console_for_people, status_text, table, time_text

    shown = table("id", "at", "endpoint", "event", "message", "status", "retries", "error")
    for line in lines:
        shown.add_row(
            str(line.id),
            time_text(line.created_at),
            str(line.endpoint_id),
            line.event_type,
            str(line.about_record_id or ""),
            status_text(line.status),
            str(line.retry_count or ""),
            Text(" ".join((line.error_message or line.error_code or "").split())),
        )
    console_for_people().print(shown if lines else "no deliveries")
