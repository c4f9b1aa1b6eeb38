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

from messaging.category import MARKER_CATEGORY, MarkerCode
from messaging.clock import Ticker
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult
from messaging.errors import DeliveryError
from messaging.mail.message import Message, SourceFailed
from messaging.mail.smtp_pool import ConnectionPool
from messaging.mail.smtp_replies import FaultCode, Reply, Stage, classify, error_code
from messaging.mail.smtp_results import (
    acceptance,
    failure_text,
    fault,
    refusal,
    reply_of,
    words_of,
    words_of_error,
)
from messaging.mail.smtp_wire import ConnectionEnded, NotCrlf, Outgoing, OutOfStep, RawReply, SmtpWire
from messaging.tcp import Connector

logger = logging.getLogger(__name__)

#: Recipients up to which a whole envelope goes out unanswered: its replies must fit the socket buffers of both sides,
#: or each side would wait for the other to read (RFC 2920, section 3.1).
MAX_PIPELINED_RECIPIENTS = 100
#: Octets of a body that is sent in one piece with its final dot: well below any socket's empty send buffer.
MAX_WHOLE_BODY_BYTES = 16_384
#: Seconds that a QUIT may take; whether it is answered does not matter any more.
QUIT_SECONDS = 0.2

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: Said to MAIL on a kept connection whose EHLO ("503 5.5.2 Send hello first") or AUTH the server has forgotten.
_SESSION_LOST = frozenset({503, 530})
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
        self._connector = Connector(ticker)
        self._pool: ConnectionPool[_Connection] = ConnectionPool(settings.max_idle_seconds, ticker)

    def send(self, server: SmtpServer, envelope: Envelope, message: Message, gate: Gate) -> dict[str, RecipientResult]:
        """Send `message` and answer what became of each recipient of `envelope`.

        A kept connection that turns out to be dead is replaced once. May deliver although it raises: then
        `is_uncertain` is set. A message whose attachments cannot be read to their end is not delivered.

        Raises:
            DeliveryError: the attempt failed as a whole.
            ClaimTooOld: the gate closed; nothing was delivered.
        """
        try:
            outgoing = Outgoing.of(message)
        except NotCrlf as exc:
            raise fault(FaultCode.SMTP_MESSAGE, Stage.DATA, str(exc)) from exc
        kept = self._pool.take(server.config_id, server.revision)
        if kept is not None:
            with contextlib.suppress(_StaleConnection):
                return self._send_over(kept, server, envelope, outgoing, gate)
        return self._send_over(self._connect(server, gate), server, envelope, outgoing, gate)

    def probe(self, server: SmtpServer, gate: Gate) -> tuple[str | None, DeliveryError | None]:
        """Connect, protect and authenticate as for a message, and QUIT; sends nothing and keeps nothing.

        Answers the server's greeting (None: there was none) and what failed (None: nothing did).
        """
        connection: _Connection | None = None
        try:
            connection = self._reach(server, gate)
            self._open(connection, server, gate)
        except DeliveryError as exc:
            return connection.greeting if connection else None, exc
        connection.end()
        return connection.greeting, None

    def close_idle(self) -> None:
        """Close the kept connections that have idled for longer than allowed."""
        self._pool.close_idle()

    def close_all(self) -> None:
        """Close all kept connections. The transport stays usable."""
        self._pool.close_all()

    def _connect(self, server: SmtpServer, gate: Gate) -> "_Connection":
        connection = self._reach(server, gate)
        self._open(connection, server, gate)
        return connection

    def _reach(self, server: SmtpServer, gate: Gate) -> "_Connection":
        try:
            timeout_seconds = gate.timeout(self._limits.connection_timeout_seconds)
            connected = self._connector.connect(server.host, server.port, timeout_seconds)
        except OSError as exc:
            raise _failure(exc, server, Stage.CONNECT) from exc
        wire = SmtpWire(connected, self._ticker)
        return _Connection(server, wire, self._limits, self._ehlo_name, is_traced=self._debug)

    def _open(self, connection: "_Connection", server: SmtpServer, gate: Gate) -> None:
        try:
            connection.open(self._tls, gate)
        except _MAPPED as exc:
            raise _failure(exc, server, connection.stage) from exc
        finally:
            if not connection.is_in_step:
                connection.close()

    def _send_over(
        self, connection: "_Connection", server: SmtpServer, envelope: Envelope, outgoing: Outgoing, gate: Gate
    ) -> dict[str, RecipientResult]:
        try:
            return connection.deliver(envelope, outgoing, gate)
        except _MAPPED as exc:
            if connection.was_stale(exc):
                raise _StaleConnection from exc
            raise _failure(exc, server, connection.stage, is_past_dot=connection.is_past_dot) from exc
        except SourceFailed as exc:
            marker = MarkerCode.ATTACHMENT_UNAVAILABLE
            raise DeliveryError(MARKER_CATEGORY[marker], marker, failure_text(connection.stage, str(exc))) from exc
        except NotCrlf as exc:
            raise fault(FaultCode.SMTP_MESSAGE, connection.stage, str(exc)) from exc
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


class _Utf8Unsupported(smtplib.SMTPNotSupportedError):
    """An address or a header needs SMTPUTF8 (RFC 6531) and the server does not offer it."""


class _SessionOver(OSError):
    """A kept connection refuses a transaction before the message was sent, maybe because it served enough of them."""


class _StaleConnection(Exception):
    """A kept connection failed before the server took anything: a new one costs no attempt."""


#: What `_failure` knows; smtplib's exceptions, time-outs, TLS and look-ups are OSErrors. All else is a bug and goes on.
_MAPPED = (OSError, UnicodeEncodeError)


class _Connection(smtplib.SMTP):
    """One connection. smtplib's `ehlo` and `helo` run over the bounded reading and writing of this class.

    `is_in_step` says whether all that was asked is answered, so that another message may follow.
    """

    def __init__(
        self, server: SmtpServer, wire: SmtpWire, limits: TransportLimits, ehlo_name: str, *, is_traced: bool
    ) -> None:
        super().__init__(local_hostname=ehlo_name)
        self.stage = Stage.CONNECT
        #: What the server said first; None until it did.
        self.greeting: str | None = None
        self.transactions = 0
        self.is_in_step = False
        #: Whether the last byte of the current message may be out.
        self.is_past_dot = False
        self._is_reused = False
        self._has_taken = False
        self._server = server
        self._limits = limits
        self._wire = wire
        wire.trace = self._log if is_traced else None
        self._gate: Gate

    # Opening

    def open(self, tls: Callable[[], ssl.SSLContext], gate: Gate) -> None:
        """Greet, protect and authenticate."""
        server = self._server
        self._gate = gate
        if server.security is Security.IMPLICIT_TLS:
            self._encrypt(tls())
        code, text = self.getreply()
        self.greeting = words_of(reply_of(code, text))
        if code != 220:
            raise smtplib.SMTPConnectError(code, text)
        self._greet()
        if server.security is Security.STARTTLS:
            self._start_tls(tls())
            self._greet()
        if server.username and server.username.strip():
            self._authenticate(server.username, server.password or "")
        self.is_in_step = True

    def _encrypt(self, context: ssl.SSLContext) -> None:
        self._wire.encrypt(context, self._server.host, self._timeout())

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
        if self._wire.has_unread:
            # Somebody put plain text before the encrypted replies, to have it taken for one of them (CVE-2011-0411).
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, "plain text followed the reply to STARTTLS")
        self._encrypt(context)

    def _authenticate(self, username: str, password: str) -> None:
        self.stage = Stage.AUTH
        offered = self.esmtp_features.get("auth", "").upper().split()
        mechanisms = [mechanism for mechanism in _MECHANISMS if mechanism in offered]
        if not mechanisms:
            raise smtplib.SMTPNotSupportedError("the server offers no AUTH, or no mechanism that is known here")
        refused: smtplib.SMTPAuthenticationError | None = None
        for mechanism in mechanisms:
            code, text = self._exchange(mechanism, username, password)
            if code // 100 == 2:
                return
            refused = smtplib.SMTPAuthenticationError(code, _without_secrets(text, username, password))
            # 535 to CRAM-MD5 may only mean that the server has no plain password to compare with. 535 to a password
            # stands: another mechanism carries the same one and counts towards a lock-out.
            if code // 100 == 4 or (code == 535 and mechanism != "CRAM-MD5"):
                break
        assert refused is not None
        raise refused

    def _exchange(self, mechanism: str, username: str, password: str) -> RawReply:
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
        self.say(command.encode() + b"\r\n", shown=f"AUTH {mechanism} ***".encode())
        code, text = self.getreply()
        for answer in answers:
            if code != 334:
                break
            try:
                challenge = base64.b64decode(text)
            except ValueError as exc:
                raise OutOfStep("the challenge is not Base64") from exc
            self.say(base64.b64encode(answer(challenge)) + b"\r\n", shown=b"***")
            code, text = self.getreply()
        if code == 334:
            # RFC 4954: `*` ends the exchange, so that another mechanism may be tried.
            self.say(b"*\r\n")
            self.getreply()
            return 504, b"the server asks for more than the mechanism has to say"
        return code, text

    # One message

    def deliver(self, envelope: Envelope, outgoing: Outgoing, gate: Gate) -> dict[str, RecipientResult]:
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
            self.say(b"".join(commands) + b"DATA\r\n")
        replies = _Replies(self, commands, is_pipelined)
        if self._is_reused and replies.next()[0] // 100 != 2:
            raise OutOfStep("the server refused RSET")
        code, text = replies.next()
        if code // 100 != 2:
            self._check_session(code, text, _SESSION_LOST)
            # With pipelining the replies to the rest of the envelope are still to come, and not worth waiting for.
            self.is_in_step = not is_pipelined and code // 100 == 5
            raise smtplib.SMTPSenderRefused(code, text, envelope.sender)
        return self._deliver_to(recipients, outgoing, replies)

    def _deliver_to(self, recipients: list[str], outgoing: Outgoing, replies: "_Replies") -> dict[str, RecipientResult]:
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
            refused[recipient] = reply = reply_of(code, text)
            if code == 421:
                self._check_session(code, text)
                # Said of the connection: it ends here for all that were not refused before.
                closing = refusal(reply, Stage.RCPT, recipient, others_taken=True)
                break
        results = {r: refusal(reply, Stage.RCPT, r, others_taken=bool(taken)) for r, reply in refused.items()}
        if closing is None and not taken:
            self._give_up(replies)
            return results
        shared = closing or self._data(outgoing, replies)
        return {r: results.get(r, shared) for r in recipients}

    def _data(self, outgoing: Outgoing, replies: "_Replies") -> RecipientResult:
        """Send the message to those taken; the answer is for all of them."""
        self.stage = Stage.DATA
        code, text = replies.next_to_data()
        if code // 100 in (4, 5):
            self._check_session(code, text)
            self.is_in_step = code // 100 == 5
            return refusal(reply_of(code, text), Stage.DATA)
        if code != 354:
            raise OutOfStep(f"{code} answers DATA")
        # A small body goes out with its last byte, in one system call right after the check.
        body = outgoing.body
        small = body if body is not None and len(body) <= MAX_WHOLE_BODY_BYTES else None
        early = self._send_body(outgoing) if small is None else self._early_reply()
        if early is not None:
            return refusal(early, Stage.DATA)
        timeout_seconds = self._gate.reply_timeout()
        self._gate.check_last_byte()
        self.is_past_dot = True
        if small is None:
            self._wire.write(b".\r\n", lambda: timeout_seconds)
        else:
            shown = b"(%d octets)" % outgoing.size
            self._wire.write(small + b".\r\n", lambda: timeout_seconds, shown=shown)
        code, text = self._wire.read_reply(self._gate.reply_timeout)
        if code // 100 == 2:
            self.is_in_step = True
            return acceptance(reply_of(code, text))
        if code // 100 not in (4, 5):
            raise OutOfStep(f"{code} answers the final dot")
        self.is_in_step = code // 100 == 5
        return refusal(reply_of(code, text), Stage.DATA)

    def _send_body(self, outgoing: Outgoing) -> Reply | None:
        """Send all but the last line. Answers the refusal of a server that did not wait for the end."""
        for piece in outgoing.pieces():
            if self._wire.has_input():
                break
            try:
                self.say(piece, shown=b"(%d octets)" % len(piece))
            except (ConnectionEnded, TimeoutError):
                # It may have said why it reads no more, and leave the rest unread.
                if not self._wire.has_input():
                    raise
                break
        return self._early_reply()

    def _early_reply(self) -> Reply | None:
        """The refusal of a server that does not wait for the final dot; None when it waits."""
        if not self._wire.has_unread and not self._wire.has_input():
            return None
        code, text = self.getreply()
        if code // 100 not in (4, 5):
            # A reply that is one too many would shift all that follow: the next 250 would not be about this message.
            raise OutOfStep(f"{code} came before the final dot")
        return reply_of(code, text)

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
                self.say(b".\r\n")
                code, _ = self.getreply()
            self.is_in_step = code != 421 and code // 100 != 3

    def _mail_command(self, envelope: Envelope, outgoing: Outgoing) -> bytes:
        parameters = ""
        size = self.esmtp_features.get("size")
        if size is not None:
            allowed = size.split(" ", 1)[0]
            # 0 or nothing: the server names no limit; a limit has up to 20 digits (RFC 1870, section 4).
            if len(allowed) <= 20 and allowed.isdecimal() and 0 < int(allowed) < outgoing.size:
                words = f"the message has {outgoing.size} octets, the server takes at most {allowed}"
                raise fault(FaultCode.SMTP_SIZE, Stage.MAIL, words)
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
        if isinstance(exc, _SessionOver):
            return True
        if not self._is_reused or self._has_taken or self.is_past_dot:
            return False
        kinds = smtplib.SMTPSenderRefused | smtplib.SMTPNotSupportedError | UnicodeEncodeError
        return not isinstance(exc, kinds)

    def _check_session(self, code: int, text: bytes, lost: frozenset[int] = frozenset()) -> None:
        """Raise where a refusal of the whole transaction may be about this connection and not about the message.

        "452 4.4.5 Maximum number of messages per session exceeded" at MAIL or DATA: a new connection has no such limit
        behind it. Some servers go on saying so instead of closing, so such a connection is never kept either.
        """
        if self._is_reused and (code // 100 == 4 or code in lost):
            raise _SessionOver(f"{code} {text.decode('utf-8', 'replace')}")

    # Between messages

    def is_quiet(self) -> bool:
        """Whether nothing waits to be read: no 421, no late reply, no end of the stream."""
        return not self._wire.has_input()

    def end(self) -> None:
        """QUIT and close; never raises."""
        with contextlib.suppress(OSError):
            self._wire.write(b"QUIT\r\n", lambda: QUIT_SECONDS)
            self._wire.read_reply(lambda: QUIT_SECONDS)
        self.close()

    def close(self) -> None:
        """Drop the connection as it is. A message whose last byte was not sent is not delivered."""
        self.is_in_step = False
        self._wire.close()

    # What smtplib's own methods come down to

    def putcmd(self, cmd: str, args: str = "") -> None:
        """Send one command. In upper case: some servers know no other (RFC 5321, section 2.4)."""
        self.say(f"{cmd.upper()} {args}".rstrip().encode("ascii") + b"\r\n")

    def getreply(self) -> RawReply:
        """Read one reply within the read time-out, and within what is left of the send."""
        return self._wire.read_reply(self._timeout)

    def say(self, octets: bytes, *, shown: bytes | None = None) -> None:
        """Send octets; the trace shows `shown` in their place."""
        self._wire.write(octets, self._timeout, shown=shown)

    def _log(self, who: str, octets: bytes) -> None:
        is_secret = who == "S" and self.stage is Stage.AUTH
        logger.debug("%s: %s", who, "***" if is_secret else octets.decode("utf-8", "backslashreplace").rstrip())

    def _timeout(self) -> float:
        return self._gate.timeout(self._limits.read_timeout_seconds)


class _Replies:
    """The replies to an envelope in order: with pipelining all is asked already, else each command first."""

    def __init__(self, connection: _Connection, commands: list[bytes], are_pipelined: bool) -> None:
        self.are_pipelined = are_pipelined
        self._connection = connection
        self._commands = iter(commands)

    def next(self) -> RawReply:
        return self._answer(next(self._commands))

    def next_to_data(self) -> RawReply:
        return self._answer(b"DATA\r\n")

    def _answer(self, command: bytes) -> RawReply:
        if not self.are_pipelined:
            self._connection.say(command)
        return self._connection.getreply()


def _command(verb: str, address: str, parameters: str = "") -> bytes:
    if _CONTROL.search(address):
        raise fault(FaultCode.SMTP_ENCODING, Stage(verb[:4]), "an address holds a control character")
    return f"{verb}:<{address}>{parameters}\r\n".encode()


def _without_secrets(text: bytes, username: str, password: str) -> bytes:
    """A reply may repeat what it refuses: `535 UGFzc3dvcmQ6 ...` is seen in the field."""
    user, secret = username.encode(), password.encode()
    hidden = [base64.b64encode(b"\0" + user + b"\0" + secret), base64.b64encode(secret), secret]
    for value in filter(None, hidden):
        text = re.sub(rb"(?<![0-9A-Za-z])" + re.escape(value) + rb"(?![0-9A-Za-z])", b"***", text)
    return text


def _failure(
    exc: OSError | UnicodeEncodeError, server: SmtpServer, stage: Stage, *, is_past_dot: bool = False
) -> DeliveryError:
    """What a failed attempt is recorded as; the order of the rows matters, as some types are sub-types of others."""
    where = f"{server.host}:{server.port}: "
    if is_past_dot:
        said = str(exc) if isinstance(exc, OutOfStep) else "no reply to the final dot"
        return fault(FaultCode.SMTP_NO_REPLY_AFTER_DATA, stage, said, is_uncertain=True)
    match exc:
        case _Utf8Unsupported():
            return fault(FaultCode.SMTP_UTF8_UNSUPPORTED, stage, str(exc))
        case smtplib.SMTPNotSupportedError():
            required = "TLS is required and " if stage is Stage.STARTTLS else ""
            return fault(FaultCode.SMTP_NOT_SUPPORTED, stage, required + str(exc))
        case ConnectionEnded() | smtplib.SMTPServerDisconnected():
            return fault(FaultCode.SMTP_DISCONNECTED, stage, str(exc))
        case OutOfStep():
            return fault(FaultCode.SMTP_DISCONNECTED, stage, f"replies out of step, connection dropped: {exc}")
        case smtplib.SMTPResponseException():
            error = exc.smtp_error
            reply = reply_of(exc.smtp_code, error if isinstance(error, bytes) else error.encode())
            what = "TLS is required and was refused: " if stage is Stage.STARTTLS else ""
            return DeliveryError(classify(reply, stage), error_code(reply), failure_text(stage, what + words_of(reply)))
        case TimeoutError():
            return fault(FaultCode.SMTP_TIMEOUT, stage, f"{where}{words_of_error(exc)}")
        case socket.gaierror():
            return fault(FaultCode.SMTP_DNS, stage, f"{where}{words_of_error(exc)}")
        case ssl.SSLCertVerificationError():
            return fault(FaultCode.SMTP_TLS_CERT, stage, f"{where}{exc.verify_message or words_of_error(exc)}")
        case ssl.SSLError():
            return fault(FaultCode.SMTP_TLS, stage, f"{where}{words_of_error(exc)}")
        case UnicodeEncodeError():
            # Its own words repeat the value.
            return fault(FaultCode.SMTP_ENCODING, stage, "an address or a command cannot be encoded")
        case OSError():
            return fault(FaultCode.SMTP_CONNECT, stage, f"{where}{words_of_error(exc)}")
