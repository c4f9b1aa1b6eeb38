"""The shop on Django: a mail is accepted in Django's own connection and transaction, and undone with it."""

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging.embedded import Valkey
from tests.polling import eventually

ROOT = Path(__file__).resolve().parents[3]
MANAGE = [sys.executable, str(ROOT / "examples" / "django_app" / "manage.py")]


class Shop:
    """The running application."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def is_up(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@pytest.fixture
def shop(database_url: str, valkey: Valkey, secrets_key: str, tmp_path: Path) -> Iterator[Shop]:
    environment = {
        **os.environ,
        "MESSAGING_DATABASE_URL": database_url,
        "MESSAGING_REDIS_URL": valkey.url,
        "MESSAGING_SECRETS_KEYS": secrets_key,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error::ResourceWarning",
    }
    subprocess.run([*MANAGE, "migrate", "--verbosity=0"], env=environment, cwd=ROOT, check=True, timeout=60)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (tmp_path / "log").open("wb") as log:
        argv = [*MANAGE, "runserver", f"127.0.0.1:{port}", "--noreload"]
        process = subprocess.Popen(argv, env=environment, cwd=ROOT, stdout=log, stderr=log)
        try:
            made = Shop(port)
            eventually(made.is_up, what="the shop to listen")
            yield made
        finally:
            process.terminate()
            process.wait(20)


def rows(engine: Engine) -> tuple[list[str], list[str]]:
    with engine.connect() as connection:
        orders = connection.scalars(text("SELECT item FROM shop_order ORDER BY id"))
        mails = connection.scalars(text("SELECT to_addresses ->> 0 FROM mail_send_record ORDER BY id"))
        return list(orders), list(mails)


def test_a_mail_is_accepted_in_djangos_transaction_and_rolled_back_with_it(shop: Shop, engine: Engine) -> None:
    status, taken = shop.ask("POST", "/orders", {"item": "lamp", "customer": "bob@example.com", "wishes": {"red": [1]}})
    assert status == 201
    assert rows(engine) == (["lamp"], ["bob@example.com"])
    # Rolled back by Django, after the mail was accepted.
    assert shop.ask("POST", "/orders", {"item": "moon", "customer": "eve@example.com"})[0] == 409
    # Refused by acceptance, which leaves Django's transaction to Django.
    status, refused = shop.ask("POST", "/orders", {"item": "lamp", "customer": "nobody"})
    assert (status, "nobody" in refused["error"]) == (422, True)
    assert rows(engine) == (["lamp"], ["bob@example.com"])
    # Django reads its own columns as ever.
    assert shop.ask("GET", "/orders/list")[1] == {
        "orders": [{"id": taken["order_id"], "item": "lamp", "wishes": {"red": [1]}}]
    }
    assert shop.ask("POST", "/orders", {"item": "chair", "customer": "ann@example.com"})[0] == 201
    assert rows(engine) == (["lamp", "chair"], ["bob@example.com", "ann@example.com"])
