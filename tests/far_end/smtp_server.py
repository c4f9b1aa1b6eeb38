"""An SMTP server at the far end, under our control: it answers as its rules say and keeps what it was sent.

Real sockets; in threads of the test (`ScriptedSmtpServer`) or in a process of its own (`SmtpServerProcess`). Reads
commands in order and answers each, pipelined or not (RFC 2920). Without rules it takes every mail.
"""

import argparse
import base64
import contextlib
import hmac
import json
import re
import secrets
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

#: Replies where no rule speaks.
DEFAULT_REPLIES = {
    "CONNECT": "220 mx.example.com ESMTP",
    "HELO": "250 mx.example.com",
    "STARTTLS": "220 2.0.0 go ahead",
    "MAIL": "250 2.1.0 ok",
    "RCPT": "250 2.1.5 ok",
    "DATA": "354 go ahead",
    "EOD": "250 2.0.0 queued",
    "RSET": "250 2.0.0 ok",
    "NOOP": "250 2.0.0 ok",
    "QUIT": "221 2.0.0 bye",
}
_WHOLE_MAIL = re.compile(r"message \d+")
_IDLE = re.compile(r"idle (\d+)s?")
_ADDRESS = re.compile(r":\s*<(.*)>([^>]*)$|:\s*(\S*)(.*)$")


@dataclass
class Rule:
    """What to do at some event; the first rule that matches acts, the others are not counted."""

    #: `CONNECT`, `EOD` (the final dot), `IDLE` (nothing came for `idle_seconds` after a mail), or the beginning of a
    #: command: `RCPT TO:<a@example.com>`. `*` matches anything, case does not matter.
    on: str
    #: Lines separated by CRLF, sent as they are with a CRLF at the end; None: what the server would have said.
    reply: str | None = None
    #: Act only on the n-th match, from 1.
    nth: int | None = None
    #: Act only on the first so many matches.
    times: int | None = None
    #: Count `nth` and `times` for each command line by itself: "each recipient twice".
    per_line: bool = False
    #: Only in a transaction that took a recipient beginning so.
    recipient: str | None = None
    delay_seconds: float = 0
    #: Close instead of a reply, after it, or with a TCP reset instead of it.
    close: Literal["before", "after", "reset"] | None = None
    #: No reply until `release()`.
    hang: bool = False
    idle_seconds: float = 0.1
    _seen: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        pattern = ".*".join(re.escape(part) for part in self.on.strip().split("*"))
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def acts_on(self, event: str, recipients: Sequence[str]) -> bool:
        """Whether it acts now; counts. Called with the server's lock held."""
        if not self._pattern.match(event):
            return False
        if self.recipient is not None and not any(r.startswith(self.recipient) for r in recipients):
            return False
        key = event if self.per_line else ""
        count = self._seen[key] = self._seen.get(key, 0) + 1
        if self.nth is not None and count != self.nth:
            return False
        return self.times is None or count <= self.times


@dataclass(frozen=True)
class Transaction:
    """One message whose final dot came."""

    connection: int
    sender: str
    #: What followed the address in MAIL: `SIZE=123 SMTPUTF8`.
    parameters: str
    #: Those taken.
    recipients: tuple[str, ...]
    #: As it was on the wire, the final dot's line included.
    raw: bytes
    #: Un-stuffed, without the final dot.
    content: bytes
    #: What the final dot was answered; empty when it was not.
    reply: str
    #: `time.monotonic()` when the final dot came.
    at: float

    @property
    def is_taken(self) -> bool:
        return self.reply.startswith("2")


class ScriptedSmtpServer:
    """Listens from `start()` to `stop()`; also a context manager. All that it kept may be read at any time."""

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        extensions: Sequence[str] = ("PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES"),
        size: int | None = None,
        tls: ssl.SSLContext | None = None,
        is_implicit_tls: bool = False,
        users: Mapping[str, str] | None = None,
        mechanisms: Sequence[str] = ("PLAIN", "LOGIN", "CRAM-MD5"),
        is_auth_required: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        keeps_data: bool = True,
        on_transaction: Callable[[Transaction], None] | None = None,
    ) -> None:
        self.rules = list(rules)
        self.extensions = list(extensions) + ([f"SIZE {size}"] if size is not None else [])
        self.tls = tls
        self.is_implicit_tls = is_implicit_tls
        self.users = dict(users or {})
        self.mechanisms = list(mechanisms)
        self.is_auth_required = is_auth_required
        self.keeps_data = keeps_data
        self.host, self.port = host, port
        #: Number and line of each command, in the order they were read; CONNECT and EOD among them.
        self.commands: list[tuple[int, str]] = []
        #: All messages whose final dot came.
        self.transactions: list[Transaction] = []
        #: What a client must not do: bare CR or LF, commands sent ahead where PIPELINING is not offered.
        self.violations: list[str] = []
        #: Names authenticated, in order.
        self.logins: list[str] = []
        #: How many connections were made.
        self.connections = 0
        self._on_transaction = on_transaction
        self._changed = threading.Condition()
        self._released = threading.Event()
        self._is_stopping = threading.Event()
        self._open: dict[int, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None

    @classmethod
    def from_steps(cls, steps: Iterable[Mapping[str, Any]], *, idle_seconds: float = 0.1, **options: Any) -> Self:
        """A server for the steps of a case: `on`, `send`, `close`, `delay_s`; `idle 60s` is cut to `idle_seconds`.

        The extensions are those of the script's own EHLO reply. A delay that no test waits for is a hang.
        """
        rules = []
        for step in steps:
            on = str(step["on"])
            if _WHOLE_MAIL.fullmatch(on):
                continue  # "(whole dialogue ok)" is what happens without a rule
            nth = 2 if on == "second CONNECT" else None
            is_idle = _IDLE.fullmatch(on) is not None
            delay = float(step.get("delay_s", 0))
            rules.append(
                Rule(
                    on="IDLE" if is_idle else "CONNECT" if nth else on,
                    reply=step.get("send"),
                    nth=nth,
                    times=1 if is_idle else None,
                    close=("after" if "send" in step else "before") if step.get("close") else None,
                    hang=delay > 60,
                    delay_seconds=0 if delay > 60 else delay,
                    idle_seconds=idle_seconds,
                )
            )
        return cls(rules, **options)

    # Life

    def start(self) -> Self:
        listener = socket.create_server((self.host, self.port), backlog=512)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._spawn(self._accept, listener)
        return self

    def stop(self) -> None:
        """Close everything and wait for the threads."""
        self._is_stopping.set()
        self._released.set()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.drop_connections()
        for thread in list(self._threads):
            thread.join(5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, name="far-end-smtp", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with self._changed:
                if self._is_stopping.is_set():
                    client.close()
                    return
                self.connections += 1
                number = self.connections
                self._open[number] = client
                self._changed.notify_all()
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._spawn(_Session(self, number, client).run)

    # Steering

    def on(self, event: str, reply: str | None = None, **what: Any) -> Rule:
        """Add a rule before the others: the last one added wins."""
        rule = Rule(event, reply, **what)
        with self._changed:
            self.rules.insert(0, rule)
        return rule

    def refuse_rcpt(self, reply: int | str, address: str = "", **what: Any) -> Rule:
        """Refuse an address, or all, at RCPT."""
        text = f"{reply} refused" if isinstance(reply, int) else reply
        return self.on(f"RCPT TO:<{address}>" if address else "RCPT", text, **what)

    def clear_rules(self) -> None:
        with self._changed:
            self.rules.clear()

    def release(self) -> None:
        """Let go what hangs, now and later."""
        self._released.set()

    def drop_connections(self) -> None:
        """Close all open connections, as a restarted server does."""
        with self._changed:
            clients = list(self._open.values())
        for client in clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    # Reading

    @property
    def messages(self) -> list[Transaction]:
        """The messages that were taken."""
        with self._changed:
            return [transaction for transaction in self.transactions if transaction.is_taken]

    @property
    def open_connections(self) -> int:
        with self._changed:
            return len(self._open)

    def lines(self, verb: str = "") -> list[str]:
        """The command lines that begin with `verb`, of all connections."""
        with self._changed:
            return [line for _, line in self.commands if line.upper().startswith(verb)]

    def copies(self) -> dict[str, int]:
        """How many messages each recipient was sent."""
        counts: dict[str, int] = {}
        for message in self.messages:
            for recipient in message.recipients:
                counts[recipient] = counts.get(recipient, 0) + 1
        return counts

    def wait_until(self, is_met: Callable[[], bool], timeout: float, what: str = "it") -> None:
        """Wait for something that the server would notice. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while not is_met():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{what} did not happen in {timeout} s; seen: {self.commands[-20:]}")
            with self._changed:
                self._changed.wait(min(left, 0.05))

    def wait_for(self, n_messages: int, timeout: float) -> list[Transaction]:
        """The messages taken, once there are so many. Raises TimeoutError."""
        self.wait_until(lambda: len(self.messages) >= n_messages, timeout, f"message {n_messages}")
        return self.messages

    def wait_for_command(self, verb: str, timeout: float, *, count: int = 1) -> None:
        """Wait until so many commands beginning with `verb` were read (`EOD`: the final dot). Raises TimeoutError."""
        self.wait_until(lambda: len(self.lines(verb)) >= count, timeout, verb)

    # Called by sessions

    def _note(self, number: int, line: str) -> None:
        with self._changed:
            self.commands.append((number, line))
            self._changed.notify_all()

    def _rule_for(self, event: str, recipients: Sequence[str]) -> Rule | None:
        if not self.rules:
            return None
        with self._changed:
            return next((rule for rule in self.rules if rule.acts_on(event, recipients)), None)

    def _idle_rule(self) -> Rule | None:
        with self._changed:
            rules = [r for r in self.rules if r.on == "IDLE"]
            return next((r for r in rules if r.times is None or r._seen.get("", 0) < r.times), None)

    def _keep(self, transaction: Transaction) -> None:
        with self._changed:
            self.transactions.append(transaction)
            self._changed.notify_all()
        if self._on_transaction is not None:
            self._on_transaction(transaction)

    def _forget(self, number: int) -> None:
        with self._changed:
            self._open.pop(number, None)
            self._changed.notify_all()


class _Over(Exception):
    """This connection has ended."""


class _Session:
    """One connection."""

    def __init__(self, server: ScriptedSmtpServer, number: int, client: socket.socket) -> None:
        self._server = server
        self._number = number
        self._client = client
        self._unread = b""
        self._is_encrypted = False
        self._is_authenticated = False
        self._has_delivered = False
        self._can_pipeline = "PIPELINING" in server.extensions
        self._reset()

    def _reset(self) -> None:
        self._sender: str | None = None
        self._parameters = ""
        self._recipients: list[str] = []

    def run(self) -> None:
        try:
            self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._server.is_implicit_tls:
                self._encrypt()
            self._server._note(self._number, "CONNECT")
            self._answer("CONNECT", DEFAULT_REPLIES["CONNECT"])
            while True:
                self._command(self._line())
        except (_Over, OSError, ValueError):
            pass
        finally:
            self._server._forget(self._number)
            with contextlib.suppress(OSError):
                # What the client has sent and nobody read would turn the last reply into a reset.
                self._client.shutdown(socket.SHUT_WR)
                self._client.settimeout(0.2)
                while self._client.recv(65536):
                    pass
            self._client.close()

    # Octets

    def _more(self) -> None:
        rule = self._server._idle_rule() if self._has_delivered and self._sender is None else None
        if rule is not None:
            self._client.settimeout(rule.idle_seconds)
        try:
            data = self._client.recv(65536)
        except TimeoutError:
            if rule is not None and rule.acts_on("IDLE", ()):
                self._perform(rule, "421 4.4.2 timeout, closing")
            self._client.settimeout(None)
            return
        if rule is not None:
            self._client.settimeout(None)
        if not data:
            raise _Over
        self._unread += data

    def _line(self) -> str:
        while (end := self._unread.find(b"\n")) < 0:
            self._more()
        line, self._unread = self._unread[:end], self._unread[end + 1 :]
        if not line.endswith(b"\r"):
            self._server.violations.append(f"bare LF ends {line!r}")
        if self._unread and not self._can_pipeline:
            self._server.violations.append(f"sent ahead of the reply to {line!r}")
        return line.removesuffix(b"\r").decode("utf-8", "backslashreplace")

    def _body(self) -> bytes:
        """All up to and with the line of the final dot, as it was sent."""
        searched = 0
        while True:
            if self._unread.startswith(b".\r\n"):
                end = 3
                break
            found = self._unread.find(b"\r\n.\r\n", searched)
            if found >= 0:
                end = found + 5
                break
            searched = max(0, len(self._unread) - 4)
            self._more()
        raw, self._unread = self._unread[:end], self._unread[end:]
        if raw.count(b"\n") != raw.count(b"\r\n") or raw.count(b"\r") != raw.count(b"\r\n"):
            self._server.violations.append("bare CR or LF in the message")
        if self._unread and not self._can_pipeline:
            self._server.violations.append("sent ahead of the reply to the final dot")
        return raw

    def _say(self, reply: str) -> None:
        self._client.sendall(reply.encode("utf-8", "surrogateescape") + b"\r\n")

    def _answer(self, event: str, default: str) -> str:
        """Answer by rule or by default. Answers the reply that was sent."""
        rule = self._server._rule_for(event, self._recipients)
        if rule is None:
            self._say(default)
            return default
        return self._perform(rule, default)

    def _perform(self, rule: Rule, default: str) -> str:
        if rule.hang:
            self._server._released.wait()
        elif rule.delay_seconds:
            self._server._is_stopping.wait(rule.delay_seconds)
        if rule.close == "reset":
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._client.close()
        if rule.close in ("before", "reset") or self._server._is_stopping.is_set():
            raise _Over
        reply = default if rule.reply is None else rule.reply
        self._say(reply)
        if rule.close == "after":
            raise _Over
        return reply

    # Commands

    def _command(self, line: str) -> None:
        self._server._note(self._number, line)
        verb = line.split(" ", 1)[0].split(":", 1)[0].upper()
        match verb:
            case "EHLO":
                self._reset()
                self._answer(line, self._extensions())
            case "STARTTLS" if self._server.tls is not None and not self._is_encrypted:
                if self._answer(line, DEFAULT_REPLIES["STARTTLS"]).startswith("220"):
                    self._unread = b""
                    self._encrypt()
            case "AUTH" if self._server.users:
                self._authenticate(line)
            case "MAIL":
                self._mail(line)
            case "RCPT":
                self._rcpt(line)
            case "DATA":
                self._data(line)
            case "RSET" | "HELO":
                self._reset()
                self._answer(line, DEFAULT_REPLIES[verb])
            case "NOOP":
                self._answer(line, DEFAULT_REPLIES[verb])
            case "QUIT":
                self._answer(line, DEFAULT_REPLIES[verb])
                raise _Over
            case _:
                self._answer(line, "502 5.5.1 not implemented")

    def _extensions(self) -> str:
        server = self._server
        offered = ["mx.example.com", *server.extensions]
        if server.tls is not None and not self._is_encrypted:
            offered.append("STARTTLS")
        if server.users:
            offered.append("AUTH " + " ".join(server.mechanisms))
        return "\r\n".join(f"250{'-' if n < len(offered) else ' '}{word}" for n, word in enumerate(offered, 1))

    def _encrypt(self) -> None:
        assert self._server.tls is not None
        self._client = self._server.tls.wrap_socket(self._client, server_side=True)
        with self._server._changed:
            self._server._open[self._number] = self._client
        self._is_encrypted = True
        self._reset()

    def _mail(self, line: str) -> None:
        default = DEFAULT_REPLIES["MAIL"]
        if self._sender is not None:
            default = "503 5.5.1 nested MAIL"
        elif self._server.is_auth_required and not self._is_authenticated:
            default = "530 5.7.0 authentication required"
        if self._answer(line, default).startswith("2"):
            self._sender, self._parameters = _address_of(line)

    def _rcpt(self, line: str) -> None:
        default = "503 5.5.1 MAIL first" if self._sender is None else DEFAULT_REPLIES["RCPT"]
        if self._answer(line, default).startswith("2"):
            self._recipients.append(_address_of(line)[0])

    def _data(self, line: str) -> None:
        default = DEFAULT_REPLIES["DATA"] if self._recipients else "554 5.5.1 no valid recipients"
        if not self._answer(line, default).startswith("354"):
            return
        raw = self._body()
        at = time.monotonic()
        sender, recipients, parameters = self._sender or "", tuple(self._recipients), self._parameters
        self._server._note(self._number, "EOD")
        rule = self._server._rule_for("EOD", recipients)
        default = DEFAULT_REPLIES["EOD"] if recipients else "554 5.5.1 no valid recipients"
        # Kept before the reply is out: who has the reply finds the message here.
        reply = default if rule is None or rule.reply is None else rule.reply
        if rule is not None and (rule.hang or rule.close in ("before", "reset")):
            reply = ""
        if not self._server.keeps_data:
            raw = b""
        content = raw[:-3].replace(b"\r\n.", b"\r\n").removeprefix(b".")
        self._server._keep(Transaction(self._number, sender, parameters, recipients, raw, content, reply, at))
        if rule is None:
            self._say(default)
        else:
            self._perform(rule, default)
        self._has_delivered = True
        self._reset()

    def _authenticate(self, line: str) -> None:
        words = line.split(" ")
        mechanism = words[1].upper() if len(words) > 1 else ""
        name, is_right = "", False
        try:
            if mechanism not in self._server.mechanisms:
                self._answer(line, "504 5.5.4 unknown mechanism")
                return
            match mechanism:
                case "PLAIN":
                    given = words[2] if len(words) > 2 else self._challenge("")
                    _, name, password = base64.b64decode(given).decode().split("\0")
                    is_right = self._server.users.get(name) == password
                case "LOGIN":
                    given = words[2] if len(words) > 2 else self._challenge("Username:")
                    name = base64.b64decode(given).decode()
                    password = base64.b64decode(self._challenge("Password:")).decode()
                    is_right = self._server.users.get(name) == password
                case "CRAM-MD5":
                    challenge = f"<{secrets.token_hex(8)}@mx.example.com>"
                    name, digest = base64.b64decode(self._challenge(challenge)).decode().rsplit(" ", 1)
                    password = self._server.users.get(name, "")
                    is_right = hmac.new(password.encode(), challenge.encode(), "md5").hexdigest() == digest
        except ValueError:
            self._answer(line, "501 5.5.2 cannot be decoded")
            return
        default = "235 2.7.0 welcome" if is_right else "535 5.7.8 authentication failed"
        if self._answer(line, default).startswith("2"):
            self._is_authenticated = True
            self._server.logins.append(name)

    def _challenge(self, text: str) -> str:
        self._say("334 " + base64.b64encode(text.encode()).decode())
        return self._line()


def _address_of(line: str) -> tuple[str, str]:
    found = _ADDRESS.search(line)
    if found is None:
        return "", ""
    address, parameters = (found[1], found[2]) if found[1] is not None else (found[3], found[4])
    return address, parameters.strip()


class SmtpServerProcess:
    """A `ScriptedSmtpServer` in a process of its own, for tests whose senders are processes too.

    What it is sent lies in `capture`, one JSON object a line. The child ends with its parent.
    """

    def __init__(self, folder: Path, rules: Iterable[Rule] = (), **options: Any) -> None:
        self.capture = folder / "smtp-messages.jsonl"
        self._config = folder / "smtp-server.json"
        plain = [{k: v for k, v in asdict(rule).items() if not k.startswith("_")} for rule in rules]
        self._config.write_text(json.dumps({"rules": plain, **options}), encoding="utf-8")
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    def start(self) -> Self:
        command = [sys.executable, str(Path(__file__).resolve()), "--config", str(self._config)]
        command += ["--capture", str(self.capture)]
        self.capture.touch()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = json.loads(self._process.stdout.readline())["port"]
        return self

    def stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def transactions(self) -> list[Transaction]:
        """All messages whose final dot came."""
        kept = []
        text = self.capture.read_text(encoding="utf-8")
        for line in text[: text.rfind("\n") + 1].splitlines():
            fields = json.loads(line)
            fields["recipients"] = tuple(fields["recipients"])
            for name in ("raw", "content"):
                fields[name] = fields[name].encode("latin-1")
            kept.append(Transaction(**fields))
        return kept

    @property
    def messages(self) -> list[Transaction]:
        """The messages that were taken."""
        return [transaction for transaction in self.transactions if transaction.is_taken]

    def wait_for(self, n_messages: int, timeout: float) -> list[Transaction]:
        """The messages taken, once there are so many. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while len(messages := self.messages) < n_messages:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(messages)} of {n_messages} messages came in {timeout} s")
            time.sleep(0.05)
        return messages


def main() -> None:
    """Serve until standard input ends; the first line of standard output is the port as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--config", type=Path, help="JSON: rules, and the options of ScriptedSmtpServer")
    parser.add_argument("--capture", type=Path, help="file that gets each message as a line of JSON")
    parser.add_argument("--port", type=int)
    arguments = parser.parse_args()
    options = json.loads(arguments.config.read_text(encoding="utf-8")) if arguments.config else {}
    rules = [Rule(**rule) for rule in options.pop("rules", ())]
    if arguments.port is not None:
        options["port"] = arguments.port
    if "certificate" in options:
        options["tls"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        options["tls"].load_cert_chain(options.pop("certificate"))
    capture = arguments.capture.open("a", encoding="utf-8") if arguments.capture else None
    writing = threading.Lock()

    def write(transaction: Transaction) -> None:
        fields = asdict(transaction) | {n: getattr(transaction, n).decode("latin-1") for n in ("raw", "content")}
        with writing:
            assert capture is not None
            capture.write(json.dumps(fields) + "\n")
            capture.flush()

    on_transaction = write if capture is not None else None
    with ScriptedSmtpServer(rules, on_transaction=on_transaction, **options) as server:
        print(json.dumps({"port": server.port}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
