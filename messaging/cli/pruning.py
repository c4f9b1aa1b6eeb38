"""`messaging prune`: retention now, counted first with --dry-run; `--progress` shows how far it has come."""

from dataclasses import asdict
from typing import Annotated

import typer

from messaging.cli.acting import acting_for, print_json
from messaging.cli.values import ALL_TENANTS, AsJson, member
from messaging.retention.kinds import PruneKind

app = typer.Typer()


@app.command()
def prune(
    kind: Annotated[
        list[PruneKind] | None,
        typer.Option(
            parser=member(PruneKind), metavar="KIND", help="bodies, records, ...; by default all with an age."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go; change nothing.")] = False,
    progress: Annotated[bool, typer.Option("--progress", help="Only tell ages and how far each kind is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove what is older than RETENTION__*_DAYS, of all tenants, in small batches; what is left the next run does."""
    from messaging import api
    from messaging.cli.pruning_tables import print_progress, print_pruned

    with acting_for(ALL_TENANTS, may_be_all=True):
        if progress:
            lines = api.list_prune_progress()
            if as_json:
                print_json([asdict(line) for line in lines])
            else:
                print_progress(lines)
            return
        pruned = api.prune(kind, dry_run=dry_run, on_batch=lambda name, rows: _tell(name, rows, is_quiet=as_json))
    if as_json:
        print_json([asdict(one) for one in pruned])
    else:
        print_pruned(pruned, is_dry=dry_run)


def _tell(name: str, rows: int, *, is_quiet: bool) -> None:
    """On standard error, as it goes on."""
    if rows and not is_quiet:
        typer.echo(f"{name}: {rows}", err=True)
