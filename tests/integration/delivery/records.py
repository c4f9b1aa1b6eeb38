"""Records on the real PostgreSQL and the real statements that move them, for the tests of the delivery core.

Where a row is compared with the time, the test moves the row (`shift`): the database's clock stays as it is.
"""

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, TextClause, func, insert, select, text, update
from sqlalchemy.orm import Session

from messaging.category import ErrorCategory
from messaging.clock import boot_seconds
from messaging.db.engine import autocommitting
from messaging.delivery import statements
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.delivery.channel import Channel, Claim
from messaging.delivery.claim import Pair, claim
from messaging.delivery.dead_letter import DEAD_LETTER_MESSAGE
from messaging.delivery.due import FIRST_CURSOR, Leased, lease, promote
from messaging.delivery.outcome import Failure, Outcome, OutcomeWriter, judge
from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.delivery.record import SEND_ATTEMPT
from messaging.delivery.write_back import bucket_of
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MAIL_SEND_RECORD as T
from messaging.mail.receipts import Effect, mark_bounced, mark_read
from messaging.mail.reported_recipients import ReportedRecipient
from messaging.settings import RetrySettings
from messaging.sms.channel import recipients as sms_recipients
from messaging.sms.models import SMS_SEND_RECORD
from messaging.webhooks.channel import recipients as webhook_recipients
from messaging.webhooks.models import WEBHOOK_SEND_RECORD

#: The columns that hold a time of the queue; `shift` moves them all.
TIMES = ("claimed_at", "next_attempt_at", "updated_at", "swept_at", "expires_at")

AT = "2026-01-02T03:04:05+00:00"

ACCEPTED = RecipientResult(RecipientStatus.ACCEPTED, "SMTP_250", "2.1.5 ok", message_id="SM1")
REFUSED = RecipientResult(RecipientStatus.REFUSED, "SMTP_550_5.1.1", "no such user", ErrorCategory.PERMANENT)
DEFERRED = RecipientResult(RecipientStatus.DEFERRED, "SMTP_450", "greylisted", ErrorCategory.TRANSIENT)
NO_REPLY = Failure(ErrorCategory.TRANSIENT, "SMTP_NO_REPLY_AFTER_DATA", "no reply", is_uncertain=True)
BUSY = Failure(ErrorCategory.TRANSIENT, "SMTP_421", "busy")
BAD_LOGIN = Failure(ErrorCategory.AUTH, "SMTP_535_5.7.8", "no")

#: Sweep and retry as the tests want them; the figures of the protocol.
STALE, COOLDOWN, MAX_RETRIES = 300, 30, 5

A, B, C = "a@example.org", "b@example.org", "c@example.org"

R = TypeVar("R")


@dataclass(frozen=True)
class Kind:
    """What these tests need to know of one channel."""

    name: str
    provider: str
    queue: str
    table: Table
    recipients: Callable[[Mapping[str, Any]], Sequence[str]]
    #: The columns of an accepted record to these recipients; a channel of one recipient takes the first.
    accepted: Callable[[Sequence[str]], dict[str, Any]]
    #: The columns that preparation writes.
    prepared: Callable[[int], dict[str, Any]]


MAIL = Kind(
    name="mail",
    provider="smtp",
    queue="mail_send",
    table=T,
    recipients=envelope_recipients,
    accepted=lambda to: {
        "to_addresses": list(to),
        "subject": "Order 17",
        "body_mode": "PLAIN",
        "body_text": "Thank you.",
    },
    prepared=lambda record_id: {
        "server_config_id": 1,
        "from_address": "shop@example.org",
        "envelope_sender": "shop@example.org",
        "message_id": f"<{record_id}@example.org>",
    },
)

#: The numbers that stand for the mail addresses.
NUMBERS = {A: "+4915112345601", B: "+4915112345602", C: "+4915112345603"}

SMS = Kind(
    name="sms",
    provider="unknown",
    queue="sms_send",
    table=SMS_SEND_RECORD,
    recipients=sms_recipients,
    accepted=lambda to: {"phone_number": NUMBERS.get(to[0], to[0]), "content": "Your parcel is here."},
    prepared=lambda record_id: {
        "provider_config_id": 1,
        "provider_type": "TWILIO",
        "region_code": "DE",
        "encoding": "GSM7",
        "segments": 1,
    },
)

KINDS = {"mail": MAIL, "sms": SMS}

#: Written prepared, so that no record of it is accepted or prepared.
WEBHOOK = Kind(
    name="webhook",
    provider="http",
    queue="webhook_send",
    table=WEBHOOK_SEND_RECORD,
    recipients=webhook_recipients,
    accepted=lambda to: {"endpoint_id": int(to[0]), "event_type": "message.sent", "payload": {"id": "17"}},
    prepared=lambda record_id: {},
)

Learnt = Mapping[str, RecipientResult] | Failure


def stored(result: RecipientResult) -> dict[str, Any]:
    """A recipient result as the row holds it."""
    return {"result": str(result.status), "code": result.code, "text": result.text, "at": AT}


class Records:
    """A database's records: inserted, read, shifted, and moved by the statements of the product."""

    def __init__(self, engine: Engine, channel: Channel, retry: RetrySettings | None = None) -> None:
        self.engine = autocommitting(engine)
        self.channel = channel
        self.kind = {**KINDS, "webhook": WEBHOOK}[channel.name]
        self.retry = retry or RetrySettings(max_retries=MAX_RETRIES)
        self.rng = random.Random(7)
        #: Told of every change.
        self.announcer: Announcer = NOBODY

    # Rows

    def accept(self, *, count: int = 1, to: Sequence[str] = (A,), due_in: float = 0, **columns: Any) -> list[int]:
        """Insert records as acceptance leaves them, but for `columns`."""
        values = {
            "scope": "TENANT",
            **self.kind.accepted(to),
            "next_attempt_at": func.now() + text(f"interval '{due_in} seconds'"),
            **columns,
        }
        t = self.kind.table
        with self.engine.begin() as connection:
            return [connection.execute(insert(t).values(values).returning(t.c.id)).scalar_one() for _ in range(count)]

    def one(self, **columns: Any) -> int:
        """Insert one record; its id."""
        return self.accept(**columns)[0]

    def row(self, record_id: int) -> SimpleNamespace:
        """A record as it stands."""
        with self.engine.connect() as connection:
            t = self.kind.table
            found = connection.execute(select(t).where(t.c.id == record_id)).one()
        return SimpleNamespace(**found._mapping)

    def rows(self) -> dict[int, SimpleNamespace]:
        """All records by id."""
        with self.engine.connect() as connection:
            return {row.id: SimpleNamespace(**row._mapping) for row in connection.execute(select(self.kind.table))}

    def attempts(self, record_id: int) -> list[SimpleNamespace]:
        """A record's attempt log."""
        statement = select(SEND_ATTEMPT).where(SEND_ATTEMPT.c.record_id == record_id)
        with self.engine.connect() as connection:
            found = connection.execute(statement.order_by(SEND_ATTEMPT.c.attempt_no)).fetchall()
        return [SimpleNamespace(**row._mapping) for row in found]

    def dead_letters(self, record_id: int) -> list[SimpleNamespace]:
        """The dead letters of a record."""
        statement = select(DEAD_LETTER_MESSAGE).where(DEAD_LETTER_MESSAGE.c.event_id == record_id)
        with self.engine.connect() as connection:
            found = connection.execute(statement.order_by(DEAD_LETTER_MESSAGE.c.id)).fetchall()
        return [SimpleNamespace(**row._mapping) for row in found]

    def put(self, record_id: int, **columns: Any) -> None:
        """Write columns as they are, the version too stays."""
        t = self.kind.table
        with self.engine.connect() as connection:
            connection.execute(update(t).where(t.c.id == record_id).values(updated_at=t.c.updated_at, **columns))

    def bounce(self, record_id: int, *recipients: str, code: str = "550 5.1.1") -> Effect:
        """A bounce about these recipients, or about nobody by name."""
        reported = [ReportedRecipient((r,), code) for r in recipients] or [ReportedRecipient(code=code)]
        with Session(self.engine) as session:
            return mark_bounced(
                session, record_id, reported, origin="a test", suppresses=False, announcer=self.announcer
            )

    def read_by_someone(self, record_id: int) -> Effect:
        """A read receipt."""
        with Session(self.engine) as session:
            return mark_read(session, record_id, at=None, announcer=self.announcer)

    def shift(self, seconds: float, *record_ids: int) -> None:
        """Let time pass: move every time of these records (of all, when none is named) into the past."""
        moved = ", ".join(f"{name} = {name} - :s * interval '1 second'" for name in TIMES)
        where = "WHERE id = ANY(:ids)" if record_ids else ""
        self.run(text(f"UPDATE {self.kind.table.name} SET {moved} {where}"), s=seconds, ids=list(record_ids))

    def run(self, statement: TextClause, **parameters: Any) -> Any:
        """Execute and answer its rows, or how many it moved."""
        used = {name: value for name, value in parameters.items() if name in statement._bindparams}
        with self.engine.connect() as connection:
            result = connection.execute(statement, used)
            return result.fetchall() if result.returns_rows else result.rowcount

    # Moves

    def promote(self, limit: int = 1000) -> int:
        return promote(self.engine, self.kind.table, limit, boot_seconds)

    def lease(self, count: int = 500, seconds: float = 120, cursor: int = FIRST_CURSOR) -> list[Leased]:
        return lease(self.engine, self.kind.table, count=count, lease_seconds=seconds, cursor=cursor)

    def claim(self, pairs: Iterable[Pair], ticker: Callable[[], float] = boot_seconds) -> list[Claim]:
        return claim(self.engine, self.channel, list(pairs), ticker, self.announcer).claims

    def claim_now(self, *record_ids: int) -> list[Claim]:
        """Claim records whatever their version is."""
        return self.claim([(i, self.row(i).version) for i in record_ids])

    def prepare(self, claims: Sequence[Claim], token: int | None = None) -> set[int]:
        """Write some prepared fields back (T4); ids that moved."""
        names = self.channel.prepared_columns
        self.run(statements.open_month(), buckets=sorted({bucket_of(c) for c in claims}), zone="UTC")
        moved = self.run(
            statements.prepared(self.kind.table, names, self.kind.name),
            rows=json.dumps(
                [
                    {
                        "id": c.record_id,
                        "version": c.version,
                        "bucket": bucket_of(c),
                        **self.kind.prepared(c.record_id),
                        "prepared_at": AT,
                    }
                    for c in claims
                ]
            ),
            zone="UTC",
            default_limit=None,
            token=claims[0].token if token is None else token,
        )
        ids = {row.id for row in moved if row.is_written}
        for c in claims:
            if c.record_id in ids:
                c.version += 1
                c.content |= {**self.kind.prepared(c.record_id), "prepared_at": AT}
                c.provider = self.channel.provider(c.content)
        return ids

    def judge(self, claimed: Claim, learnt: Learnt) -> Outcome:
        recipients = self.kind.recipients(claimed.content)
        outcome = judge(claimed, recipients, learnt, at=AT, retry=self.retry, rng=self.rng)
        now = boot_seconds()
        return replace(outcome, config_id=1, started_at=now - 1, ended_at=now)

    def write(self, *outcomes: Outcome, is_repeat: bool = False) -> dict[tuple[int, int], str]:
        """Commit outcomes as one group."""
        with self.engine.connect() as connection:
            return OutcomeWriter(self.channel, "worker-1", boot_seconds, self.announcer).write(
                connection, outcomes, is_repeat=is_repeat
            )

    def end(self, claimed: Claim, learnt: Learnt) -> str | None:
        """Judge and commit one outcome; what stands, None when it was lost."""
        return self.write(self.judge(claimed, learnt)).get(claimed.key)

    def release(self, claims: Sequence[Claim], delay: float = 0, code: str = "CLAIM_RELEASED") -> set[int]:
        moved = self.run(
            statements.releases(self.kind.table),
            ids=[c.record_id for c in claims],
            versions=[c.version for c in claims],
            tokens=[c.token for c in claims],
            delays=[float(delay)] * len(claims),
            codes=[code] * len(claims),
            messages=["given back"] * len(claims),
        )
        return {row.id for row in moved}

    def sweep(self, *, stale: float = STALE, limit: int = 200, max_retries: int = MAX_RETRIES) -> dict[int, str]:
        """One sweep statement; new status by id."""
        parameters = self.sweep_parameters(stale=stale, limit=limit, max_retries=max_retries, kind=self.kind)
        with self.engine.connect() as connection:
            announcement = self.announcer.find(connection, self.kind.name)
        moved = self.run(statements.sweep(self.kind.table, announcement), **parameters)
        return {row.id: row.status for row in moved}

    @staticmethod
    def sweep_parameters(
        *, stale: float = STALE, limit: int = 200, max_retries: int = MAX_RETRIES, kind: Kind = MAIL
    ) -> dict[str, Any]:
        return {
            "stale": stale,
            "limit": limit,
            "max_retries": max_retries,
            "cooldown": COOLDOWN,
            "max_cooldown": 3600,
            "channel": kind.name,
            "provider": kind.provider,
            "queue": kind.queue,
        }

    def swept(self, record_id: int, **parameters: Any) -> str | None:
        """Let a record's claim become too old and sweep it; its new status."""
        self.shift(STALE + 1, record_id)
        return self.sweep(**parameters).get(record_id)

    def deliver(self, record_id: int, learnt: Learnt) -> Claim:
        """One whole attempt of a record, whether it is due or not."""
        [claimed] = self.claim_now(record_id)
        if not claimed.is_prepared:
            self.prepare([claimed])
        assert self.end(claimed, learnt) is not None
        return claimed


def seconds_ahead(records: Records, record_id: int) -> float:
    """Seconds from the database's now to the record's due time, as of its last write."""
    row = records.row(record_id)
    return float((row.next_attempt_at - row.updated_at).total_seconds())


@contextmanager
def held(connection: Connection, record_id: int) -> Iterator[None]:
    """Hold a record's row lock in an open transaction of `connection`, and roll back at the end."""
    with connection.begin() as transaction:
        connection.execute(text("SELECT 1 FROM mail_send_record WHERE id = :id FOR UPDATE"), {"id": record_id})
        yield
        transaction.rollback()


def blocked(engine: Engine, work: Callable[[], R]) -> "Future[R]":
    """Run `work` in a thread and answer once it waits for a lock of another session."""
    pool = ThreadPoolExecutor(1)
    result = pool.submit(work)
    pool.shutdown(wait=False)
    deadline = time.monotonic() + 5
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with engine.connect() as connection:
        while connection.execute(waiting).scalar_one() == 0:
            assert time.monotonic() < deadline, "nobody waits for a lock"
            assert not result.done(), result.result()
            connection.rollback()
            time.sleep(0.005)
    return result
