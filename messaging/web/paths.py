"""Which part of the application a path belongs to."""

from starlette.types import Scope

#: Where the API begins.
BASE = "/api/v1"


def is_api(scope: Scope) -> bool:
    """Whether a request is the API's; also where an application has mounted all of this below a path of its own."""
    path: str = scope["path"]
    path = path.removeprefix(scope.get("root_path", ""))
    return path.startswith(BASE + "/")
