"""An IMAP server of the test's own, for what good servers never do (RFC 3501). One rule a command; the rest is usual.

It knows folders with messages by UID, answers EXAMINE, UID SEARCH and UID FETCH from them, and keeps what it was asked.
Partial reads are cut as asked, unless a rule lies.
"""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

_UID_FETCH = re.compile(r"UID FETCH (\S+) \((.*)\)", re.IGNORECASE)
_SECTION = re.compile(r"BODY\.PEEK\[(HEADER)?\](?:<0\.(\d+)>)?", re.IGNORECASE)


@dataclass
class Message:
    """One message of a folder."""

    octets: bytes
    #: What RFC822.SIZE says; None: the truth.
    size: int | None = None
    internal_date: str = "02-Mar-2026 09:00:00 +0000"


@dataclass
class Folder:
    """What EXAMINE shows; `validity` None: the server does not tell its UIDVALIDITY."""

    messages: dict[int, Message] = field(default_factory=dict)
    validity: int | str | None = 1


@dataclass
class Rule:
    """Answers a command that begins so, in any case; `times` None: each time."""

    on: str
    #: What is sent, `{tag}` in it replaced; None: the usual answer.
    send_raw: bytes | str | None = None
    times: int | None = None
    #: Close the connection after it.
    is_last: bool = False
    #: Called first, with the command's line.
    then: Callable[[str], None] | None = None


class Stopped(Exception):
    """The connection is over."""


class ScriptedImapServer:
    """A context manager: threads of the test, a socket of its own."""

    def __init__(
        self,
        folders: Mapping[str, Folder] | None = None,
        rules: list[Rule] | None = None,
        *,
        greeting: bytes = b"* OK ready\r\n",
        capabilities: str = "IMAP4rev1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.folders = dict(folders or {})
        self.rules = list(rules or [])
        self.greeting = greeting
        self.capabilities = capabilities
        #: All command lines so far, without their tags.
        self.commands: list[str] = []
        self.logins = 0
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def lines(self, beginning: str) -> list[str]:
        """The commands that begin so, in any case."""
        return [line for line in self.commands if line.upper().startswith(beginning.upper())]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, Stopped):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            connection.sendall(self.greeting)
            reader = connection.makefile("rb")
            session = _Session(self, connection)
            while line := reader.readline():
                session.answer(line.decode("utf-8", "replace").rstrip("\r\n"), reader.readline)
        with suppress(OSError):
            connection.close()


class _Session:
    def __init__(self, server: ScriptedImapServer, connection: socket.socket) -> None:
        self._server = server
        self._connection = connection
        self._folder = Folder()

    def answer(self, line: str, read: Callable[[], bytes]) -> None:
        tag, _, command = line.partition(" ")
        self._server.commands.append(command)
        rule = self._rule(command)
        if rule is not None and rule.then is not None:
            rule.then(command)
        if rule is not None and rule.send_raw is not None:
            raw = rule.send_raw.encode() if isinstance(rule.send_raw, str) else rule.send_raw
            self._connection.sendall(raw.replace(b"{tag}", tag.encode()))
        else:
            for piece in self._usual(tag, command, read):
                self._connection.sendall(piece)
        if rule is not None and rule.is_last:
            raise Stopped

    def _rule(self, command: str) -> Rule | None:
        for rule in self._server.rules:
            if command.upper().startswith(rule.on.upper()) and rule.times != 0:
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return None

    def _usual(self, tag: str, command: str, read: Callable[[], bytes]) -> Iterator[bytes]:
        verb = command.upper()
        done = f"{tag} OK done\r\n".encode()
        if verb.startswith("CAPABILITY"):
            yield f"* CAPABILITY {self._server.capabilities}\r\n".encode() + done
        elif verb.startswith("LOGIN"):
            self._server.logins += 1
            yield done
        elif verb.startswith("AUTHENTICATE"):
            yield b"+ \r\n"
            self._server.commands.append(read().decode().rstrip("\r\n"))
            self._server.logins += 1
            yield done
        elif verb.startswith("EXAMINE"):
            yield from self._examine(tag, command[len("EXAMINE ") :].strip('"'))
        elif verb.startswith("UID SEARCH UID "):
            first = int(verb.removeprefix("UID SEARCH UID ").partition(":")[0])
            uids = sorted(self._folder.messages)
            found = [uid for uid in uids if uid >= first] or uids[-1:]
            yield "".join(["* SEARCH", *(f" {uid}" for uid in found), "\r\n"]).encode() + done
        elif match := _UID_FETCH.match(command):
            yield from self._fetch(match[1], match[2])
            yield done
        elif verb.startswith("LOGOUT"):
            yield b"* BYE\r\n" + done
            raise Stopped
        else:
            yield f"{tag} BAD what?\r\n".encode()

    def _examine(self, tag: str, name: str) -> Iterator[bytes]:
        folder = self._server.folders.get(name)
        if folder is None:
            yield f"{tag} NO [NONEXISTENT] unknown mailbox\r\n".encode()
            return
        self._folder = folder
        yield f"* {len(folder.messages)} EXISTS\r\n* 0 RECENT\r\n* FLAGS (\\Seen)\r\n".encode()
        if folder.validity is not None:
            yield f"* OK [UIDVALIDITY {folder.validity}] ok\r\n".encode()
        yield f"{tag} OK [READ-ONLY] done\r\n".encode()

    def _fetch(self, uids: str, items: str) -> Iterator[bytes]:
        section = _SECTION.search(items)
        assert section is not None, items
        numbers = {uid: number for number, uid in enumerate(sorted(self._folder.messages), start=1)}
        for uid in map(int, uids.split(",")):
            message = self._folder.messages.get(uid)
            if message is None:
                continue
            octets = message.octets
            if section[1]:
                octets = octets.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            if section[2]:
                octets = octets[: int(section[2])]
            said = f"UID {uid}"
            if "RFC822.SIZE" in items:
                said += f" RFC822.SIZE {message.size if message.size is not None else len(message.octets)}"
            if "INTERNALDATE" in items:
                said += f' INTERNALDATE "{message.internal_date}"'
            origin = "<0>" if section[2] else ""
            said += f" BODY[{section[1] or ''}]{origin} {{{len(octets)}}}\r\n"
            yield f"* {numbers[uid]} FETCH ({said}".encode() + octets + b")\r\n"
