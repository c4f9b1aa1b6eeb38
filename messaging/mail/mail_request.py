"""A mail asked for by another service in a message: checked, counted, then accepted as any mail (`operate.md` 7 and 4).

Until it is accepted nothing but the message holds it, so the message is acknowledged late: the broker repeats it when
its worker dies. An idempotency key made of the task's id has it accepted once all the same, and a count of deliveries
that nobody ended stops a message that kills its workers. Errors raised here name arguments and repeat none.
"""

import logging
import threading
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import redis
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from messaging import tenancy
from messaging.db.session import transaction
from messaging.db.trouble import is_away, is_passing
from messaging.errors import IdempotencyKeyBusy, MessageRejected
from messaging.mail.acceptance import accept_mails
from messaging.requests import MessageScope, SendMail
from messaging.settings import Settings

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Under which workers that take mail requests tell Redis of themselves.
MAIL_REQUEST = "mail_request"

#: Seconds a request waits in its task for a dependency that is away, at most half of what the broker waits for it:
#: then it goes to the end of its queue, so that none is handed out twice while it waits.
MAX_WAIT_SECONDS = 30.0

#: Seconds between two tries.
PAUSE_SECONDS = 0.5

#: Seconds for which deliveries of one message are counted.
COUNT_TTL_SECONDS = 24 * 3600

#: Largest tenant id: a bigint.
_MAX_TENANT_ID = 2**63 - 1

#: What each argument may be, None apart, and how that is said.
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "to": ((str, list), "an address or a list of addresses"),
    "template_code": (str, "a text"),
    "variables": (dict, "an object"),
    "scope": (str, "TENANT or PLATFORM"),
    "tenant_id": (int, "an integer"),
}


class RequestRefused(ValueError):
    """It can never be accepted; the text names the argument."""


class RequestRepeats(Exception):
    """It was delivered more often than `DEAD_LETTER__MAX_REDELIVER` allows, and never ended: it may kill its worker."""


class RequestGivenBack(Exception):
    """A dependency is away, or the worker stops: the message has to come again."""


class RequestFailed(Exception):
    """A bug. The text names the error's type and place: its own words may repeat what was asked for."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MailRequest:
    """One request whose arguments have the right types."""

    #: None: it names no recipient or no template, and is ignored.
    mail: SendMail | None
    tenant_id: int | None
    task_id: str


def read_request(
    to: Any, template_code: Any, variables: Any, scope: Any, tenant_id: Any, *, task_id: str
) -> MailRequest:
    """The request in a message's arguments; null is the same as left out.

    Raises: RequestRefused, for an argument of another type.
    """
    given = {
        "to": to,
        "template_code": template_code,
        "variables": variables,
        "scope": scope,
        "tenant_id": tenant_id,
    }
    for name, value in given.items():
        kinds, words = _KINDS[name]
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise RequestRefused(f"{name} is a {type(value).__name__}; {words} is needed")
    if tenant_id is not None and not tenancy.PLATFORM_TENANT_ID <= tenant_id <= _MAX_TENANT_ID:
        raise RequestRefused("tenant_id is no tenant's id")
    recipients = [to] if isinstance(to, str) and to.strip() else to
    mail = None
    if recipients and isinstance(recipients, list) and template_code and template_code.strip():
        mail = SendMail(
            to=recipients,
            template_code=template_code,
            template_variables=variables or {},
            scope=MessageScope.TENANT if scope is None else scope,
            idempotency_key=f"mail-request:{task_id}",
        )
    return MailRequest(mail=mail, tenant_id=tenant_id, task_id=task_id)


class MailRequests:
    """What a worker process does with mail requests; called by many threads."""

    def __init__(
        self,
        engine: Engine,
        client: redis.Redis,
        settings: Settings,
        *,
        clock: Callable[[], datetime],
        ticker: Callable[[], float],
        stopping: threading.Event,
    ) -> None:
        """`stopping` is set when the process is to end: whoever waits then gives its message back."""
        self._engine = engine
        self._client = client
        self._settings = settings
        self._clock = clock
        self._ticker = ticker
        self._stopping = stopping
        self._wait_seconds = min(MAX_WAIT_SECONDS, settings.celery.visibility_timeout_seconds / 2)

    def handle(self, request: MailRequest) -> dict[str, int]:
        """Accept a request's mail in a transaction of its own; answers counts: `accepted`, `ignored`.

        While the database or Redis is away it waits, up to `MAX_WAIT_SECONDS`. A message that comes again makes no
        second mail.

        Raises: RequestRefused; RequestRepeats; RequestGivenBack; RequestFailed.
        """
        mail = request.mail
        if mail is None:
            logger.warning(
                "mail request ignored, it names no recipient or no template", extra={"task_id": request.task_id}
            )
            return {"accepted": 0, "ignored": 1}
        until = self._ticker() + self._wait_seconds
        try:
            self._waiting(lambda: self._count(request.task_id), request.task_id, until)
            record_id = self._waiting(lambda: self._accept(mail, request.tenant_id), request.task_id, until)
        except MessageRejected as exc:
            # What a reason quotes stands behind its colon.
            raise RequestRefused(f"{exc.field} {exc.reason.partition(':')[0]}") from None
        except (RequestRepeats, RequestGivenBack):
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is, its words may repeat what was asked for
            raise RequestFailed(_type_and_place(exc)) from None
        self._forget(request.task_id)
        logger.info("mail request accepted", extra={"task_id": request.task_id, "record_id": record_id})
        return {"accepted": 1, "ignored": 0}

    def _waiting(self, step: Callable[[], T], task_id: str, until: float) -> T:
        """What `step` answers, once it can be done. Raises: RequestGivenBack, when that is not before `until`."""
        is_told = False
        while True:
            try:
                return step()
            except (SQLAlchemyError, redis.RedisError, IdempotencyKeyBusy) as exc:
                if not _is_to_pass(exc):
                    raise
                if not is_told:
                    is_told = True
                    logger.warning(
                        "mail request waits, a dependency is away",
                        extra={"task_id": task_id, "error": type(exc).__name__},
                    )
            if self._ticker() >= until or self._stopping.wait(PAUSE_SECONDS):
                self._forget(task_id)
                raise RequestGivenBack("a dependency is away")

    def _count(self, task_id: str) -> None:
        """Note a delivery, which stays noted unless it comes to an end. Raises: RequestRepeats."""
        key = _count_key(task_id)
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.incr(key)
            pipeline.expire(key, COUNT_TTL_SECONDS)
            deliveries = int(pipeline.execute()[0])
        allowed = self._settings.dead_letter.max_redeliver
        if deliveries > allowed:
            raise RequestRepeats(f"delivered {deliveries} times without an end; at most {allowed} are allowed")

    def _forget(self, task_id: str) -> None:
        """This delivery ended as it should, so it tells nothing against the message."""
        try:
            self._client.delete(_count_key(task_id))
        except redis.RedisError as exc:
            logger.debug("count of a mail request not reset", extra={"task_id": task_id, "error": type(exc).__name__})

    def _accept(self, mail: SendMail, tenant_id: int | None) -> int:
        with nullcontext() if tenant_id is None else tenancy.tenant(tenant_id):
            with transaction(self._engine) as session:
                [record_id] = accept_mails(session, [mail], settings=self._settings, now=self._clock(), single=True)
        return record_id


def _count_key(task_id: str) -> str:
    return f"poison:{task_id}"


def _is_to_pass(exc: SQLAlchemyError | redis.RedisError | IdempotencyKeyBusy) -> bool:
    """Whether the same request may well be accepted later on."""
    match exc:
        case SQLAlchemyError():
            return is_away(exc) or is_passing(exc)
        case _:
            return not isinstance(exc, redis.DataError)


def _type_and_place(exc: BaseException) -> str:
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{type(exc).__name__} at line {frame.lineno} of {Path(frame.filename).name}"
