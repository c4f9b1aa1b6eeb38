"""Where a page's blocks run: a folder, an environment, a shell that remembers what was exported, a Python session."""

import doctest
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from configparser import ConfigParser
from pathlib import Path
from typing import Any, Self

import psycopg
import yaml

from messaging.embedded.programs import postgres_programs
from messaging.settings import Settings
from tests.integration.docs.blocks import ROOT, Block

HERE = Path(__file__).parent

#: What may take its time: a send by real workers.
LOOK_SECONDS = 60.0
#: How long services have to end.
STOP_SECONDS = 20.0
#: A command that only looks may be given again until it shows what the page shows, as a reader would.
_LOOKS = re.compile(r"messaging (show|list|captured|received|doctor)\b")
#: What the sandbox has set already; a page that sets it only shows how.
_OURS = re.compile(r"^(?:export )?(MESSAGING_(?:DATABASE_URL|REDIS_URL|SECRETS_KEYS))=(.*)$")

#: Programs whose place something else takes: see `stand_in.py`.
_WRAPPER = """#!/bin/sh
case "{name} $1" in
  "messaging "*) case "$1" in {services}) ;; worker|beat|web) exec {program} "$@" ;; *) exec {command} "$@" ;; esac ;;
esac
exec {python} {stand_in} {name} "$@"
"""


class Sandbox:
    """One page's; `runs_services`: workers are started for real, and end with it."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *, commands: Path, runs_services: bool) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._session: subprocess.Popen[str] | None = None
        self._shells: list[int] = []
        #: Where `commands.py` serves.
        self._commands = commands
        self._make_programs("" if runs_services else "worker|beat|web|flower|demo")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Services that a page started stay in the group of their shell.
        for group in self._shells:
            _signal(group, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while any(_signal(group, 0) for group in self._shells) and time.monotonic() < deadline:
            time.sleep(0.05)
        for group in self._shells:
            _signal(group, signal.SIGKILL)
        if self._session is not None:
            self._session.communicate(timeout=20)

    def run(self, block: Block) -> None:
        """Raises AssertionError that tells what did not work; a language nobody knows is one of that."""
        if block.title is not None:
            path = self._folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        languages = {
            "python": self._run_python,
            "sh": self._run_shell,
            "console": self._run_console,
            "sql": self._run_sql,
            "yaml": self._read_yaml,
            "ini": self._read_unit,
            "env": self._read_environment,
            "jinja": self._read_file,
        }
        assert block.language in languages, f"{block.place}: nothing here runs {block.language!r}"
        languages[block.language](block)

    def run_python(self, source: str, place: str) -> None:
        if self._session is None:
            self._session = subprocess.Popen(
                [sys.executable, HERE / "session.py"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=self._folder,
                env=self._environment,
            )
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        print(json.dumps({"source": source, "place": place}), file=self._session.stdin, flush=True)
        answer = self._session.stdout.readline()
        assert answer, f"{place}: the session ended"
        error = json.loads(answer)
        assert error is None, f"{place}: {error}"

    def _run_python(self, block: Block) -> None:
        if block.title is None:
            self.run_python(block.text, block.place)
        else:
            compile(block.text, block.place, "exec")

    def _run_shell(self, block: Block) -> None:
        self._shell(_without_ours(block.text), block.place)

    def _run_console(self, block: Block) -> None:
        for command, shown in _commands(block):
            deadline = time.monotonic() + (LOOK_SECONDS if _LOOKS.match(command) else 0)
            while True:
                said = self._shell(command, block.place)
                if _fits(shown, said):
                    break
                assert time.monotonic() < deadline, f"{block.place}: {command}\nshows\n{said}\nand not\n{shown}"
                time.sleep(0.5)

    def _shell(self, script: str, place: str) -> str:
        state = self._folder / ".environment"
        with (self._folder / ".said").open("w") as said_to, (self._folder / ".complained").open("w") as complained_to:
            # Files and not pipes: what a script leaves running holds them open.
            shell = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", f"{script}\nenv -0 > {state}"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said_to,
                stderr=complained_to,
                start_new_session=True,
            )
        self._shells.append(shell.pid)
        code = shell.wait(120)
        said, complained = ((self._folder / name).read_text() for name in (".said", ".complained"))
        assert code == 0, f"{place}: exit code {code}\n{script}\n{said}\n{complained}"
        exported = state.read_text().split("\0")
        self._environment = dict(one.split("=", 1) for one in exported if "=" in one)
        return said

    def _run_sql(self, block: Block) -> None:
        url = self._environment["MESSAGING_DATABASE_URL"].replace("+psycopg", "")
        with psycopg.connect(url) as connection:
            connection.execute(block.text.encode())

    def _read_file(self, block: Block) -> None:
        assert block.title is not None, f"{block.place}: a block of {block.language} needs the name of a file"

    def _read_yaml(self, block: Block) -> None:
        self._read_file(block)
        content = yaml.safe_load(block.text)
        if "services" in content:
            known = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
            assert set(content["services"]) <= set(known), f"{block.place}: a service that there is not"

    def _read_unit(self, block: Block) -> None:
        """A unit of systemd: what it starts is a command of ours."""
        self._read_file(block)
        unit = ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(block.text)
        program = unit["Service"]["ExecStart"].split()
        assert program[0].endswith("/messaging"), block.place
        self._shell(" ".join(["messaging", *program[1:]]).replace("%i", "mail_send"), block.place)

    def _read_environment(self, block: Block) -> None:
        """Settings that this version takes."""
        given = dict(line.split("=", 1) for line in block.text.splitlines() if line and not line.startswith("#"))
        ours = {name: value for name, value in given.items() if name.startswith("MESSAGING_")}
        assert ours == given, f"{block.place}: not only our settings"
        program = "from messaging.settings import load_settings; load_settings()"
        environment = {**self._environment, **ours}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{block.place}: {done.stderr}"

    def _make_programs(self, services: str) -> None:
        programs = self._folder / ".programs"
        programs.mkdir()
        for name in ("messaging", "make", "pip", "docker"):
            wrapper = programs / name
            program = Path(sys.executable).with_name("messaging")
            words: dict[str, Any] = {"name": name, "program": program, "python": sys.executable}
            # No site-packages and no variables: the client needs the standard library alone, and starts at once.
            words["command"] = f"{sys.executable} -I -S {HERE / 'commands.py'} {self._commands}"
            wrapper.write_text(_WRAPPER.format(**words, stand_in=HERE / "stand_in.py", services=services or "''"))
            wrapper.chmod(0o755)
        # `pg_dump` refuses a server that is newer than itself.
        places = [programs, Path(sys.executable).parent, postgres_programs(18) / "bin", self._environment["PATH"]]
        self._environment["PATH"] = os.pathsep.join(map(str, places))


def _signal(group: int, number: int) -> bool:
    """Whether there is anybody left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _without_ours(script: str) -> str:
    """Without the lines that would point the page at another database; each is one that a start would take."""
    kept = []
    for line in script.splitlines():
        if found := _OURS.match(line):
            name, value = found[1].removeprefix("MESSAGING_").lower(), found[2].strip("'\"")
            if not value.startswith("$"):
                given = {
                    "database_url": "postgresql://h/d",
                    "redis_url": "redis://h",
                    "secrets_keys": ("0" * 43 + "=",),
                }
                Settings(**{**given, name: value})  # type: ignore[arg-type]
        else:
            kept.append(line)
    return "\n".join(kept)


def _commands(block: Block) -> list[tuple[str, str]]:
    """Each command with what the page shows of its output."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), ""))
        else:
            assert found, f"{block.place}: begins without a command"
            command, shown = found[-1]
            if command.endswith("\\"):
                found[-1] = f"{command}\n{line}", shown
            else:
                found[-1] = command, f"{shown}{line}\n"
    return found


def _fits(shown: str, said: str) -> bool:
    """Whether that is what was said, spaces and the parts left out by `...` aside."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(shown, said, options)
