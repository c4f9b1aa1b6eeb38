"""`messaging provider ...`: accounts at SMS providers. A secret is asked for or read, never an argument."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from messaging.cli.acting import EXIT_WRONG, acting_for, print_json
from messaging.cli.secrets import FROM_ENV, SecretFrom, from_env, secret_from
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, given, whole_number
from messaging.errors import ConfigurationError

provider = typer.Typer(help="Accounts at providers of text messages.")

ProviderId = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID", help="The provider's id.")]
Priority = Annotated[
    int | None, typer.Option(parser=whole_number(-1_000_000, 1_000_000), metavar="N", help="Lower first; 100.")
]
_Limit = Annotated[int | None, typer.Option(parser=whole_number(0, 2**31 - 1), metavar="N", help="0: no limit.")]
_Endpoint = Annotated[str | None, typer.Option(metavar="URL", help="In the place of the provider's own.")]
_Ext = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="What only this provider knows, such as region=eu; all of it together. KEY=env:NAME reads a secret.",
    ),
]
_Text = Annotated[str | None, typer.Option()]


@provider.command()
def add(
    name: Annotated[str, typer.Option()],
    provider_type: Annotated[str, typer.Option("--type", help="twilio, infobip, aliyun, tencent, sinch, bird, cm.")],
    api_key_from: SecretFrom = None,
    api_secret_from: SecretFrom = None,
    api_endpoint: _Endpoint = None,
    account_id: _Text = None,
    ext: _Ext = None,
    sender_number: _Text = None,
    sender_id: _Text = None,
    description: _Text = None,
    default: Annotated[bool, typer.Option("--default", help="Serve countries without a route.")] = False,
    priority: Priority = None,
    daily_send_limit: _Limit = None,
    rate_limit_per_minute: _Limit = None,
    tenant: Tenant = None,
) -> None:
    """Add a provider and print its id. Its API key is asked for, unless told where it comes from."""
    from messaging import api

    fields = given(
        name=name,
        provider_type=provider_type,
        api_endpoint=api_endpoint,
        account_id=account_id,
        ext_config=_ext_config(ext),
        sender_number=sender_number,
        sender_id=sender_id,
        description=description,
        is_default=default,
        priority=priority,
        daily_send_limit=daily_send_limit,
        rate_limit_per_minute=rate_limit_per_minute,
    )
    with acting_for(tenant):
        fields |= _secrets(api_key_from or "ask", api_secret_from)
        typer.echo(api.add_sms_provider(**fields))


@provider.command()
def change(
    provider_id: ProviderId,
    name: _Text = None,
    api_key_from: SecretFrom = None,
    api_secret_from: SecretFrom = None,
    api_endpoint: _Endpoint = None,
    account_id: _Text = None,
    ext: _Ext = None,
    sender_number: _Text = None,
    sender_id: _Text = None,
    description: _Text = None,
    default: Annotated[
        bool | None, typer.Option("--default/--no-default", help="Serve countries without a route.")
    ] = None,
    priority: Priority = None,
    daily_send_limit: _Limit = None,
    rate_limit_per_minute: _Limit = None,
    tenant: Tenant = None,
) -> None:
    """Change what is given, and nothing else; an empty text takes a value away."""
    from messaging import api

    fields = given(
        name=name,
        api_endpoint=api_endpoint,
        account_id=account_id,
        ext_config=_ext_config(ext),
        sender_number=sender_number,
        sender_id=sender_id,
        description=description,
        is_default=default,
        priority=priority,
        daily_send_limit=daily_send_limit,
        rate_limit_per_minute=rate_limit_per_minute,
    )
    with acting_for(tenant):
        fields |= _secrets(api_key_from, api_secret_from)
        api.change_sms_provider(provider_id, **fields)
    typer.echo(f"SMS provider {provider_id} is changed; the next attempts use it as it is now")


@provider.command("list")
def list_providers(
    include_disabled: Annotated[bool, typer.Option("--all", help="Disabled ones too.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List providers, lowest priority first; no secrets."""
    from messaging import api
    from messaging.terminal import print_providers

    with acting_for(tenant, may_be_all=True):
        lines = api.list_sms_providers(active="all" if include_disabled else "true")
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_providers(lines)


@provider.command()
def show(provider_id: ProviderId, as_json: AsJson = False, tenant: Tenant = None) -> None:
    """Show a provider without its secrets, and where its receipts and messages to us are to go."""
    from messaging import api
    from messaging.terminal import print_provider

    with acting_for(tenant):
        line = api.get_sms_provider(provider_id)
    if as_json:
        print_json(asdict(line))
    else:
        print_provider(line)


@provider.command("test")
def try_provider(provider_id: ProviderId, as_json: AsJson = False, tenant: Tenant = None) -> int:
    """Check a provider's configuration and read something of its account; sends nothing. Exit 1 when that fails."""
    from messaging import api

    with acting_for(tenant):
        came = api.try_sms_provider(provider_id)
    if as_json:
        print_json(asdict(came))
    elif not came.success:
        typer.echo(f"{came.error_message}, after {came.latency_ms} ms" if came.was_called else came.error_message)
    elif came.was_called:
        typer.echo(f"{came.provider_type}: it takes the credentials, after {came.latency_ms} ms")
    else:
        typer.echo(f"{came.provider_type}: all it needs is there; its credentials cannot be tried without a message")
    return 0 if came.success else EXIT_WRONG


@provider.command()
def disable(provider_id: ProviderId, tenant: Tenant = None) -> None:
    """Send nothing new by a provider; what was prepared with it still goes out."""
    _switch(provider_id, tenant, is_active=False)
    typer.echo(f"SMS provider {provider_id} is disabled; records prepared with it still go out")


@provider.command()
def enable(provider_id: ProviderId, tenant: Tenant = None) -> None:
    """Take a disabled provider into use again."""
    _switch(provider_id, tenant, is_active=True)
    typer.echo(f"SMS provider {provider_id} is enabled")


@provider.command()
def delete(provider_id: ProviderId, tenant: Tenant = None) -> None:
    """Delete a provider with its routes; what still has to go out by it fails. Disable it to let that go out."""
    from messaging import api

    with acting_for(tenant):
        api.delete_sms_provider(provider_id)
    typer.echo(f"SMS provider {provider_id} is deleted; what still has to go out by it fails")


def _switch(provider_id: int, tenant: str | None, *, is_active: bool) -> None:
    from messaging import api

    with acting_for(tenant):
        api.set_sms_provider_active(provider_id, is_active)


def _secrets(key_from: str | None, secret_source: str | None) -> dict[str, str]:
    found = {}
    if key_from is not None:
        found["api_key"] = secret_from(key_from, option="--api-key-from", prompt="API key")
    if secret_source is not None:
        found["api_secret"] = secret_from(secret_source, option="--api-secret-from", prompt="API secret")
    return found


def _ext_config(entries: list[str] | None) -> dict[str, Any] | None:
    """None when nothing is given; an empty entry alone takes all of it away.

    Raises: ConfigurationError.
    """
    if not entries:
        return None
    found = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not entry:
            continue
        if not equals or not key.strip():
            # The whole of it may be a secret.
            raise ConfigurationError("--ext is not KEY=VALUE")
        found[key.strip()] = from_env(value, option=f"--ext {key}") if value.startswith(FROM_ENV) else value
    return found
