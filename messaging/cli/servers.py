"""`messaging server ...`: the servers that mail goes out by. A secret is asked for or read, never an argument."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from messaging.cli.acting import EXIT_WRONG, acting_for, print_json
from messaging.cli.secrets import SecretFrom, secret_from
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, given, member, whole_number
from messaging.errors import ConfigurationError

server = typer.Typer(help="The servers that mail goes out by.")


class Tls(StrEnum):
    """How a connection is protected."""

    NONE = "NONE"
    STARTTLS = "STARTTLS"
    IMPLICIT = "IMPLICIT"


ServerId = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID", help="The server's id.")]
_Port = Annotated[int | None, typer.Option(parser=whole_number(1, 65_535), metavar="PORT")]
_Tls = Annotated[
    Tls | None,
    typer.Option(
        parser=member(Tls), metavar="TLS", help="none, starttls (required, never plain) or implicit (from the start)."
    ),
]
_FromAddress = Annotated[str | None, typer.Option(help="Who mail is from; by default the username.")]
_EnvelopeSender = Annotated[str | None, typer.Option(help="Where bounces go; by default the From address.")]
_Verp = Annotated[bool | None, typer.Option(help="An envelope sender of its own for each record.")]
_Daily = Annotated[int | None, typer.Option(parser=whole_number(0, 2**31 - 1), metavar="N", help="0: no limit.")]
_Minute = Annotated[int | None, typer.Option(parser=whole_number(0, 2**31 - 1), metavar="N", help="0: no limit.")]
_Sequence = Annotated[
    int | None, typer.Option(parser=whole_number(-1000, 1000), metavar="N", help="Of several defaults the lowest.")
]
_KeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Private key in PEM, RSA or Ed25519.")]
_Text = Annotated[str | None, typer.Option()]


@server.command()
def add(
    name: Annotated[str, typer.Option()],
    host: Annotated[str, typer.Option()],
    port: _Port = None,
    tls: _Tls = Tls.STARTTLS,
    username: _Text = None,
    password_from: SecretFrom = None,
    from_address: _FromAddress = None,
    from_name: _Text = None,
    reply_to_address: _Text = None,
    envelope_sender: _EnvelopeSender = None,
    description: _Text = None,
    default: Annotated[bool, typer.Option("--default", help="In the place of the one so far.")] = False,
    verp: _Verp = None,
    daily_send_limit: _Daily = None,
    rate_limit_per_minute: _Minute = None,
    sequence: _Sequence = None,
    dkim_domain: _Text = None,
    dkim_selector: _Text = None,
    dkim_key_file: _KeyFile = None,
    tenant: Tenant = None,
) -> None:
    """Add a server and print its id. With a username its password is asked for, unless told where it comes from."""
    from messaging import api

    if port is None:
        port = {Tls.STARTTLS: 587, Tls.IMPLICIT: 465}.get(tls or Tls.NONE, 25)
    fields = given(
        name=name,
        host=host,
        port=port,
        **_protection(tls),
        username=username,
        from_address=from_address,
        from_name=from_name,
        reply_to_address=reply_to_address,
        envelope_sender=envelope_sender,
        description=description,
        is_default=default,
        verp=verp,
        daily_send_limit=daily_send_limit,
        rate_limit_per_minute=rate_limit_per_minute,
        sequence=sequence,
        dkim_domain=dkim_domain,
        dkim_selector=dkim_selector,
        dkim_private_key=_key(dkim_key_file),
    )
    with acting_for(tenant):
        if username or password_from:
            fields["password"] = _password(password_from or "ask")
        typer.echo(api.add_mail_server(**fields))


@server.command()
def change(
    server_id: ServerId,
    name: _Text = None,
    host: _Text = None,
    port: _Port = None,
    tls: _Tls = None,
    username: _Text = None,
    password_from: SecretFrom = None,
    from_address: _FromAddress = None,
    from_name: _Text = None,
    reply_to_address: _Text = None,
    envelope_sender: _EnvelopeSender = None,
    description: _Text = None,
    verp: _Verp = None,
    daily_send_limit: _Daily = None,
    rate_limit_per_minute: _Minute = None,
    sequence: _Sequence = None,
    dkim_domain: _Text = None,
    dkim_selector: _Text = None,
    dkim_key_file: _KeyFile = None,
    tenant: Tenant = None,
) -> None:
    """Change what is given, and nothing else; an empty text takes a value away."""
    from messaging import api

    fields = given(
        name=name,
        host=host,
        port=port,
        **_protection(tls),
        username=username,
        from_address=from_address,
        from_name=from_name,
        reply_to_address=reply_to_address,
        envelope_sender=envelope_sender,
        description=description,
        verp=verp,
        daily_send_limit=daily_send_limit,
        rate_limit_per_minute=rate_limit_per_minute,
        sequence=sequence,
        dkim_domain=dkim_domain,
        dkim_selector=dkim_selector,
        dkim_private_key=_key(dkim_key_file),
    )
    with acting_for(tenant):
        if password_from:
            fields["password"] = _password(password_from)
        api.change_mail_server(server_id, **fields)
    typer.echo(f"mail server {server_id} is changed; the next attempts use it as it is now")


@server.command("list")
def list_servers(
    include_disabled: Annotated[bool, typer.Option("--all", help="Disabled ones too.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List servers in the order in which they are chosen; no secrets."""
    from messaging import api
    from messaging.terminal import print_servers

    with acting_for(tenant, may_be_all=True):
        lines = api.list_mail_servers(active="all" if include_disabled else "true")
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_servers(lines)


@server.command("test")
def try_server(server_id: ServerId, as_json: AsJson = False, tenant: Tenant = None) -> int:
    """Connect, protect, authenticate and say goodbye; sends nothing. Exit 1 when that fails."""
    from messaging import api

    with acting_for(tenant):
        came = api.test_connectivity(server_id)
    if as_json:
        print_json(asdict(came))
    else:
        if came.server_greeting is not None:
            typer.echo(f"it greets: {came.server_greeting}")
        typer.echo(f"{'ready for mail' if came.success else came.error_message}, after {came.latency_ms} ms")
    return 0 if came.success else EXIT_WRONG


@server.command()
def disable(server_id: ServerId, tenant: Tenant = None) -> None:
    """Send nothing new by a server; what was prepared with it still goes out."""
    _switch(server_id, tenant, is_active=False)
    typer.echo(f"mail server {server_id} is disabled; records prepared with it still go out")


@server.command()
def enable(server_id: ServerId, tenant: Tenant = None) -> None:
    """Take a disabled server into use again."""
    _switch(server_id, tenant, is_active=True)
    typer.echo(f"mail server {server_id} is enabled")


@server.command()
def default(server_id: ServerId, tenant: Tenant = None) -> None:
    """Make a server the default, in the place of any other."""
    from messaging import api

    with acting_for(tenant):
        api.set_default_mail_server(server_id)
    typer.echo(f"mail server {server_id} is the default")


@server.command()
def delete(server_id: ServerId, tenant: Tenant = None) -> None:
    """Delete a server; what still has to go out by it fails. Disable it instead to let that go out."""
    from messaging import api

    with acting_for(tenant):
        api.delete_mail_server(server_id)
    typer.echo(f"mail server {server_id} is deleted; what still has to go out by it fails")


def _switch(server_id: int, tenant: str | None, *, is_active: bool) -> None:
    from messaging import api

    with acting_for(tenant):
        api.set_mail_server_active(server_id, is_active)


def _password(source: str) -> str:
    return secret_from(source, option="--password-from", prompt="Password")


def _protection(tls: Tls | None) -> dict[str, bool]:
    if tls is None:
        return {}
    return {"starttls_enabled": tls is Tls.STARTTLS, "ssl_enabled": tls is Tls.IMPLICIT}


def _key(file: Path | None) -> str | None:
    """Raises: ConfigurationError, when the file cannot be read."""
    if file is None:
        return None
    try:
        return file.read_text(encoding="ascii")
    except OSError as exc:
        raise ConfigurationError(f"--dkim-key-file is {str(file)!r}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigurationError(f"--dkim-key-file is {str(file)!r}, which is no PEM file") from exc
