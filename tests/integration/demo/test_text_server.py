"""The demo's provider of text messages, spoken to over HTTP; its callbacks, checked by Twilio's own package."""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from twilio.request_validator import RequestValidator

from messaging.demo.text_server import ACCOUNT, OPTED_OUT, SENDER, SWITCHED_OFF, THROTTLED, TOKEN_VARIABLE
from messaging.http.client import HttpClient, HttpLimits
from messaging.sms.providers.base import Accepted, OutgoingSms, ProviderConfig
from messaging.sms.providers.twilio import Twilio

PATIENCE_SECONDS = 30.0
TOKEN = "0123456789abcdef"
PATH = f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json"
FORM = "application/x-www-form-urlencoded"
MESSAGE = {"To": "+14155550101", "From": SENDER, "Body": "Your order is on its way"}


class TextProcess:
    """The server as a program."""

    def __init__(self, folder: Path) -> None:
        self._journal, self._port = folder / "journal", folder / "port"
        self._argv = [sys.executable, "-m", "messaging.demo.text_server", str(self._journal), str(self._port)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._argv, env={**os.environ, TOKEN_VARIABLE: TOKEN})

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def port(self) -> int:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                port = int(self._port.read_text())
                socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.02)
            else:
                return port

    def journal(self, event: str) -> list[dict[str, Any]]:
        facts = [json.loads(line) for line in self._journal.read_text().splitlines()] if self._journal.exists() else []
        return [fact for fact in facts if fact["event"] == event]

    def post(
        self, form: Mapping[str, str], *, path: str = PATH, token: str = TOKEN, media_type: str = FORM
    ) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        """Status, body and headers of the answer."""
        login = base64.b64encode(f"{ACCOUNT}:{token}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {"Authorization": f"Basic {login}", "Content-Type": media_type}
        connection.request("POST", path, urlencode(form), headers)
        reply = connection.getresponse()
        said = json.loads(reply.read())
        connection.close()
        return reply.status, said, dict(reply.headers)


class Receiver:
    """Where callbacks come to: form and signature of each, and the statuses they are answered with."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, str], str]] = []
        self.answers: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                receiver.calls.append((dict(parse_qsl(body)), self.headers["X-Twilio-Signature"]))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hooks/sms/twilio/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def wait_for(self, calls: int) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while len(self.calls) < calls:
            assert time.monotonic() < until
            time.sleep(0.02)

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TextProcess]:
    made = TextProcess(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.stop()


def test_a_message_is_taken_and_noted(server: TextProcess) -> None:
    status, said, _ = server.post(MESSAGE)
    assert (status, said["status"], said["to"], said["body"]) == (201, "queued", MESSAGE["To"], MESSAGE["Body"])
    [fact] = server.journal("text taken")
    assert (fact["sid"], fact["to"], fact["text"]) == (said["sid"], MESSAGE["To"], MESSAGE["Body"])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"To": ""}, 21604, id="no-to"),
        pytest.param({"To": "4155550101"}, 21211, id="to-is-no-number"),
        pytest.param({"From": ""}, 21603, id="no-from"),
        pytest.param({"From": "+14155550199"}, 21659, id="from-is-not-ours"),
        pytest.param({"Body": ""}, 21602, id="no-body"),
        pytest.param({"Body": "x" * 1601}, 21617, id="too-long"),
        pytest.param({"StatusCallback": "nowhere"}, 21609, id="no-address"),
        pytest.param({"To": OPTED_OUT}, 21610, id="opted-out"),
    ],
)
def test_a_message_that_is_not_as_it_must_be_is_refused(server: TextProcess, change: dict[str, str], code: int) -> None:
    status, said, _ = server.post(MESSAGE | change)
    assert (status, said["code"]) == (400, code)
    assert server.journal("text taken") == []
    assert [fact["code"] for fact in server.journal("text refused")] == [code]


def test_login_address_and_media_type_are_asked_for(server: TextProcess) -> None:
    assert server.post(MESSAGE, token="another")[0] == 401
    assert server.post(MESSAGE, path="/2010-04-01/Messages.json")[0] == 404
    assert server.post(MESSAGE, media_type="application/json")[1]["code"] == 21604
    assert server.journal("text taken") == []


def test_one_number_is_throttled_once_and_then_taken(server: TextProcess) -> None:
    status, said, headers = server.post(MESSAGE | {"To": THROTTLED})
    assert (status, said["code"], headers["Retry-After"]) == (429, 20429, "1")
    assert server.post(MESSAGE | {"To": THROTTLED})[0] == 201


@pytest.mark.parametrize(("to", "end"), [("+14155550101", "delivered"), (SWITCHED_OFF, "undelivered")])
def test_what_becomes_of_a_message_is_told_step_by_step_and_signed(
    server: TextProcess, receiver: Receiver, to: str, end: str
) -> None:
    _, said, _ = server.post(MESSAGE | {"To": to, "StatusCallback": receiver.url})
    receiver.wait_for(2)
    assert [form["MessageStatus"] for form, _ in receiver.calls] == ["sent", end]
    for form, signature in receiver.calls:
        assert (form["MessageSid"], form["To"], form["AccountSid"]) == (said["sid"], to, ACCOUNT)
        assert RequestValidator(TOKEN).validate(receiver.url, form, signature)
        assert not RequestValidator("another").validate(receiver.url, form, signature)


def test_a_callback_is_repeated_until_it_is_answered_and_a_refusal_is_an_answer(
    server: TextProcess, receiver: Receiver
) -> None:
    receiver.answers = [503, 204, 403]
    server.post(MESSAGE | {"StatusCallback": receiver.url})
    until = time.monotonic() + PATIENCE_SECONDS
    while len(told := server.journal("callback")) < 2:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert [form["MessageStatus"] for form, _ in receiver.calls] == ["sent", "sent", "delivered"]
    assert [(fact["status"], fact["answer"]) for fact in told] == [("sent", 204), ("delivered", 403)]


def test_a_server_that_is_started_again_keeps_its_port(server: TextProcess) -> None:
    server.post(MESSAGE)
    port = server.port
    server.stop()
    server.start()
    assert server.port == port
    server.post(MESSAGE)
    assert len({fact["sid"] for fact in server.journal("text taken")}) == 2


def test_the_account_and_what_was_taken_can_be_read(server: TextProcess) -> None:
    sid = server.post(MESSAGE)[1]["sid"]
    client = HttpClient(HttpLimits(connect_seconds=10, read_seconds=10, reply_seconds=10))
    account = {"api_key": ACCOUNT, "api_endpoint": f"http://127.0.0.1:{server.port}/2010-04-01"}
    config = ProviderConfig(1, 1, "TWILIO", api_secret=TOKEN, sender_number=SENDER, **account)
    sms = OutgoingSms(1, MESSAGE["To"], MESSAGE["Body"])
    since = datetime.now(UTC) - timedelta(minutes=1)
    try:
        assert Twilio().try_account(config, client) is None
        refused = Twilio().try_account(replace(config, api_secret="another"), client)
        assert refused is not None
        assert refused.code == "20003"
        assert list(Twilio().find_sent(config, sms, client, since)) == [Accepted(sid)]
        assert list(Twilio().find_sent(config, replace(sms, phone_number=THROTTLED), client, since)) == []
    finally:
        client.close()
