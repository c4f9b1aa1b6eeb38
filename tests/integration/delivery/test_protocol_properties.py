"""Properties a to h of the protocol, section 5, under random interleavings of the real statements on PostgreSQL.

After every step b to h are checked; a at the end of each run, which is itself a state that may be reached: from there a
system without faults must end every record. More runs: `PROTOCOL_PROFILE=medium` or `thorough`, with `--timeout=0`.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from messaging.delivery.cancel import cancel
from messaging.delivery.requeue import retry, retry_batch
from messaging.delivery.status import SendStatus
from messaging.errors import StateError
from messaging.mail.receipts import Effect
from messaging.webhooks.announcing import AT_HAND
from tests.integration.delivery.records import BAD_LOGIN, BUSY, MAIL, A, B, Records
from tests.integration.delivery.world import Flight, World, results_of

pytestmark = pytest.mark.postgres16

MAX_RECORDS = 3
ANY = st.integers(0, 11)
WORKERS = st.integers(0, 1)


class Protocol(RuleBasedStateMachine):
    """Each rule is a step of some part of the system; which step comes next is chance."""

    records: Records

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.records)
        self.ids: list[int] = []

    # The caller

    @precondition(lambda self: len(self.ids) < MAX_RECORDS and not self.world.is_down)
    @rule(both=st.booleans(), is_prepared=st.booleans())
    def accept(self, both: bool, is_prepared: bool) -> None:
        self.ids.append(self.world.accept([A, B] if both else [A], is_prepared=is_prepared))

    # The tick

    @precondition(lambda self: self.ids and not self.world.is_down)
    @rule(
        count=st.integers(1, 4),
        size=st.integers(1, 3),
        fate=st.sampled_from(["published", "published", "published", "dies", "refused"]),
    )
    def tick(self, count: int, size: int, fate: str) -> None:
        self.world.promote()
        self.world.tick(count, size, fate=fate)

    @precondition(lambda self: self.world.messages)
    @rule()
    def broker_is_flushed(self) -> None:
        self.world.messages.clear()

    # Workers

    def _pick(self, which: int, *phases: str) -> Flight | None:
        found = [f for f in self.world.flights if f.phase in phases and f.worker not in self.world.paused]
        return found[which % len(found)] if found else None

    @precondition(lambda self: self.world.messages and not self.world.is_down)
    @rule(which=ANY, worker=WORKERS, is_reply_lost=st.sampled_from([False] * 7 + [True]))
    def message_arrives(self, which: int, worker: int, is_reply_lost: bool) -> None:
        """Any message, old or new, for the first or the tenth time."""
        if worker not in self.world.paused:
            self.world.deliver(
                self.world.messages[-1 - which % len(self.world.messages)], worker, is_reply_lost=is_reply_lost
            )

    @precondition(lambda self: self.ids and not self.world.is_down)
    @rule(
        size=st.integers(1, 3),
        worker=WORKERS,
        far=st.sampled_from(["accepts", "one", "unknown", "busy", "waits"]),
        is_committed=st.booleans(),
    )
    def whole_attempt(self, size: int, worker: int, far: str, is_committed: bool) -> None:
        """What mostly happens: a tick, a claim and a send, up to the reply or its record."""
        if worker not in self.world.paused:
            self._attempt(size, worker, far, is_committed)

    def _attempt(self, size: int, worker: int, far: str, is_committed: bool) -> None:
        self.world.promote()
        self.world.tick(3, size)
        for flight in self.world.deliver(self.world.messages[-1], worker) if self.world.messages else []:
            self.world.begin(flight)
            if far != "waits" and flight.phase == "sending":
                self._send(flight, far)
            if is_committed and flight.phase == "known":
                self.world.commit([flight])

    def _send(self, flight: Flight, far: str) -> None:
        if far == "busy":
            self.world.fail(flight, BUSY)
            return
        self.world.check(flight)
        if flight.phase == "checked":
            self.world.last_byte(flight, accepted=flight.named[:1] if far == "one" else flight.named)
            self.world.reply(flight, is_lost=far == "unknown")

    @precondition(lambda self: any(f.phase == "claimed" for f in self.world.flights) and not self.world.is_down)
    @rule(which=ANY)
    def begin(self, which: int) -> None:
        if flight := self._pick(which, "claimed"):
            self.world.begin(flight)

    @precondition(lambda self: any(f.phase == "claimed" for f in self.world.flights) and not self.world.is_down)
    @rule(which=ANY)
    def release(self, which: int) -> None:
        if flight := self._pick(which, "claimed"):
            self.world.release(flight)

    @precondition(lambda self: any(f.phase == "sending" for f in self.world.flights))
    @rule(which=ANY)
    def second_check(self, which: int) -> None:
        if flight := self._pick(which, "sending"):
            self.world.check(flight)

    @precondition(lambda self: any(f.phase == "sending" for f in self.world.flights))
    @rule(which=ANY, learnt=st.sampled_from([BUSY, BUSY, BAD_LOGIN]))
    def send_fails(self, which: int, learnt: Any) -> None:
        if flight := self._pick(which, "sending"):
            self.world.fail(flight, learnt)

    @precondition(lambda self: any(f.phase == "checked" for f in self.world.flights))
    @rule(which=ANY, how_many=st.integers(1, 2))
    def last_byte(self, which: int, how_many: int) -> None:
        if flight := self._pick(which, "checked"):
            self.world.last_byte(flight, accepted=flight.named[:how_many])

    @precondition(lambda self: any(f.phase == "out" for f in self.world.flights))
    @rule(which=ANY, is_lost=st.booleans())
    def reply(self, which: int, is_lost: bool) -> None:
        if flight := self._pick(which, "out"):
            self.world.reply(flight, is_lost=is_lost)

    @precondition(lambda self: any(f.phase == "known" for f in self.world.flights) and not self.world.is_down)
    @rule(worker=WORKERS, fate=st.sampled_from(["kept", "kept", "kept", "reply lost", "lost"]))
    def commit(self, worker: int, fate: str) -> None:
        """The committer of one process writes all it has."""
        group = [f for f in self.world.flights if f.phase == "known" and f.worker == worker]
        if group and worker not in self.world.paused:
            self.world.commit(group, is_reply_lost=fate == "reply lost", is_lost=fate == "lost")

    # Time, sweeps and faults

    @rule(steps=st.sampled_from([1, 1, 1, 2, 6]))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self.world.pass_time()

    @precondition(lambda self: not self.world.is_down)
    @rule()
    def sweep(self) -> None:
        self.world.sweep()

    @precondition(lambda self: self.world.flights)
    @rule(worker=WORKERS)
    def worker_is_killed(self, worker: int) -> None:
        self.world.kill(worker)

    @precondition(lambda self: self.world.flights)
    @rule(worker=WORKERS)
    def worker_is_paused(self, worker: int) -> None:
        if worker not in self.world.paused:
            self.world.pause(worker)

    @precondition(lambda self: self.ids and not self.world.is_down)
    @rule(worker=WORKERS, was_sending=st.booleans(), do_others_send=st.booleans())
    def worker_is_paused_until_it_is_swept(self, worker: int, was_sending: bool, do_others_send: bool) -> None:
        if worker in self.world.paused:
            return
        if was_sending:
            self._attempt(1, worker, "waits", False)
        self.world.pause(worker)
        for _ in range(6):
            self.world.pass_time()
        self.world.sweep()
        for _ in range(4):
            self.world.pass_time()
        if do_others_send and 1 - worker not in self.world.paused:
            self._attempt(1, 1 - worker, "accepts", True)
            self.world.paused.discard(worker)

    @precondition(lambda self: self.world.paused)
    @rule()
    def workers_go_on(self) -> None:
        self.world.paused.clear()

    @precondition(lambda self: not self.world.is_down and self.world.flights)
    @rule()
    def database_goes_down(self) -> None:
        self.world.go_down()

    @precondition(lambda self: self.world.is_down)
    @rule(is_swept=st.booleans())
    def database_comes_back(self, is_swept: bool) -> None:
        self._comes_back(is_swept)

    def _comes_back(self, is_swept: bool) -> None:
        self.world.is_down = False
        if is_swept:
            self.world.sweep()

    @precondition(lambda self: not self.world.is_down and self.world.flights)
    @rule(worker=WORKERS)
    def database_is_away_for_longer_than_stale(self, worker: int) -> None:
        """The sweep and a worker that is free come before the outcomes that waited."""
        self.world.go_down()
        for _ in range(6):
            self.world.pass_time()
        self._comes_back(is_swept=True)
        if worker not in self.world.paused:
            self._attempt(1, worker, "accepts", True)

    @precondition(lambda self: self.ids and not self.world.is_down)
    @rule(worker=WORKERS, is_redelivered=st.booleans())
    def failover_loses_claims(self, worker: int, is_redelivered: bool) -> None:
        """The broker repeats the message to another worker; the first one knows of nothing."""
        if self.world.paused:
            return
        self.world.promote()
        self.world.tick(2, 2)
        message = self.world.messages[-1] if self.world.messages else []
        for flight in self.world.deliver(message, worker):
            self.world.lose_claim(flight)
        if is_redelivered:
            self.world.deliver(message, 1 - worker)

    # The operator and the other side

    @precondition(lambda self: self.ids and not self.world.is_down)
    @rule(which=ANY)
    def operator_retries_one(self, which: int) -> None:
        before = self.records.rows()
        kind, record_id = self.records.kind, self.ids[which % len(self.ids)]
        with self.records.engine.connect() as connection:
            try:
                retry(connection, kind.table, kind.recipients, record_id, channel=kind.name)
            except StateError:
                pass
        self.world.requeued(before)

    @precondition(lambda self: self.ids and not self.world.is_down)
    @rule()
    def operator_retries_all(self) -> None:
        before, kind = self.records.rows(), self.records.kind
        with self.records.engine.connect() as connection:
            retry_batch(connection, kind.table, kind.recipients, self.ids, channel=kind.name)
        self.world.requeued(before)

    @precondition(lambda self: self.ids and not self.world.is_down)
    @rule(which=ANY)
    def caller_cancels(self, which: int) -> None:
        kind, record_id = self.records.kind, self.ids[which % len(self.ids)]
        with self.records.engine.connect() as connection:
            answer = cancel(connection, kind.table, record_id, channel=kind.name, announcer=AT_HAND).answer
        self.world.answered(record_id, answer)

    @precondition(lambda self: self.ids and not self.world.is_down and self.records.kind is MAIL)
    @rule(which=ANY)
    def bounce_arrives(self, which: int) -> None:
        record_id = self.ids[which % len(self.ids)]
        before = self.records.row(record_id)
        had_it = before.status == SendStatus.SENT or results_of(before).get(A, {}).get("result") == "accepted"
        if self.records.bounce(record_id, A) is Effect.RECORDED and had_it:
            self.world.bounced(record_id)

    @invariant()
    def properties_hold(self) -> None:
        self.world.check_rows()

    def teardown(self) -> None:
        if not self.world.is_broken:
            self.world.end_without_faults()
            self.world.check_rows()


SMS_PROFILES = {"default": (20, 30), "medium": (200, 40), "thorough": (3000, 60)}
PROFILES = {"default": (60, 30), "medium": (500, 40), "thorough": (3000, 60)}


def test_the_properties_of_the_protocol_hold(records: Records) -> None:
    run(records, *PROFILES[os.environ.get("PROTOCOL_PROFILE", "default")])


def test_the_properties_of_the_protocol_hold_for_text_messages(sms_records: Records) -> None:
    # The statements are the same; columns that this table lacks are left out of them.
    run(sms_records, *SMS_PROFILES[os.environ.get("PROTOCOL_PROFILE", "default")])


def run(records: Records, runs: int, steps: int) -> None:
    machine = type("Machine", (Protocol,), {"records": records})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            database=None,
        ),
    )
