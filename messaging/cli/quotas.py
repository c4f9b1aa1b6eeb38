"""`messaging quota show`, `set`: monthly quotas, as the platform's operator sees and sets them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from messaging.cli.acting import acting_as_platform, print_json
from messaging.cli.values import MAX_ID, AsJson, whole_number
from messaging.errors import ConfigurationError

if TYPE_CHECKING:
    from messaging.quota import Unchanged, Usage

quota = typer.Typer(help="Monthly quotas.")

#: The platform's own bucket is -1, which is no option.
_TAKES_MINUS_ONE = {"ignore_unknown_options": True}

_whole_number = whole_number(-1, MAX_ID)


def _tenant_id(text: str) -> int:
    """The argument; `--tenant`, as others have it, would be taken for one. Raises: BadParameter."""
    if text.startswith("--"):
        raise typer.BadParameter(f"there is no option {text} here; the tenant's id is the argument, such as 7")
    return int(_whole_number(text))


@quota.command(context_settings=_TAKES_MINUS_ONE)
def show(
    tenant: Annotated[
        int | None,
        typer.Argument(
            parser=_tenant_id, metavar="[TENANT]", help="By default the platform's own, -1; its scope is PLATFORM."
        ),
    ] = None,
    with_history: Annotated[bool, typer.Option("--history", help="The months before, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a tenant has used of this month's quota, and its limit."""
    from messaging import api
    from messaging.terminal import print_months

    with acting_as_platform():
        usage = api.quota_usage(tenant)
        months = api.quota_history(tenant) if with_history else []
    if as_json:
        shown = asdict(usage) | {"mail_remaining": usage.mail_remaining, "sms_remaining": usage.sms_remaining}
        print_json(shown | {"history": [asdict(month) for month in months]} if with_history else shown)
        return
    typer.echo(_sentence(usage))
    if with_history:
        print_months(months)


@quota.command("set", context_settings=_TAKES_MINUS_ONE)
def set_limit(
    tenant: Annotated[int, typer.Argument(parser=_tenant_id, metavar="TENANT", help="-1 is the platform.")],
    mail: Annotated[
        str | None,
        typer.Option(
            metavar="N|none|default", help="Mails a month; `none` lets nothing out, `default` is that of the settings."
        ),
    ] = None,
    sms: Annotated[str | None, typer.Option(metavar="N|none|default", help="Text messages a month.")] = None,
) -> None:
    """Set how many mails and text messages a tenant may send a month; holds for the next one."""
    from messaging import api

    if mail is None and sms is None:
        raise ConfigurationError("neither --mail nor --sms is given")
    mails, texts = _limit("mail", mail), _limit("sms", sms)
    with acting_as_platform():
        api.set_quota_limits(tenant, mail=mails, sms=texts)
        usage = api.quota_usage(tenant)
    typer.echo(_sentence(usage))


def _limit(name: str, text: str | None) -> "int | Unchanged | None":
    if text is None:
        from messaging.quota import UNCHANGED

        return UNCHANGED
    if text == "default":
        return None
    if text == "none":
        return 0
    try:
        return int(whole_number(0, MAX_ID)(text))
    except typer.BadParameter as exc:
        raise ConfigurationError(f"--{name}: {exc.message}; allowed: a whole number, none or default") from None


def _sentence(usage: "Usage") -> str:
    mails = _used("mails", usage.mail_used, usage.mail_limit, usage.mail_remaining)
    sentence = f"tenant {usage.tenant_id} in {usage.period}: {mails}"
    if not usage.sms_used and usage.sms_limit is None:
        return sentence
    return f"{sentence}; {_used('text messages', usage.sms_used, usage.sms_limit, usage.sms_remaining)}"


def _used(what: str, used: int, limit: int | None, left: int | None) -> str:
    return f"{used} {what}, unlimited" if limit is None else f"{used} {what} of {limit}, {left} left"
