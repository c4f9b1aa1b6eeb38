"""Mailboxes fetched by beat and workers as they run in production: killed, stopped and held up, they lose nothing.

One system for the whole file: two beats, two workers that fetch, Dovecot behind gates that hold a fetch in its middle.
"""

import imaplib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from messaging import api
from messaging.db.session import transaction
from messaging.demo.answers import Answer, Taken, compose
from messaging.embedded import Postgres
from tests.acceptance.conftest import start_broker
from tests.acceptance.local_nodes import LocalWorker
from tests.acceptance.records import row
from tests.acceptance.system import MessagingSetup
from tests.conftest import TEMPLATE
from tests.far_end.dovecot import PASSWORD, Dovecot
from tests.far_end.gate import Gate, Silent
from tests.far_end.postfix import DOMAIN, Postfix
from tests.integration.receive.fetching import Stored, mail
from tests.polling import eventually, stays

pytestmark = pytest.mark.xdist_group("receiving")

LEASE_SECONDS = 5.0
#: Seconds between two fetches that a test asks for.
ASK_SECONDS = 0.5
#: A mailbox that keeps an answer back is waited for so long, far longer than these tests hold one.
READ_SECONDS = 40.0
#: I1 to I3 hold beside it; nobody sweeps here.
SETTINGS = {
    "MAIL__FETCH__LEASE_TIMEOUT_SECONDS": f"{LEASE_SECONDS:g}",
    "MAIL__FETCH__TIME_BUDGET_SECONDS": "4",
    "MAIL__FETCH__BATCH_LIMIT": "200",
    "MAIL__TRANSPORT__READ_TIMEOUT_SECONDS": f"{READ_SECONDS:g}",
    "DELIVERY__SEND_MAX_SECONDS": "50",
    "DELIVERY__SEND_BUDGET_SECONDS": "55",
    "SWEEPER__STALE_SECONDS": "60",
}
#: Fetched once in these tests and not again, unless somebody asks.
SELDOM = 3600

SHOP = f"shop@{DOMAIN}"
#: What Postfix hands on to a server that refuses it: the one way to a bounce whose mail was taken before.
FORWARDED, REFUSING_DOMAIN = f"forwarded@{DOMAIN}", "refusing.example"

#: Mailboxes of the first tick, and mails in each.
SEVERAL, MAILS_EACH = 5, 4
#: Mails of a fetch that is held in its middle: three groups of at most 50, the first one stored.
MANY, GROUP = 120, 50
#: Too long to come with the first look at it, so that the bodies are asked for in groups.
LONG = "Thank you for your order.\r\n" * 400
#: The look at all mails is a command of its own before the groups.
SECOND_GROUP = 3


@dataclass(frozen=True)
class Held:
    """A fetch in its middle."""

    config_id: int
    #: Of all mails of its mailbox, the first group of which is stored.
    message_ids: list[str]
    worker: LocalWorker


@dataclass
class Scene:
    """The system and its mailboxes."""

    setup: MessagingSetup
    dovecot: Dovecot
    silent: Silent
    #: Mailboxes that are due at beat's first tick, and before them the one whose server says nothing.
    several: list[int] = field(default_factory=list)
    hung: int = 0

    @property
    def fetchers(self) -> list[LocalWorker]:
        return [worker for worker in self.setup.workers if worker.worker_queue == "mail_fetch"]

    def put(self, user: str, mails: Sequence[bytes]) -> None:
        with imaplib.IMAP4("127.0.0.1", self.dovecot.port, timeout=20) as client:
            client.login(user, PASSWORD)
            for octets in mails:
                answer, said = client.append("INBOX", "", "", octets)
                assert answer == "OK", said

    def left(self, user: str) -> int:
        """Mails in an inbox."""
        with imaplib.IMAP4("127.0.0.1", self.dovecot.port, timeout=20) as client:
            client.login(user, PASSWORD)
            _, answer = client.select("INBOX", readonly=True)
            return int(answer[0] or b"0")

    def add(self, user: str, port: int, *, is_due: bool = True, **fields: Any) -> int:
        """A mailbox that beat's next tick asks for, and no other one does."""
        given = {"protocol": "IMAP", "fetch_interval_seconds": SELDOM, **fields}
        login = {"host": "127.0.0.1", "port": port, "username": user, "password": PASSWORD}
        with transaction(self.setup.engine) as session:
            config_id = api.add_mailbox(session=session, **{"name": user, **login, **given})
            if not is_due:
                later = "UPDATE mail_receive_server_config SET next_fetch_at = now() + interval '1 hour' WHERE id = :id"
                session.execute(text(later), {"id": config_id})
        return config_id

    def ask(self, config_id: int, *, expires: float | None = None) -> str:
        """Ask for a fetch as a tick does; answers the task's id."""
        asked = self.setup.app.send_task(
            "messaging.fetch_mailbox", args=(config_id,), queue="mail_fetch", expires=expires
        )
        return str(asked.id)

    def ids_in(self, config_id: int) -> list[str]:
        """Message-IDs that are stored of a mailbox, in the order of their storing."""
        return [r["message_id"] for r in Stored(self.setup.engine).rows() if r["server_config_id"] == config_id]

    def lease(self, config_id: int) -> dict[str, Any]:
        rows = Stored(self.setup.engine).rows("mail_fetch_imap_watermark")
        return next(r for r in rows if r["server_config_id"] == config_id)

    def fetch_until(self, config_ids: Sequence[int], counts: Sequence[int]) -> None:
        """Ask for fetches, as ticks would, until so many mails are stored; what nobody begins soon is dropped."""
        ask_at = 0.0

        def is_there() -> bool:
            nonlocal ask_at
            if [len(self.ids_in(config_id)) for config_id in config_ids] == list(counts):
                return True
            if time.monotonic() >= ask_at:
                ask_at = time.monotonic() + ASK_SECONDS
                for config_id in config_ids:
                    self.ask(config_id, expires=LEASE_SECONDS / 2)
            return False

        eventually(is_there, 60, f"mailboxes have {counts} mails")

    def hold_many(self, gate: Gate) -> "Held":
        """A mailbox whose fetch is held at its second group of bodies."""
        self.silent.hang_up()
        user = f"many-{secrets.token_hex(4)}"
        names = [f"{user}-{n:03}" for n in range(MANY)]
        self.put(user, [mail(name, body=LONG) for name in names])
        config_id = self.add(user, gate.port, is_due=False)
        gate.hold(b"BODY.PEEK[]", at=SECOND_GROUP)
        task_id = self.ask(config_id)
        self.wait_for_hold(gate)
        eventually(lambda: len(self.ids_in(config_id)) == GROUP, 20, "the first group is stored")
        return Held(config_id, [f"<{name}@example.org>" for name in names], self.worker_of(task_id))

    def worker_of(self, task_id: str) -> LocalWorker:
        """Who runs a task."""
        for worker in filter(LocalWorker.is_running, self.fetchers):
            inspect = self.setup.app.control.inspect(destination=[worker.hostname()], timeout=20, limit=1)
            if any(task["id"] == task_id for task in inspect.active()[worker.hostname()]):
                return worker
        raise AssertionError(f"no worker runs {task_id}")

    def wait_for_hold(self, gate: Gate) -> None:
        assert gate.holds.wait(60), "no fetch comes to the command that is held"


@pytest.fixture(scope="module")
def scene(servers_folder: Path, postgres: Postgres, secrets_key: str) -> Iterator[Scene]:
    database = f"test_{secrets.token_hex(6)}"
    folder = servers_folder / f"system-{database}"
    folder.mkdir()
    postgres.create_database(database, template=TEMPLATE)
    with ExitStack() as stack:
        stack.callback(postgres.drop_database, database)
        silent = stack.enter_context(Silent())
        broker = start_broker("valkey", folder)
        setup = MessagingSetup.assemble(postgres.url(database), broker, secrets_key, folder, SETTINGS)
        stack.callback(setup.teardown)
        # Before that: a worker that still reads there would end without it, and say so by its exit code.
        stack.callback(silent.hang_up)
        for n in range(2):
            setup.add_beat(f"beat{n}")
            setup.add_worker(f"fetch{n}", "mail_fetch", threads=6)
        setup.add_worker("control", "control", threads=2)
        setup.add_worker("mail", "mail_send", threads=2)
        dovecot = stack.enter_context(Dovecot(servers_folder / f"dovecot-{secrets.token_hex(3)}").start())
        made = Scene(setup, dovecot, silent)
        made.hung = made.add("hung", silent.port, sequence=-1)
        for n in range(SEVERAL):
            made.put(f"ann{n}", [mail(f"ann{n}-{i}") for i in range(MAILS_EACH)])
            made.several.append(made.add(f"ann{n}", dovecot.port))
        setup.wait_ready()
        yield made


@pytest.fixture(scope="module")
def postfix(scene: Scene, servers_folder: Path) -> Iterator[Postfix]:
    folder = servers_folder / f"postfix-{secrets.token_hex(3)}"
    routes = {REFUSING_DOMAIN: scene.setup.smtp.port}
    with Postfix(folder, lmtp_port=scene.dovecot.lmtp_port, routes=routes).start() as server:
        yield server


@pytest.fixture
def gate(scene: Scene) -> Iterator[Gate]:
    with Gate(scene.dovecot.port) as made:
        yield made


def is_fetched(scene: Scene, config_ids: Sequence[int], count: int) -> Callable[[], bool]:
    return lambda: all(len(scene.ids_in(config_id)) == count for config_id in config_ids)


def test_a_bounce_of_a_real_server_fails_the_record_that_was_sent(scene: Scene, postfix: Postfix) -> None:
    # receive.md R2
    setup = scene.setup
    setup.smtp.refuse_rcpt("550 5.1.1 no such user", f"gone@{REFUSING_DOMAIN}")
    api.add_mail_server(name="postfix", host="127.0.0.1", port=postfix.port, from_address=SHOP, is_default=True)
    record_id = api.send_mail(to=[FORWARDED], subject="Your order", text_body="Thank you.")
    eventually(lambda: row(setup, record_id).status == "SENT", 60, "it is sent")
    scene.dovecot.read("shop", seconds=30)
    mailbox_id = scene.add("shop", scene.dovecot.port)
    eventually(lambda: row(setup, record_id).status == "FAILED", 60, "beat has its bounce fetched")
    record = row(setup, record_id)
    assert (record.error_code, record.bounced, record.bounce_code) == ("BOUNCED", True, "550 5.1.1")
    assert record.bounced_recipients == [FORWARDED]
    assert record.sent_at is not None
    (line,) = api.list_received(mailbox_id=mailbox_id)
    assert (line.mail_type, line.link_status, line.linked_send_record_id) == ("BOUNCE", "LINKED", record_id)


def test_two_beats_and_two_workers_fetch_each_mail_once_beside_a_server_that_says_nothing(scene: Scene) -> None:
    # receive.md R21 R31 R32
    eventually(is_fetched(scene, scene.several, MAILS_EACH), 60, "all mailboxes are fetched")
    rows = Stored(scene.setup.engine).rows()
    silent, fetched = scene.silent, [r["fetched_at"] for r in rows if r["server_config_id"] in scene.several]
    assert silent.came_at is not None, "the one that hangs was not asked"
    assert silent.left_at is None or max(fetched).timestamp() < silent.left_at, "the others waited for it"
    for n, config_id in enumerate(scene.several):
        assert scene.ids_in(config_id) == [f"<ann{n}-{i}@example.org>" for i in range(MAILS_EACH)]
    for _ in range(4):
        scene.setup.app.send_task("messaging.fetch_tick", queue="control")
    eventually(lambda: not scene.setup.queue_length("control"), 20, "the ticks are taken")
    # The lease was taken with version 0, UIDVALIDITY adopted, the lease given back: one fetch by whoever asked.
    stays(lambda: {scene.lease(config_id)["version"] for config_id in scene.several} == {2}, 1, "each is fetched once")
    assert scene.ids_in(scene.hung) == []


def test_a_worker_killed_in_the_middle_loses_nothing_and_doubles_nothing(scene: Scene, gate: Gate) -> None:
    # receive.md R19 R29 R60
    setup, user = scene.setup, f"killed-{secrets.token_hex(4)}"
    api.add_mail_server(name="scripted", host="127.0.0.1", port=setup.smtp.port, from_address=SHOP, is_default=True)
    record_id = api.send_mail(to=["ben@moved.example"], subject="Your order", text_body="Thank you.")
    eventually(lambda: row(setup, record_id).status == "SENT", 60, "it is sent")
    bounce = bounce_of(setup, record_id, "ben@moved.example")
    scene.put(user, [bounce, *(mail(f"{user}-{n:03}", body=LONG) for n in range(MANY - 1))])
    drained = [f"{user}-dele", f"{user}-quit"]
    for name in drained:
        scene.put(name, [mail(f"{name}-{n}") for n in range(3)])
    with Gate(scene.dovecot.pop3_port) as deleting, Gate(scene.dovecot.pop3_port) as quitting:
        gate.hold(b"BODY.PEEK[]", at=SECOND_GROUP)
        deleting.hold(b"DELE", at=2)
        quitting.hold(b"QUIT")
        ports = (deleting.port, quitting.port)
        boxes = [scene.add(user, gate.port, is_due=False)]
        for name, port in zip(drained, ports, strict=True):
            boxes.append(scene.add(name, port, is_due=False, protocol="POP3"))
        for config_id in boxes:
            scene.ask(config_id)
        for shut in (gate, deleting, quitting):
            scene.wait_for_hold(shut)
        # Stored and not linked; stored and not deleted; deleted, and the server does not know it yet.
        stored = [GROUP, 2, 3]
        eventually(lambda: [len(scene.ids_in(each)) for each in boxes] == stored, 20, f"{stored} are stored")
        assert row(setup, record_id).status == "SENT"
        for worker in scene.fetchers:
            worker.kill()
        for worker in scene.fetchers:
            worker.restart()
        assert [scene.left(name) for name in drained] == [3, 3]
        scene.fetch_until(boxes, [MANY, 3, 3])
        eventually(lambda: [scene.left(name) for name in drained] == [0, 0], 30, "what is stored is deleted")
    assert [len(set(scene.ids_in(config_id))) for config_id in boxes] == [MANY, 3, 3]
    record = row(setup, record_id)
    assert (record.status, record.error_code, record.bounced_recipients) == ("FAILED", "BOUNCED", ["ben@moved.example"])
    eventually(lambda: scene.lease(boxes[0])["in_progress_since"] is None, 20, "the lease is free")
    assert scene.lease(boxes[0])["last_seen_uid"] == MANY


def bounce_of(setup: MessagingSetup, record_id: int, address: str) -> bytes:
    message_id = row(setup, record_id).message_id
    content = f"From: {SHOP}\r\nTo: {address}\r\nMessage-ID: {message_id}\r\n\r\nThank you.\r\n".encode()
    bounce = compose(Answer.BOUNCED, Taken(SHOP, address, content, datetime.now(UTC)))
    assert bounce is not None
    return bounce


def test_a_worker_held_up_past_its_lease_writes_nothing_that_the_next_one_wrote(scene: Scene, gate: Gate) -> None:
    # receive.md R22
    held = scene.hold_many(gate)
    held.worker.kill("SIGSTOP")
    gate.release()
    scene.fetch_until([held.config_id], [MANY])
    eventually(lambda: scene.lease(held.config_id)["in_progress_since"] is None, 20, "the next one lets go")
    written, stored = scene.lease(held.config_id), Stored(scene.setup.engine).rows()
    held.worker.kill("SIGCONT")
    eventually(lambda: "taken over during its fetch" in held.worker.logs(), 30, "it sees that it was superseded")
    assert scene.ids_in(held.config_id) == held.message_ids
    assert Stored(scene.setup.engine).rows() == stored
    assert scene.lease(held.config_id) == written


def test_a_worker_asked_to_end_in_the_middle_ends_and_the_next_one_goes_on(scene: Scene, gate: Gate) -> None:
    held = scene.hold_many(gate)
    held.worker.kill("SIGTERM")
    stays(held.worker.is_running, 0.3, "it waits for what it asked for")
    gate.release()
    assert held.worker.wait_exit(10) == 0
    assert len(scene.ids_in(held.config_id)) == 2 * GROUP
    lease = scene.lease(held.config_id)
    assert (lease["in_progress_since"], lease["last_seen_uid"]) == (None, 2 * GROUP)
    scene.fetch_until([held.config_id], [MANY])
    assert scene.ids_in(held.config_id) == held.message_ids


def test_a_worker_asked_to_end_while_its_mailbox_says_nothing_ends_in_time_and_leaves_no_lock(
    scene: Scene, gate: Gate
) -> None:
    held = scene.hold_many(gate)
    held.worker.kill("SIGTERM")
    assert held.worker.wait_exit(scene.setup.settings.delivery.stop_grace_seconds + 5) == 1
    lease = scene.lease(held.config_id)
    assert (lease["in_progress_since"], lease["last_seen_uid"]) == (None, GROUP)
    assert len(scene.ids_in(held.config_id)) == GROUP
