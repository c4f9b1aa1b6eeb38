"""`messaging ...`: parse, one call, answer. Bad input is one line on standard error, and exit 2; no traceback.

Heavy modules are imported by the command that needs them, so that `--help` and mistakes answer at once. Workers, beat
and Flower are Celery's programs: their commands replace this process by `celery -A tasks ...`.
"""

import json
import os
import re
import secrets
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from messaging import programs
from messaging.cli_values import (
    ALL_TENANTS,
    MAX_ID,
    AnyTenant,
    AsJson,
    RecordId,
    RecordIds,
    Tenant,
    member,
    time_value,
    whole_number,
)
from messaging.delivery.status import SendStatus
from messaging.errors import ConfigurationError, MessagingError
from messaging.requests import BodyMode, MessageScope, Priority

if TYPE_CHECKING:
    from sqlalchemy import Engine


app = typer.Typer(
    name="messaging",
    help="Mail accepted in your database transaction, delivered by Celery workers, each once.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
db = typer.Typer(help="The database schema.")
app.add_typer(db, name="db")

#: Exit codes: something is wrong with what was looked at; the input or the environment is.
EXIT_WRONG, EXIT_BAD_INPUT = 1, 2

#: Most records one `list` shows.
MAX_PAGE = 1000


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """One command; answers its exit code."""
    given = list(arguments)
    try:
        code = app([*given, "--help"] if given in ([], ["db"]) else given, prog_name="messaging", standalone_mode=False)
    except typer.TyperException as exc:
        # Typer's own: an unknown command or option, a value its parser refused.
        return _refused(exc.format_message())
    except typer.Exit as exc:
        return int(exc.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # `messaging list | head`: what was asked for was shown. Nothing more may be written at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (MessagingError, ConfigurationError) as exc:
        return _refused(str(exc))
    except Exception as exc:
        reason = _dependency_trouble(exc)
        if reason is None:
            raise
        return _refused(reason)
    return int(code or 0)


def _refused(reason: str) -> int:
    typer.echo(
        "messaging: " + "; ".join(" ".join(line.split()) for line in reason.splitlines() if line.strip()), err=True
    )
    return EXIT_BAD_INPUT


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


# -- what a command works with ---------------------------------------------------------------------------


@contextmanager
def _acting_for(tenant: str | None, *, may_be_all: bool = False) -> Iterator["Engine"]:
    """The process configured, and a tenant's context around the command; answers the engine.

    The nudge is off: its thread would end with the process, so beat's next tick dispatches.
    """
    from messaging import api
    from messaging.settings import load_settings

    settings = load_settings(dispatch={"nudge": ""})
    context = _tenant_context(tenant, is_multi_tenancy=settings.multi_tenancy, may_be_all=may_be_all)
    engine = api.configure(settings).engine
    try:
        with context:
            yield engine
    finally:
        engine.dispose()


def _tenant_context(tenant: str | None, *, is_multi_tenancy: bool, may_be_all: bool) -> AbstractContextManager[object]:
    """Raises: ConfigurationError, when `--tenant` is missing or does not fit."""
    from messaging import tenancy

    if not is_multi_tenancy:
        if tenant not in (None, ALL_TENANTS):
            raise ConfigurationError(f"--tenant is {tenant}; allowed with MESSAGING_MULTI_TENANCY on, and it is off")
        return nullcontext()
    allowed = f"an id or {ALL_TENANTS!r}" if may_be_all else "an id"
    if tenant is None:
        raise ConfigurationError(f"--tenant is not given; with MESSAGING_MULTI_TENANCY it is required: {allowed}")
    if tenant == ALL_TENANTS:
        if not may_be_all:
            raise ConfigurationError(f"--tenant is {ALL_TENANTS!r}; allowed here: {allowed}")
        return tenancy.all_tenants()
    return tenancy.tenant(int(tenant))


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, default=_plain, ensure_ascii=False, indent=2))


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


# -- records ---------------------------------------------------------------------------------------------


@app.command()
def send(
    to: Annotated[list[str], typer.Option(help="A recipient, as `name@example.com` or `Name <name@example.com>`.")],
    cc: Annotated[list[str] | None, typer.Option(help="As --to.")] = None,
    bcc: Annotated[list[str] | None, typer.Option(help="As --to; in no header.")] = None,
    subject: Annotated[str | None, typer.Option()] = None,
    text: Annotated[str | None, typer.Option(help="Plain body; `-` reads standard input.")] = None,
    html: Annotated[str | None, typer.Option(help="HTML body; `-` reads standard input.")] = None,
    body_mode: Annotated[BodyMode | None, typer.Option(parser=member(BodyMode), metavar="MODE")] = None,
    reply_to: Annotated[str | None, typer.Option()] = None,
    server: Annotated[int | None, typer.Option(parser=whole_number(1, MAX_ID), metavar="ID")] = None,
    priority: Annotated[Priority | None, typer.Option(parser=member(Priority), metavar="PRIORITY")] = None,
    scope: Annotated[MessageScope, typer.Option(parser=member(MessageScope), metavar="SCOPE")] = MessageScope.TENANT,
    read_receipt: Annotated[bool | None, typer.Option(help="Ask for one, or not; else the server's setting.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key again answers the first record's id.")
    ] = None,
    send_at: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Not before.")] = None,
    expires_at: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Not after.")] = None,
    tenant: Tenant = None,
) -> None:
    """Accept one mail and print its record's id."""
    from messaging import api

    if text == "-" and html == "-":
        raise ConfigurationError("--html is '-'; --text reads standard input already")
    with _acting_for(tenant):
        record_id = api.send_mail(
            to=to,
            cc=cc or (),
            bcc=bcc or (),
            subject=subject,
            text_body=sys.stdin.read() if text == "-" else text,
            html_body=sys.stdin.read() if html == "-" else html,
            body_mode=body_mode,
            reply_to=reply_to,
            server_config_id=server,
            priority=priority,
            scope=scope,
            read_receipt_requested=read_receipt,
            idempotency_key=idempotency_key,
            send_at=send_at,
            expires_at=expires_at,
        )
    typer.echo(record_id)


@app.command()
def show(
    record_id: RecordId,
    bodies: Annotated[bool, typer.Option("--bodies", help="The bodies too.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """Tell the whole story of a record: where it stands and why, recipients, attempts, what comes next."""
    from messaging.db.session import transaction
    from messaging.mail.records import read_story
    from messaging.terminal import print_story

    with _acting_for(tenant, may_be_all=True) as engine, transaction(engine) as session:
        story = read_story(session, record_id, with_bodies=bodies)
    if as_json:
        told = asdict(story)
        _print_json(told if bodies else {k: v for k, v in told.items() if k not in ("body_text", "body_html")})
    else:
        print_story(story)


@app.command("list")
def list_records(
    status: Annotated[SendStatus | None, typer.Option(parser=member(SendStatus), metavar="STATUS")] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 20,
    before: Annotated[
        int | None,
        typer.Option(parser=whole_number(1, MAX_ID), metavar="ID", help="Go on below this record, the last one shown."),
    ] = None,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List records, newest first."""
    from messaging.db.session import transaction
    from messaging.mail.records import page
    from messaging.terminal import print_page

    with _acting_for(tenant, may_be_all=True) as engine, transaction(engine) as session:
        lines = page(session, status=status, limit=limit, before=before)
    next_before = lines[-1].id if len(lines) == limit else None
    if as_json:
        _print_json({"records": [asdict(line) for line in lines], "next_before": next_before})
    else:
        print_page(lines, next_before)


@app.command()
def retry(record_ids: RecordIds, tenant: AnyTenant = None) -> int:
    """Ask for another attempt of each record: due now. Those that cannot have one are named, and the exit is 2."""
    from messaging import api

    code = 0
    with _acting_for(tenant, may_be_all=True):
        for record_id in record_ids:
            try:
                api.retry(record_id)
            except MessagingError as exc:
                code = _refused(str(exc))
            else:
                typer.echo(f"{record_id} is due now")
    return code


@app.command()
def cancel(record_id: RecordId, tenant: AnyTenant = None) -> int:
    """Call a record off and say truthfully what that means; exit 1 when nothing could be called off."""
    from messaging import api
    from messaging.delivery.cancel import CancelAnswer

    with _acting_for(tenant, may_be_all=True):
        answer = api.cancel(record_id)
    meaning = {
        CancelAnswer.CANCELLED: "it was not sent and never will be",
        CancelAnswer.STOPPED: "no further attempt; an earlier one did or may have reached somebody",
        CancelAnswer.IN_PROGRESS: "a worker has it and nothing was changed; ask again",
        CancelAnswer.ALREADY_FINAL: f"it had ended before, {answer.status}",
        CancelAnswer.TOO_LATE: "it is sent",
    }[answer.answer]
    typer.echo(f"{answer.answer}: {meaning}")
    return 0 if answer.answer in (CancelAnswer.CANCELLED, CancelAnswer.STOPPED) else EXIT_WRONG


# -- the schema ------------------------------------------------------------------------------------------


@contextmanager
def _database() -> "Iterator[tuple[Engine, str]]":
    """The database and its address."""
    from messaging.db.engine import create_engine
    from messaging.settings import load_settings

    settings = load_settings()
    engine = create_engine(settings, pool_size=1, application_name="messaging db")
    try:
        yield engine, settings.database_url
    finally:
        engine.dispose()


@db.command()
def upgrade() -> None:
    """Bring the database up to the schema this code needs; several at once wait for each other."""
    from messaging.db import schema

    with _database() as (engine, url):
        before = schema.current(engine)
        schema.upgrade(url)
        after = schema.current(engine)
    earlier = "as before" if before == after else f"before it was at {before or 'nothing'}"
    typer.echo(f"the schema is at {after}, {earlier}")


@db.command()
def current() -> int:
    """Print the schema's revision and the one this code needs; exit 1 when they differ."""
    from messaging.db import schema

    with _database() as (engine, _):
        found, head = schema.current(engine), schema.head()
    typer.echo(f"{found or 'nothing'} (this code needs {head})")
    return 0 if found == head else EXIT_WRONG


@db.command()
def check() -> int:
    """Compare the database with the models; exit 1 and a line each when they differ."""
    # The tables that are compared.
    import messaging.delivery.dead_letter
    import messaging.mail.models  # noqa: F401
    from messaging.db import schema

    with _database() as (engine, _), warnings.catch_warnings():
        # Alembic says of every generated column that it cannot tell whether its expression changed.
        warnings.filterwarnings("ignore", message="Computed default", category=UserWarning)
        schema.require_head(engine)
        differences = schema.differences(engine)
    for difference in differences:
        typer.echo(difference)
    if not differences:
        typer.echo("the database is what the models say")
    return EXIT_WRONG if differences else 0


# -- programs --------------------------------------------------------------------------------------------

LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")]


@app.command()
def worker(
    queues: Annotated[
        str,
        typer.Option(metavar="QUEUE,...", help="What it works on, by default all. In production one worker a queue."),
    ] = "",
    concurrency: Annotated[
        int | None, typer.Option(parser=whole_number(1, 1000), metavar="N", help="Threads, by default 8.")
    ] = None,
    name: Annotated[str, typer.Option(help="Its name in Flower, unique on this host.")] = "",
    log_level: LogLevel = "INFO",
) -> None:
    """Run a worker in this terminal: threads that deliver (queue mail_send) or run ticks (queue control)."""
    from messaging.settings import load_settings

    if name and not re.fullmatch(r"[A-Za-z0-9_.+-]{1,100}", name):
        raise ConfigurationError(f"--name is {name!r}; allowed: up to 100 letters, digits and _ . + -")
    known = load_settings().queues.model_dump().values()
    chosen = [queue.strip() for queue in queues.split(",") if queue.strip()] or sorted(known)
    for queue in chosen:
        if queue not in known:
            raise ConfigurationError(f"--queues is {queue!r}; allowed: {', '.join(sorted(known))}")
    called = name or f"{'+'.join(chosen)}-{os.getpid()}"
    _become(programs.worker(queues=chosen, name=called, log_level=_level(log_level), concurrency=concurrency))


@app.command()
def beat(log_level: LogLevel = "INFO") -> None:
    """Run beat in this terminal: it asks for a tick twice a second. A second one does no harm."""
    from messaging.settings import load_settings

    load_settings()
    _become(programs.beat(log_level=_level(log_level)))


@app.command()
def flower(
    port: Annotated[int, typer.Option(parser=whole_number(1, 65535), metavar="PORT")] = 5555,
    address: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    allow_control: Annotated[bool, typer.Option("--allow-control", help="Let it stop and change workers.")] = False,
) -> None:
    """Run Flower in this terminal, to watch workers and queues; FLOWER_BASIC_AUTH is its user:password."""
    from importlib.util import find_spec

    from messaging.settings import load_settings

    load_settings()
    if find_spec("flower") is None:
        raise ConfigurationError("flower is not installed: install messaging[ops]")
    if not os.environ.get("FLOWER_BASIC_AUTH"):
        os.environ["FLOWER_BASIC_AUTH"] = f"messaging:{secrets.token_urlsafe(12)}"
        typer.echo(f"FLOWER_BASIC_AUTH is not set, so for this run it is {os.environ['FLOWER_BASIC_AUTH']}", err=True)
    os.environ.pop("FLOWER_UNAUTHENTICATED_API", None)  # with it anybody could stop workers
    _become(programs.flower(address=address, port=port, may_control=allow_control))


def _level(text: str) -> str:
    level = text.upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ConfigurationError(f"--log-level is {text!r}; allowed: DEBUG, INFO, WARNING, ERROR")
    return level


def _become(argv: Sequence[str]) -> NoReturn:
    """Replaces this process, so that signals and the exit code are the program's."""
    os.chdir(programs.working_folder())
    sys.stdout.flush()
    os.execv(argv[0], list(argv))  # noqa: S606


# -- the whole -------------------------------------------------------------------------------------------


@app.command()
def doctor(as_json: AsJson = False) -> int:
    """Look at everything a running system needs and say what to do; exit 1 when something fails."""
    from messaging.doctor import Level, examine
    from messaging.settings import load_settings
    from messaging.terminal import print_findings

    findings = examine(load_settings())
    if as_json:
        _print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    return EXIT_WRONG if any(finding.level is Level.FAIL for finding in findings) else 0


@app.command()
def demo(
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where it makes its folder; by default the temporary folder.")
    ] = None,
    stay: Annotated[
        bool | None, typer.Option("--stay/--no-stay", help="Stay up until Ctrl-C; by default with a terminal.")
    ] = None,
) -> int:
    """Run the whole system on this machine for a small shop's mails: needs nothing but the extras embedded and ops."""
    from messaging.demo.run import run_demo

    return run_demo(state, stay=sys.stdout.isatty() if stay is None else stay)


if __name__ == "__main__":
    main()
