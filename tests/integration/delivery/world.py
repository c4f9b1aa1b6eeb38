"""A world around the real statements: workers, a broker, a far end and an operator, in a discrete time of its own.

`Records` are real rows; time passes by moving the rows (`UNIT` seconds a step). A worker that is neither killed nor
paused keeps the times of the protocol, which `pass_time` enforces: it begins or gives back a claim in time, ends a
send, takes a missing reply for unknown, commits what it knows. `allowed` counts what section 7 allows to repeat.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

from sqlalchemy import text, update

from messaging.delivery import statements
from messaging.delivery.announcing import EventType
from messaging.delivery.channel import Claim
from messaging.delivery.dispatch import chunked
from messaging.delivery.gate import ClaimTooOld, SendGate, SendLimits
from messaging.delivery.outcome import Outcome
from messaging.delivery.recipients import RecipientStatus, open_recipients
from messaging.delivery.status import FINAL_STATUSES, SendStatus
from messaging.settings import RetrySettings
from messaging.webhooks.announcing import AT_HAND
from messaging.webhooks.announcing import announcement as announcement_of
from tests.integration.delivery.records import ACCEPTED, NO_REPLY, REFUSED, Learnt, Records

#: Seconds of one step; the real seconds that a test takes are nothing beside it.
UNIT = 1000
#: Steps: the figures of the protocol's model, with the inequalities I1, I2 and I4 kept.
STALE, BUDGET, SEND_MAX, REPLY_WAIT, COMMIT, LEASE, COOLDOWN = 5, 3, 1, 1, 1, 3, 2
MAX_RETRIES = 2

RETRY = RetrySettings(
    max_retries=MAX_RETRIES, base_seconds=UNIT, max_seconds=UNIT, multiplier=1, jitter=0, quota_floor_seconds=UNIT
)
LIMITS = SendLimits(BUDGET * UNIT, SEND_MAX * UNIT, REPLY_WAIT * UNIT)

#: Columns that a shift of time changes.
_TIMES = {"claimed_at", "next_attempt_at", "updated_at", "swept_at", "sent_at"}


@dataclass(eq=False)
class Flight:
    """One claim in a worker's hands."""

    claim: Claim
    worker: int
    #: The row before the claim, and when that was.
    before: SimpleNamespace
    claimed_at: int
    #: claimed -> sending -> checked -> out -> known; or unclear: the claim's reply was lost.
    phase: str = "claimed"
    since: int = 0
    gate: SendGate | None = None
    named: list[str] = field(default_factory=list)
    #: Paused between the second check and the last byte.
    was_paused: bool = False
    learnt: Learnt | None = None
    outcome: Outcome | None = None

    @property
    def record_id(self) -> int:
        return self.claim.record_id


def results_of(row: SimpleNamespace) -> dict[str, dict[str, str]]:
    """What is recorded of each recipient; of the one of a text message, that it was sent and is called something."""
    if hasattr(row, "recipient_results"):
        results: dict[str, dict[str, str]] = row.recipient_results
        return results
    is_accepted = row.status == SendStatus.SENT and row.provider_message_id is not None
    return {row.phone_number: {"result": RecipientStatus.ACCEPTED}} if is_accepted else {}


def _events_between(old: SimpleNamespace, new: SimpleNamespace) -> Iterator[EventType]:
    """What is to be told of a record that was in one of these states and is in the other."""
    if new.status in FINAL_STATUSES and old.status not in FINAL_STATUSES:
        ends = {"SENT": EventType.SENT, "FAILED": EventType.FAILED, "DEAD_LETTER": EventType.DEAD_LETTER}
        yield EventType.CANCELLED if new.error_code == "CANCELLED" else ends[new.status]
    if not hasattr(new, "bounced"):
        return
    if new.bounced and (new.bounced, new.bounced_recipients) != (old.bounced, old.bounced_recipients):
        yield EventType.BOUNCED
    if new.read_receipt_received and not old.read_receipt_received:
        yield EventType.READ


class Violated(AssertionError):
    """A property of the protocol does not hold."""


class World:
    """Everything but the rows. Each method is a step that some part of the system could take."""

    def __init__(self, records: Records) -> None:
        records.retry = RETRY
        records.announcer = AT_HAND
        tables = "send_attempt, dead_letter_message, tenant_message_usage, webhook_endpoint, webhook_send_record"
        records.run(text(f"TRUNCATE {records.kind.table.name}, {tables}"))
        records.run(text("INSERT INTO webhook_endpoint (name, url, secret) VALUES ('x', 'https://x.example', 'x')"))
        self.records = records
        self.table = records.kind.table
        self.used = f"{records.kind.name}_used"
        self.now = 0
        self.messages: list[list[tuple[int, int]]] = []
        self.flights: list[Flight] = []
        self.paused: set[int] = set()
        self.is_down = False
        #: Whether a property was found violated: what comes after says nothing.
        self.is_broken = False
        #: Kills, pauses, outages, lost replies and lost commits so far.
        self.faults = 0
        self.delivered: Counter[tuple[int, str]] = Counter()
        #: Per record, how often section 7 allows a repetition.
        self.allowed: Counter[int] = Counter()
        self.begun: Counter[int] = Counter()
        self.swept: Counter[int] = Counter()
        self.manual: Counter[int] = Counter()
        self.cancelled: set[int] = set()
        #: Records of which a failover lost a claim: what another worker does on the old one is not known to the rows.
        self.lost_claims: set[int] = set()
        #: Records that were swept and have no recorded attempt result since (C4).
        self.marked: set[int] = set()
        #: Records that were prepared, and charged, before this world began.
        self.charged_before: set[int] = set()
        #: Records that may leave a final state, or go back, in this step.
        self.excepted: set[int] = set()
        self.last: dict[int, SimpleNamespace] = {}
        #: The newest event that was looked at.
        self.last_event = 0

    def _violated(self, what: str) -> Violated:
        self.is_broken = True
        return Violated(what)

    # Time

    def ticker(self) -> float:
        return float(self.now * UNIT)

    def pass_time(self) -> None:
        """One step of time, after everybody who keeps time did what cannot wait."""
        for flight in list(self.flights):
            if flight.worker not in self.paused:
                self._meet_deadline(flight)
        self.records.shift(UNIT)
        self.now += 1

    def _meet_deadline(self, flight: Flight) -> None:
        age, waited = self.now - flight.claimed_at, self.now - flight.since
        if flight.phase == "unclear" and not self.is_down:
            self.settle(flight)
        if flight.phase == "claimed" and age >= BUDGET - SEND_MAX and not self.is_down:
            self.release(flight)
        if flight.phase == "sending" and waited >= SEND_MAX:
            self.check(flight)
        if flight.phase == "checked":
            self.last_byte(flight, accepted=flight.named)
        if flight.phase == "out" and waited >= REPLY_WAIT:
            self.reply(flight, is_lost=True)
        if flight.phase == "known" and waited >= COMMIT and not self.is_down:
            self.commit([flight])

    def _enter(self, flight: Flight, phase: str) -> None:
        flight.phase, flight.since = phase, self.now

    # The caller and the tick

    def accept(self, recipients: Sequence[str], *, is_prepared: bool) -> int:
        """A record; prepared as if an attempt had been made and given back."""
        # Its id is not known yet, and its Message-ID must be no other record's.
        unlike_any_id = -1 - len(self.last)
        prepared = {"prepared_at": text("now()"), **self.records.kind.prepared(unlike_any_id)} if is_prepared else {}
        record_id = self.records.one(to=recipients, **prepared)
        if is_prepared:
            self.charged_before.add(record_id)
        return record_id

    def promote(self) -> None:
        self.records.promote()

    def tick(self, count: int, size: int, *, fate: str = "published") -> None:
        """Lease and publish; `fate` may be that the tick dies, or that the broker takes nothing (C18)."""
        leased = self.records.lease(count, LEASE * UNIT)
        if fate == "published":
            for chunk in chunked(leased, size):
                if len(chunk) > 1 and any(row.record_id in self.marked for row in chunk):
                    raise self._violated("C4: a swept record shares its message")
                self.messages.append([(row.record_id, row.version) for row in chunk])
        elif fate == "refused":
            pairs = {"ids": [r.record_id for r in leased], "versions": [r.version for r in leased]}
            self.records.run(statements.unlease(self.table), **pairs)

    # The worker

    def deliver(self, message: Sequence[tuple[int, int]], worker: int, *, is_reply_lost: bool = False) -> list[Flight]:
        """A worker takes a message, which may have come before."""
        before = self.records.rows()
        claims = self.records.claim(message, self.ticker)
        flights = [Flight(c, worker, before[c.record_id], self.now, since=self.now) for c in claims]
        if is_reply_lost and flights:
            self.faults += 1
            for flight in flights:
                flight.phase = "unclear"
        self.flights += flights
        return flights

    def settle(self, flight: Flight) -> None:
        """A claim whose reply was lost is given back by its token."""
        self.records.run(
            statements.release_unclear(self.table),
            ids=[flight.record_id],
            token=flight.claim.token,
            delay=float(UNIT),
            code="CLAIM_RELEASED",
            message="unclear",
        )
        self.flights.remove(flight)

    def prepare(self, flight: Flight) -> None:
        if flight.claim.is_prepared:
            return
        if not self.records.prepare([flight.claim]):
            self.flights.remove(flight)  # somebody newer owns the record

    def begin(self, flight: Flight) -> None:
        """First check."""
        self.prepare(flight)
        if flight not in self.flights:
            return
        flight.named = open_recipients(self.records.kind.recipients(flight.claim.content), flight.claim.results)
        flight.gate = SendGate(flight.claim.claimed_at, LIMITS, self.ticker)
        try:
            flight.gate.check_start()
        except ClaimTooOld:
            self.release(flight)
            return
        self.begun[flight.record_id] += 1
        if flight.named:
            self._enter(flight, "sending")
        else:
            self._know(flight, {})

    def fail(self, flight: Flight, learnt: Learnt) -> None:
        """The send ends before its last byte."""
        self._know(flight, learnt)

    def check(self, flight: Flight) -> None:
        """Second check."""
        assert flight.gate is not None
        try:
            flight.gate.check_last_byte()
        except ClaimTooOld:
            self.begun[flight.record_id] -= 1
            if self.is_down:
                self._enter(flight, "claimed")  # given back once the database answers
            else:
                self.release(flight)
            return
        self._enter(flight, "checked")

    def last_byte(self, flight: Flight, *, accepted: Sequence[str]) -> None:
        """The far end has the message, for these recipients."""
        record_id = flight.record_id
        row = self.records.row(record_id)
        for recipient in accepted:
            known = results_of(row).get(recipient, {}).get("result")
            is_excused = flight.was_paused or record_id in self.lost_claims
            if known == RecipientStatus.ACCEPTED and not is_excused:
                raise self._violated(f"f: {recipient} of {record_id} is recorded and sent to again")
            self.delivered[record_id, recipient] += 1
            if self.delivered[record_id, recipient] > 1 + self.allowed[record_id]:
                raise self._violated(f"b: {recipient} of {record_id} got the mail again")
            if record_id in self.cancelled and record_id not in self.lost_claims:
                raise self._violated(f"g: {record_id} was called cancelled and is sent")
        flight.learnt = {r: ACCEPTED if r in accepted else REFUSED for r in flight.named}
        self._enter(flight, "out")

    def reply(self, flight: Flight, *, is_lost: bool = False) -> None:
        if is_lost:
            self.allowed[flight.record_id] += 1  # D6
            flight.learnt = NO_REPLY
        assert flight.learnt is not None
        self._know(flight, flight.learnt)

    def _know(self, flight: Flight, learnt: Learnt) -> None:
        flight.outcome = self.records.judge(flight.claim, learnt)
        self._enter(flight, "known")

    def release(self, flight: Flight) -> None:
        before = self.records.row(flight.record_id)
        moved = self.records.release([flight.claim], UNIT)
        if moved and before.claim_token != flight.claim.token:
            raise self._violated(f"h: a release of {flight.record_id} met another claim")
        self.flights.remove(flight)

    def commit(self, flights: Sequence[Flight], *, is_reply_lost: bool = False, is_lost: bool = False) -> None:
        """One group of outcomes. The reply may be lost, so that it is written again; a failover may lose it (D5)."""
        outcomes = [f.outcome for f in flights if f.outcome is not None]
        before = self.records.rows()
        stand = self.records.write(*outcomes)
        after = self.records.rows()
        for flight in flights:
            old, new = before[flight.record_id], after[flight.record_id]
            if flight.claim.key in stand:
                is_mine = old.claim_token == flight.claim.token
                is_its_time = (old.status, old.version) == (SendStatus.SENDING, flight.claim.version)
                if not is_mine or not (is_its_time or old.status == SendStatus.RETRY):
                    raise self._violated(f"h: an outcome of {flight.record_id} met another claim")
                sent = {r for r, entry in results_of(new).items() if entry["result"] == RecipientStatus.ACCEPTED}
                if (
                    isinstance(flight.learnt, dict)
                    and flight.outcome is not None
                    and flight.outcome.results is not None
                ):
                    took = {r for r, result in flight.learnt.items() if result is ACCEPTED}
                    if not took <= sent:
                        raise self._violated(f"f: {took - sent} of {flight.record_id} accepted and is not recorded")
            elif new.version != old.version and not any(
                f.record_id == flight.record_id and f is not flight for f in flights
            ):
                raise self._violated(f"h: a lost outcome of {flight.record_id} moved it")
        if not is_lost:
            self.marked -= {record_id for record_id, _ in stand}
        if is_lost:
            self.faults += 1
            for flight in flights:
                self._rewind(before[flight.record_id])
                self.allowed[flight.record_id] += 1  # D5
        elif is_reply_lost:
            self.faults += 1
            again = self.records.write(*outcomes, is_repeat=True)
            if again.keys() - stand.keys():
                raise self._violated("an outcome written again stands, the first time it did not")
            if self.records.rows() != after:
                raise self._violated("an outcome written again moved its record again")
        self.flights = [f for f in self.flights if f not in flights]

    def _rewind(self, row: SimpleNamespace) -> None:
        """A failover: the row as a replica had it at this same moment."""
        values = {c.name: getattr(row, c.name) for c in self.table.columns if c.name not in ("id", "ready")}
        if row.prepared_at is None and self.records.row(row.id).prepared_at is not None:
            # The charge was one with the preparation, and goes with it.
            self.records.run(text(f"UPDATE tenant_message_usage SET {self.used} = {self.used} - 1"))
        with self.records.engine.connect() as connection:
            connection.execute(update(self.table).where(self.table.c.id == row.id).values(values))
        # So does what was told of a change that it lost.
        lost = text("DELETE FROM webhook_send_record WHERE about_record_id = :id AND id > :last_event")
        self.records.run(lost, id=row.id, last_event=self.last_event)
        self.excepted.add(row.id)
        self.last.pop(row.id, None)

    # Faults

    def lose_claim(self, flight: Flight) -> None:
        """A failover loses the claim; its worker does not know."""
        self.faults += 1
        self.allowed[flight.record_id] += 1
        self.lost_claims.add(flight.record_id)
        self._rewind(flight.before)

    def kill(self, worker: int) -> None:
        self.faults += 1
        for flight in [f for f in self.flights if f.worker == worker]:
            if flight.phase in ("out", "known"):
                self.allowed[flight.record_id] += 1  # D1
            self.flights.remove(flight)
        self.paused.discard(worker)

    def pause(self, worker: int) -> None:
        self.faults += 1
        self.paused.add(worker)
        for flight in self.flights:
            if flight.worker == worker and flight.phase in ("checked", "out", "known"):
                self.allowed[flight.record_id] += 1  # D2, D3
                flight.was_paused |= flight.phase == "checked"

    def go_down(self) -> None:
        self.faults += 1
        self.is_down = True
        for flight in self.flights:
            # D4: away again before an outcome that waited was written, maybe until the cool-down of its sweep is over.
            if flight.phase in ("out", "known") and self.records.row(flight.record_id).swept_at is not None:
                self.allowed[flight.record_id] += 1

    # The sweep, the operator, the caller, the other side

    def sweep(self) -> None:
        parameters = Records.sweep_parameters(stale=STALE * UNIT, max_retries=MAX_RETRIES, kind=self.records.kind)
        parameters |= {"cooldown": COOLDOWN * UNIT, "max_cooldown": COOLDOWN * UNIT}
        announcement = announcement_of(self.records.kind.name)
        rows = self.records.run(statements.sweep(self.table, announcement), **parameters)
        if rows and not self.faults:
            raise self._violated(f"c2: {rows} swept with no fault")
        for row in rows:
            self.swept[row.id] += 1
            self.marked.add(row.id)

    def requeued(self, before: dict[int, SimpleNamespace]) -> None:
        """An operator asked for another attempt: what that changes in what is allowed."""
        for record_id, row in self.records.rows().items():
            old = before[record_id]
            if old.version == row.version:
                continue
            if old.status in FINAL_STATUSES:
                if old.error_code == "CANCELLED":
                    raise self._violated(f"C7: {record_id} was cancelled and retried")
                self.excepted.add(record_id)
                self.manual[record_id] += 1
                if any(f.record_id == record_id and f.phase in ("out", "known") for f in self.flights):
                    self.allowed[record_id] += 1  # D4

    def bounced(self, record_id: int) -> None:
        self.excepted.add(record_id)
        self.allowed[record_id] += 1  # it is opened again by a manual retry

    def answered(self, record_id: int, answer: str) -> None:
        """Cancel said this."""
        was_delivered = any(count for (rid, _), count in self.delivered.items() if rid == record_id)
        if answer == "cancelled":
            if was_delivered and record_id not in self.lost_claims:
                raise self._violated(f"g: {record_id} was delivered and cancel says cancelled")
            self.cancelled.add(record_id)

    # After every step

    def check_rows(self) -> None:
        """Properties c, d, e, and what every write owes."""
        rows = self.records.rows()
        for record_id, row in rows.items():
            if row.retry_count > MAX_RETRIES + self.manual[record_id]:
                raise self._violated(f"c: {record_id} has {row.retry_count} retries")
            counted = self.begun[record_id] + self.swept[record_id] + self.manual[record_id]
            if row.retry_count > counted:
                raise self._violated(f"c: {record_id} counts {row.retry_count}, there was reason for {counted}")
            if row.status == SendStatus.DEAD_LETTER and not self.faults and not self.begun[record_id]:
                raise self._violated(f"c2: {record_id} is dead and was never tried")
            if row.status == SendStatus.SENT and row.prepared_at is None:
                raise self._violated(f"e: {record_id} is sent and was not prepared")
            old = self.last.get(record_id)
            if old is not None:
                self._check_change(old, row)
        prepared = {i for i, row in rows.items() if row.prepared_at is not None} - self.charged_before
        [usage] = self.records.run(text(f"SELECT coalesce(sum({self.used}), 0) AS used FROM tenant_message_usage"))
        if usage.used != len(prepared):
            raise self._violated(f"e: {len(prepared)} records are prepared and {usage.used} were charged")
        self._check_events(rows)
        self.last = rows
        self.excepted.clear()

    def _check_events(self, rows: Mapping[int, SimpleNamespace]) -> None:
        """Each end and each bounce is told by whoever made it, once; nothing else is."""
        found = self.records.run(
            text("SELECT id, about_record_id, event_type FROM webhook_send_record WHERE id > :after ORDER BY id"),
            after=self.last_event,
        )
        told = Counter((event.about_record_id, event.event_type) for event in found)
        self.last_event = max([self.last_event, *(event.id for event in found)])
        expected: Counter[tuple[int, str]] = Counter()
        for record_id, row in rows.items():
            if (old := self.last.get(record_id)) is not None:
                expected.update((record_id, kind) for kind in _events_between(old, row))
        known = {record_id for record_id in rows if record_id in self.last}
        if any(told[key] != expected[key] for key in told | expected if key[0] in known):
            raise self._violated(f"events: {dict(told)} were told, {dict(expected)} happened")

    def _check_change(self, old: SimpleNamespace, row: SimpleNamespace) -> None:
        changed = {n for n in vars(row) if getattr(row, n) != getattr(old, n)} - _TIMES
        if changed and row.version <= old.version:
            raise self._violated(f"{row.id} changed {changed} without a version")
        if old.status in FINAL_STATUSES and row.status != old.status and row.id not in self.excepted:
            raise self._violated(f"d: {row.id} left {old.status}")
        names = {"prepared_at", *self.records.kind.prepared(0)}
        if old.prepared_at is not None and any(getattr(row, n) != getattr(old, n) for n in names):
            raise self._violated(f"e: {row.id} was prepared twice")
        if old.uncertain and not row.uncertain:
            raise self._violated(f"{row.id} is not uncertain any more")
        gone = {r for r, entry in results_of(old).items() if entry["result"] == "accepted"}
        if gone - {r for r, e in results_of(row).items() if e["result"] in ("accepted", "bounced")}:
            raise self._violated(f"f: {row.id} forgot who accepted")

    # Property a

    def end_without_faults(self) -> None:
        """From here no fault happens and every message of old is lost: every record must end."""
        self.is_down = False
        self.paused.clear()
        self.messages.clear()
        for _ in range(40):
            for flight in list(self.flights):
                self._finish(flight)
            if all(row.status in FINAL_STATUSES for row in self.records.rows().values()):
                return
            self.pass_time()
            self.sweep()
            self.promote()
            self.tick(100, 2)
            for worker, message in zip(itertools.cycle((0, 1)), self.messages, strict=False):
                self.deliver(message, worker)
            self.messages.clear()
        left = {i: row.status for i, row in self.records.rows().items() if row.status not in FINAL_STATUSES}
        raise self._violated(f"a: {left} never end")

    def _finish(self, flight: Flight) -> None:
        if flight.phase == "unclear":
            self.settle(flight)
            return
        if flight.phase == "claimed":
            self.begin(flight)
        if flight.phase == "sending" and flight in self.flights:
            self.check(flight)
        if flight.phase == "checked":
            self.last_byte(flight, accepted=flight.named)
        if flight.phase == "out":
            self.reply(flight)
        if flight.phase == "known":
            self.commit([flight])
