"""The demo's application that is told events: it believes what is signed, is busy once, and notes what it heard."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from messaging.demo.hook_server import PATH, SECRET_VARIABLE
from messaging.webhooks.signing import new_secret, signed_headers
from tests.polling import eventually

SECRET = new_secret()
BODY = '{"type":"message.sent","timestamp":"2026-01-02T03:04:05.000Z","data":{"id":"17"}}'


class HookProcess:
    """The application as a program."""

    def __init__(self, folder: Path) -> None:
        self._journal, self._port = folder / "journal", folder / "port"
        argv = [sys.executable, "-m", "messaging.demo.hook_server", str(self._journal), str(self._port)]
        self.process = subprocess.Popen(argv, env={**os.environ, SECRET_VARIABLE: SECRET})
        eventually(self._port.exists, 30, "it listens")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def journal(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._journal.read_text().splitlines()]

    def post(self, body: str = BODY, *, path: str = PATH, headers: Mapping[str, str] | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", int(self._port.read_text()), timeout=10)
        signed = signed_headers([SECRET], "evt_5", body, at=datetime.now(UTC)) if headers is None else headers
        connection.request("POST", path, body, dict(signed))
        status = connection.getresponse().status
        connection.close()
        return status


@pytest.fixture
def hooks(tmp_path: Path) -> Iterator[HookProcess]:
    made = HookProcess(tmp_path)
    yield made
    made.stop()


def test_it_is_busy_once_then_takes_what_is_signed(hooks: HookProcess) -> None:
    assert [hooks.post(), hooks.post(), hooks.post(path="/elsewhere")] == [503, 204, 404]
    facts = {"id": "evt_5", "type": "message.sent", "record_id": "17"}
    assert hooks.journal() == [{"event": "told while busy", **facts}, {"event": "told", **facts}]


def test_it_refuses_what_somebody_else_signed(hooks: HookProcess) -> None:
    forged = signed_headers([new_secret()], "evt_5", BODY, at=datetime.now(UTC))
    assert [hooks.post(headers=forged), hooks.post(headers={})] == [401, 401]
    assert {fact["event"] for fact in hooks.journal()} == {"told without a signature"}
