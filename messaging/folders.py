"""Reading a folder that people keep in git: bounded, and only what lies in it. Symbolic links lead elsewhere."""

from collections.abc import Iterator
from pathlib import Path

from messaging.errors import FileRejected

#: Files in a folder.
MAX_FILES = 5_000


def entries(folder: Path) -> list[Path]:
    """What lies in the folder, by name; what is hidden is left out.

    Raises: FileRejected, for a link, for what is neither file nor folder, and for too many.
    """
    if not folder.is_dir():
        raise FileRejected(str(folder), "is not a folder")
    found = []
    for path in _visible(folder):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise FileRejected(path.name, "is neither a file nor a folder; links are not followed")
        found.append(path)
        if len(found) > MAX_FILES:
            raise FileRejected(str(folder), f"holds more than {MAX_FILES} entries")
    return sorted(found)


def _visible(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if not path.name.startswith("."))


def read_text(path: Path, shown: str, *, max_bytes: int) -> str:
    """A file's text as it is, line ends too. `shown` is its name in errors.

    Raises: FileRejected, when it is too large or not UTF-8.
    """
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileRejected(shown, f"is larger than {max_bytes} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise FileRejected(shown, f"is not UTF-8: byte {exc.start + 1}") from exc
