"""What a template is filled with, as several commands take it: a JSON file, and single variables."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from messaging.errors import ConfigurationError

Variables = Annotated[
    str | None, typer.Option(metavar="FILE", help="Variables as a JSON object; `-` reads standard input.")
]
SingleVariables = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=TEXT", help="One variable, such as user.name=Kim; may be repeated."),
]


def given_variables(source: str | None, single: Sequence[str] | None) -> dict[str, Any]:
    """The variables of a file and of single options, which win.

    Raises: ConfigurationError, naming the option.
    """
    given: Any = {}
    if source is not None:
        try:
            text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
            given = json.loads(text)
        except (OSError, ValueError, RecursionError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise ConfigurationError(f"--variables is {source!r}; no JSON can be read there ({reason})") from None
        if not isinstance(given, dict):
            raise ConfigurationError(f"--variables is {source!r}; it holds no JSON object")
    for option in single or ():
        name, equals, text = option.partition("=")
        *path, last = name.split(".")
        if not equals or not all((*path, last)):
            raise ConfigurationError(f"--var is {option!r}; allowed: NAME=TEXT, such as user.name=Kim")
        within = given
        for step in path:
            within = within.setdefault(step, {})
            if not isinstance(within, dict):
                raise ConfigurationError(f"--var is {option!r}; {step} is no object")
        within[last] = text
    return dict(given)
