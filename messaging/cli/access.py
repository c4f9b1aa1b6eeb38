"""`messaging token ...` and `messaging operator ...`: who may call over HTTP. A password is asked for or read."""

from datetime import datetime
from typing import Annotated

import typer

from messaging.access.roles import Role
from messaging.cli.acting import acting_for, print_json, refused
from messaging.cli.secrets import SecretFrom, secret_from
from messaging.cli.values import MAX_ID, AsJson, Tenant, given, member, time_value, whole_number
from messaging.errors import MessagingError

token = typer.Typer(help="Tokens by which services call over HTTP.")
operator = typer.Typer(help="People who sign in.")

_Role = Annotated[
    Role, typer.Option(parser=member(Role), metavar="ROLE", help="sender, viewer, operator, tenant-admin or platform.")
]
_UserId = Annotated[
    int | None,
    typer.Option(
        parser=whole_number(-MAX_ID, MAX_ID),
        metavar="ID",
        help="The application's id of the person, whose inbox it is.",
    ),
]
#: Where `messaging web` listens unless it is told otherwise.
LOCAL_URL = "http://127.0.0.1:8000"

_All = Annotated[bool, typer.Option("--all", help="Those that are ended or disabled, too.")]
_Ids = Annotated[list[int], typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID...")]
_OperatorId = Annotated[int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID")]
_Text = Annotated[str | None, typer.Option()]


@token.command("add")
def add_token(
    name: Annotated[str, typer.Argument(help="Which service it is for.")],
    role: _Role = Role.SENDER,
    user_id: _UserId = None,
    expires_at: Annotated[
        datetime | None, typer.Option(parser=time_value, metavar="TIME", help="When it ends by itself.")
    ] = None,
    tenant: Tenant = None,
) -> None:
    """Make a token and print it: this once."""
    from messaging.api import access

    with acting_for(tenant):
        made = access.add_token(name, role=role, user_id=user_id, expires_at=expires_at)
    typer.echo(made.token)
    typer.echo(f"token {made.id} is shown this once", err=True)


@token.command("list")
def list_tokens(with_ended: _All = False, as_json: AsJson = False, tenant: Tenant = None) -> None:
    """List tokens, by their first characters."""
    from messaging.api import access
    from messaging.terminal import print_tokens

    with acting_for(tenant):
        rows = access.list_tokens(is_active=None if with_ended else True)
    if not as_json:
        print_tokens(rows)
        return
    columns = ("id", "name", "prefix", "role", "user_id", "expires_at", "revoked_at", "last_used_at", "created_at")
    print_json([{column: getattr(row, column) for column in columns} for row in rows])


@token.command("revoke")
def revoke_tokens(token_ids: _Ids, tenant: Tenant = None) -> int:
    """End tokens, within a second everywhere. Those that there are none of are named, and the exit is 2."""
    from messaging.api import access

    code = 0
    with acting_for(tenant):
        for token_id in token_ids:
            try:
                is_ended = access.revoke_token(token_id)
            except MessagingError as exc:
                code = refused(str(exc))
            else:
                typer.echo(f"{token_id} is revoked" if is_ended else f"{token_id} was revoked before")
    return code


@operator.command("add")
def add_operator(
    user_name: Annotated[str, typer.Argument(help="By which the person signs in.")],
    role: _Role = Role.VIEWER,
    display_name: _Text = None,
    user_id: _UserId = None,
    password_from: SecretFrom = None,
    tenant: Tenant = None,
) -> None:
    """Add an operator and print the id; the password is asked for, unless told where it comes from."""
    from messaging.api import access

    fields = given(display_name=display_name, user_id=user_id)
    with acting_for(tenant):
        typer.echo(access.add_operator(user_name, password=_password(password_from), role=role, **fields))


@operator.command("list")
def list_operators(with_disabled: _All = False, as_json: AsJson = False, tenant: Tenant = None) -> None:
    """List operators."""
    from messaging.api import access
    from messaging.terminal import print_operators

    with acting_for(tenant):
        rows = access.list_operators(is_active=None if with_disabled else True)
    if not as_json:
        print_operators(rows)
        return
    columns = ("id", "user_name", "display_name", "role", "user_id", "active", "last_signed_in_at", "created_at")
    print_json([{column: getattr(row, column) for column in columns} for row in rows])


@operator.command("link")
def make_link(
    user_name: Annotated[str, typer.Argument(help="Who is to sign in.")],
    minutes: Annotated[int, typer.Option(parser=whole_number(1, 60), metavar="N", help="How long it works.")] = 10,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the console is reached; by default MESSAGING_PUBLIC_BASE_URL."),
    ] = None,
    tenant: Tenant = None,
) -> None:
    """Print a link that signs an operator in to the console: once, within minutes, without a password."""
    from messaging.api import access
    from messaging.settings import load_settings

    base = base_url or load_settings().public_base_url or LOCAL_URL
    with acting_for(tenant):
        secret = access.make_operator_link(user_name, minutes=minutes)
    typer.echo(f"{base.rstrip('/')}/console/link/{secret}")


@operator.command("disable")
def disable_operator(operator_id: _OperatorId, tenant: Tenant = None) -> None:
    """Let an operator in no more; ends what they have begun, within a second."""
    _switch(operator_id, tenant, is_active=False)


@operator.command("enable")
def enable_operator(operator_id: _OperatorId, tenant: Tenant = None) -> None:
    """Let an operator sign in again."""
    _switch(operator_id, tenant, is_active=True)


@operator.command("password")
def set_password(operator_id: _OperatorId, password_from: SecretFrom = None, tenant: Tenant = None) -> None:
    """Give an operator a password; whoever is signed in by the one before is so no more."""
    from messaging.api import access

    with acting_for(tenant):
        access.set_operator_password(operator_id, _password(password_from))
    typer.echo(f"operator {operator_id} has a new password")


def _switch(operator_id: int, tenant: str | None, *, is_active: bool) -> None:
    from messaging.api import access

    with acting_for(tenant):
        access.set_operator_active(operator_id, is_active)
    typer.echo(f"operator {operator_id} is {'enabled' if is_active else 'disabled'}")


def _password(source: str | None) -> str:
    return secret_from(source or "ask", option="--password-from", prompt="password")
