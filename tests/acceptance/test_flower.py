"""Flower, asked over its own API while mails are delivered: how operators watch (`operate.md` section 7)."""

import ast
import base64
import imaplib
import json
import secrets
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from messaging import api
from messaging.embedded import free_port
from tests.acceptance.conftest import Start
from tests.acceptance.records import CONTENT_MARK, accept, dead_letters, recipient, wait_for
from tests.acceptance.system import MessagingSetup
from tests.far_end.dovecot import PASSWORD, Dovecot
from tests.integration.receive.fetching import mail
from tests.polling import eventually

USER = "operator:watching"

#: `operate.md` section 7, those of mails that go out and come in.
TASK_NAMES = {
    "messaging.dispatch",
    "messaging.sweep",
    "messaging.receipts",
    "messaging.heartbeat",
    "messaging.figures",
    "messaging.deliver_mail",
    "messaging.fetch_tick",
    "messaging.fetch_mailbox",
}

#: What a delivery task answers.
COUNTS = {"sent", "retry", "failed", "dead_letter", "released", "not_mine"}


class Flower:
    """Its HTTP side."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"
        #: All that it ever answered.
        self.said: list[str] = []

    def get(self, path: str, user: str | None = USER) -> str:
        request = urllib.request.Request(self._root + path)
        if user is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
        with urllib.request.urlopen(request, timeout=30) as response:
            text: str = response.read().decode()
        self.said.append(text)
        return text

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def status(self, path: str, user: str | None) -> int:
        try:
            self.get(path, user)
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code
        return 200


def add_mailbox(dovecot: Dovecot) -> int:
    """One with a mail."""
    with imaplib.IMAP4("127.0.0.1", dovecot.port, timeout=20) as client:
        client.login("shop", PASSWORD)
        client.append("INBOX", "", "", mail(CONTENT_MARK, CONTENT_MARK))
    return api.add_mailbox(
        name="in", protocol="IMAP", host="127.0.0.1", port=dovecot.port, username="shop", password=PASSWORD
    )


def test_flower_shows_workers_queues_and_tasks_and_nothing_of_a_mail(start: Start, servers_folder: Path) -> None:
    # operate.md O60, of Flower and of every log
    setup = start(mail_workers=0, control=False, beats=0)
    port = free_port()
    setup.add_flower(port, USER)
    for n in range(2):
        setup.add_worker(f"mail{n}", "mail_send", threads=2)
    setup.add_worker("asked", "mail_request", threads=2)
    setup.add_worker("control", "control", threads=2)
    setup.add_worker("fetch", "mail_fetch", threads=2)
    setup.add_beat()
    with Dovecot(servers_folder / f"dovecot-{secrets.token_hex(3)}").start() as dovecot:
        mailbox_id = add_mailbox(dovecot)
        setup.wait_ready()
        setup.app.send_task("messaging.fetch_tick", queue="control")  # as beat does in a quarter of a minute
        eventually(lambda: api.list_received(mailbox_id=mailbox_id), 60, "the mailbox is fetched")
    flower = Flower(port)
    eventually(lambda: flower.status("/api/workers", USER) == 200, 30, "Flower answers")
    assert flower.status("/api/workers", None) == 401
    assert flower.status("/api/tasks", "operator:guessing") == 401

    # Slow enough that a queue is still there when Flower, beside many processes, has answered once.
    setup.smtp.on("EOD", delay_seconds=0.1)
    # Another service's mail, the one message with content; it is refused, so that its error is there to be shown.
    setup.app.send_task("messaging.mail_request", kwargs={"to": CONTENT_MARK, "template_code": CONTENT_MARK})
    setup.smtp.refuse_rcpt("550 5.1.1 no such user", recipient("m7"))
    accept(setup, 400)
    setup.smtp.wait_for(20, 60)
    longest = longest_seen(setup, flower)
    assert longest > 0, "a queue that holds messages is shown as empty"

    workers = eventually(lambda: seen_workers(setup, flower), 60, "every worker is listed with its queues")
    assert workers == {worker.hostname(): {worker.worker_queue} for worker in setup.workers}
    wait_for(setup, {"SENT": 399, "FAILED": 1}, 120)
    eventually(lambda: delivered(flower) == (399, 1), 30, "every delivery's counts are shown")

    assert [letter.task_name for letter in dead_letters(setup)] == ["messaging.mail_request"]
    # Of one that was begun before Flower listened it knows the end, and no name.
    tasks = {key: task for key, task in flower.json("/api/tasks?limit=10000").items() if task["name"]}
    assert {task["name"] for task in tasks.values()} <= TASK_NAMES
    assert {task["state"] for task in tasks.values()} <= {"SUCCESS", "RECEIVED", "STARTED"}
    deliveries = [task for task in tasks.values() if task["name"] == "messaging.deliver_mail"]
    for task in deliveries:
        assert task["kwargs"] == "{}"
        (pairs,) = ast.literal_eval(task["args"])
        assert all(len(pair) == 2 and all(type(number) is int for number in pair) for pair in pairs)
        counts = ast.literal_eval(task["result"])
        assert set(counts) == COUNTS
        assert sum(counts.values()) == len(pairs)
    fetches = [task for task in tasks.values() if task["name"] == "messaging.fetch_mailbox"]
    for task in fetches:
        assert (ast.literal_eval(task["args"]), task["kwargs"]) == ((mailbox_id,), "{}")
    counts = [ast.literal_eval(task["result"]) for task in fetches]
    assert [count["received"] for count in counts if count["received"]] == [1]
    assert {count["failed"] for count in counts} == {0}
    assert "messaging.sweep" in {task["name"] for task in tasks.values()}
    # Neither a tick, of which there are too many, nor a mail request.
    assert not {task["name"] for task in tasks.values()} & {"messaging.dispatch", "messaging.mail_request"}
    lengths = {queue["name"] for queue in flower.json("/api/queues/length")["active_queues"]}
    assert lengths == {"mail_send", "mail_request", "control", "mail_fetch"}

    look_around(setup, flower, deliveries[0]["uuid"])
    shown = "".join([*flower.said, *setup.logs().values()])
    for hidden in (CONTENT_MARK, "rcpt.example.com", "shop@example.com", PASSWORD, *setup.secrets):
        assert hidden not in shown


def longest_seen(setup: MessagingSetup, flower: Flower) -> int:
    """The longest mail queue that Flower shows, until it shows one or everything is sent."""
    longest = 0
    while not longest and len(setup.smtp.messages) < 390:
        lengths = flower.json("/api/queues/length")["active_queues"]
        longest = max([queue["messages"] for queue in lengths if queue["name"] == "mail_send"], default=0)
    return longest


def seen_workers(setup: MessagingSetup, flower: Flower) -> dict[str, set[str]] | None:
    """Workers with their queues, once all are listed; asking them again each time."""
    listed = flower.json("/api/workers?refresh=1")
    found = {
        name: {queue["name"] for queue in worker.get("active_queues", [])} for name, worker in listed.items() if worker
    }
    return found if len(found) == len(setup.workers) and all(found.values()) else None


def delivered(flower: Flower) -> tuple[int, int]:
    """Mails sent and failed, summed over the results that Flower shows."""
    tasks = flower.json("/api/tasks?limit=10000&taskname=messaging.deliver_mail")
    counts = [ast.literal_eval(task["result"]) for task in tasks.values() if task["result"]]
    return sum(c.get("sent", 0) for c in counts), sum(c.get("failed", 0) for c in counts)


def look_around(setup: MessagingSetup, flower: Flower, task_id: str) -> None:
    """Every page that an operator would open."""
    for path in ("/workers", "/tasks", "/broker", f"/task/{task_id}", "/api/task/types", f"/api/task/info/{task_id}"):
        flower.get(path)
    for worker in setup.workers:
        flower.get(f"/worker/{worker.hostname()}")
