"""Which part of the application a path belongs to."""

from starlette.types import Scope

#: Where the API begins.
BASE = "/api/v1"


#: Where the console begins.
CONSOLE = "/console"


def is_api(scope: Scope) -> bool:
    """Whether a request is the API's; also where an application has mounted all of this below a path of its own."""
    return own_path(scope).startswith(BASE + "/")


def is_console(scope: Scope) -> bool:
    """Whether a request is the console's, as is the first page."""
    path = own_path(scope)
    return path in ("/", CONSOLE) or path.startswith(CONSOLE + "/")


def own_path(scope: Scope) -> str:
    """The path below where an application has mounted all of this."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
