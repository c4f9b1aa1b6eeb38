"""The demo's mailbox, and what its mail server puts there of mails that recipients elsewhere answer."""

import imaplib
import json
import os
import smtplib
import subprocess
import sys
import time
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest

from messaging.demo.capture_server import ANSWERING_DOMAINS
from messaging.demo.mailbox_server import PASSWORD_VARIABLE, USER
from messaging.embedded import free_port

PATIENCE_SECONDS = 30.0
PASSWORD = "open sesame"
SENDER = "orders@shop.example.com"
MESSAGE = (
    b"From: orders@shop.example.com\r\nTo: ann@example.net\r\nMessage-ID: <1@example.com>\r\nSubject: Hello\r\n"
    b"Disposition-Notification-To: orders@shop.example.com\r\n\r\nHello.\r\n"
)


class MailboxProcess:
    """The server as a program."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._argv = [sys.executable, "-m", "messaging.demo.mailbox_server", str(self.port)]
        self._env = {**os.environ, PASSWORD_VARIABLE: PASSWORD, "TMPDIR": str(folder)}
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._argv, env=self._env)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def connect(self) -> imaplib.IMAP4:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return imaplib.IMAP4("127.0.0.1", self.port, timeout=10)
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.02)

    def mails(self) -> list[bytes]:
        with self.connect() as client:
            client.login(USER, PASSWORD)
            client.select("INBOX", readonly=True)
            _, found = client.fetch("1:*", "(BODY.PEEK[])")
            return [part[1] for part in found if isinstance(part, tuple)]


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[MailboxProcess]:
    made = MailboxProcess(tmp_path)
    yield made
    made.kill()


def test_it_lets_its_user_in_alone_and_begins_empty(mailbox: MailboxProcess) -> None:
    assert mailbox.mails() == []
    with mailbox.connect() as client, pytest.raises(imaplib.IMAP4.error):
        client.login(USER, "guessed")
    assert PASSWORD.encode() not in Path(f"/proc/{mailbox.process.pid}/cmdline").read_bytes()


def test_killed_and_started_again_it_serves(mailbox: MailboxProcess) -> None:
    assert mailbox.mails() == []
    mailbox.kill()
    mailbox.start()
    assert mailbox.mails() == []


def journal(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_what_far_sides_say_of_mails_comes_into_the_mailbox_also_when_that_is_away_at_first(
    tmp_path: Path, mailbox: MailboxProcess
) -> None:
    mailbox.kill()
    notes, port_path = tmp_path / "journal", tmp_path / "port"
    argv = [sys.executable, "-m", "messaging.demo.capture_server", tmp_path, notes, port_path]
    env = {**os.environ, PASSWORD_VARIABLE: PASSWORD}
    server = subprocess.Popen([*map(str, argv), f"--mailbox-port={mailbox.port}"], env=env)
    until = time.monotonic() + PATIENCE_SECONDS

    def wait_for(event: str, count: int) -> list[dict[str, Any]]:
        while len(found := [fact for fact in journal(notes) if fact["event"] == event]) < count:
            assert time.monotonic() < until
            time.sleep(0.02)
        return found

    try:
        while not port_path.exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        recipients = [f"ann@{domain}" for domain in ANSWERING_DOMAINS]
        with smtplib.SMTP("127.0.0.1", int(port_path.read_text()), timeout=10) as client:
            for recipient in [*recipients, "bob@example.com"]:
                client.sendmail(SENDER, [recipient], MESSAGE)
        wait_for("not answered", 1)
        mailbox.start()
        answered = wait_for("answered", len(recipients))
    finally:
        server.kill()
        server.wait()
    assert {fact["recipient"] for fact in answered} == set(recipients)
    subjects = {str(message_from_bytes(mail)["Subject"]) for mail in mailbox.mails()}
    assert subjects == {"Undelivered Mail Returned to Sender", "Read: Hello", "Auto: Hello"}
