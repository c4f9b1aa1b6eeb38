"""What the HTTP API answers when it refuses or fails: one shape, `{code, message, field?}`, for every error.

A message names the field and what is allowed, and repeats neither bodies nor secrets. Source: `operate.md` section 9.
"""

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from messaging.db.trouble import is_away, is_duplicate, is_passing, is_unfit
from messaging.errors import (
    ConfigRejected,
    EntryRejected,
    FileRejected,
    IdempotencyKeyBusy,
    MessageRejected,
    MessagingError,
    PasswordsBusy,
    RecipientMismatch,
    RecordNotFound,
    StateError,
    TemplateRejected,
    TenantMismatch,
    UserContextMissing,
    shown_value,
)

logger = logging.getLogger(__name__)

#: Seconds after which whoever met a database that is away may come again.
RETRY_AFTER_SECONDS = 5

#: Longest name of a field that an error repeats: an unknown one is the caller's own text.
_MAX_FIELD_CHARS = 200

#: What is said of a text that is too short or too long.
_LENGTHS = {
    "too_short": "has too few characters; allowed: {min_length} or more",
    "too_long": "has too many characters; allowed: {max_length} at most",
}

#: Fields of a message whose refused entry an answer repeats: who it is for, of up to a hundred.
_WHOM = ("to", "cc", "bcc", "reply_to", "phone_number")

#: What a status is called where nothing more is known.
_CODES = {
    400: "invalid",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    500: "internal",
    503: "unavailable",
}


class Problem(BaseModel):
    """Why a request was not answered as asked."""

    # An answer may say more, such as the status of a record that cannot be cancelled.
    model_config = ConfigDict(extra="allow")

    #: A short name for programs.
    code: str
    #: A sentence for people.
    message: str
    #: The field to blame, such as `to.0`; absent where none is.
    field: str | None = None


class ApiError(HTTPException):
    """An error to be answered as it is."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.message = message
        self.code = code or _CODES[status]
        self.field = field
        #: Further members of the answer.
        self.more = more

    def response(self) -> JSONResponse:
        """The answer."""
        content = {"code": self.code, "message": self.message}
        if self.field is not None:
            content["field"] = self.field[:_MAX_FIELD_CHARS]
        return JSONResponse(content | self.more, self.status_code, self.headers)


def unauthenticated(message: str = "sign in, or send a token: Authorization: Bearer msg_...") -> ApiError:
    """Nobody is known to have called (RFC 9110 section 15.5.2)."""
    return ApiError(401, message, headers={"www-authenticate": "Bearer"})


def invalid(field: str, message: str) -> ApiError:
    """A value that cannot be."""
    return ApiError(422, message, field=field)


def of(exc: Exception) -> ApiError:
    """The answer to an exception. What is nobody's fault but ours is a 500 that says nothing, and is logged here."""
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, RequestValidationError):
        return _of_validation(exc.errors())
    if isinstance(exc, HTTPException):
        return _of_status(exc)
    if isinstance(exc, MessagingError):
        found = _of_ours(exc)
    elif isinstance(exc, SQLAlchemyError):
        found = _of_database(exc)
    else:
        found = None
    if found is None:
        logger.error("a request failed", exc_info=exc)
        return ApiError(500, "the request failed; the log knows why, by the X-Request-Id of this answer")
    return found


def _of_status(exc: HTTPException) -> ApiError:
    if exc.status_code == 400:
        # The framework's word for a body it cannot read.
        return ApiError(422, "the body cannot be read", field="body")
    return ApiError(exc.status_code, HTTPStatus(exc.status_code).phrase, headers=exc.headers)


def _of_validation(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """The first one: the others often follow from it. Its input is not repeated."""
    first = errors[0]
    where, *path = first["loc"]
    if where == "path":
        # No row has such an id.
        return ApiError(404, "there is nothing by this address")
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return ApiError(422, "the body is not JSON", field="body")
    if (where, path, first["type"]) == ("body", [], "model_attributes_type"):
        # A list, a number, or what came as something else: a form, as curl's `--data` has it.
        return ApiError(422, "the body is no JSON object, or its Content-Type is not application/json", field="body")
    if first["type"] in _LENGTHS and isinstance(first["input"], str):
        # Of a text, what checks it counts "items".
        message = _LENGTHS[first["type"]].format(**first["ctx"])
    return ApiError(422, message, field=".".join(map(str, path)) or str(where))


def _of_ours(exc: MessagingError) -> ApiError | None:
    match exc:
        case MessageRejected():
            return _of_message(exc)
        case TemplateRejected() if exc.line is not None:
            return ApiError(422, f"line {exc.line}: {exc.reason}", field=exc.field, line=exc.line)
        case ConfigRejected() | EntryRejected():
            return ApiError(422, exc.reason, field=exc.field)
        case FileRejected():
            return ApiError(422, exc.reason, field=exc.field)
        case RecordNotFound():
            return ApiError(404, str(exc))
        case StateError():
            return ApiError(409, str(exc))
        case TenantMismatch() | RecipientMismatch():
            return ApiError(403, str(exc))
        case UserContextMissing():
            return unauthenticated(str(exc))
        case IdempotencyKeyBusy():
            return ApiError(409, str(exc), code="busy", headers={"retry-after": "1"})
        case PasswordsBusy():
            return ApiError(503, str(exc), headers={"retry-after": "1"})
    return None


def _of_message(exc: MessageRejected) -> ApiError:
    """Names the item of a batch, and of many recipients the one."""
    said = f"{exc.field} {exc.reason}"
    if exc.field in _WHOM and isinstance(exc.value, str):
        said = f"{said}: {shown_value(exc.value)}"
    if exc.index is None:
        return ApiError(422, said, field=exc.field)
    return ApiError(422, f"item {exc.index}: {said}", field=f"{exc.index}.{exc.field}")


def _of_database(exc: SQLAlchemyError) -> ApiError | None:
    """Nothing was kept, so the caller must come again: 503 for what passes or is mended by operators."""
    if is_away(exc) or is_passing(exc) or is_unfit(exc):
        logger.error("the database did not take a request", extra={"error": type(exc).__name__})
        return ApiError(503, "the database does not answer", headers={"retry-after": str(RETRY_AFTER_SECONDS)})
    if is_duplicate(exc):
        return ApiError(409, "another request wrote the same at the same time")
    return None
