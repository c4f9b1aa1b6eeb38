"""`messaging tenant ...`: what a new tenant starts with. Done by the platform's operator."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from messaging.cli.acting import acting_for, print_json
from messaging.cli.values import MAX_ID, AsJson, whole_number
from messaging.errors import ConfigurationError

tenant = typer.Typer(help="Tenants.")


@tenant.command()
def provision(
    seeds: Annotated[Path, typer.Option(metavar="DIR", help="Holds the seeds, a YAML file each.")],
    tenant_id: Annotated[
        int | None,
        typer.Argument(parser=whole_number(0, MAX_ID), metavar="ID", help="The tenant; 0 with multi-tenancy off."),
    ] = None,
    platform: Annotated[
        bool, typer.Option("--platform", help="The platform's own set, in the place of an ID.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Delete what these seeds made, edited or not, and make it anew.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Apply seeds to a tenant, each once and all or none. A repeated run leaves what was applied alone."""
    from messaging import api
    from messaging.settings import load_settings
    from messaging.tenancy import PLATFORM_TENANT_ID

    if platform == (tenant_id is not None):
        given = "both are given" if platform else "neither is given"
        raise ConfigurationError(f"ID and --platform: {given}; one of them is needed")
    is_multi_tenancy = load_settings(dispatch={"nudge": ""}).multi_tenancy
    with acting_for(str(PLATFORM_TENANT_ID) if is_multi_tenancy else None):
        chosen = PLATFORM_TENANT_ID if tenant_id is None else tenant_id
        results = api.provision_tenant(None, chosen, seeds, rebuild=rebuild)
    if as_json:
        print_json([asdict(result) for result in results])
        return
    for result in results:
        made = "" if result.row_id is None else f" {result.row_id}"
        typer.echo(f"{result.outcome:<14}  {result.key}  {result.model}{made}")
