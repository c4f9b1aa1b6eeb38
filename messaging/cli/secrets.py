"""Where a command takes a secret from: asked for at a terminal, read, or in the environment; never an argument."""

import os
import sys
from typing import Annotated

import typer

from messaging.errors import ConfigurationError

#: The environment variable's name follows.
FROM_ENV = "env:"

#: An option that says where a secret comes from.
SecretFrom = Annotated[
    str | None,
    typer.Option(metavar="ask|stdin|env:NAME", help="Where the secret comes from; no argument holds it."),
]


def secret_from(source: str, *, option: str, prompt: str) -> str:
    """The secret; of standard input the next line.

    Raises: ConfigurationError, when there is none to be had.
    """
    if source == "ask":
        if not sys.stdin.isatty():
            raise ConfigurationError(f"{option} is 'ask' and nobody can be asked; allowed here: stdin, env:NAME")
        return str(typer.prompt(prompt, hide_input=True, err=True))
    if source == "stdin":
        return sys.stdin.readline().rstrip("\r\n")
    if source.startswith(FROM_ENV):
        return from_env(source, option=option)
    # It may be the secret itself, given in the wrong place.
    raise ConfigurationError(f"{option} is none of ask, stdin, env:NAME")


def from_env(source: str, *, option: str) -> str:
    """What `env:NAME` names. Raises: ConfigurationError, when it is not set."""
    name = source.removeprefix(FROM_ENV)
    if not os.environ.get(name):
        raise ConfigurationError(f"{option} is {source!r}, and {name} is not set")
    return os.environ[name]
