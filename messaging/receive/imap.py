"""IMAP as a fetch needs it: log in, look at a folder, search, headers, bodies (RFC 3501, RFC 9051). Changes nothing.

Uses imapclient over a wire of our own: each command has a time and a number of octets that its answer may take, as
imaplib reads whatever a server announces, 10 GB too. Whatever a server answers, what leaves this module is a
ReceiveError, which names host and port.
"""

import contextlib
import imaplib
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from imapclient import IMAPClient  # type: ignore[import-untyped]

from messaging.clock import Ticker
from messaging.errors import ReceiveError
from messaging.receive.connecting import MailboxConnector
from messaging.receive.imap_answers import USUAL_END, fetched, numbers, usual_answer
from messaging.receive.login import Credential, Login, LoginRefused

#: Messages whose headers are asked for in one command: servers take lines of about 8,000 octets (RFC 7162, section 4).
MAX_UIDS = 100
#: Octets of a header block that are asked for; what has more is read with the whole message.
MAX_HEADER_BYTES = 131_072

#: Octets of an answer that has no message in it.
_SMALL_ANSWER = 1_048_576
#: Octets of the answer to SEARCH: the numbers of four million messages.
_SEARCH_ANSWER = 48 * 1_048_576
#: Octets that a server may spend on each message beside what it was asked for: flags, sizes, data nobody asked for.
_OVERHEAD = 16_384
#: Seconds for a command, and for each so many octets of its answer: the slowest line that is waited for.
_COMMAND_SECONDS, _SLOWEST_BYTES_A_SECOND = 60.0, 100_000
#: Seconds that a LOGOUT may take; whether it is answered does not matter any more.
_LOGOUT_SECONDS = 1.0
#: Octets read from a socket at once.
_BUFFER_BYTES = 65_536
_MAX_WORDS = 300
_END_OF_HEADER = b"\r\n\r\n"

_RESPONSE_CODE = re.compile(r"\[([A-Z0-9-]+)")
#: Of a NO to EXAMINE (RFC 5530): the folder may be there all the same. Without a code it is not.
_NOT_NOW = frozenset({"UNAVAILABLE", "INUSE", "SERVERBUG", "LIMIT", "CONTACTADMIN", "EXPIRED", "PRIVACYREQUIRED"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a message before its body is asked for."""

    uid: int
    #: RFC822.SIZE; None when the server does not say.
    size: int | None
    internal_date: datetime | None
    #: The header block, cut at `MAX_HEADER_BYTES`; empty where it did not come, or not as a whole.
    header: bytes = field(repr=False)
    #: Of what was looked at: the message, as far as it was asked for.
    octets: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A FETCH whose answer was not read yet."""

    tag: bytes
    uids: Sequence[int]
    items: Sequence[str]
    #: Octets of one message that its answer may hold.
    bytes_each: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is looked at."""

    #: None when the server does not say: then its UIDs mean nothing.
    uid_validity: int | None


class ImapConnector:
    """Connects to IMAP servers; one per process, any thread."""

    def __init__(self, connector: MailboxConnector) -> None:
        self._connector = connector

    def connect(self, login: Login) -> "ImapSession":
        """A connection that was greeted, with TLS where the mailbox says so. Raises: ReceiveError."""
        connector = self._connector
        try:
            connected = connector.connect(login)
        except OSError as exc:  # ssl.SSLError and TimeoutError among them
            raise ReceiveError(f"{login.where}: connecting: {_words(exc)}") from exc
        return ImapSession(login, _WireSettings(connected, connector.limits.read_timeout_seconds, connector.ticker))

    def open(self, login: Login, credential: Credential) -> "ImapSession":
        """A connection that is logged in. Raises: ReceiveError; LoginRefused."""
        session = self.connect(login)
        try:
            session.log_in(credential)
        except BaseException:
            session.close()
            raise
        return session


class ImapSession:
    """A connection to one mailbox, for one thread. Every method raises ReceiveError and nothing else."""

    def __init__(self, login: Login, settings: "_WireSettings") -> None:
        """Read the greeting from a connected socket, which is closed when that fails."""
        self._login = login
        #: Whether another command can be sent: not once an answer was lost, or is out of step.
        self.is_usable = True
        #: The command ahead of the caller, and its answer once something else was asked for.
        self._ahead: _Sent | dict[int, Mapping[bytes, Any]] | None = None
        with self._mapped("no IMAP server's greeting"):
            try:
                self._client = _Client(login, settings)
            except BaseException:
                settings.socket.close()
                raise
        self._wire = self._client.wire

    @property
    def greeting(self) -> str:
        """The server's first line."""
        return _printable(self._wire.welcome.decode("utf-8", "replace"))

    def log_in(self, credential: Credential) -> None:
        """Raises: LoginRefused; ReceiveError."""
        if self._wire.state == "AUTH":  # greeted by PREAUTH (RFC 3501, 7.1.4)
            return
        login, secret = self._login, credential.secret
        with self._mapped("logging in"):
            is_disabled = self._client.has_capability("LOGINDISABLED")
        if is_disabled and not login.is_tls:
            raise LoginRefused(
                f"{login.where}: logging in: the server announces LOGINDISABLED, it takes no password in the clear;"
                " none was sent; configure IMAPS, or TLS by ssl_enabled"
            )
        if _CONTROL.search(login.username + secret):
            raise LoginRefused(f"{login.where}: logging in: username or password has a control character in it")
        with self._mapped("logging in", secret=secret, refusal=LoginRefused):
            self._wire.expect(_SMALL_ANSWER)
            if credential.is_token:
                self._client.sasl_login("XOAUTH2", _once(credential.xoauth2(login.username)))
            elif (login.username + secret).isascii():
                self._wire.log_in(login.username, secret)
            else:
                # LOGIN is of ASCII; this one says that it is UTF-8 (RFC 4616).
                self._client.plain_login(login.username, secret)

    def examine(self, folder_name: str) -> Folder | None:
        """Look at a folder, without changing anything in it; None when there is none of that name."""
        self._settle()
        with self._mapped(f"folder {folder_name!r} cannot be opened"):
            self._wire.expect(_SMALL_ANSWER)
            try:
                answer = self._client.select_folder(folder_name, readonly=True)
            except imaplib.IMAP4.abort:
                raise
            except imaplib.IMAP4.error as exc:
                code = _RESPONSE_CODE.search(str(exc))
                if str(exc).startswith("select failed") and (code is None or code[1] not in _NOT_NOW):
                    return None
                raise
            validity = answer.get(b"UIDVALIDITY")
        return Folder(validity if isinstance(validity, int) and validity > 0 else None)

    def uids_after(self, last_uid: int) -> list[int]:
        """The UIDs above that one, ascending.

        `n:*` names the last message even where that is older (RFC 3501, 6.4.8): such an answer is dropped.
        """
        self._settle()
        with self._mapped("SEARCH failed"):
            self._wire.expect(_SEARCH_ANSWER)
            kind, answer = self._wire.uid("SEARCH", f"UID {last_uid + 1}:*")
            if kind != "OK":
                raise imaplib.IMAP4.error(str(answer))
        return sorted({uid for uid in numbers(answer) if uid > last_uid})

    def heads(self, uids: Sequence[int]) -> dict[int, Head]:
        """Size, date and header of these messages, as far as they are still there."""
        items = ("RFC822.SIZE", "INTERNALDATE", f"BODY.PEEK[HEADER]<0.{MAX_HEADER_BYTES}>")
        found = {}
        for start in range(0, len(uids), MAX_UIDS):
            for uid, answer in self._fetch(uids[start : start + MAX_UIDS], items, MAX_HEADER_BYTES).items():
                header = _octets(answer, b"BODY[HEADER]")
                if header is not None:
                    found[uid] = Head(uid, *_size_and_date(answer), header)
        return found

    def look_at(self, groups: Sequence[Sequence[int]], max_bytes: int) -> Iterator[tuple[Sequence[int], list[Head]]]:
        """Groups of some hundred messages with the first `max_bytes + 1` octets of each that is still there.

        The server works at a group while the caller is at the one before it: its command is sent ahead.
        """
        items = (f"BODY.PEEK[]<0.{max_bytes + 1}>", "RFC822.SIZE", "INTERNALDATE")
        for number, uids in enumerate(groups):
            if number == 0:
                self._ahead = self._send(uids, items, max_bytes + 1)
            answers = self._receive_ahead()
            if number + 1 < len(groups):
                self._ahead = self._send(groups[number + 1], items, max_bytes + 1)
            yield uids, [_looked_at(uid, answer) for uid, answer in answers.items()]

    def bodies(self, uids: Sequence[int], max_bytes: int) -> dict[int, bytes]:
        """The messages that are still there, each cut after `max_bytes + 1` octets; at most `MAX_UIDS` in one call."""
        answers = self._fetch(uids, (f"BODY.PEEK[]<0.{max_bytes + 1}>",), max_bytes + 1)
        bodies = {uid: _octets(answer, b"BODY[]") for uid, answer in answers.items()}
        return {uid: octets for uid, octets in bodies.items() if octets is not None}

    def close(self) -> None:
        """Log out, where that is possible, and close the connection. Raises nothing."""
        with contextlib.suppress(Exception):
            if self.is_usable:
                self._wire.expect(_SMALL_ANSWER, seconds=_LOGOUT_SECONDS)
                self._client.logout()
        with contextlib.suppress(OSError):
            self._wire.shutdown()
        self.is_usable = False

    def _fetch(self, uids: Sequence[int], items: Sequence[str], bytes_each: int) -> dict[int, Mapping[bytes, Any]]:
        self._settle()
        return self._receive(self._send(uids, items, bytes_each))

    def _send(self, uids: Sequence[int], items: Sequence[str], bytes_each: int) -> _Sent:
        with self._mapped("FETCH failed"):
            return _Sent(self._wire.send_fetch(uids, items), uids, items, bytes_each)

    def _receive(self, sent: _Sent) -> dict[int, Mapping[bytes, Any]]:
        uids = sent.uids
        with self._mapped("FETCH failed"):
            self._wire.expect(_SMALL_ANSWER + len(uids) * (sent.bytes_each + _OVERHEAD))
            found, refusal = self._wire.receive_fetch(sent.tag)
            if refusal is None:
                return {uid: found[uid] for uid in uids if uid in found}
            # "NO some of the requested messages no longer exist" says nothing of the others.
            if len(uids) == 1:
                raise imaplib.IMAP4.error(refusal)
        return {uid: found for one in uids for uid, found in self._fetch([one], sent.items, sent.bytes_each).items()}

    def _receive_ahead(self) -> dict[int, Mapping[bytes, Any]]:
        ahead, self._ahead = self._ahead, None
        assert ahead is not None
        return self._receive(ahead) if isinstance(ahead, _Sent) else ahead

    def _settle(self) -> None:
        """Before another command: read the answer to the one that was sent ahead."""
        if isinstance(self._ahead, _Sent):
            self._ahead = self._receive_ahead()

    @contextlib.contextmanager
    def _mapped(self, what: str, *, secret: str = "", refusal: type[ReceiveError] = ReceiveError) -> Iterator[None]:
        """Whatever is raised within becomes a ReceiveError that holds no secret; of a NO or BAD, `refusal`."""
        try:
            yield
        except imaplib.IMAP4.abort as exc:
            self.is_usable = False
            raise self._error(ReceiveError, what, exc, secret) from None
        except imaplib.IMAP4.error as exc:  # the next command may fare better
            raise self._error(refusal, what, exc, secret) from None
        except Exception as exc:  # noqa: BLE001 - imaplib and imapclient raise anything at answers they do not expect
            self.is_usable = False
            raise self._error(ReceiveError, what, exc, secret) from None

    def _error(self, kind: type[ReceiveError], what: str, exc: Exception, secret: str) -> ReceiveError:
        return kind(f"{self._login.where}: {what}: {_words(exc, secret)}")


@dataclass(frozen=True, slots=True)
class _WireSettings:
    """A connected socket and how long it is waited for."""

    socket: socket.socket
    read_timeout_seconds: float
    ticker: Ticker


class _Client(IMAPClient):  # type: ignore[misc]
    """imapclient over our wire, without its log of all that passes."""

    def __init__(self, login: Login, settings: _WireSettings) -> None:
        self.wire = _Wire(settings)
        super().__init__(login.host, login.port, ssl=login.is_tls, timeout=settings.read_timeout_seconds)
        # It asks imaplib for everything that passes, regular expressions among it, and throws it away.
        self.wire.debug = 0

    def _create_IMAP4(self) -> "_Wire":  # noqa: N802 - imapclient's name
        return self.wire


class _Wire(imaplib.IMAP4):
    """imaplib over a connected socket, each answer within a time and a number of octets."""

    def __init__(self, settings: _WireSettings) -> None:
        self._settings = settings
        #: What came and was not read yet, from this place on.
        self._came, self._at = b"", 0
        self._timeout_seconds = 0.0
        self.expect(_SMALL_ANSWER)
        super().__init__()

    def expect(self, octets: int, *, seconds: float | None = None) -> None:
        """From now on so many octets may come, in so many seconds; None: as many as they may take."""
        if seconds is None:
            seconds = _COMMAND_SECONDS + octets / _SLOWEST_BYTES_A_SECOND
        self._octets_left = self._octets_expected = octets
        self._deadline = self._settings.ticker() + seconds

    def log_in(self, username: str, password: str) -> None:
        """LOGIN with both quoted: imaplib leaves a user name as it is."""
        kind, answer = self._simple_command("LOGIN", _quoted(username), _quoted(password))
        if kind != "OK":
            raise self.error(str(answer[-1], "utf-8", "replace"))
        self.state = "AUTH"

    def open(self, host: str = "", port: int = 0, timeout: float | None = None) -> None:
        self.host, self.port, self.sock = host, port, self._settings.socket

    def send_fetch(self, uids: Sequence[int], items: Sequence[str]) -> bytes:
        """The tag under which it is answered."""
        tag: bytes = self._command("UID", "FETCH", ",".join(map(str, uids)), f"({' '.join(items)})")
        return tag

    def receive_fetch(self, tag: bytes) -> tuple[dict[int, dict[bytes, Any]], str | None]:
        """The items by UID, and the words of a NO."""
        found = self._usual_answers()
        kind, said = self._command_complete("UID", tag)
        if kind != "OK":
            return {}, str(said)
        _, others = self._untagged_response(kind, said, "FETCH")
        for uid, items in fetched(others).items():
            found.setdefault(uid, {}).update(items)
        return found, None

    def _usual_answers(self) -> dict[int, dict[bytes, Any]]:
        """Those that come first, of the shape in which nearly all do: imaplib takes ten times as long for each."""
        found: dict[int, dict[bytes, Any]] = {}
        while True:
            line = self.readline()
            usual = usual_answer(line)
            if usual is None:
                self._give_back(line)
                return found
            octets = self.read(usual.size)
            end = self.readline()
            if end != USUAL_END:
                self._give_back(line + octets + end)
                return found
            found[usual.uid] = {**usual.items, usual.name: octets}

    def read(self, size: int) -> bytes:
        self._spend(size)
        start, self._at = self._at, min(self._at + size, len(self._came))
        piece = self._came[start : self._at]
        if len(piece) == size:
            return piece
        pieces = [piece]
        left = size - len(piece)
        while left > 0:
            piece = self._receive(min(left, _BUFFER_BYTES))
            if not piece:
                raise self.abort("the connection ended within a message")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def readline(self) -> bytes:
        start = self._at
        end = self._came.find(b"\n", start) + 1
        if end:
            self._at = end
            self._spend(end - start)
            return self._came[start:end]
        pieces = [self._came[start:]]
        while not end:
            self._spend(len(pieces[-1]))
            self._came, self._at = self._receive(_BUFFER_BYTES), 0
            if not self._came:
                return b"".join(pieces)
            end = self._came.find(b"\n") + 1
            pieces.append(self._came[: end or None])
        self._at = end
        self._spend(end)
        return b"".join(pieces)

    def shutdown(self) -> None:
        self.sock.close()

    def _receive(self, size: int) -> bytes:
        self._wait()
        return self.sock.recv(size)

    def _give_back(self, octets: bytes) -> None:
        """To be read again."""
        self._came, self._at = octets + self._came[self._at :], 0
        self._octets_left += len(octets)

    def _spend(self, octets: int) -> None:
        """Raises: abort, before any of it is read."""
        self._octets_left -= octets
        if self._octets_left < 0:
            raise self.abort(f"the server answers with more than {self._octets_expected} octets")

    def _wait(self) -> None:
        """For at most the time-out of a read, and never past the deadline."""
        left = self._deadline - self._settings.ticker()
        if left <= 0:
            raise self.abort("the server takes too long for its answer")
        timeout_seconds = min(left, self._settings.read_timeout_seconds)
        if timeout_seconds != self._timeout_seconds:
            self._timeout_seconds = timeout_seconds
            self.sock.settimeout(timeout_seconds)

    def _log(self, line: str) -> None:
        """Nothing is kept: the lines hold passwords and mails."""


def _once(answer: bytes) -> Callable[[bytes], bytes]:
    """Answers the first challenge; the next one tells of a failure, and waits for an empty answer (RFC 7628, 3.2.3)."""
    answers = iter([answer])
    return lambda _challenge: next(answers, b"")


def _size_and_date(answer: Mapping[bytes, Any]) -> tuple[int | None, datetime | None]:
    size = answer.get(b"RFC822.SIZE")
    return size if isinstance(size, int) else None, _in_utc(answer.get(b"INTERNALDATE"))


def _looked_at(uid: int, answer: Mapping[bytes, Any]) -> Head:
    octets = _octets(answer, b"BODY[]")
    end = -1 if octets is None else octets.find(_END_OF_HEADER)
    header = b"" if octets is None or end < 0 else octets[: end + len(_END_OF_HEADER)]
    return Head(uid, *_size_and_date(answer), header, octets)


def _in_utc(date: object) -> datetime | None:
    with contextlib.suppress(ValueError, OverflowError):  # a zone of more than a day, the first and the last year
        if isinstance(date, datetime) and date.tzinfo is not None:
            return date.astimezone(UTC)
    return None


def _octets(answer: Mapping[bytes, Any], item: bytes) -> bytes | None:
    """The item's octets, with or without its origin; None when the server has none, or says NIL."""
    for name, value in answer.items():
        if name.upper().startswith(item) and isinstance(value, bytes):
            return value
    return None


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _words(exc: Exception, secret: str = "") -> str:
    """What it says, in one line, without the secret: servers have repeated the command they refuse."""
    words = (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
    if secret:
        as_sent = _quoted(secret)[1:-1]
        # imaplib shows what a server said as Python shows octets.
        shown = [repr(spelling.encode())[2:-1] for spelling in (as_sent, secret)]
        for spelling in (*shown, as_sent, secret):
            words = words.replace(spelling, "***")
    return _printable(words)[:_MAX_WORDS] or type(exc).__name__


def _printable(words: str) -> str:
    return _CONTROL.sub(" ", words).strip()
