"""What a command works with: the process configured, a tenant's context, exit codes, and how it refuses."""

import getpass
import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from messaging.cli.values import ALL_TENANTS
from messaging.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy import Engine

#: Exit codes: something is wrong with what was looked at; the input or the environment is.
EXIT_WRONG, EXIT_BAD_INPUT = 1, 2


def refused(reason: str) -> int:
    """Say on one line of standard error why not; answers the exit code."""
    typer.echo(
        "messaging: " + "; ".join(" ".join(line.split()) for line in reason.splitlines() if line.strip()), err=True
    )
    return EXIT_BAD_INPUT


@contextmanager
def acting_for(tenant: str | None, *, may_be_all: bool = False) -> Iterator["Engine"]:
    """The process configured, and a tenant's context around the command; answers the engine.

    The nudge is off: its thread would end with the process, so beat's next tick dispatches.
    """
    from messaging import api
    from messaging.settings import load_settings

    settings = load_settings(dispatch={"nudge": ""})
    with _as_operator():
        context = _tenant_context(tenant, is_multi_tenancy=settings.multi_tenancy, may_be_all=may_be_all)
        engine = api.configure(settings).engine
        try:
            with context:
                yield engine
        finally:
            engine.dispose()


@contextmanager
def acting_as_platform() -> Iterator["Engine"]:
    """As `acting_for`, for what is the platform's alone; with multi-tenancy off, as anybody."""
    from messaging.settings import load_settings
    from messaging.tenancy import PLATFORM_TENANT_ID

    is_multi_tenancy = load_settings(dispatch={"nudge": ""}).multi_tenancy
    with acting_for(str(PLATFORM_TENANT_ID) if is_multi_tenancy else None) as engine:
        yield engine


#: Who acts, in the audit log; the name beside it is that of the account on the machine.
ACTOR = "command line"


def _as_operator() -> AbstractContextManager[object]:
    from messaging import tenancy

    return tenancy.acting_as(replace(tenancy.current(), actor=ACTOR, user_name=_account()))


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name, as containers have; KeyError until Python 3.13
        return f"uid {os.getuid()}"


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


def print_json(value: Any) -> None:
    """Print a value as JSON; times in ISO 8601."""
    typer.echo(json.dumps(value, default=_plain, ensure_ascii=False, indent=2))


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
