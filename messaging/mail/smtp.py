"""The SMTP transport: one message over one connection, and what each recipient's server said to it (RFC 5321).

Uses smtplib for EHLO and its exceptions, and maps those at one place. Not here: what a reply means (`smtp_replies`),
which connections are kept (`smtp_pool`), what becomes of the record (`messaging.delivery`).
"""

import base64
import contextlib
import hmac
import logging
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from messaging.clock import Ticker
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.errors import DeliveryError
from messaging.mail.name_lookup import NameLookup
from messaging.mail.smtp_pool import ConnectionPool
from messaging.mail.smtp_replies import FaultCode, Reply, Stage, classify, error_code

logger = logging.getLogger(__name__)

#: Longest text kept of a failure, in characters.
MAX_TEXT_CHARS = 1000
#: Octets of one reply line. RFC 5321 allows 512, servers write more.
MAX_REPLY_LINE_BYTES = 8192
#: Lines of one reply: EHLO takes some twenty.
MAX_REPLY_LINES = 500
#: Recipients up to which a whole envelope goes out unanswered: its replies must fit the socket buffers of both sides,
#: or each side would wait for the other to read (RFC 2920, section 3.1).
MAX_PIPELINED_RECIPIENTS = 100
#: Seconds that a QUIT may take; whether it is answered does not matter any more.
QUIT_SECONDS = 0.2

_READ_BYTES = 16384
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: Strongest first, as smtplib tries them.
_MECHANISMS = ("CRAM-MD5", "PLAIN", "LOGIN")


class Security(StrEnum):
    """How a connection is protected."""

    #: Not at all.
    PLAIN = "plain"
    #: TLS by STARTTLS, before anything else is said; without it there is no connection (RFC 3207).
    STARTTLS = "starttls"
    #: TLS from the first octet (RFC 8314).
    IMPLICIT_TLS = "implicit_tls"


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """A server config as far as the transport needs it."""

    config_id: int
    #: Changes whenever the row changes: connections of another revision are closed.
    revision: object
    host: str
    port: int
    security: Security
    #: None or blank: no AUTH.
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Envelope:
    """From whom and to whom; addresses without angle brackets, domains as A-labels."""

    #: Empty for the null reverse path.
    sender: str
    #: The open recipients only.
    recipients: Sequence[str]


class TransportLimits(Protocol):
    """The settings the transport is held to."""

    @property
    def connection_timeout_seconds(self) -> float: ...
    @property
    def read_timeout_seconds(self) -> float: ...
    @property
    def max_idle_seconds(self) -> float: ...
    @property
    def max_messages(self) -> int: ...


class SmtpTransport:
    """Sends messages over kept connections. Threads may send at once; each connection serves one of them at a time."""

    def __init__(
        self,
        settings: TransportLimits,
        *,
        ehlo_name: str,
        debug: bool = False,
        ticker: Ticker = time.monotonic,
        ssl_context_factory: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._limits = settings
        self._ehlo_name = ehlo_name
        self._debug = debug
        self._ticker = ticker
        self._ssl_context_factory = ssl_context_factory
        self._ssl_context: ssl.SSLContext | None = None
        self._names = NameLookup()
        self._pool: ConnectionPool[_Connection] = ConnectionPool(settings.max_idle_seconds, ticker)

    def send(self, server: SmtpServer, envelope: Envelope, message: bytes, gate: Gate) -> dict[str, RecipientResult]:
        """Send `message` (RFC 5322, CRLF line ends) and answer what became of each recipient of `envelope`.

        A kept connection that turns out to be dead is replaced once. May deliver although it raises: then
        `is_uncertain` is set.

        Raises:
            DeliveryError: the attempt failed as a whole.
            ClaimTooOld: the gate closed; nothing was delivered.
        """
        outgoing = _Outgoing.of(message)
        kept = self._pool.take(server.config_id, server.revision)
        if kept is not None:
            with contextlib.suppress(_StaleConnection):
                return self._send_over(kept, server, envelope, outgoing, gate)
        return self._send_over(self._connect(server, gate), server, envelope, outgoing, gate)

    def close_idle(self) -> None:
        """Close the kept connections that have idled for longer than allowed."""
        self._pool.close_idle()

    def close_all(self) -> None:
        """Close all kept connections. The transport stays usable."""
        self._pool.close_all()

    def _connect(self, server: SmtpServer, gate: Gate) -> "_Connection":
        connection = _Connection(server, self._limits, self._ehlo_name, self._ticker, is_traced=self._debug)
        is_open = False
        try:
            connection.open(self._names, self._tls, gate)
            is_open = True
        except _MAPPED as exc:
            raise _failure(exc, connection) from exc
        finally:
            if not is_open:
                connection.close()
        return connection

    def _send_over(
        self, connection: "_Connection", server: SmtpServer, envelope: Envelope, outgoing: "_Outgoing", gate: Gate
    ) -> dict[str, RecipientResult]:
        try:
            return connection.deliver(envelope, outgoing, gate)
        except _MAPPED as exc:
            if connection.was_stale(exc):
                raise _StaleConnection from exc
            raise _failure(exc, connection) from exc
        finally:
            if not connection.is_in_step:
                connection.close()
            elif connection.transactions >= self._limits.max_messages:
                connection.end()
            else:
                self._pool.give_back(server.config_id, server.revision, connection)

    def _tls(self) -> ssl.SSLContext:
        # Loading the certificate authorities takes longer than a handshake: once per process.
        if self._ssl_context is None:
            self._ssl_context = self._ssl_context_factory()
        return self._ssl_context


class _OutOfStep(smtplib.SMTPException):
    """What was read is no reply, or not to what was asked: nothing more can be believed on this connection."""


class _Utf8Unsupported(smtplib.SMTPNotSupportedError):
    """An address or a header needs SMTPUTF8 (RFC 6531) and the server does not offer it."""


class _StaleConnection(Exception):
    """A kept connection failed before the server took anything: a new one costs no attempt."""


#: What `_failure` knows; smtplib's exceptions, time-outs, TLS and look-ups are OSErrors. All else is a bug and goes on.
_MAPPED = (OSError, UnicodeEncodeError)

#: A reply as it was read: code, and the lines' text separated by LF.
_RawReply = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A message as it goes over the wire."""

    #: Dot-stuffed, ends with CRLF; lacks only the final line with the dot.
    body: bytes
    #: As RFC 1870 counts: without stuffing and without the final dot.
    size: int
    is_ascii: bool

    @classmethod
    def of(cls, message: bytes) -> "_Outgoing":
        lines = message.count(b"\r\n")
        if message.count(b"\n") != lines or message.count(b"\r") != lines:
            fault = FaultCode.SMTP_MESSAGE
            raise DeliveryError(fault.category, fault, "the message holds a CR or LF that is not part of a CRLF")
        if not message.endswith(b"\r\n"):
            message += b"\r\n"
        body = message.replace(b"\r\n.", b"\r\n..")
        if body.startswith(b"."):
            body = b"." + body
        return cls(body, len(message), message.isascii())


class _Connection(smtplib.SMTP):
    """One connection. smtplib's `ehlo` and `helo` run over the bounded reading and writing of this class.

    `is_in_step` says whether all that was asked is answered, so that another message may follow.
    """

    def __init__(
        self, server: SmtpServer, limits: TransportLimits, ehlo_name: str, ticker: Ticker, *, is_traced: bool
    ) -> None:
        super().__init__(local_hostname=ehlo_name)
        self.server = server
        self.stage = Stage.CONNECT
        self.transactions = 0
        self.is_in_step = False
        #: Whether the last byte of the current message may be out.
        self.is_past_dot = False
        self._is_reused = False
        self._has_taken = False
        self._limits = limits
        self._ticker = ticker
        self._is_traced = is_traced
        self._unread = bytearray()
        self._gate: Gate

    # Opening

    def open(self, names: NameLookup, tls: Callable[[], ssl.SSLContext], gate: Gate) -> None:
        """Connect, greet, protect and authenticate."""
        server = self.server
        self._gate = gate
        self.sock = self._connect_socket(names, gate.timeout(self._limits.connection_timeout_seconds))
        if server.security is Security.IMPLICIT_TLS:
            self._encrypt(tls())
        code, text = self.getreply()
        if code != 220:
            raise smtplib.SMTPConnectError(code, text)
        self._greet()
        if server.security is Security.STARTTLS:
            self._start_tls(tls())
            self._greet()
        if server.username and server.username.strip():
            self._authenticate(server.username, server.password or "")
        self.is_in_step = True

    def _connect_socket(self, names: NameLookup, timeout_seconds: float) -> socket.socket:
        deadline = self._ticker() + timeout_seconds
        found = names.addresses(self.server.host, self.server.port, timeout_seconds)
        failure: OSError = TimeoutError("timed out")
        for index, (family, kind, protocol, _, address) in enumerate(found):
            left = deadline - self._ticker()
            if left <= 0:
                break
            connecting = socket.socket(family, kind, protocol)
            try:
                # A share for each address: one that swallows packets must not hide the next.
                connecting.settimeout(left / (len(found) - index))
                connecting.connect(address)
                # The last line follows the body by itself and must not wait for the body to be acknowledged.
                connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as exc:
                connecting.close()
                failure = exc
            else:
                return connecting
        raise failure

    def _encrypt(self, context: ssl.SSLContext) -> None:
        plain = self._socket()
        plain.settimeout(self._gate.timeout(self._limits.read_timeout_seconds))
        self.sock = context.wrap_socket(plain, server_hostname=self.server.host)

    def _greet(self) -> None:
        self.stage = Stage.EHLO
        self.does_esmtp = False
        code, text = self.ehlo()
        if code // 100 == 5:
            code, text = self.helo()
        if code // 100 != 2:
            raise smtplib.SMTPHeloError(code, text)

    def _start_tls(self, context: ssl.SSLContext) -> None:
        self.stage = Stage.STARTTLS
        if not self.has_extn("starttls"):
            raise smtplib.SMTPNotSupportedError("the server does not offer STARTTLS")
        code, text = self.docmd("STARTTLS")
        if code != 220:
            raise smtplib.SMTPResponseException(code, text)
        if self._unread:
            # Somebody put plain text before the encrypted replies, to have it taken for one of them (CVE-2011-0411).
            raise ssl.SSLError("plain text followed the reply to STARTTLS")
        self._encrypt(context)

    def _authenticate(self, username: str, password: str) -> None:
        self.stage = Stage.AUTH
        offered = self.esmtp_features.get("auth", "").upper().split()
        mechanisms = [mechanism for mechanism in _MECHANISMS if mechanism in offered]
        if not mechanisms:
            raise smtplib.SMTPNotSupportedError("the server offers no AUTH, or no mechanism that is known here")
        refusal: smtplib.SMTPAuthenticationError | None = None
        for mechanism in mechanisms:
            code, text = self._exchange(mechanism, username, password)
            if code // 100 == 2:
                return
            refusal = smtplib.SMTPAuthenticationError(code, _without_secrets(text, username, password))
            # 535 to CRAM-MD5 may only mean that the server has no plain password to compare with. 535 to a password
            # stands: another mechanism carries the same one and counts towards a lock-out.
            if code // 100 == 4 or (code == 535 and mechanism != "CRAM-MD5"):
                break
        assert refusal is not None
        raise refusal

    def _exchange(self, mechanism: str, username: str, password: str) -> _RawReply:
        user, secret = username.encode(), password.encode()
        answers: list[Callable[[bytes], bytes]] = []
        command = f"AUTH {mechanism}"
        match mechanism:
            case "PLAIN":
                command += " " + base64.b64encode(b"\0" + user + b"\0" + secret).decode()
            case "LOGIN":
                answers = [lambda _: user, lambda _: secret]
            case "CRAM-MD5":
                answers = [lambda challenge: user + b" " + hmac.new(secret, challenge, "md5").hexdigest().encode()]
        self._write(command.encode() + b"\r\n", shown=f"AUTH {mechanism} ***".encode())
        code, text = self.getreply()
        for answer in answers:
            if code != 334:
                break
            try:
                challenge = base64.b64decode(text)
            except ValueError as exc:
                raise _OutOfStep("the challenge is not Base64") from exc
            self._write(base64.b64encode(answer(challenge)) + b"\r\n", shown=b"***")
            code, text = self.getreply()
        if code == 334:
            # RFC 4954: `*` ends the exchange, so that another mechanism may be tried.
            self._write(b"*\r\n")
            self.getreply()
            return 504, b"the server asks for more than the mechanism has to say"
        return code, text

    # One message

    def deliver(self, envelope: Envelope, outgoing: _Outgoing, gate: Gate) -> dict[str, RecipientResult]:
        """One mail transaction."""
        self._gate = gate
        self.stage = Stage.MAIL
        self._is_reused = self.transactions > 0
        self._has_taken = self.is_past_dot = False
        recipients = list(dict.fromkeys(envelope.recipients))
        commands = [self._mail_command(envelope, outgoing), *(_command("RCPT TO", r) for r in recipients)]
        if self._is_reused:
            # Also tells a connection that is still there from one that is not.
            commands.insert(0, b"RSET\r\n")
        gate.check_start()
        self.is_in_step = False
        self.transactions += 1
        is_pipelined = self.has_extn("pipelining") and len(recipients) <= MAX_PIPELINED_RECIPIENTS
        if is_pipelined:
            self._write(b"".join(commands) + b"DATA\r\n")
        replies = _Replies(self, commands, is_pipelined)
        if self._is_reused and replies.next()[0] // 100 != 2:
            raise smtplib.SMTPServerDisconnected("the server refused RSET")
        code, text = replies.next()
        if code // 100 != 2:
            # With pipelining the replies to the rest of the envelope are still to come, and not worth waiting for.
            self.is_in_step = not is_pipelined and code != 421
            raise smtplib.SMTPSenderRefused(code, text, envelope.sender)
        return self._deliver_to(recipients, outgoing, replies)

    def _deliver_to(
        self, recipients: list[str], outgoing: _Outgoing, replies: "_Replies"
    ) -> dict[str, RecipientResult]:
        self.stage = Stage.RCPT
        refused: dict[str, Reply] = {}
        closing: RecipientResult | None = None
        taken: list[str] = []
        for recipient in recipients:
            code, text = replies.next()
            if code // 100 == 2:
                taken.append(recipient)
                self._has_taken = True
                continue
            refused[recipient] = reply = _reply(code, text)
            if code == 421:
                # Said of the connection: it ends here for all that were not refused before.
                closing = _refusal(reply, Stage.RCPT, recipient, others_taken=True)
                break
        results = {r: _refusal(reply, Stage.RCPT, r, others_taken=bool(taken)) for r, reply in refused.items()}
        if closing is None and not taken:
            self._give_up(replies)
            return results
        shared = closing or self._data(outgoing, replies)
        return {r: results.get(r, shared) for r in recipients}

    def _data(self, outgoing: _Outgoing, replies: "_Replies") -> RecipientResult:
        """Send the message to those taken; the answer is for all of them."""
        self.stage = Stage.DATA
        code, text = replies.next_to_data()
        if code // 100 in (4, 5):
            self.is_in_step = code != 421
            return _refusal(_reply(code, text), Stage.DATA)
        if code != 354:
            raise _OutOfStep(f"{code} answers DATA")
        early = self._send_body(outgoing.body)
        if early is not None:
            return _refusal(early, Stage.DATA)
        sock = self._socket()
        sock.settimeout(self._gate.reply_timeout())
        self._gate.check_last_byte()
        self.is_past_dot = True
        sock.sendall(b".\r\n")
        code, text = self._read_reply(self._gate.reply_timeout())
        if code // 100 == 2:
            self.is_in_step = True
            reply = _reply(code, text)
            return RecipientResult(RecipientStatus.ACCEPTED, error_code(reply), _cut(f"{code} {_one_line(reply.text)}"))
        if code // 100 not in (4, 5):
            raise _OutOfStep(f"{code} answers the final dot")
        self.is_in_step = code != 421
        return _refusal(_reply(code, text), Stage.DATA)

    def _send_body(self, body: bytes) -> Reply | None:
        """Send all but the last line. Answers the refusal of a server that did not wait for the end."""
        is_cut_off = False
        try:
            self._write(body, shown=b"(%d octets)" % len(body))
        except smtplib.SMTPServerDisconnected:
            if not self._has_input():
                raise
            is_cut_off = True
        if not is_cut_off and not self._has_input():
            return None
        code, text = self.getreply()
        if code // 100 not in (4, 5):
            # A reply that is one too many would shift all that follow: the next 250 would not be about this message.
            raise _OutOfStep(f"{code} came before the final dot")
        return _reply(code, text)

    def _give_up(self, replies: "_Replies") -> None:
        """Nobody was taken: leave the transaction. The refusals stand whatever happens here."""
        if not replies.are_pipelined:
            self.is_in_step = True
            return
        self.stage = Stage.DATA
        with contextlib.suppress(OSError):
            code, _ = self.getreply()
            if code == 354:
                # RFC 2920, section 3.1: a single dot; what the server makes of it reaches nobody.
                self._write(b".\r\n")
                code, _ = self.getreply()
            self.is_in_step = code != 421 and code // 100 != 3

    def _mail_command(self, envelope: Envelope, outgoing: _Outgoing) -> bytes:
        parameters = ""
        size = self.esmtp_features.get("size")
        if size is not None:
            allowed = size.split(" ", 1)[0]
            # 0 or nothing: the server names no limit.
            if allowed.isdecimal() and 0 < int(allowed) < outgoing.size:
                fault = FaultCode.SMTP_SIZE
                text = f"MAIL: the message has {outgoing.size} octets, the server takes at most {allowed}"
                raise DeliveryError(fault.category, fault, text)
            parameters = f" SIZE={outgoing.size}"
        # Headers keep the addresses of all recipients: also where the open ones are plain, the bytes may need it.
        if not (outgoing.is_ascii and envelope.sender.isascii() and all(r.isascii() for r in envelope.recipients)):
            if not self.has_extn("smtputf8"):
                raise _Utf8Unsupported("an address needs SMTPUTF8 and the server does not offer it")
            if not outgoing.is_ascii and self.has_extn("8bitmime"):
                parameters += " BODY=8BITMIME"
            parameters += " SMTPUTF8"
        return _command("MAIL FROM", envelope.sender, parameters)

    def was_stale(self, exc: OSError | UnicodeEncodeError) -> bool:
        """Whether this kept connection failed before the server took anything of the message."""
        if not self._is_reused or self._has_taken or self.is_past_dot:
            return False
        if isinstance(exc, smtplib.SMTPSenderRefused):
            return exc.smtp_code == 421
        return not isinstance(exc, smtplib.SMTPNotSupportedError | UnicodeEncodeError)

    # Between messages

    def is_quiet(self) -> bool:
        """Whether nothing waits to be read: no 421, no late reply, no end of the stream."""
        return not self._has_input()

    def end(self) -> None:
        """QUIT and close; never raises."""
        with contextlib.suppress(OSError):
            sock = self._socket()
            sock.settimeout(QUIT_SECONDS)
            sock.sendall(b"QUIT\r\n")
            sock.recv(_READ_BYTES)
        self.close()

    def close(self) -> None:
        """Drop the connection as it is. A message whose last byte was not sent is not delivered."""
        self.is_in_step = False
        with contextlib.suppress(OSError):
            super().close()

    # Octets

    def putcmd(self, cmd: str, args: str = "") -> None:
        """Send one command; smtplib's own methods come here."""
        self._write(f"{cmd} {args}".rstrip().encode("ascii") + b"\r\n")

    def getreply(self) -> _RawReply:
        """Read one reply within the read time-out, and within what is left of the send."""
        return self._read_reply(self._gate.timeout(self._limits.read_timeout_seconds))

    def _write(self, data: bytes, *, shown: bytes | None = None) -> None:
        if self._unread:
            raise _OutOfStep("a reply came that nothing was asked for")
        self._trace("C", data if shown is None else shown)
        sock = self._socket()
        view = memoryview(data)
        try:
            while view:
                sock.settimeout(self._gate.timeout(self._limits.read_timeout_seconds))
                view = view[sock.send(view) :]
        except OSError as exc:
            if _is_lost(exc):
                raise smtplib.SMTPServerDisconnected(_words(exc)) from exc
            raise

    def _read_reply(self, timeout_seconds: float) -> _RawReply:
        deadline = self._ticker() + timeout_seconds
        texts: list[bytes] = []
        while True:
            line = self._read_line(deadline)
            self._trace("S", line)
            code, separator = line[:3], line[3:4]
            if len(code) != 3 or not code.isdigit() or separator not in (b"", b" ", b"-", b"\t"):
                raise _OutOfStep("what the server said is no reply")
            texts.append(line[4:].strip())
            if separator != b"-":
                return int(code), b"\n".join(texts)
            if len(texts) >= MAX_REPLY_LINES:
                raise _OutOfStep("the reply does not end")

    def _read_line(self, deadline: float) -> bytes:
        unread, sock = self._unread, self._socket()
        while (end := unread.find(b"\n")) < 0 and len(unread) <= MAX_REPLY_LINE_BYTES:
            left = deadline - self._ticker()
            if left <= 0:
                raise TimeoutError("timed out")
            sock.settimeout(left)
            try:
                data = sock.recv(_READ_BYTES)
            except OSError as exc:
                if _is_lost(exc):
                    raise smtplib.SMTPServerDisconnected(_words(exc)) from exc
                raise
            if not data:
                raise smtplib.SMTPServerDisconnected("the server closed the connection")
            unread += data
        if end < 0 or end > MAX_REPLY_LINE_BYTES:
            raise _OutOfStep("a line of the reply is too long")
        line = bytes(unread[:end]).rstrip(b"\r")
        del unread[: end + 1]
        return line

    def _has_input(self) -> bool:
        """Whether there is something to read, the end of the stream included; does not wait."""
        if self._unread:
            return True
        if self.sock is None:
            return True
        try:
            self.sock.settimeout(0)
            data = self.sock.recv(_READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        self._unread += data
        return True

    def _socket(self) -> socket.socket:
        if self.sock is None:
            raise smtplib.SMTPServerDisconnected("not connected")
        return self.sock

    def _trace(self, who: str, line: bytes) -> None:
        if self._is_traced:
            is_secret = who == "S" and self.stage is Stage.AUTH
            logger.debug("%s: %s", who, "***" if is_secret else line.decode("utf-8", "backslashreplace").rstrip())


class _Replies:
    """The replies to an envelope in order: with pipelining all is asked already, else each command first."""

    def __init__(self, connection: _Connection, commands: list[bytes], are_pipelined: bool) -> None:
        self.are_pipelined = are_pipelined
        self._connection = connection
        self._commands = iter(commands)

    def next(self) -> _RawReply:
        return self._answer(next(self._commands))

    def next_to_data(self) -> _RawReply:
        return self._answer(b"DATA\r\n")

    def _answer(self, command: bytes) -> _RawReply:
        if not self.are_pipelined:
            self._connection._write(command)
        return self._connection.getreply()


def _command(verb: str, address: str, parameters: str = "") -> bytes:
    if _CONTROL.search(address):
        fault = FaultCode.SMTP_ENCODING
        raise DeliveryError(fault.category, fault, f"{verb}: an address holds a control character")
    return f"{verb}:<{address}>{parameters}\r\n".encode()


def _is_lost(exc: OSError) -> bool:
    """Whether the connection is gone, as opposed to a time-out or a failure of TLS."""
    return isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError) or not isinstance(exc, TimeoutError | ssl.SSLError)


def _reply(code: int, text: bytes) -> Reply:
    """The reply as people and tables read it: no control characters, lines separated by LF."""
    lines = text.decode("utf-8", "replace").split("\n")
    return Reply(code, "\n".join("".join(c for c in line.replace("\t", " ") if c.isprintable()) for line in lines))


def _refusal(reply: Reply, stage: Stage, address: str | None = None, *, others_taken: bool = False) -> RecipientResult:
    category = classify(reply, stage, others_taken=others_taken)
    status = RecipientStatus.DEFERRED if category.is_retryable else RecipientStatus.REFUSED
    return RecipientResult(status, error_code(reply), _text(stage, reply, address), category)


def _text(stage: Stage, reply: Reply, address: str | None = None) -> str:
    of_whom = f" <{address}>" if address is not None else ""
    return _cut(f"{stage}{of_whom}: {reply.code} {_one_line(reply.text)}")


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _cut(text: str) -> str:
    return text.rstrip()[:MAX_TEXT_CHARS]


def _words(exc: OSError) -> str:
    return exc.strerror or str(exc) or type(exc).__name__


def _without_secrets(text: bytes, username: str, password: str) -> bytes:
    """A reply may repeat what it refuses: `535 UGFzc3dvcmQ6 ...` is seen in the field."""
    user, secret = username.encode(), password.encode()
    hidden = [base64.b64encode(b"\0" + user + b"\0" + secret), base64.b64encode(secret), secret]
    for value in filter(None, hidden):
        text = re.sub(rb"(?<![0-9A-Za-z])" + re.escape(value) + rb"(?![0-9A-Za-z])", b"***", text)
    return text


def _failure(exc: OSError | UnicodeEncodeError, connection: _Connection) -> DeliveryError:
    """What a failed attempt is recorded as; the order of the rows matters, as some types are sub-types of others."""
    stage = connection.stage
    if connection.is_past_dot:
        said = str(exc) if isinstance(exc, _OutOfStep) else "no reply to the final dot"
        return _fault(FaultCode.SMTP_NO_REPLY_AFTER_DATA, stage, said, is_uncertain=True)
    match exc:
        case _Utf8Unsupported():
            return _fault(FaultCode.SMTP_UTF8_UNSUPPORTED, stage, str(exc))
        case smtplib.SMTPNotSupportedError():
            required = "TLS is required and " if stage is Stage.STARTTLS else ""
            return _fault(FaultCode.SMTP_NOT_SUPPORTED, stage, required + str(exc))
        case smtplib.SMTPServerDisconnected():
            return _fault(FaultCode.SMTP_DISCONNECTED, stage, str(exc))
        case _OutOfStep():
            return _fault(FaultCode.SMTP_DISCONNECTED, stage, f"replies out of step, connection dropped: {exc}")
        case smtplib.SMTPResponseException():
            error = exc.smtp_error
            reply = _reply(exc.smtp_code, error if isinstance(error, bytes) else error.encode())
            text = _text(stage, reply)
            if stage is Stage.STARTTLS:
                text = _cut(f"{stage}: TLS is required and was refused: {reply.code} {_one_line(reply.text)}")
            return DeliveryError(classify(reply, stage), error_code(reply), text)
        case TimeoutError():
            return _fault(FaultCode.SMTP_TIMEOUT, stage, f"{_where(connection)}{_words(exc)}")
        case socket.gaierror():
            return _fault(FaultCode.SMTP_DNS, stage, f"{_where(connection)}{_words(exc)}")
        case ssl.SSLCertVerificationError():
            return _fault(FaultCode.SMTP_TLS_CERT, stage, f"{_where(connection)}{exc.verify_message or _words(exc)}")
        case ssl.SSLError():
            return _fault(FaultCode.SMTP_TLS, stage, f"{_where(connection)}{exc.reason or _words(exc)}")
        case UnicodeEncodeError():
            # Its own words repeat the value.
            return _fault(FaultCode.SMTP_ENCODING, stage, "an address or a command cannot be encoded")
        case OSError():
            return _fault(FaultCode.SMTP_CONNECT, stage, f"{_where(connection)}{_words(exc)}")


def _where(connection: _Connection) -> str:
    return f"{connection.server.host}:{connection.server.port}: "


def _fault(code: FaultCode, stage: Stage, words: str, *, is_uncertain: bool = False) -> DeliveryError:
    printable = "".join(c for c in words if c.isprintable())
    return DeliveryError(code.category, code, _cut(f"{stage}: {printable}"), is_uncertain=is_uncertain)
