"""Messages that are read while they are sent: send.md sections 8 and 9.4, over real sockets."""

import dataclasses
import io
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from messaging.category import ErrorCategory
from messaging.delivery.gate import ClaimTooOld, Gate, SendGate, SendLimits
from messaging.delivery.recipients import RecipientStatus
from messaging.errors import DeliveryError
from messaging.mail.attached_files import AttachedFile
from messaging.mail.message import Message
from messaging.mail.mime import MailContent, build
from messaging.mail.smtp import Envelope, Security, SmtpServer, SmtpTransport
from messaging.requests import BodyMode
from messaging.settings import MailTransportSettings
from tests.far_end.smtp_server import Rule, ScriptedSmtpServer, SmtpServerProcess

TRANSIENT, INVALID_INPUT = ErrorCategory.TRANSIENT, ErrorCategory.INVALID_INPUT
LIMITS = SendLimits(send_budget_seconds=240, send_max_seconds=120, reply_wait_seconds=60)
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 4000

CONTENT = MailContent(
    message_id="<17.9f3c@shop.example>",
    date=datetime(2026, 3, 1, tzinfo=UTC),
    from_address="shop@shop.example",
    from_name=None,
    to=["a@example.com"],
    subject="s",
    body_mode=BodyMode.PLAIN,
    body_text="t",
)


class Failing(io.BytesIO):
    """A file whose disk gives up in the middle."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 100_000:
            raise OSError(5, "Input/output error")
        return super().read(size)


class Dots:
    """Lines of dots, cut where it hurts."""

    def __init__(self, octets: bytes, step: int) -> None:
        self.octets, self.step, self.size = octets, step, len(octets)

    def chunks(self) -> Iterator[bytes]:
        for start in range(0, self.size, self.step):
            yield self.octets[start : start + self.step]


@pytest.fixture
def transport() -> Iterator[SmtpTransport]:
    transport = SmtpTransport(MailTransportSettings(read_timeout_seconds=5), ehlo_name="client.example.org")
    yield transport
    transport.close_all()


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedSmtpServer]]:
    running: list[ScriptedSmtpServer] = []

    def start(*rules: Rule, **options: object) -> ScriptedSmtpServer:
        running.append(ScriptedSmtpServer(rules, **options).start())  # type: ignore[arg-type]
        return running[-1]

    yield start
    for server in running:
        server.stop()


def with_file(content: io.BytesIO | bytes) -> Message:
    file = content if isinstance(content, io.BytesIO) else io.BytesIO(content)
    return build(CONTENT, [AttachedFile(content=file, file_name="report.pdf", content_type="application/pdf")])


def at(server: ScriptedSmtpServer | SmtpServerProcess) -> SmtpServer:
    return SmtpServer(config_id=1, revision=1, host="127.0.0.1", port=server.port, security=Security.PLAIN)


def gate(*, age_seconds: float = 0, limits: SendLimits = LIMITS) -> Gate:
    return SendGate(time.monotonic() - age_seconds, limits, time.monotonic)


def send(transport: SmtpTransport, server: ScriptedSmtpServer, message: Message, through: Gate | None = None) -> str:
    results = transport.send(at(server), Envelope("shop@shop.example", ["a@example.com"]), message, through or gate())
    result = results["a@example.com"]
    return result.code if result.status is not RecipientStatus.ACCEPTED else "accepted"


def failure(transport: SmtpTransport, server: ScriptedSmtpServer, message: Message) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        send(transport, server, message)
    return caught.value


def test_an_attachment_arrives_whole_and_the_size_is_exact(serve, transport):  # S17, RFC 1870
    server = serve(size=10_000_000)
    message = with_file(PDF)
    assert send(transport, server, message) == "accepted"
    (taken,) = server.messages
    assert taken.content == b"".join(message.chunks())
    assert taken.parameters == f"SIZE={len(taken.content)}"
    assert server.violations == []


def test_a_second_attempt_sends_the_same_bytes(serve, transport):  # S19
    server = serve(Rule("EOD", "451 4.3.0 not now", nth=1))
    message = with_file(PDF)
    assert send(transport, server, message) == "SMTP_451_4.3.0"
    assert send(transport, server, message) == "accepted"
    first, second = server.transactions
    assert first.raw == second.raw


@pytest.mark.parametrize("security", [Security.IMPLICIT_TLS, Security.STARTTLS])
def test_an_attachment_is_streamed_through_tls(serve, security):
    authority = trustme.CA()
    served, trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.configure_trust(trusted)
    settings = MailTransportSettings(read_timeout_seconds=5)
    transport = SmtpTransport(settings, ehlo_name="client.example.org", ssl_context_factory=lambda: trusted)
    server = serve(tls=served, is_implicit_tls=security is Security.IMPLICIT_TLS)
    where = dataclasses.replace(at(server), security=security)
    message = with_file(PDF)
    for _ in range(2):
        transport.send(where, Envelope("shop@shop.example", ["a@example.com"]), message, gate())
    transport.close_all()
    assert [taken.content for taken in server.messages] == [b"".join(message.chunks())] * 2
    assert server.connections == 1


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7])
def test_dots_are_stuffed_across_chunks(serve, transport, step):  # smtp-03, RFC 5321 4.5.2
    server = serve()
    octets = b".first\r\n.\r\n..two\r\n\r\n.\r\n" * 20
    assert send(transport, server, Message((b"Subject: x\r\n\r\n", Dots(octets, step)))) == "accepted"
    assert server.messages[0].content == b"Subject: x\r\n\r\n" + octets
    assert server.violations == []


def test_a_kept_connection_that_is_dead_costs_no_attempt(serve, transport):
    server = serve()
    assert send(transport, server, with_file(PDF)) == "accepted"
    server.on("RSET", close="before")
    assert send(transport, server, with_file(PDF)) == "accepted"
    assert server.connections == 2
    assert server.messages[0].raw == server.messages[1].raw


def test_a_message_over_the_announced_size_is_not_read(serve, transport):  # RFC 1870
    server = serve(size=100_000)
    error = failure(transport, server, with_file(Failing(PDF)))
    assert (error.category, error.code) == (INVALID_INPUT, "SMTP_SIZE")
    assert server.lines("MAIL") == []


@pytest.mark.parametrize("extensions", [("PIPELINING",), ()])
def test_a_file_that_fails_in_the_middle_delivers_nothing(serve, transport, extensions):
    server = serve(extensions=extensions)
    error = failure(transport, server, with_file(Failing(PDF)))
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "ATTACHMENT_UNAVAILABLE", False)
    assert "Input/output error" in error.text
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert server.lines("DATA") == ["DATA"]
    assert server.transactions == []
    assert send(transport, server, with_file(PDF)) == "accepted"
    assert server.connections == 2


def test_a_file_that_has_changed_in_the_middle_delivers_nothing(serve, transport):
    server = serve()
    for change in (io.BytesIO.truncate, lambda file, _: file.seek(0, 2) and file.write(b"more")):
        file = io.BytesIO(PDF)
        message = with_file(file)
        change(file, 500_000)
        assert failure(transport, server, message).code == "ATTACHMENT_UNAVAILABLE"
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert server.transactions == []


def test_a_bare_lf_in_a_stream_delivers_nothing(serve, transport):  # RFC 5321 2.3.8
    server = serve()
    error = failure(transport, server, Message((b"Subject: x\r\n\r\n", Dots(b"a\r\nb\nc\r\n" * 10, 4))))
    assert (error.category, error.code) == (INVALID_INPUT, "SMTP_MESSAGE")
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert server.transactions == []


def test_a_claim_too_old_at_the_last_byte_delivers_nothing(serve, transport):  # C5
    server = serve()
    limits = SendLimits(send_budget_seconds=60, send_max_seconds=10, reply_wait_seconds=50)
    with pytest.raises(ClaimTooOld):
        send(transport, server, with_file(PDF), gate(age_seconds=20, limits=limits))
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert server.transactions == []


def test_a_server_that_has_had_enough_is_sent_no_more(serve, transport):
    server = serve(Rule("DATA", "354 go\r\n552 5.3.4 too big"))
    assert send(transport, server, with_file(bytes(40_000_000))) == "SMTP_552_5.3.4"
    assert server.transactions == []


def test_a_server_that_stops_reading_is_waited_for_no_longer_than_the_send_may_take(transport):
    limits = SendLimits(send_budget_seconds=240, send_max_seconds=0.4, reply_wait_seconds=60)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()
        thread = threading.Thread(target=stop_reading_at_data, args=(listener, is_over))
        thread.start()
        server = SmtpServer(1, 1, "127.0.0.1", listener.getsockname()[1], Security.PLAIN)
        envelope = Envelope("shop@shop.example", ["a@example.com"])
        started = time.monotonic()
        with pytest.raises(DeliveryError) as caught:
            transport.send(server, envelope, with_file(bytes(20_000_000)), gate(limits=limits))
        is_over.set()
        thread.join()
    assert (caught.value.code, caught.value.is_uncertain) == ("SMTP_TIMEOUT", False)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_server_that_says_no_and_stops_reading_has_said_no(is_streamed):
    """Not a time-out, after which the same would be sent, and refused, again."""
    message = (
        with_file(bytes(20_000_000)) if is_streamed else Message.of(b"Subject: x\r\n\r\n" + b"body\r\n" * 3_000_000)
    )
    transport = SmtpTransport(MailTransportSettings(read_timeout_seconds=0.5), ehlo_name="client.example.org")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()
        thread = threading.Thread(target=stop_reading_at_data, args=(listener, is_over, b"552 5.3.4 too big\r\n"))
        thread.start()
        server = SmtpServer(1, 1, "127.0.0.1", listener.getsockname()[1], Security.PLAIN)
        results = transport.send(server, Envelope("shop@shop.example", ["a@example.com"]), message, gate())
        is_over.set()
        thread.join()
    assert results["a@example.com"].code == "SMTP_552_5.3.4"


def stop_reading_at_data(listener: socket.socket, is_over: threading.Event, last_words: bytes = b"") -> None:
    """A server of one connection, with its socket full and nobody there."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as lines:
        connection.sendall(b"220 mx.example.com\r\n")
        for line in lines:
            connection.sendall(b"354 go\r\n" if line.startswith(b"DATA") else b"250 ok\r\n")
            if line.startswith(b"DATA"):
                break
        lines.read(100_000)
        connection.sendall(last_words)
        is_over.wait(30)


MEMORY = """
import resource, sys, tempfile, time
from datetime import UTC, datetime
from messaging.delivery.gate import SendGate, SendLimits
from messaging.mail.attached_files import AttachedFile
from messaging.mail.mime import MailContent, build
from messaging.mail.smtp import Envelope, Security, SmtpServer, SmtpTransport
from messaging.requests import BodyMode
from messaging.settings import MailTransportSettings

content = MailContent(message_id="<1.a@b.c>", date=datetime(2026, 3, 1, tzinfo=UTC), from_address="a@b.c",
                      from_name=None, to=["a@b.c"], body_mode=BodyMode.PLAIN, body_text="t")
server = SmtpServer(config_id=1, revision=1, host="127.0.0.1", port=int(sys.argv[1]), security=Security.PLAIN)
transport = SmtpTransport(MailTransportSettings(), ehlo_name="client.example.org")

def send(octets):
    with tempfile.TemporaryFile() as file:
        for _ in range(octets // 65536):
            file.write(bytes(range(256)) * 256)
        message = build(content, [AttachedFile(content=file, file_name="x")])
        limits = SendLimits(240, 120, 60)
        gate = SendGate(time.monotonic(), limits, time.monotonic)
        print(transport.send(server, Envelope("a@b.c", ["a@b.c"]), message, gate)["a@b.c"].status, message.size)

send(65536)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
send(20 * 1048576)
unit = 1 if sys.platform == "darwin" else 1024
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
transport.close_all()
"""


def test_a_large_attachment_is_sent_with_little_memory(tmp_path: Path):
    with SmtpServerProcess(tmp_path, keeps_data=False) as server:
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(server.port)], capture_output=True, text=True, check=True, timeout=60
        )
    small, large, grown = done.stdout.splitlines()
    assert small.split()[0] == large.split()[0] == "accepted"
    assert int(large.split()[1]) > 28_000_000
    assert int(grown) < 4 * 1_048_576
