"""The demo's folder: one for each run, so that two never meet. What a killed run left, the next one removes."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from messaging.child_process import birth
from messaging.embedded import Postgres
from messaging.errors import ConfigurationError

PREFIX = "messaging-demo-"
#: Names the process that uses the folder, and when it began.
_OWNER = "owner"


def make_folder(parent: Path | None) -> Path:
    """A fresh folder with `mail` and `log` in it, inside `parent` or the temporary folder.

    Raises: ConfigurationError, when it cannot be made.
    """
    within = (parent or Path(tempfile.gettempdir())).resolve()
    try:
        within.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(within)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=within))
    except OSError as exc:
        raise ConfigurationError(f"--state is {within}; allowed: a folder to write to ({exc.strerror})") from exc
    # As root, PostgreSQL runs as `nobody` and must pass through.
    folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    (folder / _OWNER).write_text(f"{os.getpid()} {birth(os.getpid())}")
    for name in ("mail", "log", "tmp", "metrics"):
        (folder / name).mkdir(mode=0o700)
    return folder


def leave(folder: Path) -> None:
    """The run is over: keep captured mail and logs, remove everything else."""
    for name in ("tmp", "metrics"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("environment", "smtp.port", "texts.port", "hooks.port", _OWNER):
        (folder / name).unlink(missing_ok=True)


def _remove_left_behind(within: Path) -> None:
    """Folders of runs that were killed: each is worth 60 MB."""
    for folder in within.glob(f"{PREFIX}*"):
        with suppress(OSError, ValueError):
            pid, born = (folder / _OWNER).read_text().split(maxsplit=1)
            if birth(int(pid)) == born or folder.stat().st_uid != os.geteuid():
                continue
            Postgres(folder).remove()  # its data may lie elsewhere
            shutil.rmtree(folder, ignore_errors=True)
