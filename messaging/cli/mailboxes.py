"""`messaging mailbox ...`: the mailboxes that mail is fetched from. Secrets are asked for or read, never arguments."""

import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from messaging.cli.acting import EXIT_WRONG, acting_for, print_json
from messaging.cli.secrets import SecretFrom, secret_from
from messaging.cli.values import MAX_ID, AnyTenant, AsJson, Tenant, given, member, whole_number
from messaging.errors import ConfigurationError
from messaging.receive.vocabulary import MailboxAuth, Protocol

mailbox = typer.Typer(help="The mailboxes that mail is fetched from.")

MailboxId = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID", help="The mailbox's id.")]
_MaybeMailboxId = Annotated[
    int | None, typer.Argument(parser=whole_number(1, MAX_ID), metavar="[ID]", help="The mailbox's id.")
]
_Protocol = Annotated[
    Protocol | None,
    typer.Option(parser=member(Protocol), metavar="PROTOCOL", help="imap, imaps (both only look), pop3 or pop3s."),
]
_Auth = Annotated[
    MailboxAuth | None,
    typer.Option(
        parser=member(MailboxAuth), metavar="AUTH", help="password, or xoauth2 with the entry point of your tokens."
    ),
]
_Port = Annotated[int | None, typer.Option(parser=whole_number(1, 65_535), metavar="PORT")]
_Interval = Annotated[
    int | None,
    typer.Option(
        "--interval",
        parser=whole_number(0, 31_536_000),
        metavar="SECONDS",
        help="Seconds between two fetches, 15 and more; 0: MESSAGING_MAIL__FETCH__INTERVAL_SECONDS.",
    ),
]
_Folders = Annotated[str | None, typer.Option(metavar="NAME,...", help="By default INBOX; POP3 has no other.")]
_Sequence = Annotated[
    int | None, typer.Option(parser=whole_number(-1000, 1000), metavar="N", help="The lowest is fetched first.")
]
_Text = Annotated[str | None, typer.Option()]
_Yes = Annotated[bool, typer.Option("--yes", help="That POP3 deletes what is fetched is meant.")]


@mailbox.command()
def add(
    name: Annotated[str, typer.Option()],
    host: Annotated[str, typer.Option()],
    username: Annotated[str, typer.Option()],
    protocol: _Protocol = Protocol.IMAPS,
    port: _Port = None,
    ssl: Annotated[bool, typer.Option("--ssl", help="TLS from the start also for imap and pop3.")] = False,
    auth: _Auth = None,
    password_from: SecretFrom = None,
    folders: _Folders = None,
    interval: _Interval = None,
    sequence: _Sequence = None,
    description: _Text = None,
    default: Annotated[bool, typer.Option("--default", help="In the place of the one so far.")] = False,
    yes: _Yes = False,
    tenant: Tenant = None,
) -> None:
    """Add a mailbox and print its id. Its password is asked for, unless told where it comes from."""
    from messaging import api
    from messaging.receive.mailbox_checks import USUAL_PORT

    chosen = protocol or Protocol.IMAPS
    _require_consent(chosen, is_given=yes)
    fields = given(
        name=name,
        host=host,
        port=port or USUAL_PORT[chosen],
        protocol=chosen,
        ssl_enabled=ssl,
        username=username,
        auth=auth,
        fetch_folders=folders,
        sequence=sequence,
        description=description,
        is_default=default,
        **_interval(interval),
    )
    with acting_for(tenant):
        if auth is not MailboxAuth.XOAUTH2 or password_from:
            fields["password"] = _password(password_from or "ask")
        typer.echo(api.add_mailbox(**fields))


@mailbox.command()
def change(
    mailbox_id: MailboxId,
    name: _Text = None,
    host: _Text = None,
    protocol: _Protocol = None,
    port: _Port = None,
    ssl: Annotated[bool | None, typer.Option("--ssl/--no-ssl", help="TLS from the start for imap and pop3.")] = None,
    username: _Text = None,
    auth: _Auth = None,
    password_from: SecretFrom = None,
    folders: _Folders = None,
    interval: _Interval = None,
    sequence: _Sequence = None,
    description: _Text = None,
    yes: _Yes = False,
    tenant: Tenant = None,
) -> None:
    """Change what is given, and nothing else; an empty text takes a value away."""
    from messaging import api

    if protocol is not None:
        _require_consent(protocol, is_given=yes)
    fields = given(
        name=name,
        host=host,
        protocol=protocol,
        port=port,
        ssl_enabled=ssl,
        username=username,
        auth=auth,
        fetch_folders=folders,
        sequence=sequence,
        description=description,
    ) | _interval(interval)
    with acting_for(tenant):
        if password_from:
            fields["password"] = _password(password_from)
        api.change_mailbox(mailbox_id, **fields)
    typer.echo(f"mailbox {mailbox_id} is changed; the next fetch goes by it as it is now")


@mailbox.command("list")
def list_mailboxes(
    include_disabled: Annotated[bool, typer.Option("--all", help="Disabled ones too.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List mailboxes in the order in which they are fetched; no secrets."""
    from messaging import api
    from messaging.terminal import print_mailboxes

    with acting_for(tenant, may_be_all=True):
        lines = api.list_mailboxes(active="all" if include_disabled else "true")
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_mailboxes(lines)


@mailbox.command()
def fetch(mailbox_id: _MaybeMailboxId = None, tenant: Tenant = None) -> None:
    """Fetch a mailbox now, by default the default one, and say how many mails are new. POP3 drains it."""
    from messaging import api

    with acting_for(tenant):
        count = api.fetch_new_mails(mailbox_id)
    typer.echo(f"{count} new {'mail' if count == 1 else 'mails'}")


@mailbox.command("test")
def try_mailbox(mailbox_id: MailboxId, as_json: AsJson = False, tenant: Tenant = None) -> int:
    """Connect, log in and look for the folders; fetches nothing. Exit 1 when that fails."""
    from messaging import api

    with acting_for(tenant):
        came = api.test_mailbox(mailbox_id)
    if as_json:
        print_json(asdict(came))
    else:
        if came.server_greeting is not None:
            typer.echo(f"it greets: {came.server_greeting}")
        typer.echo(f"{'ready to be fetched' if came.success else came.error_message}, after {came.latency_ms} ms")
    return 0 if came.success else EXIT_WRONG


@mailbox.command()
def watermarks(mailbox_id: _MaybeMailboxId = None, as_json: AsJson = False, tenant: AnyTenant = None) -> None:
    """Show how far each folder was read, and since when somebody reads it."""
    from messaging import api
    from messaging.terminal import print_watermarks

    with acting_for(tenant, may_be_all=True):
        lines = api.list_watermarks(mailbox_id)
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_watermarks(lines)


@mailbox.command()
def disable(mailbox_id: MailboxId, tenant: Tenant = None) -> None:
    """End the polling of a mailbox; what was fetched stays."""
    _switch(mailbox_id, tenant, is_active=False)
    typer.echo(f"mailbox {mailbox_id} is disabled; what was fetched stays")


@mailbox.command()
def enable(mailbox_id: MailboxId, tenant: Tenant = None) -> None:
    """Poll a disabled mailbox again."""
    _switch(mailbox_id, tenant, is_active=True)
    typer.echo(f"mailbox {mailbox_id} is enabled")


@mailbox.command()
def default(mailbox_id: MailboxId, tenant: Tenant = None) -> None:
    """Make a mailbox the default, in the place of any other."""
    from messaging import api

    with acting_for(tenant):
        api.set_default_mailbox(mailbox_id)
    typer.echo(f"mailbox {mailbox_id} is the default")


@mailbox.command()
def delete(mailbox_id: MailboxId, tenant: Tenant = None) -> None:
    """Delete a mailbox and how far it was read; the mails that came from it stay."""
    from messaging import api

    with acting_for(tenant):
        api.delete_mailbox(mailbox_id)
    typer.echo(f"mailbox {mailbox_id} is deleted; the mails that came from it stay")


def _switch(mailbox_id: int, tenant: str | None, *, is_active: bool) -> None:
    from messaging import api

    with acting_for(tenant):
        api.set_mailbox_active(mailbox_id, is_active)


def _password(source: str) -> str:
    return secret_from(source, option="--password-from", prompt="Password")


def _interval(seconds: int | None) -> dict[str, Any]:
    return {} if seconds is None else {"fetch_interval_seconds": seconds or None}


def _require_consent(protocol: Protocol, *, is_given: bool) -> None:
    """Raises: ConfigurationError, where nobody can be asked; typer.Abort, where somebody says no."""
    from messaging.receive.mailbox_checks import drains

    if not drains(protocol) or is_given:
        return
    warning = f"{protocol} drains the mailbox: what is fetched and stored is deleted from the server"
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{warning}; to say that this is meant, add --yes")
    typer.confirm(f"{warning}. Go on?", abort=True, err=True)
