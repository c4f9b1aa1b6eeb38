"""Style, script and pictures of the console: read once, named for their content, kept by browsers for good."""

import hashlib
from pathlib import Path

from starlette.responses import Response

from messaging.web.paths import CONSOLE

_FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
#: Characters of the hash in a name.
_HASH_CHARS = 12


class Assets:
    """The files by the paths that pages name."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._answers: dict[str, Response] = {}
        for file in sorted(_FOLDER.iterdir()):
            content = file.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:_HASH_CHARS]
            path = f"{CONSOLE}/static/{file.stem}.{digest}{file.suffix}"
            # Another content has another name, so a kept one is never out of date.
            headers = {"cache-control": "public, max-age=31536000, immutable"}
            self._paths[file.name] = path
            self._answers[path] = Response(content, media_type=_TYPES[file.suffix], headers=headers)

    def path(self, name: str) -> str:
        """Where a page finds a file, such as `console.css`."""
        return self._paths[name]

    def find(self, path: str) -> Response | None:
        """The answer to a request for one."""
        return self._answers.get(path)
