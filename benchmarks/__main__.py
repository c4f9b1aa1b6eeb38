"""`python -m benchmarks [--only NAME]`: run, print a table, write `benchmarks/results.jsonl`; 1 if a bar is missed."""

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness.figure import Figure, significant
from benchmarks.harness.stand import a_stand
from benchmarks.registry import BENCHMARKS

RESULTS = Path(__file__).parent / "results.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="measure, print, write results.jsonl")
    parser.add_argument("--only", choices=BENCHMARKS, help="run one benchmark")
    only = parser.parse_args().only
    console = Console(width=None if sys.stdout.isatty() else 150)
    figures: list[Figure] = []
    with a_stand() as stand, RESULTS.open("w") as results:
        for name in [only] if only else BENCHMARKS:
            started = time.monotonic()
            for figure in BENCHMARKS[name](stand):
                figures.append(figure)
                results.write(json.dumps(figure.as_json(), ensure_ascii=False) + "\n")
                results.flush()
            stand.clear()
            console.print(f"{name}: {time.monotonic() - started:.0f} s")
    console.print(table(figures))
    return 0 if all(figure.ok is not False for figure in figures) else 1


def table(figures: list[Figure]) -> Table:
    """The figures as people read them."""
    result = Table("figure", "value", "against", "ratio", "bar", "")
    for figure in figures:
        verdict = {True: "[green]ok", False: "[red]missed", None: ""}[figure.ok]
        result.add_row(
            figure.name,
            f"{significant(figure.value):g} {figure.unit}",
            figure.against or "",
            "" if figure.ratio is None else f"{significant(figure.ratio):g}",
            "" if figure.bar is None else str(figure.bar),
            verdict,
        )
    return result


if __name__ == "__main__":
    sys.exit(main())
