"""What became of the shop's mails, by their records and the mail server's journal, against what ought to be.

Also how all records are followed to their end, those of text messages too; `text_evidence` judges these.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, null, select
from sqlalchemy.orm import Session

from messaging.category import MarkerCode
from messaging.delivery.record import AttemptOutcome
from messaging.delivery.status import FINAL_STATUSES, SendStatus
from messaging.demo.answer_evidence import read_answers, what_is_wrong_with_answer
from messaging.demo.answers import Answer
from messaging.demo.capture_server import GREYLISTED_TIMES
from messaging.demo.shop import ANSWERS, QUOTA, Accepted, Fate, has_order
from messaging.errors import RecordNotFound
from messaging.mail.models import MailSendRecord
from messaging.mail.records import Story, read_story
from messaging.sms.models import DeliveryStatus, SmsSendRecord
from messaging.tenancy import all_tenants


@dataclass(slots=True)
class Journal:
    """What the mail server, the provider of text messages and the shop's application wrote down, read as it grows."""

    path: Path
    #: Copies taken, by Message-ID.
    taken: Counter[str] = field(default_factory=Counter)
    #: Copies taken, by recipient.
    taken_for: Counter[str] = field(default_factory=Counter)
    #: Refusals for now, by recipient.
    deferred: Counter[str] = field(default_factory=Counter)
    #: EHLO name of the client whose message was taken and not answered, by recipient.
    unanswered: dict[str, str] = field(default_factory=dict)
    #: What the provider calls the text messages it took, by number.
    texts_for: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    #: Events that the shop's application was told: record and type, by the event's id.
    told: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: What it was told without a signature of ours.
    unsigned: int = 0
    _offset: int = 0

    def read(self) -> None:
        """Take in what is new; a line that is not whole yet is left for the next time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._take_in(json.loads(line))

    def _take_in(self, fact: dict[str, object]) -> None:
        match fact:
            case {"event": "taken", "message_id": str(message_id), "recipients": list(recipients)}:
                self.taken[message_id] += 1
                self.taken_for.update(recipients)
                if not fact["is_answered"]:
                    self.unanswered.update(dict.fromkeys(recipients, str(fact["client"])))
            case {"event": "deferred", "recipient": str(recipient)}:
                self.deferred[recipient] += 1
            case {"event": "text taken", "to": str(number), "sid": str(sid)}:
                self.texts_for[number].append(sid)
            case {"event": "told", "id": str(event_id), "type": str(kind), "record_id": str(record_id)}:
                self.told[event_id] = (int(record_id), kind)
            case {"event": "told without a signature"}:
                self.unsigned += 1


@dataclass(frozen=True, slots=True)
class Row:
    """Where one record stands."""

    status: SendStatus
    retry_count: int
    error_code: str | None = None
    #: What receipts said; None for a mail, which has none.
    delivery_status: DeliveryStatus | None = None
    #: What came back of it, and what is to come back.
    answer: Answer | None = None
    awaited: Answer | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens to it for now: it has ended, or waits at its place in a server's window.

        A text message that was sent has ended when its last receipt has come, a mail when what is to come back has.
        """
        if self.status is SendStatus.SENT and self.answer is not self.awaited:
            return False
        if self.status is SendStatus.SENT and self.delivery_status is DeliveryStatus.UNKNOWN:
            return False
        return self.status in FINAL_STATUSES or waits_at_its_place(self.status, self.error_code)


def waits_at_its_place(status: SendStatus, error_code: str | None) -> bool:
    """Whether a full window gave it a place; it goes out when that comes, long after the demo is over."""
    return status is SendStatus.RETRY and error_code == MarkerCode.QUOTA_EXCEEDED


def read_rows(engine: Engine, accepted: Sequence[Accepted]) -> dict[int, Row]:
    """Where the records stand, by record id; those rolled back are not there."""
    rows = {}
    awaited = {each.mail_id: ANSWERS.get(each.order.fate) for each in accepted}
    with all_tenants(), Session(engine) as session:
        answers = read_answers(session, accepted)
        for r, receipt in ((MailSendRecord, null()), (SmsSendRecord, SmsSendRecord.delivery_status)):
            ids = [record_id for each in accepted for record_id in each.record_ids]
            columns = (r.id, r.status, r.retry_count, r.error_code, receipt.label("receipt"))
            for row in session.execute(select(*columns).where(r.id.in_(ids))):
                told = None if row.receipt is None else DeliveryStatus(row.receipt)
                status = SendStatus(row.status)
                asked = (answers.get(row.id), awaited.get(row.id))
                rows[row.id] = Row(status, row.retry_count, row.error_code, told, *asked)
    return rows


def is_final(accepted: Sequence[Accepted], rows: dict[int, Row]) -> bool:
    """Whether every record that ought to be there has ended."""
    expected = [i for each in accepted if each.order.fate is not Fate.ROLLED_BACK for i in each.record_ids]
    return all(i in rows and rows[i].has_ended for i in expected)


@dataclass(frozen=True, slots=True)
class Ending:
    """What one order's mail became, and what is wrong with that."""

    accepted: Accepted
    #: None: there is no record.
    story: Story | None
    #: Copies the mail server took.
    copies: int
    #: Empty when all is as it ought to be.
    wrong: str


def conclude(engine: Engine, accepted: Sequence[Accepted], journal: Journal) -> list[Ending]:
    """What every order's mail became."""
    endings = []
    with all_tenants(), Session(engine) as session:
        for each in accepted:
            try:
                story = read_story(session, each.mail_id)
            except RecordNotFound:
                story = None
            order = each.order
            # Of a customer whose mail bounced, the one mail that was taken is that of the order before.
            earlier = order.fate is Fate.SUPPRESSED
            if story is None or story.message_id is None:
                copies = journal.taken_for[order.address] - earlier
            else:
                copies = journal.taken[story.message_id]
            wrong = what_is_wrong(order.fate, story, copies)
            if not wrong and journal.taken_for[order.address] != copies + earlier:
                wrong = f"{journal.taken_for[order.address]} copies for {order.address}, {copies} of this Message-ID"
            if not wrong and order.fate is Fate.GREYLISTED and journal.deferred[order.address] != GREYLISTED_TIMES:
                wrong = f"refused {journal.deferred[order.address]} times, not {GREYLISTED_TIMES}"
            if not wrong and has_order(session, order.number) == (order.fate is Fate.ROLLED_BACK):
                wrong = "the order and its mail did not happen together"
            endings.append(Ending(each, story, copies, wrong))
    return endings


def strangers(endings: Sequence[Ending], journal: Journal) -> list[str]:
    """Message-IDs the mail server took that belong to no record."""
    known = {ending.story.message_id for ending in endings if ending.story is not None}
    return sorted(journal.taken.keys() - known)


def what_is_wrong(fate: Fate, story: Story | None, copies: int) -> str:
    """What is wrong with an ending, by the record and by the copies the mail server took; empty when nothing is."""
    if fate is Fate.ROLLED_BACK:
        if story is not None:
            return f"its order was rolled back, yet it is {story.status}"
        return f"its order was rolled back, yet {copies} were sent" if copies else ""
    if story is None:
        return "its record is gone"
    if (ending := _by_marker(fate, story)) is not None:
        if ending:
            return ending
        return f"not sent, yet {copies} were taken" if copies else ""
    if fate in ANSWERS:
        return what_is_wrong_with_answer(fate, story) or _what_is_wrong_with_copies(copies)
    expected = SendStatus.FAILED if fate is Fate.REFUSED else SendStatus.SENT
    if story.status is not expected:
        return f"is {story.status}, not {expected}: {story.why}"
    match fate:
        case Fate.REFUSED:
            if copies:
                return f"refused, yet {copies} were taken"
            return "" if story.error_code == "SMTP_550_5.1.1" else f"failed for another reason: {story.why}"
        case Fate.KILLED:
            if not any(attempt.outcome == AttemptOutcome.SWEPT for attempt in story.attempts):
                return "its worker was not killed in the middle of the send"
            return "" if copies in (1, 2) else f"{copies} were taken, not the one in flight and its repeat"
        case Fate.GREYLISTED if story.retry_count < GREYLISTED_TIMES:
            return f"sent after {story.retry_count} retries, not {GREYLISTED_TIMES}"
        case Fate.PARTLY if {r.result for r in story.recipients} != {"accepted", "refused"}:
            return "one recipient ought to be accepted and one refused"
    return _what_is_wrong_with_copies(copies)


def _what_is_wrong_with_copies(copies: int) -> str:
    return "" if copies == 1 else f"{copies} were taken, not 1"


def _by_marker(fate: Fate, story: Story) -> str | None:
    """What is wrong with a mail that this system itself held back, empty when nothing is; None: it did not."""
    match fate:
        case Fate.HOSTILE:
            if story.status is SendStatus.FAILED and story.error_code == MarkerCode.RENDER_FAILED:
                return ""
            return f"its template never ends, yet it is {story.status}: {story.why}"
        case Fate.SUPPRESSED:
            return what_is_wrong_with_answer(fate, story)
        case Fate.LIMITED if story.status is SendStatus.FAILED:
            return (
                ""
                if story.error_code == MarkerCode.MONTHLY_QUOTA_EXCEEDED
                else f"failed for another reason: {story.why}"
            )
        case Fate.WINDOWED if waits_at_its_place(story.status, story.error_code):
            return f"its waiting was counted as {story.retry_count} retries" if story.retry_count else ""
    return None


def wrong_counts(endings: Sequence[Ending], *, given_back: int) -> list[str]:
    """What is wrong with a quota or a window as a whole: each lets exactly its number through.

    `given_back` attempts were released unsent: on a busy machine a claim grows too old after its window gave way, and
    a send that was taken of a window is never given back (`send.md` section 12).
    """

    def count(fate: Fate, *, sent: bool) -> int:
        stories = [e.story for e in endings if e.accepted.order.fate is fate and e.story is not None]
        return sum((story.status is SendStatus.SENT) is sent for story in stories)

    wrong = []
    if count(Fate.LIMITED, sent=True) != QUOTA:
        wrong.append(f"{count(Fate.LIMITED, sent=True)} mails were sent under a quota of {QUOTA}")
    if not count(Fate.WINDOWED, sent=True) and not given_back:
        wrong.append("of the mails behind a small window none was sent")
    if not count(Fate.WINDOWED, sent=False):
        wrong.append("of the mails behind a small window some ought to wait")
    return wrong
