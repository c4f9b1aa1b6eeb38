"""The demo's mail server, spoken to by smtplib."""

import json
import smtplib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from messaging.demo.capture_server import GREYLISTED_DOMAIN, REFUSED_DOMAIN, SILENT_DOMAIN

PATIENCE_SECONDS = 30.0
SENDER = "shop@example.com"
MESSAGE = b"Message-ID: <1@example.com>\r\nSubject: Hello\r\n\r\n.dot\r\n..dots\r\nend\r\n"


class CaptureProcess:
    """The server as a program."""

    def __init__(self, folder: Path) -> None:
        self.mail = folder / "mail"
        self.mail.mkdir(exist_ok=True)
        self._journal, self._port = folder / "journal", folder / "port"
        script = [sys.executable, "-m", "messaging.demo.capture_server"]
        self._argv = [*script, str(self.mail), str(self._journal), str(self._port)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._argv)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def journal(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._journal.read_text().splitlines()] if self._journal.exists() else []

    def connect(self) -> smtplib.SMTP:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return smtplib.SMTP("127.0.0.1", int(self._port.read_text()), local_hostname="test.example", timeout=10)
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CaptureProcess]:
    made = CaptureProcess(tmp_path)
    yield made
    made.stop()


def test_a_message_is_kept_as_it_came(server: CaptureProcess) -> None:
    with server.connect() as client:
        client.ehlo()
        assert {"pipelining", "size", "8bitmime", "smtputf8"} <= client.esmtp_features.keys()
        assert client.sendmail(SENDER, ["ada@example.com", "bob@example.com"], MESSAGE) == {}
    assert (server.mail / "0001.eml").read_bytes() == MESSAGE
    [fact] = server.journal
    assert fact["message_id"] == "<1@example.com>"
    assert fact["recipients"] == ["ada@example.com", "bob@example.com"]
    assert (fact["client"], fact["is_answered"]) == ("test.example", True)


def test_one_domain_is_refused_for_good(server: CaptureProcess) -> None:
    with server.connect() as client:
        for _ in range(3):
            with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
                client.sendmail(SENDER, [f"ada@{REFUSED_DOMAIN}"], MESSAGE)
            assert refused.value.recipients[f"ada@{REFUSED_DOMAIN}"][0] == 550
        accepted = client.sendmail(SENDER, ["bob@example.com", f"ada@{REFUSED_DOMAIN}"], MESSAGE)
        assert list(accepted) == [f"ada@{REFUSED_DOMAIN}"]
    assert len(list(server.mail.iterdir())) == 1


def test_one_domain_is_refused_twice_and_then_taken(server: CaptureProcess) -> None:
    address = f"ada@{GREYLISTED_DOMAIN}"
    with server.connect() as client:
        for _ in range(2):
            with pytest.raises(smtplib.SMTPRecipientsRefused) as refused:
                client.sendmail(SENDER, [address], MESSAGE)
            assert refused.value.recipients[address][0] == 450
        assert client.sendmail(SENDER, [address], MESSAGE) == {}
    assert [fact["event"] for fact in server.journal] == ["deferred", "deferred", "taken"]


def test_the_first_message_to_one_domain_is_taken_and_not_answered(server: CaptureProcess) -> None:
    address = f"ada@{SILENT_DOMAIN}"
    client = server.connect()
    client.ehlo()
    client.mail(SENDER)
    client.rcpt(address)
    client.putcmd("data")
    assert client.getreply()[0] == 354
    client.send(MESSAGE + b".\r\n")
    until = time.monotonic() + PATIENCE_SECONDS
    while not server.journal:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert client.sock is not None
    client.sock.settimeout(0.2)
    with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected)):
        client.getreply()
    client.close()
    with server.connect() as again:
        assert again.sendmail(SENDER, [address], MESSAGE) == {}
    assert [fact["is_answered"] for fact in server.journal] == [False, True]
    assert len(list(server.mail.iterdir())) == 2


def test_commands_out_of_order_or_unknown_are_refused(server: CaptureProcess) -> None:
    with server.connect() as client:
        client.ehlo()
        assert client.docmd("RCPT TO:<ada@example.com>")[0] == 503
        assert client.docmd("MAIL FROM:nobody")[0] == 501
        assert client.docmd(f"MAIL FROM:<{SENDER}>")[0] == 250
        assert client.docmd(f"MAIL FROM:<{SENDER}>")[0] == 503
        assert client.docmd("DATA")[0] == 554
        assert client.docmd("RSET")[0] == 250
        assert client.docmd("NOOP")[0] == 250
        assert client.docmd("TURN")[0] == 502


def test_a_server_that_is_started_again_keeps_its_port_and_its_mail(server: CaptureProcess) -> None:
    with server.connect() as client:
        client.sendmail(SENDER, ["ada@example.com"], MESSAGE)
        port = client.sock.getpeername()[1]  # type: ignore[union-attr]
    server.stop()
    server.start()
    with server.connect() as client:
        assert client.sock.getpeername()[1] == port  # type: ignore[union-attr]
        client.sendmail(SENDER, ["ada@example.com"], MESSAGE)
    assert sorted(path.name for path in server.mail.iterdir()) == ["0001.eml", "0002.eml"]
