"""IMAP as a fetch needs it: log in, look at a folder, search, headers, bodies (RFC 3501, RFC 9051). Changes nothing.

Uses imapclient over a wire of our own: each command has a time and a number of octets that its answer may take, as
imaplib reads whatever a server announces, 10 GB too. Whatever a server answers, what leaves this module is a
ReceiveError, which names host and port.
"""

import contextlib
import imaplib
import io
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from imapclient import IMAPClient  # type: ignore[import-untyped]

from messaging.clock import Ticker
from messaging.errors import ReceiveError
from messaging.receive.connecting import MailboxConnector
from messaging.receive.imap_answers import fetched, numbers
from messaging.receive.login import Credential, Login, LoginRefused

#: Messages named in one command: servers take lines of about 8,000 octets (RFC 7162, section 4).
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
    #: The header block, cut at `MAX_HEADER_BYTES`.
    header: bytes = field(repr=False)


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
                header, size = _octets(answer, b"BODY[HEADER]"), answer.get(b"RFC822.SIZE")
                if header is not None:
                    date = _in_utc(answer.get(b"INTERNALDATE"))
                    found[uid] = Head(uid, size if isinstance(size, int) else None, date, header)
        return found

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
        with self._mapped("FETCH failed"):
            self._wire.expect(_SMALL_ANSWER + len(uids) * (bytes_each + _OVERHEAD))
            kind, answer = self._wire.uid("FETCH", ",".join(map(str, uids)), f"({' '.join(items)})")
            if kind == "OK":
                found = fetched(answer)
                return {uid: found[uid] for uid in uids if uid in found}
            # "NO some of the requested messages no longer exist" says nothing of the others.
            if len(uids) == 1:
                raise imaplib.IMAP4.error(str(answer))
        return {uid: found for one in uids for uid, found in self._fetch([one], items, bytes_each).items()}

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
        self._reader = cast(io.BufferedReader, settings.socket.makefile("rb", buffering=_BUFFER_BYTES))
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

    def read(self, size: int) -> bytes:
        self._spend(size)
        pieces = []
        while size > 0:
            self._wait()
            piece = self._reader.read1(min(size, _BUFFER_BYTES))
            if not piece:
                raise self.abort("the connection ended within a message")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def readline(self) -> bytes:
        pieces = []
        while True:
            self._wait()
            ahead = self._reader.peek(1)
            piece = self._reader.read(ahead.find(b"\n") + 1 or len(ahead))
            self._spend(len(piece))
            pieces.append(piece)
            if not piece or piece.endswith(b"\n"):
                return b"".join(pieces)

    def shutdown(self) -> None:
        self._reader.close()
        self.sock.close()

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
