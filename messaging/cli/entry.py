"""The `messaging` program: all its commands, and what becomes of their errors."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from messaging.cli import (
    access,
    audit_log,
    captured,
    classify,
    dead_letters,
    mailboxes,
    programs,
    providers,
    pruning,
    quotas,
    received,
    records,
    routes,
    schema,
    servers,
    suppressions,
    system,
    templates,
    tenants,
    webhooks,
)
from messaging.cli.acting import refused
from messaging.errors import ConfigurationError, MessagingError

app = typer.Typer(
    name="messaging",
    help="Mail accepted in your database transaction, delivered by Celery workers, each once.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
# Without a name: commands of the program itself.
for commands in (records.app, programs.app, system.app, pruning.app, classify.app):
    app.add_typer(commands)
app.add_typer(schema.db, name="db")
app.add_typer(servers.server, name="server")
app.add_typer(mailboxes.mailbox, name="mailbox")
app.add_typer(templates.template, name="template")
app.add_typer(providers.provider, name="provider")
app.add_typer(routes.route, name="route")
app.add_typer(routes.binding, name="binding")
app.add_typer(quotas.quota, name="quota")
app.add_typer(suppressions.suppression, name="suppression")
app.add_typer(received.received, name="received")
app.add_typer(captured.captured, name="captured")
app.add_typer(tenants.tenant, name="tenant")
app.add_typer(access.token, name="token")
app.add_typer(access.operator, name="operator")
app.add_typer(webhooks.webhook, name="webhook")
app.add_typer(dead_letters.dead_letter, name="dead-letter")
app.add_typer(audit_log.audit, name="audit")


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """One command; answers its exit code."""
    given = list(arguments)
    try:
        code = app([*given, "--help"] if _asks_nothing(given) else given, prog_name="messaging", standalone_mode=False)
    except typer.TyperException as exc:
        # Typer's own: an unknown command or option, a value its parser refused.
        return refused(exc.format_message())
    except typer.Exit as exc:
        return int(exc.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # `messaging list | head`: what was asked for was shown. Nothing more may be written at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (MessagingError, ConfigurationError) as exc:
        return refused(str(exc))
    except Exception as exc:
        reason = _dependency_trouble(exc)
        if reason is None:
            raise
        return refused(reason)
    return int(code or 0)


def _asks_nothing(given: list[str]) -> bool:
    """Whether no command is named, or only a group of commands: help is what is meant then."""
    return not given or given in [[group.name] for group in app.registered_groups]


def _dependency_trouble(exc: Exception) -> str | None:
    """What to say of an error of the database's driver or of Redis; None for any other."""
    if "sqlalchemy" not in sys.modules:
        return None  # a command that asks nobody
    from redis import RedisError
    from sqlalchemy.exc import SQLAlchemyError

    from messaging.db.trouble import is_away, is_passing, sqlstate

    if isinstance(exc, RedisError):
        return f"MESSAGING_REDIS_URL: Redis does not answer ({exc})"
    if not isinstance(exc, SQLAlchemyError):
        return None
    state = sqlstate(exc)
    if is_passing(exc):
        return f"another transaction is in the way, try again ({_first_line(exc)})"
    if state == "42501":  # insufficient privilege
        return f"MESSAGING_DATABASE_URL: its user may not do that ({_first_line(exc)})"
    if state in ("42P01", "42703"):  # no such table, no such column
        return "MESSAGING_DATABASE_URL: the schema is not what this code needs; run: messaging db upgrade"
    if is_away(exc) or (state or "")[:2] in ("28", "3D"):  # who may log in; which database
        return f"MESSAGING_DATABASE_URL: {_shown_url()} does not answer ({_first_line(exc)})"
    return None


def _shown_url() -> str:
    from messaging.settings import load_settings

    return load_settings(dispatch={"nudge": ""}).shown_database_url


def _first_line(exc: Exception) -> str:
    lines = str(getattr(exc, "orig", None) or exc).strip().splitlines()
    return lines[0] if lines else type(exc).__name__
