"""What a page's commands do in its sandbox where running them would take minutes, or change this machine.

First argument is the command's name. Each looks at its arguments as closely as it can and refuses what would not work:
`messaging worker` and its like parse theirs, `pip` knows our extras, `docker compose` our services. (`make` prints what
it would run; acceptance tests run the services of the Compose file.)
"""

import itertools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]


def main() -> int:
    name, *arguments = sys.argv[1:]
    return {"messaging": program, "make": make, "pip": pip, "docker": docker}[name](arguments)


def program(arguments: list[str]) -> int:
    """A program that would go on for ever: its options are parsed and its queues looked up."""
    import typer

    from messaging.cli.entry import app
    from messaging.settings import QueueSettings

    context = typer.main.get_command(app).make_context("messaging", list(arguments))
    command = context.command.get_command(context, arguments[0])  # type: ignore[attr-defined]
    parsed = command.make_context(arguments[0], arguments[1:], parent=context).params
    unknown = set((parsed.get("queues") or "").split(",")) - {"", *dict(QueueSettings()).values()}
    return refuse(f"no such queue: {', '.join(unknown)}") if unknown else 0


def make(arguments: list[str]) -> int:
    return subprocess.run(["/usr/bin/make", "-n", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL).returncode


def pip(arguments: list[str]) -> int:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for given in arguments[1:]:
        if found := re.fullmatch(r"messaging(?:\[([\w,]+)\])?", given):
            unknown = set((found[1] or "").split(",")) - {"", *extras}
            if unknown:
                return refuse(f"no such extra: {', '.join(unknown)}")
        elif not given.startswith("--"):
            return refuse(f"not ours: {given}")
    return 0 if arguments[0] == "install" else refuse(arguments[0])


def docker(arguments: list[str]) -> int:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    verb, *given = arguments[1:]
    if arguments[0] != "compose" or verb not in ("up", "pull", "build", "run", "exec", "logs", "stop", "start", "ps"):
        return refuse(" ".join(arguments))
    scaled = [after.partition("=")[0] for before, after in itertools.pairwise(given) if before == "--scale"]
    valued = [after for before, after in itertools.pairwise(given) if before in ("--scale", "--tail")]
    plain = [one for one in given if not one.startswith("-") and one not in valued]
    # Whatever follows a service's name is run in it.
    named = scaled + (plain[:1] if verb in ("run", "exec") else plain)
    unknown = set(named) - set(services)
    if unknown:
        return refuse(f"no such service: {', '.join(unknown)}")
    if verb in ("run", "exec") and plain[1] == "messaging":
        return subprocess.run([str(Path(sys.executable).with_name("messaging")), *plain[2:], "--help"]).returncode
    return 0


def refuse(why: str) -> int:
    print(f"{sys.argv[1]}: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
