"""`messaging doctor` and `demo`: the system as a whole."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from messaging.cli.acting import EXIT_WRONG, print_json
from messaging.cli.values import AsJson

app = typer.Typer()


@app.command()
def doctor(as_json: AsJson = False) -> int:
    """Look at everything a running system needs and say what to do; exit 1 when something fails."""
    from messaging.doctor import Level, examine
    from messaging.settings import load_settings
    from messaging.terminal import print_findings

    findings = examine(load_settings())
    if as_json:
        print_json([asdict(finding) for finding in findings])
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
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the console in a desktop's browser while it stays up.")
    ] = True,
) -> int:
    """Run the whole system on this machine for a small shop's mails: needs nothing but the extras embedded and ops."""
    from messaging.demo.run import run_demo

    return run_demo(state, stay=sys.stdout.isatty() if stay is None else stay, opens=opens)
