"""A plain mail to the platform's operators for a message that no worker could process, once its dead letter is stored.

At most ten in any five minutes, over all workers: what breaks one message often breaks many. An alert that fails is
only logged, and a dead letter that an alert's own mail makes is told to nobody. Redis counts: `alert:dead_letter`, a
sorted set of the last alerts by their time; without it none is sent. Source: `operate.md` section 4.
"""

import logging
from dataclasses import dataclass

import redis
from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.clock import Clock
from messaging.db.session import transaction
from messaging.delivery.dead_letter import DeadLetterMessage
from messaging.errors import MessagingError
from messaging.mail.acceptance import accept_mails
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.requests import MessageScope, Priority, SendMail
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: How many in how many seconds.
MAX_ALERTS, WINDOW_SECONDS = 10, 300

KEY = "alert:dead_letter"

#: Marks an alert's own record, and lets there be one for a dead letter.
_IDEMPOTENCY_PREFIX = "dead-letter-alert:"

#: Characters of a value in the subject: a queue is named by whoever sent the message.
_MAX_SHOWN_CHARS = 100

#: By Redis' clock, as the workers' differ. Answers whether there is room, and takes it.
_TAKE = """
local t = redis.call('TIME')
local now = tonumber(t[1]) + tonumber(t[2]) / 1000000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[1]))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1
"""


@dataclass(frozen=True, slots=True)
class Alerting:
    """Tells of dead letters by mail."""

    engine: Engine
    redis: "redis.Redis"
    settings: Settings
    clock: Clock

    def tell(self, dead_letter_id: int) -> int | None:
        """Accept the mail about one that is committed; answers its record's id, None where none goes out. Never raises.

        None: there is nobody to tell, the last minutes had enough of them, it is about an alert, or it failed.
        """
        if not self.settings.dead_letter.alert_recipients:
            return None
        facts = {"dead_letter_id": dead_letter_id}
        try:
            with tenancy.acting_as(tenancy.Context(tenant_id=tenancy.PLATFORM_TENANT_ID)):
                return self._tell(dead_letter_id)
        except (MessagingError, SQLAlchemyError, redis.RedisError) as exc:
            logger.error("no alert of a dead letter", extra=facts | {"error": type(exc).__name__})
            return None

    def _tell(self, dead_letter_id: int) -> int | None:
        with transaction(self.engine) as session:
            letter = session.get_one(DeadLetterMessage, dead_letter_id)
            is_own = _is_about_an_alert(session, letter.event_id)
        if is_own:
            logger.error("an alert's mail became a dead letter", extra={"dead_letter_id": dead_letter_id})
            return None
        if not self.redis.eval(_TAKE, 1, KEY, WINDOW_SECONDS, MAX_ALERTS, dead_letter_id):
            logger.warning("no alert of a dead letter: enough lately", extra={"dead_letter_id": dead_letter_id})
            return None
        mail = _mail(letter, self.settings.dead_letter.alert_recipients)
        with transaction(self.engine) as session:
            return accept_mails(session, [mail], settings=self.settings, now=self.clock(), single=True)[0]


def _is_about_an_alert(session: Session, record_id: int | None) -> bool:
    if record_id is None:
        return False
    t = MAIL_SEND_RECORD.c
    key = session.connection().execute(select(t.idempotency_key).where(t.id == record_id)).scalar_one_or_none()
    return key is not None and key.startswith(_IDEMPOTENCY_PREFIX)


def _mail(letter: DeadLetterMessage, recipients: tuple[str, ...]) -> SendMail:
    """Names the message, and holds nothing of what was in it."""
    told = {
        "Dead letter": letter.id,
        "Queue": letter.original_queue or "unknown",
        "Task": letter.task_name,
        "Worker": letter.worker_name,
        "Event": letter.event_type,
        "Record": letter.event_id,
        "Tenant": letter.source_tenant_id,
    }
    lines = [f"{name}: {'none' if value is None else _one_line(value)}" for name, value in told.items()]
    text = "\n".join(
        [
            "A message could not be processed by any worker. It was archived and taken off its queue.",
            "",
            *lines,
            "",
            f"See it with: messaging dead-letter show {letter.id}",
        ]
    )
    return SendMail(
        to=recipients,
        subject=f"Dead letter {letter.id} from queue {_one_line(letter.original_queue) or 'unknown'}",
        text_body=text,
        scope=MessageScope.PLATFORM,
        priority=Priority.HIGH,
        idempotency_key=f"{_IDEMPOTENCY_PREFIX}{letter.id}",
    )


def _one_line(value: object) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(value))
    return " ".join(text.split())[:_MAX_SHOWN_CHARS]
