"""Bodies and queries made of the API's own description: what is required, and every id that a body may name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from messaging.access.roles import Role
from messaging.web.api.application import describe
from messaging.web.api.router import RESOURCES
from messaging.web.paths import BASE

#: A number that no row has.
NOBODY = "999999999"


@dataclass(frozen=True)
class Operation:
    name: str
    method: str
    path: str
    roles: tuple[Role, ...]
    raw: Mapping[str, Any]

    @property
    def prefix(self) -> str:
        """The path below the base, before its first parameter."""
        return self.path.removeprefix(BASE).partition("/{")[0]

    @property
    def has_id(self) -> bool:
        return "{" in self.path

    def at(self, row_id: int | str) -> str:
        """The path that names this row wherever it names one."""
        before, *after = self.path.split("{")
        return before + "".join(str(row_id) + part.partition("}")[2] for part in after)


def _document() -> dict[str, Any]:
    app = FastAPI()
    for resource in RESOURCES:
        app.router.routes.extend(resource.routes)
    return describe(app)


DOCUMENT = _document()


def operations() -> Iterator[Operation]:
    for path, methods in DOCUMENT["paths"].items():
        for method, raw in methods.items():
            roles = tuple(map(Role, raw.get("x-roles", ())))
            yield Operation(raw["operationId"], method.upper(), path, roles, raw)


OPERATIONS = tuple(operations())

#: Bodies of operations that ask for more than their description tells, by operation.
BODIES: dict[str, Any] = {}


def body(operation: Operation, row_id: int | str = NOBODY) -> Any:
    """A body that the operation's shape takes, in which every id is this one; None where it takes none."""
    content = operation.raw.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None:
        return None
    return BODIES.get(operation.name) or _value("", content["schema"], str(row_id))


def query(operation: Operation, row_id: int | str = NOBODY) -> dict[str, Any]:
    """The query parameters that are required or are ids, which are this one."""
    found = {}
    for parameter in operation.raw.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "query" and (parameter.get("required") or _is_id(name)):
            found[name] = _value(name, parameter["schema"], str(row_id))
    return found | hurry(operation)


def hurry(operation: Operation) -> dict[str, Any]:
    """What keeps an operation from waiting for what does not come."""
    names = {parameter["name"] for parameter in operation.raw.get("parameters", ())}
    return {"timeout_seconds": 0} if "timeout_seconds" in names else {}


def _is_id(name: str) -> bool:
    return name in ("id", "ids") or name.endswith(("_id", "_ids"))


def _value(name: str, schema: Mapping[str, Any], row_id: str) -> Any:
    """A small value of this schema."""
    if "$ref" in schema:
        return _value(name, DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]], row_id)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return _value(name, next(one for one in schema[several] if one.get("type") != "null"), row_id)
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            properties = schema.get("properties", {})
            return {
                member: _value(member, one, row_id)
                for member, one in properties.items()
                if member in required or _is_id(member)
            }
        case "array":
            return [_value(name, schema["items"], row_id)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case "string" if "pattern" in schema and "[0-9]" in schema["pattern"]:
            return row_id
        case "string" if schema.get("format") == "date-time":
            return "2099-01-01T00:00:00Z"
        case "string":
            return "x" * max(1, schema.get("minLength", 1))
        case _:
            return {}
