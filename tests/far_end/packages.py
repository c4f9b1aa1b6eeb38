"""Where the programs of Debian's packages are that `make farends` has unpacked, or why one is missing."""

import os
import platform
import shutil
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FOLDER = Path(__file__).resolve().parents[2] / ".farends"

#: Debian's name of this architecture, a folder of its libraries.
MULTIARCH = sysconfig.get_config_var("MULTIARCH") or f"{platform.machine()}-linux-gnu"

#: Program -> (group of `fetch_packages.sh`, place below the group's root, further library folders).
PROGRAMS = {
    "smtp-sink": ("mail", "usr/sbin/smtp-sink", ("usr/lib/postfix",)),
    "smtp-source": ("mail", "usr/sbin/smtp-source", ("usr/lib/postfix",)),
    "redis-server": ("redis", "usr/bin/redis-server", ()),
    "promtool": ("metrics", "usr/bin/promtool", ()),
}


class FarEndMissing(Exception):
    """The program cannot be had here; the text says why and what to do."""


@dataclass(frozen=True)
class Program:
    """A program to run, and what its LD_LIBRARY_PATH must be (for it alone, never for Python); None: nothing."""

    path: Path
    library_path: str | None

    def environment(self) -> dict[str, str]:
        """The variables to add to the program's environment."""
        return {"LD_LIBRARY_PATH": self.library_path} if self.library_path else {}

    def command(self, *arguments: str) -> list[str]:
        """The argument list; Postfix's sink refuses to be root and is told whom to become."""
        become = ["-u", "nobody"] if self.path.name == "smtp-sink" and os.geteuid() == 0 else []
        return [str(self.path), *become, *arguments]


def find(name: str) -> Program:
    """The unpacked program, else one that is installed. Raises: FarEndMissing."""
    group, place, folders = PROGRAMS[name]
    root = FOLDER / group / "root"
    if (FOLDER / group / "stamp").exists() and (root / place).exists():
        libraries = [*folders, f"usr/lib/{MULTIARCH}", f"lib/{MULTIARCH}"]
        return Program(root / place, ":".join(str(root / each) for each in libraries))
    installed = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if installed:
        return Program(Path(installed), None)
    raise _missing(name, group)


def find_tree(group: str) -> Path:
    """The root of a group's unpacked packages, for what is more than one program. Raises: FarEndMissing."""
    if not (FOLDER / group / "stamp").exists():
        raise _missing(group, group)
    return FOLDER / group / "root"


def _missing(what: str, group: str) -> FarEndMissing:
    reason = FOLDER / f"{group}.missing"
    why = reason.read_text().splitlines()[0] if reason.exists() else "not fetched yet"
    return FarEndMissing(f"far end missing: {what}: {why}; run `make farends`")


def require(name: str) -> Program:
    """The program; where it is missing the test is skipped, in CI failed."""
    return _or_skip(find, name)


def require_tree(group: str) -> Path:
    """The root of the group; where it is missing the test is skipped, in CI failed."""
    return _or_skip(find_tree, group)


def _or_skip(look: Callable[[str], T], name: str) -> T:
    import pytest

    try:
        return look(name)
    except FarEndMissing as exc:
        pytest.skip(str(exc))
