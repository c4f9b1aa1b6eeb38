"""`messaging worker`, `beat`, `flower`, `web`: programs that replace this process."""

import os
import re
import secrets
import sys
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Annotated, NoReturn

import typer

from messaging import programs
from messaging.cli.values import whole_number
from messaging.errors import ConfigurationError

app = typer.Typer()

LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")]


@app.command()
def worker(
    queues: Annotated[
        str,
        typer.Option(
            "--queues",
            "--queue",
            metavar="QUEUE,...",
            help="What it works on, by default all. In production one worker a queue.",
        ),
    ] = "",
    concurrency: Annotated[
        int | None, typer.Option(parser=whole_number(1, 1000), metavar="N", help="Threads, by default 8.")
    ] = None,
    name: Annotated[str, typer.Option(help="Its name in Flower, unique on this host.")] = "",
    log_level: LogLevel = "INFO",
) -> None:
    """Run a worker in this terminal.

    Its threads deliver (queues mail_send, sms_send and webhook_send), run ticks (control), fetch mailboxes
    (mail_fetch), accept other services' mails (mail_request) or prune what has become too old (maintenance).
    """
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


@app.command()
def web(
    port: Annotated[int, typer.Option(parser=whole_number(1, 65535), metavar="PORT")] = 8000,
    host: Annotated[str, typer.Option(help="Where it listens.")] = "127.0.0.1",
    trusted_proxies: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS,...",
            help="Addresses or networks of proxies before it, whose X-Forwarded-For says who calls.",
        ),
    ] = "",
    log_level: LogLevel = "INFO",
) -> None:
    """Run the HTTP application in this terminal.

    It serves the API (/api/v1), providers' receipts and inbound messages, unsubscribe links, /healthz, /readyz and
    /metrics.

    TLS is the proxy's before it; MESSAGING_PUBLIC_BASE_URL is where it is reached from outside.
    """
    from importlib.util import find_spec

    from messaging.settings import load_settings

    load_settings()
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise ConfigurationError("the HTTP application is not installed: install messaging[web]")
    proxies = [address.strip() for address in trusted_proxies.split(",") if address.strip()]
    for address in proxies:
        _require_network(address)
    _become(programs.web(host=host, port=port, trusted_proxies=proxies, log_level=_level(log_level)))


def _require_network(address: str) -> None:
    try:
        ip_network(address)
    except ValueError as exc:
        allowed = "addresses and networks such as 10.0.0.5 or 10.0.0.0/8"
        raise ConfigurationError(f"--trusted-proxies is {address!r}; allowed: {allowed}") from exc


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
