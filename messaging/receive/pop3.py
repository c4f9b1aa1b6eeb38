"""The POP3 client: one session with a maildrop (RFC 1939), every answer bounded in size and in time.

Which messages are kept and which deleted is decided in `drain`. A message is read past poplib, which refuses lines
longer than 2048 octets and collects an answer however long it is.
"""

import base64
import binascii
import poplib
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

from messaging.errors import ReceiveError
from messaging.receive.connecting import MailboxConnector
from messaging.receive.login import Credential, Login, LoginRefused

#: Octets of an answer to LIST or UIDL: of a maildrop with some 500,000 messages.
MAX_LISTING_BYTES = 32 * 1024 * 1024
#: Octets of a header block.
MAX_HEADER_BYTES = 1024 * 1024
#: Octets that are read at once of a line, which may be as long as the message.
_CHUNK_BYTES = 64 * 1024

_NUMBER_AND_SIZE = re.compile(rb"(\d{1,18})[ \t]+(\d{1,18})")
#: 1 to 70 printing characters (RFC 1939, 7); servers have sent longer ones.
_NUMBER_AND_UID = re.compile(rb"(\d{1,18})[ \t]+([\x21-\x7e]{1,255})")

#: RFC 2449, 8.1: another session has the maildrop; RFC 2449, 8.2: too soon after the one before. Below them what
#: servers say without a code, an example beside each.
_BUSY = re.compile(
    r"\[(IN-USE|LOGIN-DELAY)\]"
    r"|(maildrop|mailbox|mail drop|spool)[^.]{0,40}\b(already )?(locked|in use|busy)"  # maildrop already locked
    r"|(unable to|failed to|cannot|could not) (get |acquire )?(exclusive )?lock"  # Unable to lock maildrop
    r"|(another|other) (pop3? )?(session|connection)[^.]{0,20}(active|progress|running|open)",  # another session active
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: RFC 3206, 3 and RFC 2449, 8: codes that say what it is instead.
_NOT_BUSY = re.compile(r"\[(AUTH|SYS/PERM|SYS/TEMP)\]", re.IGNORECASE)


class MaildropBusy(ReceiveError):
    """Another session has the maildrop, or the last one was too recently: to be tried again later."""


class CommandRefused(ReceiveError):
    """The server answered `-ERR`; the session goes on."""


class TooLong(ReceiveError):
    """An answer is longer than allowed. The rest of it is still to come, so the session is over."""

    def __init__(self, begin: bytes, reason: str) -> None:
        super().__init__(reason)
        #: What was read of it.
        self.begin = begin


@dataclass(frozen=True, slots=True)
class Entry:
    """A message in the maildrop."""

    #: Of this session only.
    number: int
    #: Octets, as reported; None when LIST does not say.
    size: int | None
    #: The same in every session; None where the server knows no UIDL.
    uid: str | None


class _Client(poplib.POP3):
    """poplib on a socket of ours."""

    def __init__(self, connected: socket.socket, login: Login) -> None:
        self._connected = connected
        try:
            super().__init__(login.host, login.port)
        except BaseException:
            self.drop()
            raise

    def _create_socket(self, timeout: object) -> socket.socket:
        return self._connected

    def drop(self) -> None:
        """Close the connection as it is. Not `POP3.close`, which shuts down first what may be gone."""
        with suppress(OSError):
            if hasattr(self, "file"):
                self.file.close()
            self._connected.close()

    def ask(self, command: str) -> bytes:
        """One command; answers the status line. Raises: poplib.error_proto for `-ERR`; OSError."""
        return self._shortcmd(command)  # type: ignore[attr-defined, no-any-return]

    def read_chunk(self) -> bytes:
        """The next line, or the next part of one that is longer. Raises: OSError."""
        chunk: bytes = self.file.readline(_CHUNK_BYTES)
        if not chunk:
            raise EOFError("the connection was closed")
        return chunk


class Pop3Session:
    """From the greeting to QUIT. Not for two threads at once."""

    def __init__(self, login: Login, connector: MailboxConnector, *, deadline: float = float("inf")) -> None:
        """Connect and read the greeting.

        `deadline`: the connector's ticker's seconds at which the session breaks off in the middle of an answer.

        Raises: ReceiveError; MaildropBusy.
        """
        self._login = login
        self._ticker = connector.ticker
        self._deadline = deadline
        with self._translated("connecting", may_be_busy=True):
            self._client = _Client(connector.connect(login), login)

    @classmethod
    def open(
        cls, login: Login, credential: Credential, connector: MailboxConnector, *, deadline: float = float("inf")
    ) -> Self:
        """A session that is logged in: it locks the maildrop until it ends. Raises: as `log_in`."""
        session = cls(login, connector, deadline=deadline)
        try:
            session.log_in(credential)
        except BaseException:
            session.close()
            raise
        return session

    @property
    def greeting(self) -> str:
        """The server's first line."""
        return self._client.welcome.decode("utf-8", "replace")

    def log_in(self, credential: Credential) -> None:
        """USER and PASS, or AUTH XOAUTH2.

        Raises: LoginRefused; MaildropBusy; ReceiveError.
        """
        if _CONTROL.search(self._login.username + credential.secret):
            raise LoginRefused(f"{self._login.where}: logging in: username or password has a control character in it")
        with self._translated("logging in", secret=credential.secret, refusal=LoginRefused, may_be_busy=True):
            if credential.is_token:
                self._authenticate(credential)
            else:
                self._client.user(self._login.username)
                self._client.pass_(credential.secret)

    def _authenticate(self, credential: Credential) -> None:
        """RFC 5034; the token does not fit into the line of the command, so it answers the server's challenge."""
        self._client.ask("AUTH XOAUTH2")
        answer = self._client.ask(base64.b64encode(credential.xoauth2(self._login.username)).decode("ascii"))
        if answer[:3].upper() == b"+OK":
            return
        # A refusal begins with a challenge that says why, in JSON; the server waits for an empty answer to it.
        reason = answer[1:].strip()
        with suppress(binascii.Error):
            reason = base64.b64decode(reason, validate=True)
        said = b"-ERR"
        try:
            self._client.ask("")
        except poplib.error_proto as exc:
            said = _octets(exc)
        raise poplib.error_proto(b"%s (%s)" % (said, reason))

    def entries(self) -> list[Entry]:
        """All messages by number, each with its size and, where the server knows UIDL, its unique id.

        Raises: ReceiveError.
        """
        try:
            with self._translated("listing"):
                sizes = {int(number): int(size) for number, size in self._listing("LIST", _NUMBER_AND_SIZE)}
                uids = {int(number): uid.decode("ascii") for number, uid in self._uid_listing()}
        except TooLong as exc:
            # Not of one message: another session would fare no better.
            raise ReceiveError(str(exc)) from exc
        return [Entry(number, sizes.get(number), uids.get(number)) for number in sorted(sizes.keys() | uids.keys())]

    def _uid_listing(self) -> Iterator[tuple[bytes, bytes]]:
        try:
            return self._listing("UIDL", _NUMBER_AND_UID)
        except poplib.error_proto as exc:
            if not _is_refusal(exc):
                raise
        return iter(())

    def _listing(self, command: str, line: re.Pattern[bytes]) -> Iterator[tuple[bytes, bytes]]:
        answer = self._long_answer(command, MAX_LISTING_BYTES)
        return (found.group(1, 2) for found in map(line.match, answer.splitlines()) if found is not None)  # type: ignore[misc]

    def retrieve(self, number: int, max_bytes: int) -> bytes:
        """The whole message.

        Raises:
            TooLong: It has more than `max_bytes` octets, whatever LIST said; the session is over.
            CommandRefused, ReceiveError.
        """
        with self._translated(f"retrieving message {number}", refusal=CommandRefused):
            return self._long_answer(f"RETR {number}", max_bytes)

    def header(self, number: int) -> bytes:
        """The header block with the blank line after it. Raises: as `retrieve`; TOP is optional (RFC 1939, 7)."""
        with self._translated(f"retrieving the header of message {number}", refusal=CommandRefused):
            return self._long_answer(f"TOP {number} 0", MAX_HEADER_BYTES)

    def delete(self, number: int) -> None:
        """Mark for deletion, which happens at QUIT. Raises: CommandRefused, ReceiveError."""
        with self._translated(f"deleting message {number}", refusal=CommandRefused):
            self._client.dele(number)

    def quit(self) -> None:
        """Delete what is marked, unlock the maildrop, close. Raises: CommandRefused, where something is left there."""
        try:
            with self._translated("QUIT", refusal=CommandRefused):
                self._client.ask("QUIT")
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection as it is: nothing that is marked is deleted."""
        self._client.drop()

    def _long_answer(self, command: str, max_bytes: int) -> bytes:
        """The lines after the status line, dots unstuffed (RFC 1939, 3).

        Raises: poplib.error_proto, OSError, EOFError, TooLong.
        """
        self._client.ask(command)
        read = bytearray()
        is_line_start = True
        while True:
            chunk = self._client.read_chunk()
            if is_line_start:
                if chunk in (b".\r\n", b".\n"):
                    return bytes(read)
                if chunk.startswith(b"."):
                    chunk = chunk[1:]
            is_line_start = chunk.endswith(b"\n")
            read += chunk
            if len(read) > max_bytes:
                raise TooLong(
                    bytes(read), f"{self._login.where}: the answer to {command} is longer than {max_bytes} octets"
                )
            if self._ticker() > self._deadline:
                raise TimeoutError("the time for this fetch is over")

    @contextmanager
    def _translated(
        self,
        doing: str,
        *,
        secret: str | None = None,
        refusal: type[ReceiveError] = ReceiveError,
        may_be_busy: bool = False,
    ) -> Iterator[None]:
        try:
            yield
        except poplib.error_proto as exc:
            said = _octets(exc).decode("utf-8", "replace").strip()
            if secret:
                said = said.replace(secret, "***")
            kind = refusal if _is_refusal(exc) else ReceiveError
            if may_be_busy and _BUSY.search(said) and not _NOT_BUSY.search(said):
                kind = MaildropBusy
            raise kind(f"{self._login.where}: {doing}: {said}") from exc
        except ssl.SSLError as exc:
            raise ReceiveError(f"{self._login.where}: {doing}: TLS: {exc.reason or exc}") from exc
        except (OSError, EOFError) as exc:
            raise ReceiveError(f"{self._login.where}: {doing}: {exc.__doc__ if not str(exc) else exc}") from exc


def _octets(exc: poplib.error_proto) -> bytes:
    """What poplib raises holds the server's line, or words of its own."""
    said = exc.args[0] if exc.args else b""
    return said if isinstance(said, bytes) else str(said).encode()


def _is_refusal(exc: poplib.error_proto) -> bool:
    """Whether the server said `-ERR`. poplib says so of a closed connection as well, and of a line that is too long."""
    said = exc.args[0] if exc.args else None
    return isinstance(said, bytes) and said.startswith(b"-ERR")
