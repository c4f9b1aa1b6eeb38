"""`messaging classify`: what would be recognised in mails that lie in files; needs no database and no settings."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from messaging.cli.acting import EXIT_BAD_INPUT, refused
from messaging.cli.values import AsJson

#: The name that stands for standard input.
STANDARD_INPUT = "-"

app = typer.Typer()


@app.command()
def classify(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Mails as received; a folder: all files below; -: standard input."),
    ],
    as_json: AsJson = False,
) -> int:
    """Print what each mail is: its type, recipients, codes and flags; with --json one object a line."""
    unread: list[str] = []
    lines = _summaries(files, unread)
    if as_json:
        for line in lines:
            typer.echo(json.dumps(line))
    else:
        from messaging.terminal import print_classified

        print_classified(list(lines))
    for reason in unread:
        refused(reason)
    return EXIT_BAD_INPUT if unread else 0


def _summaries(names: Sequence[str], unread: list[str]) -> Iterator[dict[str, Any]]:
    """One summary a file; those that cannot be read go to `unread`, each with its reason."""
    from messaging.receive.classify.chain import classify
    from messaging.receive.classify.summary import summarise
    from messaging.receive.parse import ParseLimits, parse

    limits = ParseLimits()
    for name in _below(names, unread):
        try:
            raw = _read(name, limits.max_message_bytes)
        except OSError as exc:
            unread.append(f"{name}: {exc.strerror or exc}")
        else:
            yield {"file": name, **summarise(classify(parse(raw, limits)))}


def _below(names: Sequence[str], unread: list[str]) -> Iterator[str]:
    """The names as given, and for a folder all files below it, sorted."""

    def told(exc: OSError) -> None:
        unread.append(f"{exc.filename}: {exc.strerror}")

    for name in names:
        if name != STANDARD_INPUT and os.path.isdir(name):
            found = (os.path.join(folder, one) for folder, _, inside in os.walk(name, onerror=told) for one in inside)
            # Pipes and sockets below a folder would be waited for; a link to nowhere is named when it is opened.
            yield from sorted(one for one in found if os.path.isfile(one) or os.path.islink(one))
        else:
            yield name


def _read(name: str, max_bytes: int) -> bytes:
    """At most one octet more than a mail may have."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read(max_bytes + 1)
    with open(name, "rb") as file:
        return file.read(max_bytes + 1)
