"""Who calls the application: a plain HTTP client, a bare connection, and a provider that signs as Twilio does."""

import base64
import hashlib
import hmac
import http.client
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from sqlalchemy import select

from messaging.sms.models import SMS_PROVIDER_CONFIG
from tests.integration.sms.accounts import Accounts

AUTH_TOKEN = "12345"
SENDER = "+14155550100"
FORM = "application/x-www-form-urlencoded"
PUBLIC_URL = "https://sms.example.com"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Site:
    """A running application, as callers on the network see it."""

    def __init__(self, port: int, begin_stop: Callable[[], None]) -> None:
        self.port = port
        #: As SIGTERM does.
        self.begin_stop = begin_stop

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, target, body, dict(headers or {}))
            reply = connection.getresponse()
            found = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, found, reply.read())
        finally:
            connection.close()

    def get(self, target: str, **headers: str) -> Answer:
        return self.ask("GET", target, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, target: str, body: bytes = b"", **headers: str) -> Answer:
        return self.ask("POST", target, body, {name.replace("_", "-"): value for name, value in headers.items()})

    @contextmanager
    def raw(self) -> Iterator[socket.socket]:
        """A bare connection, for what no client library says."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            yield connection


def read_all(connection: socket.socket) -> bytes:
    """Until the other side closes."""
    found = b""
    while chunk := connection.recv(65536):
        found += chunk
    return found


class Account:
    """A configuration, and its provider's requests to us."""

    def __init__(
        self, accounts: Accounts, provider_type: str = "TWILIO", *, tenant_id: int = 7, **columns: Any
    ) -> None:
        self.engine, self.tenant_id = accounts.engine, tenant_id
        columns = {"api_key": "AC1", "api_secret": AUTH_TOKEN, "sender_number": SENDER} | columns
        self.id = accounts.provider(provider_type, tenant_id=tenant_id, **columns)
        with self.engine.connect() as connection:
            t = SMS_PROVIDER_CONFIG.c
            self.token: str = connection.execute(select(t.receipt_token).where(t.id == self.id)).scalar_one()
        self.path = f"/hooks/sms/{provider_type.lower()}/{self.token}"


def signed(url: str, body: bytes, key: str = AUTH_TOKEN) -> dict[str, str]:
    """As Twilio signs: HMAC-SHA1 of the address and the sorted fields of the form."""
    said = url + "".join(name + value for name, value in sorted(parse_qsl(body.decode(), keep_blank_values=True)))
    digest = hmac.new(key.encode(), said.encode(), hashlib.sha1).digest()
    return {"Content-Type": FORM, "X-Twilio-Signature": base64.b64encode(digest).decode()}


def status_of(message_id: str, status: str = "delivered") -> bytes:
    return urlencode({"MessageSid": message_id, "MessageStatus": status}).encode()


def tell(site: Site, path: str, body: bytes, **headers: str) -> Answer:
    return site.ask("POST", path, body, signed(PUBLIC_URL + path, body) | headers)
