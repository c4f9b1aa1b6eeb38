"""Ties a received bounce, read receipt or complaint to the send record it is about (`receive.md` 13).

A mail is stored as PENDING in the insert itself, so that a crash before it is linked loses nothing. What a report
changes (the record, the suppression list, the mail's own row) is one transaction, which first takes the mail's row: a
report counts once, however many workers look at it.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from sqlalchemy import Engine, Row, TextClause
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from messaging import metrics, tenancy
from messaging.db.engine import autocommitting
from messaging.db.trouble import is_away, is_passing, is_unfit
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.delivery.status import FINAL_STATUSES
from messaging.mail import receipts
from messaging.mail.channel import envelope_recipients
from messaging.mail.receipts import Effect
from messaging.receive import link_statements as statements
from messaging.receive.reports import Change, Complained, Displayed, Failed, change_of, narrowed
from messaging.receive.vocabulary import LinkStatus
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: How a mail ended, as the metric says it.
LINKED, UNMATCHED = "linked", "unmatched"

#: Records held by others that one look waits for, each for the lock time-out; what comes after them is for the next.
MAX_LOCK_WAITS = 3


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """What became of the mails that one look found waiting."""

    linked: int = 0
    #: Given up, or about nothing that could be looked for.
    unmatched: int = 0
    #: Not found yet, or their record is in the middle of an attempt.
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _Link:
    """A mail and the record it is about."""

    mail: Row[Any]
    record: Row[Any]

    def parameters(self) -> tuple[int, int, str | None, str | None, str | None]:
        """For `LINKED`, in the order of `_LINKED_PARAMETERS`."""
        kept = narrowed(self.mail._asdict(), envelope_recipients(self.record._asdict()))
        lists = (None, None) if kept is None else (json.dumps(kept.recipients), json.dumps(kept.failed))
        return self.mail.id, self.record.id, self.record.message_id, *lists


_LINKED_PARAMETERS = ("ids", "record_ids", "message_ids", "recipients", "failed")


def _linked(links: Sequence[_Link]) -> dict[str, list[Any]]:
    columns = zip(*(link.parameters() for link in links), strict=True)
    return {name: list(values) for name, values in zip(_LINKED_PARAMETERS, columns, strict=True)}


@dataclass(slots=True)
class _Batch:
    """How the mails of one look end, for the statements that write it."""

    #: Linked by the transaction that changed its record.
    changed: int = 0
    #: Records that somebody held for longer than the lock time-out.
    lock_waits: int = 0
    linked: list[_Link] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    #: Not found in time.
    unmatched: list[int] = field(default_factory=list)
    #: About nothing that could be looked for.
    unlinkable: list[int] = field(default_factory=list)


class Linker:
    """One per process, for any thread; keeps no state."""

    def __init__(self, engine: Engine, settings: Settings, announcer: Announcer = NOBODY) -> None:
        self._engine = engine
        self._suppression = settings.suppression
        self._announcer = announcer

    def link_pending(self, config_id: int, *, owner_tenant_id: int, limit: int) -> LinkCounts:
        """Look at up to `limit` mails of one mailbox that wait; `owner_tenant_id` is the mailbox's. Commits its own.

        One query finds their records, whatever their number; each change of a record is a transaction in the tenant of
        the record. What another worker is at is left to it.

        Raises: what the driver raises when the database is away; what was linked by then stays.
        """
        mails = self._run(statements.WAITING, config_id=config_id, limit=limit)
        if not mails:
            return LinkCounts()
        records = self._look_up(mails, owner_tenant_id)
        batch = _Batch()
        for mail in mails:
            candidates = list(_candidates(mail))
            found = next((key for key in candidates if key in records), None)
            if not candidates:
                batch.unlinkable.append(mail.id)
            elif found is None:
                (batch.unmatched if mail.is_old else batch.waiting).append(mail.id)
            else:
                self._link(batch, _Link(mail, records[found]))
        return self._finish(batch)

    def _look_up(self, mails: Sequence[Row[Any]], owner: int) -> Mapping[str | int, Row[Any]]:
        """Records by id and by Message-ID, as far as a mailbox of this owner may speak of them."""
        keys = {key for mail in mails for key in _candidates(mail)}
        if not keys:
            return {}
        rows = self._run(
            statements.look_up(tenancy.is_multi_tenancy(), owner == tenancy.PLATFORM_TENANT_ID),
            owner=owner,
            message_ids=[key for key in keys if isinstance(key, str)],
            record_ids=[key for key in keys if isinstance(key, int)],
        )
        return {row.id: row for row in rows} | {row.message_id: row for row in rows if row.message_id is not None}

    def _link(self, batch: _Batch, link: _Link) -> None:
        change = change_of(link.mail._asdict())
        if isinstance(change, Complained) and not self._suppression.complaints:
            change = None
        if change is None:
            batch.linked.append(link)
        elif link.record.status not in FINAL_STATUSES and not isinstance(change, Complained):
            batch.waiting.append(link.mail.id)  # a complaint changes no record, so it waits for none
        elif batch.lock_waits < MAX_LOCK_WAITS:
            self._apply(batch, link, change)
        else:
            batch.waiting.append(link.mail.id)

    def _apply(self, batch: _Batch, link: _Link, change: Change) -> None:
        """Take the mail and change its record, or neither. What another worker has, or had, is not this look's."""
        mail, record = link.mail, link.record
        try:
            with tenancy.tenant(record.tenant_id), Session(self._engine) as session:
                if session.execute(statements.LINKED, _linked([link])).one_or_none() is None:
                    return
                if self._change(session, record.id, change, f"received mail {mail.id}") is Effect.RECORDED:
                    session.commit()
                    batch.changed += 1
                    metrics.link(mail.mail_type, LINKED)
                    return
        except SQLAlchemyError as exc:
            if is_away(exc) or is_unfit(exc):
                raise
            told = {"received_id": mail.id, "record_id": record.id}
            if is_passing(exc):
                batch.lock_waits += 1
                logger.warning("received mail not linked yet", extra=told)
            else:
                # One mail's fault must not keep the others from their records, nor be told for ever.
                logger.exception("received mail cannot be linked", extra=told)
                if mail.is_old:
                    batch.unmatched.append(mail.id)
                    return
        batch.waiting.append(mail.id)

    def _change(self, session: Session, record_id: int, change: Change, origin: str) -> Effect:
        match change:
            case Failed(reported):
                suppresses = self._suppression.hard_bounces
                return receipts.mark_bounced(
                    session, record_id, reported, origin=origin, suppresses=suppresses, announcer=self._announcer
                )
            case Displayed(at):
                return receipts.mark_read(session, record_id, at=at, announcer=self._announcer)
            case Complained(reported):
                return receipts.note_complaint(session, record_id, reported, origin=origin)
            case unreachable:
                assert_never(unreachable)

    def _finish(self, batch: _Batch) -> LinkCounts:
        """Write what needs no transaction of its own, and count."""
        linked: list[str] = []
        ended: list[str] = []
        if batch.linked:
            linked += (row.mail_type for row in self._run(statements.LINKED, **_linked(batch.linked)))
        for ids, status in ((batch.unmatched, LinkStatus.UNMATCHED), (batch.unlinkable, LinkStatus.NONE)):
            if ids:
                ended += (row.mail_type for row in self._run(statements.ENDED, ids=ids, status=status))
        if batch.waiting:
            self._run(statements.CHECKED, ids=batch.waiting)
        for mail_types, result in ((linked, LINKED), (ended, UNMATCHED)):
            for mail_type, count in Counter(mail_types).items():
                metrics.link(mail_type, result, count)
        return LinkCounts(len(linked) + batch.changed, len(ended), len(batch.waiting))

    def _run(self, statement: TextClause, **parameters: Any) -> Sequence[Row[Any]]:
        """One statement that is a transaction of its own."""
        used = {name: value for name, value in parameters.items() if name in statement._bindparams}
        with autocommitting(self._engine).connect() as connection:
            return connection.execute(statement, used).fetchall()


def _candidates(mail: Row[Any]) -> Iterator[str | int]:
    """What a mail may be about, the likeliest first: a genuine VERP address names the record itself."""
    if mail.verp_record_id is not None:
        yield mail.verp_record_id
    for message_id in mail.reference_ids or ():
        # Some reports leave out the brackets.
        yield message_id if message_id.startswith("<") else f"<{message_id}>"
