"""The SMS provider of the demo: a program that speaks Twilio's API for one account, and delivers nothing.

It is strict about login, form, sender and number. By the number it also refuses for good, throttles once and then
takes, or says later that the handset was not reached: what it takes it follows with status callbacks, signed as Twilio
does. What happened is appended to the demo's journal, one JSON object a line. Sources:
https://www.twilio.com/docs/messaging/api/message-resource and .../usage/webhooks/webhooks-security.
"""

import argparse
import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

ACCOUNT = "AC00000000000000000000000000000001"
#: The one number that messages may come from.
SENDER = "+14155550100"
#: Its owner has answered STOP: 21610.
OPTED_OUT = "+14155550190"
#: The first message to it is one too many at once: 20429.
THROTTLED = "+14155550191"
#: Its handset is switched off: taken, then undelivered.
SWITCHED_OFF = "+14155550192"

#: Where the program finds the account's auth token: a command line is seen by every user of the machine.
TOKEN_VARIABLE = "TEXT_SERVER_AUTH_TOKEN"  # noqa: S105  # a name

#: Characters of a message.
MAX_BODY_CHARS = 1600
#: Octets of a request that are read.
MAX_REQUEST_BYTES = 65_536
#: Seconds that a throttled client is to wait.
RETRY_AFTER_SECONDS = 1
#: Seconds from one callback to the next, and until one that was not answered is repeated.
CALLBACK_SECONDS = 0.3
#: How often one callback is made at most.
MAX_CALLBACKS = 100

_FORM = "application/x-www-form-urlencoded"
_NUMBER = re.compile(r"\+[1-9]\d{6,14}")
_ACCOUNT = f"/2010-04-01/Accounts/{ACCOUNT}"
_MESSAGES = f"{_ACCOUNT}/Messages.json"


@dataclass(frozen=True, slots=True)
class Reply:
    """A status and what is said with it."""

    status: int
    said: Mapping[str, Any]
    headers: Mapping[str, str]


class TextServer:
    """The account: takes messages, writes `journal`, calls back."""

    def __init__(self, journal: Path, auth_token: str) -> None:
        self._journal = journal
        self._auth_token = auth_token
        self._lock = threading.Lock()
        self._has_throttled = False
        #: What this process took, newest first.
        self._resources: list[dict[str, Any]] = []

    def is_authorised(self, header: str) -> bool:
        """Whether this is the account's login (RFC 7617)."""
        expected = base64.b64encode(f"{ACCOUNT}:{self._auth_token}".encode()).decode()
        return hmac.compare_digest(header, f"Basic {expected}")

    def create(self, form: Mapping[str, str]) -> Reply:
        """Take a message, or refuse it."""
        refused = _refusal(form) or self._throttling(form["To"])
        if refused is not None:
            self._note("text refused", to=form.get("To"), code=refused.said["code"])
            return refused
        sid = f"SM{secrets.token_hex(16)}"
        self._note("text taken", sid=sid, to=form["To"], text=form["Body"])
        if "StatusCallback" in form:
            told = {"AccountSid": ACCOUNT, "ApiVersion": "2010-04-01", "From": form["From"], "To": form["To"]}
            told |= {"MessageSid": sid, "SmsSid": sid}
            threading.Thread(target=self._follow, args=(form["StatusCallback"], told), daemon=True).start()
        resource = _resource(sid, form)
        with self._lock:
            self._resources.insert(0, resource)
        return Reply(201, resource, {})

    def read(self, path: str, query: Mapping[str, str]) -> Reply | None:
        """The account, or the messages to a number, newest first; None for what is neither."""
        if path == f"{_ACCOUNT}.json":
            return Reply(200, {"sid": ACCOUNT, "friendly_name": "Demo", "status": "active", "type": "Full"}, {})
        if path != _MESSAGES:
            return None
        with self._lock:
            found = [resource for resource in self._resources if query.get("To") in (None, resource["to"])]
        size = int(query.get("PageSize", "50"))
        page = {"messages": found[:size], "page": 0, "page_size": size, "next_page_uri": None, "uri": path}
        return Reply(200, page, {})

    def _throttling(self, to: str) -> Reply | None:
        with self._lock:
            if to != THROTTLED or self._has_throttled:
                return None
            self._has_throttled = True
        return _error(429, 20429, "Too Many Requests", {"Retry-After": str(RETRY_AFTER_SECONDS)})

    def _follow(self, url: str, told: Mapping[str, str]) -> None:
        """Say what becomes of a message, step by step."""
        end = {"MessageStatus": "delivered"}
        if told["To"] == SWITCHED_OFF:
            end = {"MessageStatus": "undelivered", "ErrorCode": "30003"}
        for step in ({"MessageStatus": "sent"}, end):
            time.sleep(CALLBACK_SECONDS)
            self._call_back(url, {**told, **step, "SmsStatus": step["MessageStatus"]})

    def _call_back(self, url: str, form: Mapping[str, str]) -> None:
        """One callback, until it is answered; a refusal is an answer."""
        headers = {"Content-Type": _FORM, "X-Twilio-Signature": signature(self._auth_token, url, form)}
        answer: int | None = None
        for _ in range(MAX_CALLBACKS):
            answer = _post(url, urlencode(form), headers)
            if answer is not None and answer < 500:
                break
            time.sleep(CALLBACK_SECONDS)
        self._note("callback", sid=form["MessageSid"], status=form["MessageStatus"], answer=answer)

    def _note(self, event: str, **facts: Any) -> None:
        with self._journal.open("a") as journal:
            journal.write(json.dumps({"event": event, **facts}) + "\n")


def signature(auth_token: str, url: str, form: Mapping[str, str]) -> str:
    """`X-Twilio-Signature`: the address and every name with its value, names sorted, under the auth token."""
    signed = url + "".join(name + form[name] for name in sorted(form))
    return base64.b64encode(hmac.digest(auth_token.encode(), signed.encode(), hashlib.sha1)).decode()


def _post(url: str, body: str, headers: Mapping[str, str]) -> int | None:
    """The status of the answer; None when there was none."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    try:
        connection.request("POST", parts.path, body, dict(headers))
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _refusal(form: Mapping[str, str]) -> Reply | None:
    to, sender, text = form.get("To", ""), form.get("From", ""), form.get("Body", "")
    callback = form.get("StatusCallback")
    if not to:
        return _error(400, 21604, "A 'To' phone number is required.")
    if not sender:
        return _error(400, 21603, "A 'From' phone number is required.")
    if not text:
        return _error(400, 21602, "Message body is required.")
    if len(text) > MAX_BODY_CHARS:
        return _error(400, 21617, f"The concatenated message body exceeds the {MAX_BODY_CHARS} character limit")
    if _NUMBER.fullmatch(to) is None:
        return _error(400, 21211, f"The 'To' number {to} is not a valid phone number.")
    if sender != SENDER:
        return _error(400, 21659, f"'From' {sender} is not a Twilio phone number or Short Code country mismatch")
    if callback is not None and not callback.startswith("http://"):
        return _error(400, 21609, f"The 'StatusCallback' URL {callback} is not a valid URL.")
    if to == OPTED_OUT:
        return _error(400, 21610, "Attempt to send to unsubscribed recipient")
    return None


def _error(status: int, code: int, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    more = f"https://www.twilio.com/docs/errors/{code}"
    return Reply(status, {"code": code, "message": message, "more_info": more, "status": status}, headers or {})


_UNAUTHORISED = _error(401, 20003, "Authenticate", {"WWW-Authenticate": 'Basic realm="Twilio API"'})


def _resource(sid: str, form: Mapping[str, str]) -> dict[str, Any]:
    now = formatdate()
    return {
        "account_sid": ACCOUNT,
        "api_version": "2010-04-01",
        "body": form["Body"],
        "date_created": now,
        "date_sent": None,
        "date_updated": now,
        "direction": "outbound-api",
        "error_code": None,
        "error_message": None,
        "from": form["From"],
        "messaging_service_sid": None,
        "num_media": "0",
        "num_segments": "1",
        "price": None,
        "price_unit": "USD",
        "sid": sid,
        "status": "queued",
        "subresource_uris": {},
        "to": form["To"],
        "uri": f"/2010-04-01/Accounts/{ACCOUNT}/Messages/{sid}.json",
    }


class _Server(ThreadingHTTPServer):
    def __init__(self, texts: TextServer, port: int) -> None:
        self.texts = texts
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Head and body of a reply in one packet: apart, the second waits for the first one's acknowledgement.
    wbufsize = -1
    server: _Server

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MAX_REQUEST_BYTES:
            self.close_connection = True  # its body is not read
            return self._say(_error(400, 20001, "A Content-Length is required"))
        body = self.rfile.read(int(length)).decode("utf-8", "replace")
        if self.path != _MESSAGES:
            return self._say(self._unknown())
        if not self._is_authorised():
            return self._say(_UNAUTHORISED)
        # Another media type has no parameters for Twilio.
        is_form = self.headers.get_content_type() == _FORM
        return self._say(self.server.texts.create(dict(parse_qsl(body, keep_blank_values=True)) if is_form else {}))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        found = self.server.texts.read(parts.path, dict(parse_qsl(parts.query)))
        if found is not None and not self._is_authorised():
            found = _UNAUTHORISED
        self._say(found or self._unknown())

    def _is_authorised(self) -> bool:
        return self.server.texts.is_authorised(self.headers.get("Authorization", ""))

    def _unknown(self) -> Reply:
        return _error(404, 20404, f"The requested resource {self.path} was not found")

    def _say(self, reply: Reply) -> None:
        body = json.dumps(reply.said).encode()
        self.send_response(reply.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """The journal says more."""


def main() -> None:
    """The program: `python -m messaging.demo.text_server JOURNAL PORT_FILE`.

    It listens on 127.0.0.1: on the port that the file names, else on a free one, which is noted there.
    """
    parser = argparse.ArgumentParser(description=main.__doc__)
    for name in ("journal", "port_file"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    port_file: Path = given.port_file
    texts = TextServer(given.journal, os.environ[TOKEN_VARIABLE])
    with _Server(texts, int(port_file.read_text()) if port_file.exists() else 0) as server:
        fresh = port_file.with_suffix(".new")
        fresh.write_text(str(server.server_port))
        fresh.rename(port_file)  # whole or not there
        server.serve_forever()


if __name__ == "__main__":
    main()
