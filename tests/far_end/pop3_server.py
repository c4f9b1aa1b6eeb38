"""A POP3 server at the far end, under our control: a maildrop (RFC 1939), and rules for what a good server never does.

Real sockets, in threads of the test. Without rules it behaves: what is marked is deleted at QUIT and not before.
"""

import base64
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

GREETING = "+OK maildrop ready"


@dataclass
class Message:
    """One message in the maildrop."""

    octets: bytes
    uid: str
    #: What LIST says; None is the truth.
    size: int | None = None


@dataclass
class Rule:
    """What to do at a command; the first rule that matches acts."""

    #: `CONNECT` or the beginning of a command line, in any case.
    on: str
    #: Sent as it is, with a CRLF after it; None: nothing.
    reply: str | None = None
    #: Sent again and again until the client is gone.
    endless: bytes | None = None
    #: Seconds between two times.
    pause_seconds: float = 0
    close: bool = False
    hang: bool = False
    #: Act on the first so many matches only.
    times: int | None = None
    seen: int = field(default=0, init=False)


class ScriptedPop3Server:
    """A context manager; the maildrop outlives its sessions."""

    def __init__(
        self,
        messages: Iterable[bytes] = (),
        *,
        users: dict[str, str] | None = None,
        tokens: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        knows: Iterable[str] = ("UIDL", "TOP"),
    ) -> None:
        """`users`: passwords by name; `tokens`: names by access token; `knows`: the optional commands."""
        self.messages = [Message(octets, f"uid-{n}") for n, octets in enumerate(messages, 1)]
        self.users = {"ann": "secret"} if users is None else users
        self.tokens = tokens or {}
        self.knows = frozenset(knows)
        #: Every command line, passwords left out.
        self.commands: list[str] = []
        self.sessions = 0
        self._rules: list[Rule] = []
        self._tls = tls
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def on(self, command: str, reply: str | None = None, **rule: object) -> Rule:
        """Add a rule."""
        made = Rule(command, reply, **rule)  # type: ignore[arg-type]
        self._rules.append(made)
        return made

    def forget_rules(self) -> None:
        self._rules.clear()

    def count(self, command: str) -> int:
        """How often a command that begins so was sent."""
        return len([line for line in self.commands if line.startswith(command)])

    @property
    def uids(self) -> list[str]:
        """What is in the maildrop."""
        return [message.uid for message in self.messages]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._released.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                wrapped = self._tls.wrap_socket(connection, server_side=True)
                self._open.discard(connection)
                self._open.add(wrapped)
                connection = wrapped
            with contextlib.closing(_Session(self, connection)) as session:
                session.run()
        except OSError:
            pass
        finally:
            self._open.discard(connection)
            connection.close()

    def rule_for(self, line: str) -> Rule | None:
        with self._lock:
            for rule in self._rules:
                if not line.upper().startswith(rule.on.upper()):
                    continue
                if rule.times is not None and rule.seen >= rule.times:
                    continue
                rule.seen += 1
                return rule
        return None

    def wait_for_release(self) -> None:
        self._released.wait()

    def release(self) -> None:
        """End every connection that hangs."""
        self._released.set()


class _Session:
    """One connection."""

    def __init__(self, server: ScriptedPop3Server, connection: socket.socket) -> None:
        self._server = server
        self._connection = connection
        self._file = connection.makefile("rb")
        self._user = ""
        self._deleted: set[int] = set()
        #: As it was when the session began.
        self._messages = list(server.messages)
        server.sessions += 1

    def run(self) -> None:
        if not self._obey("CONNECT"):
            self._say(GREETING)
        while line := self._file.readline():
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            self._server.commands.append("PASS ..." if text.upper().startswith("PASS ") else text)
            if not self._obey(text) and not self._answer(text):
                return

    def close(self) -> None:
        self._file.close()

    def _obey(self, text: str) -> bool:
        """Whether a rule has answered. Raises: OSError, to end the connection."""
        rule = self._server.rule_for(text)
        if rule is None:
            return False
        if rule.reply is not None:
            self._say(rule.reply)
        while rule.endless is not None:
            self._connection.sendall(rule.endless)
            time.sleep(rule.pause_seconds)
        if rule.hang:
            self._server.wait_for_release()
        if rule.close or rule.hang:
            raise OSError("the rule says so")
        return True

    def _answer(self, text: str) -> bool:
        """Whether the session goes on."""
        command, _, argument = text.partition(" ")
        command = command.upper()
        if command in ("UIDL", "TOP") and command not in self._server.knows:
            self._say("-ERR unknown command")
        elif command == "USER":
            self._user = argument
            self._say("+OK")
        elif command == "PASS":
            is_right = self._server.users.get(self._user) == argument
            self._say("+OK logged in" if is_right else "-ERR [AUTH] authentication failed")
        elif command == "AUTH":
            self._authenticate()
        elif command in ("LIST", "UIDL"):
            self._list(command)
        elif command in ("RETR", "TOP", "DELE"):
            self._act(command, int(argument.split()[0]))
        elif command == "QUIT":
            gone = [self._messages[number - 1] for number in self._deleted]
            self._server.messages = [one for one in self._server.messages if one not in gone]
            self._say("+OK bye")
            return False
        else:
            self._say("-ERR unknown command")
        return True

    def _authenticate(self) -> None:
        self._say("+ ")
        message = base64.b64decode(self._file.readline()).decode()
        user, _, rest = message.removeprefix("user=").partition("\x01auth=Bearer ")
        if self._server.tokens.get(rest.rstrip("\x01")) == user:
            self._say("+OK logged in")
            return
        self._say("+ " + base64.b64encode(json.dumps({"status": "401"}).encode()).decode())
        self._file.readline()
        self._say("-ERR [AUTH] authentication failed")

    def _list(self, command: str) -> None:
        self._say("+OK")
        for number, message in enumerate(self._messages, 1):
            if number not in self._deleted:
                size = len(message.octets) if message.size is None else message.size
                self._say(f"{number} {message.uid if command == 'UIDL' else size}")
        self._say(".")

    def _act(self, command: str, number: int) -> None:
        if number in self._deleted or not 1 <= number <= len(self._messages):
            self._say("-ERR no such message")
            return
        self._say("+OK")
        if command == "DELE":
            self._deleted.add(number)
            return
        octets = self._messages[number - 1].octets
        if command == "TOP":
            octets = octets.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        for line in octets.removesuffix(b"\r\n").split(b"\r\n"):
            self._connection.sendall((b"." if line.startswith(b".") else b"") + line + b"\r\n")
        self._say(".")

    def _say(self, line: str) -> None:
        self._connection.sendall(line.encode("utf-8") + b"\r\n")
