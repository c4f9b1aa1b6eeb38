"""The SMTP transport against servers that answer as told: send.md sections 7, 9.4 and 10, over real sockets."""

import base64
import contextlib
import logging
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme

from messaging.category import ErrorCategory
from messaging.delivery.gate import ClaimTooOld, Gate, SendGate, SendLimits
from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.errors import DeliveryError
from messaging.mail import smtp as smtp_module
from messaging.mail.message import Message
from messaging.mail.smtp import Envelope, Security, SmtpServer, SmtpTransport
from messaging.mail.smtp_wire import SmtpWire
from messaging.settings import MailTransportSettings
from tests.far_end import packages
from tests.far_end.smtp_server import Rule, ScriptedSmtpServer, SmtpServerProcess

ACCEPTED, REFUSED, DEFERRED = RecipientStatus.ACCEPTED, RecipientStatus.REFUSED, RecipientStatus.DEFERRED
TRANSIENT, QUOTA, PERMANENT = ErrorCategory.TRANSIENT, ErrorCategory.QUOTA, ErrorCategory.PERMANENT
INVALID_INPUT, AUTH, UNKNOWN = ErrorCategory.INVALID_INPUT, ErrorCategory.AUTH, ErrorCategory.UNKNOWN

SENDER = "shop@example.org"
MESSAGE = b"From: shop@example.org\r\nMessage-ID: <1.a@example.org>\r\nSubject: hello\r\n\r\nbody\r\n"
LIMITS = SendLimits(send_budget_seconds=240, send_max_seconds=120, reply_wait_seconds=60)
#: For the tests that wait for a time-out.
SHORT = 0.5

EXTENSIONS = {
    "pipelined": ("PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES"),
    "lock-step": ("8BITMIME", "ENHANCEDSTATUSCODES"),
}


class Client:
    """A transport, and where it sends to."""

    def __init__(self) -> None:
        self.transports: list[SmtpTransport] = []

    def transport(self, **options: Any) -> SmtpTransport:
        names = ("connection_timeout_seconds", "read_timeout_seconds", "max_idle_seconds", "max_messages")
        settings = MailTransportSettings(**{name: options.pop(name) for name in names if name in options})
        transport = SmtpTransport(settings, ehlo_name="client.example.org", **options)
        self.transports.append(transport)
        return transport

    def close(self) -> None:
        for transport in self.transports:
            transport.close_all()


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client()
    yield client
    client.close()


@pytest.fixture
def transport(client: Client) -> SmtpTransport:
    return client.transport(read_timeout_seconds=5)


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedSmtpServer]]:
    """Starts servers that end with the test."""
    running: list[ScriptedSmtpServer] = []

    def start(*rules: Rule, **options: Any) -> ScriptedSmtpServer:
        running.append(ScriptedSmtpServer(rules, **options).start())
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def steps() -> Iterator[Callable[..., ScriptedSmtpServer]]:
    """Starts the server of a case of cases.jsonl."""
    running: list[ScriptedSmtpServer] = []

    def start(*given: dict[str, Any], **options: Any) -> ScriptedSmtpServer:
        running.append(ScriptedSmtpServer.from_steps(given, **options).start())
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture(params=EXTENSIONS.values(), ids=EXTENSIONS.keys())
def extensions(request: pytest.FixtureRequest) -> Sequence[str]:
    """With and without PIPELINING: the results must not differ."""
    return request.param


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def trusting(authority: trustme.CA) -> Callable[[], ssl.SSLContext]:
    """Makes client contexts that verify, and know the authority of the tests."""

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        return context

    return make


def at(server: ScriptedSmtpServer | SmtpServerProcess | int, **fields: Any) -> SmtpServer:
    port = server if isinstance(server, int) else server.port
    given = {"config_id": 1, "revision": 1, "host": "127.0.0.1", "security": Security.PLAIN, **fields}
    return SmtpServer(port=port, **given)


def gate(*, age_seconds: float = 0, limits: SendLimits = LIMITS) -> Gate:
    return SendGate(time.monotonic() - age_seconds, limits, time.monotonic)


def send(
    transport: SmtpTransport,
    server: ScriptedSmtpServer | SmtpServerProcess | SmtpServer | int,
    *to: str,
    message: bytes | Message = MESSAGE,
    sender: str = SENDER,
    through: Gate | None = None,
) -> dict[str, RecipientResult]:
    where = server if isinstance(server, SmtpServer) else at(server)
    given = message if isinstance(message, Message) else Message.of(message)
    return transport.send(where, Envelope(sender, to or ("a@example.com",)), given, through or gate())


def failure(transport: SmtpTransport, server: Any, *to: str, **options: Any) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        send(transport, server, *to, **options)
    return caught.value


def is_refused(transport: SmtpTransport, port: int) -> bool:
    """Whether nobody listens yet; sends a message otherwise."""
    try:
        send(transport, port)
    except DeliveryError as error:
        if error.code != "SMTP_CONNECT":
            raise
        return True
    return False


def said(server: ScriptedSmtpServer) -> list[str]:
    """What the last connection was told, without its greeting."""
    return [line for number, line in server.commands if number == server.connections and line != "CONNECT"]


# One message


def test_a_message_reaches_its_recipients_as_it_is(serve, transport, extensions):
    server = serve(extensions=extensions)
    results = send(transport, server, "a@example.com", "b@example.com")
    (message,) = server.messages
    assert (message.sender, message.recipients, message.content) == (
        SENDER,
        ("a@example.com", "b@example.com"),
        MESSAGE,
    )
    assert message.parameters == ""
    assert {r: (x.status, x.code, x.text, x.category) for r, x in results.items()} == dict.fromkeys(
        ("a@example.com", "b@example.com"), (ACCEPTED, "SMTP_250_2.0.0", "250 2.0.0 queued", None)
    )
    assert said(server) == [
        "EHLO client.example.org",
        f"MAIL FROM:<{SENDER}>",
        "RCPT TO:<a@example.com>",
        "RCPT TO:<b@example.com>",
        "DATA",
        "EOD",
    ]
    assert server.violations == []


def test_two_attempts_send_the_same_bytes(serve, transport):  # S19
    server = serve(Rule("EOD", "451 4.3.0 not now", nth=1))
    assert send(transport, server)["a@example.com"].status is DEFERRED
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    first, second = server.transactions
    assert first.raw == second.raw
    assert first.content == MESSAGE


def test_a_null_sender_and_a_repeated_recipient(serve, transport):
    server = serve()
    assert list(send(transport, server, "a@example.com", "a@example.com", sender="")) == ["a@example.com"]
    assert server.lines("MAIL") == ["MAIL FROM:<>"]
    assert server.lines("RCPT") == ["RCPT TO:<a@example.com>"]


def test_dots_are_stuffed(serve, transport):  # smtp-03, RFC 5321 4.5.2
    server = serve()
    lines = [b"first", b".", b"..two", b".hidden line", b"last"]
    send(transport, server, message=b"Subject: x\r\n\r\n" + b"\r\n".join(lines) + b"\r\n")
    (message,) = server.messages
    assert message.content.split(b"\r\n\r\n", 1)[1].split(b"\r\n") == [*lines, b""]
    assert b"\r\n..\r\n...two\r\n..hidden line\r\n" in message.raw
    assert message.raw.count(b"\r\n.\r\n") == 1
    assert message.raw.endswith(b"last\r\n.\r\n")
    assert server.violations == []


@pytest.mark.parametrize("message", [b".a\r\n", b".\r\n", b"\r\n.\r\n", b"..\r\n.\r\n", b"x"])
def test_a_message_of_dots_is_whole(serve, transport, message):
    server = serve()
    send(transport, server, message=message)
    assert server.messages[0].content == (message if message.endswith(b"\r\n") else message + b"\r\n")


@pytest.mark.parametrize("message", [b"a\nb\r\n", b"a\rb\r\n", b"a\r\r\n", b"a\r\n\n", b"a\r", b"\n"])
def test_a_bare_cr_or_lf_never_reaches_the_wire(serve, transport, message):  # RFC 5321 2.3.8
    server = serve()
    error = failure(transport, server, message=message)
    assert (error.category, error.code) == (INVALID_INPUT, "SMTP_MESSAGE")
    assert server.connections == 0


@pytest.mark.parametrize(
    "address", ["a@example.com>\r\nRCPT TO:<evil@example.com", "a\0@example.com", "a\n@example.com"]
)
def test_an_address_cannot_hold_another_command(serve, transport, address):
    server = serve()
    error = failure(transport, server, address)
    assert (error.category, error.code) == (INVALID_INPUT, "SMTP_ENCODING")
    assert server.lines("MAIL") == server.lines("RCPT") == []


def test_a_large_message_is_whole(serve, transport):
    server = serve()
    message = b"Subject: x\r\n\r\n" + b"".join(b".%06d\r\n" % n for n in range(200_000))
    send(transport, server, message=message)
    assert server.messages[0].content == message


# Recipients, one by one


def test_one_of_two_recipients_is_refused(steps, transport):  # smtp-01, F9
    server = steps(
        {"on": "CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"},
        {"on": "MAIL FROM:", "send": "250 ok"},
        {"on": "RCPT TO:<good@example.com>", "send": "250 ok"},
        {"on": "RCPT TO:<gone@example.com>", "send": "550 5.1.1 user unknown"},
        {"on": "DATA", "send": "354 go"},
        {"on": "EOD", "send": "250 2.0.0 queued"},
    )
    results = send(transport, server, "good@example.com", "gone@example.com")
    assert list(results) == ["good@example.com", "gone@example.com"]
    assert results["good@example.com"].status is ACCEPTED
    assert results["gone@example.com"] == RecipientResult(
        REFUSED, "SMTP_550_5.1.1", "RCPT <gone@example.com>: 550 5.1.1 user unknown", PERMANENT
    )
    assert server.copies() == {"good@example.com": 1}
    assert server.violations == []


def test_a_refused_and_a_deferred_recipient_beside_one_that_is_taken(serve, transport, extensions):  # F9a, F9c
    server = serve(extensions=extensions)
    server.refuse_rcpt("550 5.1.1 no", "gone@example.com")
    server.refuse_rcpt("450 4.2.1 later", "busy@example.com", times=1)
    results = send(transport, server, "gone@example.com", "busy@example.com", "good@example.com")
    assert [results[r].status for r in results] == [REFUSED, DEFERRED, ACCEPTED]
    assert results["busy@example.com"].category is TRANSIENT
    assert send(transport, server, "busy@example.com")["busy@example.com"].status is ACCEPTED
    assert server.copies() == {"good@example.com": 1, "busy@example.com": 1}
    assert server.messages[0].raw == server.messages[1].raw


def test_all_recipients_are_refused(serve, transport, extensions):  # F9b
    server = serve(extensions=extensions)
    server.refuse_rcpt("550 5.1.1 no")
    results = send(transport, server, "a@example.com", "b@example.com")
    assert [(x.status, x.code) for x in results.values()] == [(REFUSED, "SMTP_550_5.1.1")] * 2
    assert server.transactions == []
    server.clear_rules()
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert server.connections == 1  # the connection was left in step


def test_all_refused_and_data_answered_354_ends_with_a_lone_dot(serve, transport):  # RFC 2920 3.1
    server = serve(Rule("DATA", "354 go ahead all the same", times=1), Rule("EOD", "250 taken, they say", times=1))
    rule = server.refuse_rcpt("550 5.1.1 no")
    assert send(transport, server)["a@example.com"].status is REFUSED
    (empty,) = server.transactions
    assert (empty.raw, empty.recipients) == (b".\r\n", ())
    server.rules.remove(rule)
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert server.connections == 1
    assert server.copies() == {"a@example.com": 1}


def test_a_server_that_vanishes_after_refusing_all_leaves_the_refusals(serve, transport):
    server = serve(Rule("RCPT", "550 5.1.1 no"), Rule("DATA", close="before"))
    assert send(transport, server)["a@example.com"].status is REFUSED


@pytest.mark.parametrize(
    ("reply", "status", "code", "category"),
    [
        ("550 5.1.1 user unknown", REFUSED, "SMTP_550_5.1.1", PERMANENT),  # F3
        ("450 4.2.0 greylisted", DEFERRED, "SMTP_450_4.2.0", TRANSIENT),  # F4
        ("452 4.2.2 mailbox full", DEFERRED, "SMTP_452_4.2.2", TRANSIENT),  # F5
        ("452 4.5.3 too many recipients", REFUSED, "SMTP_452_4.5.3", INVALID_INPUT),  # F5, for all
        ("552 5.3.4 too big", REFUSED, "SMTP_552_5.3.4", INVALID_INPUT),  # F6
        ("250 fine", ACCEPTED, "SMTP_250_2.0.0", None),
        ("251 2.1.5 will forward", ACCEPTED, "SMTP_250_2.0.0", None),
        ("600 what", DEFERRED, "SMTP_600", UNKNOWN),  # F11
        ("354 what", DEFERRED, "SMTP_354", UNKNOWN),
    ],
)
def test_a_reply_to_rcpt_decides_for_its_recipient(serve, transport, extensions, reply, status, code, category):
    server = serve(Rule("RCPT", reply), extensions=extensions)
    result = send(transport, server)["a@example.com"]
    assert (result.status, result.code, result.category) == (status, code, category)


def test_what_is_over_the_limit_of_recipients_goes_with_the_next_attempt(serve, transport, extensions):  # F5
    everybody = [f"r{n}@example.com" for n in range(5)]
    server = serve(extensions=extensions)
    for late in everybody[2:]:
        server.refuse_rcpt("452 4.5.3 too many recipients", late, times=1)
    results = send(transport, server, *everybody)
    assert [r.status for r in results.values()] == [ACCEPTED] * 2 + [DEFERRED] * 3
    send(transport, server, *everybody[2:])
    assert server.copies() == dict.fromkeys(everybody, 1)


def test_more_recipients_than_a_pipeline_holds(serve, transport):
    server = serve(Rule("RCPT TO:<r7@", "550 5.1.1 no"))
    everybody = [f"r{n}@example.com" for n in range(smtp_module.MAX_PIPELINED_RECIPIENTS + 50)]
    results = send(transport, server, *everybody)
    assert [r for r in everybody if results[r].status is not ACCEPTED] == ["r7@example.com"]


def test_greylisting_defers(steps, transport):  # class-01
    script = [
        {"on": "CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"},
        {"on": "MAIL FROM:", "send": "250 ok"},
    ]
    server = steps(*script, {"on": "RCPT TO:", "send": "451 4.7.1 Try again later"})
    result = send(transport, server)["a@example.com"]
    assert (result.status, result.category, result.code) == (DEFERRED, TRANSIENT, "SMTP_451_4.7.1")
    server = steps(*script, {"on": "RCPT TO:", "send": "250 ok"})
    assert send(transport, at(server, revision=2))["a@example.com"].status is ACCEPTED


def test_a_reply_of_several_lines_is_kept_whole(steps, transport):  # class-02
    server = steps(
        {"on": "CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"},
        {"on": "MAIL FROM:", "send": "250 ok"},
        {"on": "RCPT TO:", "send": "550-5.1.1 The account does not exist\r\n550 5.1.1 see example.com"},
    )
    result = send(transport, server)["a@example.com"]
    assert (result.status, result.category, result.code) == (REFUSED, PERMANENT, "SMTP_550_5.1.1")
    assert result.text == "RCPT <a@example.com>: 550 5.1.1 The account does not exist 5.1.1 see example.com"


def test_a_421_at_rcpt_is_about_all_that_were_not_refused(serve, transport, extensions):  # F7
    server = serve(
        Rule("RCPT TO:<gone@", "550 5.1.1 no"),
        Rule("RCPT TO:<limit@", "421 4.7.28 too fast", close="after"),
        extensions=extensions,
    )
    results = send(transport, server, "first@example.com", "gone@example.com", "limit@example.com", "last@example.com")
    assert [(r.status, r.category, r.code) for r in results.values()] == [
        (DEFERRED, QUOTA, "SMTP_421_4.7.28"),
        (REFUSED, PERMANENT, "SMTP_550_5.1.1"),
        (DEFERRED, QUOTA, "SMTP_421_4.7.28"),
        (DEFERRED, QUOTA, "SMTP_421_4.7.28"),
    ]
    assert server.transactions == []
    send(transport, server, "a@example.com")
    assert server.connections == 2


# MAIL and DATA


@pytest.mark.parametrize(
    ("reply", "code", "category"),
    [
        ("530 5.7.0 authenticate first", "SMTP_530_5.7.0", AUTH),  # F5a
        ("421 4.7.28 mail flood", "SMTP_421_4.7.28", QUOTA),  # F7
        ("451 4.3.0 not now", "SMTP_451_4.3.0", TRANSIENT),
        ("550 5.7.1 not from you", "SMTP_550_5.7.1", PERMANENT),
        ("552 5.3.4 too big", "SMTP_552_5.3.4", INVALID_INPUT),  # F6
    ],
)
def test_a_refused_mail_fails_the_attempt(serve, transport, extensions, reply, code, category):
    server = serve(Rule("MAIL", reply, times=1), extensions=extensions)
    error = failure(transport, server)
    assert (error.code, error.category, error.is_uncertain) == (code, category, False)
    assert error.text == f"MAIL: {reply}"
    assert isinstance(error.__cause__, Exception)
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert len(server.messages) == 1


@pytest.mark.parametrize("event", ["DATA", "EOD"])
@pytest.mark.parametrize(
    ("reply", "status", "category"),
    [
        ("451 4.3.0 try later", DEFERRED, TRANSIENT),
        ("554 5.7.1 spam", REFUSED, PERMANENT),
        ("552 too big", REFUSED, INVALID_INPUT),
        ("421 4.3.2 shutting down", DEFERRED, TRANSIENT),
    ],
)
def test_a_refusal_of_the_data_is_for_all_that_were_taken(serve, transport, extensions, event, reply, status, category):
    server = serve(Rule(event, reply, times=1), Rule("RCPT TO:<gone@", "550 5.1.1 no"), extensions=extensions)
    results = send(transport, server, "a@example.com", "gone@example.com", "b@example.com")
    assert [(r.status, r.category) for r in results.values()] == [
        (status, category),
        (REFUSED, PERMANENT),
        (status, category),
    ]
    assert results["a@example.com"].text == f"DATA: {reply}"
    assert server.messages == []
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert server.connections == (2 if reply.startswith("4") else 1)


def test_a_server_that_refuses_before_the_end_of_the_body(serve, transport):
    server = serve(Rule("DATA", "354 go\r\n550 5.7.1 enough"))
    result = send(transport, server)["a@example.com"]
    assert (result.status, result.code) == (REFUSED, "SMTP_550_5.7.1")
    assert server.transactions == []


def test_a_reply_too_many_is_never_taken_for_success(serve, transport):
    server = serve(Rule("DATA", "354 go\r\n250 2.0.0 queued already"))
    error = failure(transport, server)
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "SMTP_DISCONNECTED", False)
    assert "out of step" in error.text
    assert server.transactions == []


def test_data_answered_250_is_out_of_step(serve, transport, extensions):
    server = serve(Rule("DATA", "250 ok"), extensions=extensions)
    error = failure(transport, server)
    assert (error.category, error.code) == (TRANSIENT, "SMTP_DISCONNECTED")


# Extensions


def test_an_internationalised_domain_needs_no_smtputf8(steps, transport):  # addr-03
    server = steps(
        {"on": "CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"},
        {"on": "MAIL FROM:", "send": "250 ok"},
        {"on": "RCPT TO:<info@xn--bcher-kva.example>", "send": "250 ok"},
        {"on": "RCPT TO:*", "send": "501 5.1.3 bad address"},
        {"on": "DATA", "send": "354 go"},
        {"on": "EOD", "send": "250 2.0.0 queued"},
    )
    address = "info@xn--bcher-kva.example"
    assert send(transport, server, address)[address].status is ACCEPTED
    assert server.lines("MAIL") == [f"MAIL FROM:<{SENDER}>"]


def test_a_local_part_that_needs_smtputf8_is_not_sent_without_it(steps, transport):  # addr-04
    server = steps(
        {"on": "CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"},
        {"on": "*", "send": "250 ok"},
    )
    error = failure(transport, server, "jörg@example.com")
    assert (error.category, error.code) == (INVALID_INPUT, "SMTP_UTF8_UNSUPPORTED")
    assert "SMTPUTF8" in error.text
    assert said(server) == ["EHLO client.example.org"]


def test_smtputf8_is_named_where_an_address_or_a_header_needs_it(serve, transport):  # addr-04, RFC 6531
    server = serve(extensions=("PIPELINING", "8BITMIME", "SMTPUTF8"))
    message = "To: jörg@example.com\r\n\r\nx\r\n".encode()
    assert send(transport, server, "jörg@example.com", message=message)["jörg@example.com"].status is ACCEPTED
    send(transport, server, "a@example.com", sender="shöp@example.org")
    send(transport, server, "a@example.com", message=message)  # jörg has it already: the bytes are the same
    send(transport, server, "a@example.com")
    assert server.lines("MAIL") == [
        f"MAIL FROM:<{SENDER}> BODY=8BITMIME SMTPUTF8",
        "MAIL FROM:<shöp@example.org> SMTPUTF8",
        f"MAIL FROM:<{SENDER}> BODY=8BITMIME SMTPUTF8",
        f"MAIL FROM:<{SENDER}>",
    ]
    assert server.lines("RCPT")[0] == "RCPT TO:<jörg@example.com>"
    assert server.messages[0].content == message


def test_an_address_that_no_octets_can_say(serve, transport):
    server = serve(extensions=("SMTPUTF8",))
    error = failure(transport, server, "a\udcff@example.com")
    assert (error.category, error.code) == (INVALID_INPUT, "SMTP_ENCODING")


def test_a_message_over_the_announced_size_is_not_sent(serve, transport):  # RFC 1870
    server = serve(size=1000)
    body = b"x" * 60 + b"\r\n"
    error = failure(transport, server, message=MESSAGE + body * 20)
    assert (error.category, error.code) == (INVALID_INPUT, "SMTP_SIZE")
    assert server.lines("MAIL") == []
    send(transport, server, message=b".dots are not counted twice\r\n")
    assert server.lines("MAIL") == [f"MAIL FROM:<{SENDER}> SIZE=29"]
    assert server.connections == 1


@pytest.mark.parametrize("announced", ["SIZE", "SIZE 0", "SIZE many", f"SIZE {'9' * 5000}"])
def test_a_size_without_a_limit_limits_nothing(serve, transport, announced):
    server = serve(extensions=(announced,))
    send(transport, server)
    assert server.lines("MAIL") == [f"MAIL FROM:<{SENDER}> SIZE={len(MESSAGE)}"]


@pytest.mark.parametrize("reply", ["500 5.5.1 what", "502 5.5.1 not here"])
def test_helo_is_said_where_ehlo_is_unknown(serve, transport, reply):
    server = serve(Rule("EHLO", reply))
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert said(server)[:2] == ["EHLO client.example.org", "HELO client.example.org"]
    assert server.violations == []


# Greeting and connecting


@pytest.mark.parametrize("greeting", ["554 5.3.2 no service", "421 4.3.2 too busy"])  # F8
def test_a_greeting_that_refuses_is_about_the_server(serve, transport, greeting):
    error = failure(transport, serve(Rule("CONNECT", greeting)))
    assert (error.category, error.text) == (TRANSIENT, f"CONNECT: {greeting}")
    assert error.code.startswith(f"SMTP_{greeting[:3]}")


@pytest.mark.parametrize("reply", ["421 4.3.2 too busy", "451 4.3.0 later"])
def test_a_refused_ehlo_is_about_the_server(serve, transport, reply):
    error = failure(transport, serve(Rule("EHLO", reply)))
    assert (error.category, error.text) == (TRANSIENT, f"EHLO: {reply}")


def test_a_refused_helo_is_about_the_server(serve, transport):
    error = failure(transport, serve(Rule("EHLO", "502 no"), Rule("HELO", "550 5.7.1 go away")))
    assert (error.category, error.code) == (TRANSIENT, "SMTP_550_5.7.1")


def test_a_port_with_no_listener(transport):  # F10
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # bound, so that nobody else listens there meanwhile
        error = failure(transport, unheard.getsockname()[1])
    assert (error.category, error.code) == (TRANSIENT, "SMTP_CONNECT")
    assert isinstance(error.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b.example", "x" * 70 + ".example"])
def test_a_name_that_does_not_resolve(client, host):
    error = failure(client.transport(connection_timeout_seconds=20), at(25, host=host))
    assert (error.category, error.code) in [(TRANSIENT, "SMTP_DNS"), (TRANSIENT, "SMTP_TIMEOUT")]


def test_a_server_that_does_not_accept_in_time(client):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        full = [socket.socket() for _ in range(4)]
        for each in full:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        started = time.monotonic()
        error = failure(client.transport(connection_timeout_seconds=SHORT), listener.getsockname()[1])
        for each in full:
            each.close()
    assert (error.category, error.code) == (TRANSIENT, "SMTP_TIMEOUT")
    assert time.monotonic() - started < 5


def test_the_next_address_is_tried_where_the_first_refuses(serve, transport):
    server = serve()  # on 127.0.0.1 only; localhost may be ::1 as well
    assert send(transport, at(server, host="localhost"))["a@example.com"].status is ACCEPTED


# Time-outs and lost connections


@pytest.mark.parametrize("event", ["CONNECT", "EHLO", "MAIL", "RCPT", "DATA"])
def test_a_silent_server_is_left_in_time(serve, client, extensions, event):
    server = serve(Rule(event, hang=True), extensions=extensions)
    started = time.monotonic()
    error = failure(client.transport(read_timeout_seconds=SHORT), server)
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "SMTP_TIMEOUT", False)
    assert error.text.startswith(f"{event}: ")
    assert time.monotonic() - started < 5
    assert server.transactions == []


@pytest.mark.parametrize("event", ["CONNECT", "EHLO", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("how", ["before", "reset"])
def test_a_connection_that_ends_before_the_final_dot(serve, transport, extensions, event, how):
    server = serve(Rule(event, close=how), extensions=extensions)
    error = failure(transport, server)
    # A reset may come before the system says that we are connected.
    allowed = ("SMTP_DISCONNECTED", "SMTP_CONNECT") if (event, how) == ("CONNECT", "reset") else ("SMTP_DISCONNECTED",)
    assert error.code in allowed
    assert (error.category, error.is_uncertain) == (TRANSIENT, False)
    assert server.connections == 1


@pytest.mark.parametrize("how", ["before", "reset"])
def test_a_connection_that_ends_after_the_final_dot_is_unknown(serve, transport, how):
    server = serve(Rule("EOD", close=how, times=1))
    error = failure(transport, server)
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "SMTP_NO_REPLY_AFTER_DATA", True)
    send(transport, server)
    first, second = server.transactions
    assert first.raw == second.raw


def test_a_server_silent_after_the_final_dot_is_unknown(steps, transport):  # smtp-04
    server = steps(
        {"on": "CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"},
        {"on": "MAIL FROM:", "send": "250 ok"},
        {"on": "RCPT TO:", "send": "250 ok"},
        {"on": "DATA", "send": "354 go"},
        {"on": "EOD", "delay_s": 9999},
    )
    started = time.monotonic()
    brief = SendLimits(send_budget_seconds=240, send_max_seconds=120, reply_wait_seconds=SHORT)
    error = failure(transport, server, through=gate(limits=brief))
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "SMTP_NO_REPLY_AFTER_DATA", True)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("reply", ["garbage", "354 what", "250-ok\r\nnothing", "x" * 20_000])
def test_nonsense_after_the_final_dot_is_unknown(serve, transport, reply):
    error = failure(transport, serve(Rule("EOD", reply)))
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "SMTP_NO_REPLY_AFTER_DATA", True)


def test_a_send_is_cut_off_when_its_time_is_over(serve, transport):
    server = serve(Rule("RCPT", delay_seconds=0.12), extensions=())
    limits = SendLimits(send_budget_seconds=240, send_max_seconds=SHORT, reply_wait_seconds=60)
    error = failure(transport, server, *(f"r{n}@example.com" for n in range(30)), through=gate(limits=limits))
    assert (error.category, error.code) == (TRANSIENT, "SMTP_TIMEOUT")
    assert len(server.lines("RCPT")) < 10


def test_a_reply_that_drips_does_not_outlast_the_time_out(client):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                while not is_over.wait(0.05):
                    try:
                        connection.sendall(b"2")
                    except OSError:
                        return

        dripping = threading.Thread(target=drip)
        dripping.start()
        started = time.monotonic()
        error = failure(client.transport(read_timeout_seconds=SHORT), listener.getsockname()[1])
        assert time.monotonic() - started < 5
        is_over.set()
        dripping.join()
    assert (error.category, error.code) == (TRANSIENT, "SMTP_TIMEOUT")


def test_a_server_that_does_not_read_is_left_in_time(serve, client):
    server = serve(Rule("DATA", "354 go", delay_seconds=0), extensions=())
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(b"220 hi\r\n")
                for reply in (b"250 mx\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
                    connection.recv(4096)
                    connection.sendall(reply)
                is_over.wait(5)

        is_over = threading.Event()
        speaking = threading.Thread(target=speak)
        speaking.start()
        transport = client.transport(read_timeout_seconds=SHORT)
        error = failure(transport, listener.getsockname()[1], message=b"x" * 20_000_000)
        is_over.set()
        speaking.join()
    assert server.connections == 0
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "SMTP_TIMEOUT", False)


# What is no reply


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param("garbage", id="words"),
        pytest.param("2x0 hm", id="no digits"),
        pytest.param("250ok", id="no separator"),
        pytest.param("", id="empty line"),
        pytest.param("٢٥٠ ok", id="other digits"),
        pytest.param("250 " + "x" * 20_000, id="long line"),
        pytest.param("x" * 100_000, id="long garbage"),
        pytest.param("250-more\r\n" * 3000 + "250 end", id="thousands of lines"),
    ],
)
@pytest.mark.parametrize("event", ["CONNECT", "EHLO", "MAIL", "RCPT", "DATA"])
def test_what_is_no_reply_ends_the_connection(serve, transport, event, reply):
    server = serve(Rule(event, reply))
    error = failure(transport, server)
    assert (error.category, error.code, error.is_uncertain) == (TRANSIENT, "SMTP_DISCONNECTED", False)
    assert server.transactions == []
    assert len(error.text) < 200


def test_a_text_keeps_what_people_can_read(serve, transport):  # C11
    reply = "550 5.7.1 Grüße\x00\x1b[31m\x07 \tweiß\udcff " + "y" * 3000
    result = send(transport, serve(Rule("RCPT", reply)))["a@example.com"]
    assert result.text.startswith("RCPT <a@example.com>: 550 5.7.1 Grüße[31m  weiß\ufffd yyy")
    assert len(result.text) == 1000
    assert result.text.isprintable()


# The gate


def test_a_claim_too_old_at_the_start_says_no_mail(serve, transport):  # first check
    server = serve()
    with pytest.raises(ClaimTooOld):
        send(transport, server, through=gate(age_seconds=121))
    assert server.lines("MAIL") == []
    send(transport, server)
    assert server.connections == 1  # nothing was said on it


@pytest.mark.parametrize("security", [Security.PLAIN, Security.IMPLICIT_TLS])
def test_a_claim_too_old_at_the_last_byte_delivers_nothing(serve, client, server_tls, trusting, security):  # C5
    is_tls = security is Security.IMPLICIT_TLS
    server = serve(tls=server_tls if is_tls else None, is_implicit_tls=is_tls)
    transport = client.transport(ssl_context_factory=trusting)
    limits = SendLimits(send_budget_seconds=60, send_max_seconds=10, reply_wait_seconds=50)
    with pytest.raises(ClaimTooOld):
        send(transport, at(server, security=security), through=gate(age_seconds=20, limits=limits))
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert server.lines("DATA") == ["DATA"]  # all but the last line went out
    assert server.transactions == []
    send(transport, at(server, security=security))
    assert (server.connections, len(server.messages)) == (2, 1)


# Kept connections


def test_a_connection_serves_many_messages(serve, transport, extensions):
    server = serve(extensions=extensions)
    for _ in range(5):
        send(transport, server)
    assert (server.connections, len(server.messages)) == (1, 5)
    assert len(server.lines("RSET")) == 4
    assert server.violations == []


def test_a_421_in_the_buffer_of_a_kept_connection(steps, transport):  # smtp-02
    server = steps(
        {"on": "CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 8BITMIME"},
        {"on": "message 1", "send": "250 (whole dialogue ok)"},
        {"on": "idle 60s", "send": "421 4.4.2 timeout, closing", "close": True},
        {"on": "second CONNECT", "send": "220 mx.example.com ESMTP"},
        {"on": "message 2", "send": "250 (whole dialogue ok)"},
    )
    send(transport, server)
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert [m.connection for m in server.messages] == [1, 2]
    send(transport, server)
    assert server.connections == 2  # the dead one is not kept, the new one is


def test_a_server_that_was_restarted(serve, transport, extensions):
    server = serve(extensions=extensions)
    send(transport, server)
    server.drop_connections()
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert server.connections == 2


@pytest.mark.parametrize("event", ["RSET", "MAIL"])
@pytest.mark.parametrize(
    "fault",
    [
        {"reply": "421 4.4.2 timeout, closing", "close": "after"},
        {"close": "before"},
        {"close": "reset"},
        {"hang": True},
        {"reply": "garbage"},
    ],
    ids=["421", "closed", "reset", "silent", "garbage"],
)
def test_a_kept_connection_that_fails_is_replaced_within_the_attempt(serve, client, extensions, event, fault):
    server = serve(extensions=extensions)
    transport = client.transport(read_timeout_seconds=SHORT)
    send(transport, server)
    server.on(event, times=1, **fault)
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert (server.connections, len(server.messages)) == (2, 2)


def test_a_connection_is_replaced_once_only(serve, transport):
    server = serve(extensions=())
    send(transport, server)
    server.on("MAIL", "421 4.7.0 not today", close="after")
    assert failure(transport, server).code == "SMTP_421_4.7.0"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("event", "reply"),
    [
        ("MAIL", "452 4.4.5 Maximum number of messages per session exceeded."),
        ("DATA", "452 4.4.5 Maximum number of messages per session exceeded."),
        ("RCPT", "421 Maximum message count per session reached"),
        ("MAIL", "503 5.5.2 Send hello first"),
        ("MAIL", "530 5.7.0 Authentication required"),
    ],
)
def test_a_kept_connection_that_served_enough_is_replaced_within_the_attempt(
    serve, transport, extensions, event, reply
):
    server = serve(extensions=extensions)
    send(transport, server)
    server.on(event, reply, times=1)
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert [message.connection for message in server.messages] == [1, 2, 2]


@pytest.mark.parametrize("event", ["MAIL", "DATA", "EOD"])
def test_a_connection_that_refuses_a_transaction_for_now_is_not_kept(serve, transport, extensions, event):
    server = serve(Rule(event, "452 4.4.5 enough", times=1), extensions=extensions)
    with contextlib.suppress(DeliveryError):
        assert send(transport, server)["a@example.com"].status is DEFERRED
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert server.connections == 2


def test_a_server_that_takes_nothing_now_is_asked_over_one_new_connection(serve, transport, extensions):
    server = serve(extensions=extensions)
    send(transport, server)
    server.on("MAIL", "451 4.3.0 not now")
    assert failure(transport, server).code == "SMTP_451_4.3.0"
    assert server.connections == 2


def test_a_refusal_on_a_kept_connection_is_an_answer(serve, transport, extensions):
    server = serve(extensions=extensions)
    send(transport, server)
    server.on("MAIL", "550 5.7.1 blocked")
    assert failure(transport, server).code == "SMTP_550_5.7.1"
    assert server.connections == 1


def test_a_kept_connection_that_ends_after_a_recipient_was_taken_is_a_failure(serve, transport):
    server = serve(extensions=())
    send(transport, server)
    server.on("DATA", close="before")
    assert failure(transport, server).code == "SMTP_DISCONNECTED"
    assert server.connections == 1


def test_a_kept_connection_that_ends_after_the_final_dot_is_not_sent_over_again(serve, transport):
    server = serve()
    send(transport, server)
    server.on("EOD", close="before")
    assert failure(transport, server).is_uncertain
    assert len(server.transactions) == 2


def test_a_late_reply_makes_a_connection_useless(serve, client):
    server = serve(Rule("MAIL", delay_seconds=2 * SHORT, times=1), extensions=())
    transport = client.transport(read_timeout_seconds=SHORT)
    assert failure(transport, server).code == "SMTP_TIMEOUT"
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert server.connections == 2


def test_a_reply_too_many_at_the_end_makes_a_connection_useless(serve, transport):
    server = serve(Rule("EOD", "250 2.0.0 queued\r\n250 2.0.0 really", times=1))
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert send(transport, server)["a@example.com"].status is ACCEPTED
    assert server.connections == 2


def test_a_connection_serves_no_more_messages_than_allowed(serve, client):
    server = serve()
    transport = client.transport(max_messages=2)
    for _ in range(5):
        send(transport, server)
    assert server.connections == 3
    assert len(server.lines("QUIT")) == 2


def test_a_connection_that_idled_too_long_is_closed(serve, client):
    server = serve()
    now = [100.0]
    transport = client.transport(max_idle_seconds=30, ticker=lambda: now[0])
    send(transport, server)
    now[0] += 29
    send(transport, server)
    assert server.connections == 1
    now[0] += 31
    send(transport, server)
    assert server.connections == 2
    now[0] += 31
    transport.close_idle()
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert len(server.lines("QUIT")) == 2


def test_an_idle_connection_is_closed_with_nobody_sending(serve, client):
    server = serve()
    send(client.transport(max_idle_seconds=0.2), server)
    server.wait_for_command("QUIT", 5)


def test_a_changed_config_closes_its_old_connections(serve, transport):
    server, other = serve(), serve()
    send(transport, at(server, revision=1))
    send(transport, at(other, config_id=2))
    send(transport, at(server, revision=2))
    assert server.connections == 2
    server.wait_until(lambda: server.open_connections == 1, 5)
    send(transport, at(other, config_id=2))
    assert other.connections == 1


def test_close_all_closes_all(serve, transport):
    server = serve()
    send(transport, server)
    transport.close_all()
    server.wait_until(lambda: server.open_connections == 0, 5)
    send(transport, server)
    assert server.connections == 2


def test_each_connection_serves_one_thread_at_a_time(serve, transport):
    server = serve()
    with ThreadPoolExecutor(8) as threads:
        addresses = [f"r{n}@example.com" for n in range(200)]
        results = list(threads.map(lambda address: send(transport, server, address), addresses))
    assert all(next(iter(r.values())).status is ACCEPTED for r in results)
    assert server.copies() == dict.fromkeys(addresses, 1)
    assert 1 <= server.connections <= 8
    assert server.violations == []


# TLS


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.IMPLICIT_TLS])
def test_a_protected_connection_sends_and_is_kept(serve, client, server_tls, trusting, security):
    server = serve(tls=server_tls, is_implicit_tls=security is Security.IMPLICIT_TLS)
    transport = client.transport(ssl_context_factory=trusting)
    message = MESSAGE + b".x\r\n" * 100_000
    for _ in range(3):
        assert send(transport, at(server, security=security), message=message)["a@example.com"].status is ACCEPTED
    assert (server.connections, server.messages[0].content) == (1, message)
    expected = 2 if security is Security.STARTTLS else 1  # EHLO again after STARTTLS, RFC 3207 4.2
    assert len(server.lines("EHLO")) == expected
    server.drop_connections()
    assert send(transport, at(server, security=security))["a@example.com"].status is ACCEPTED


def test_starttls_that_is_not_offered_sends_nothing(steps, transport):  # sec-02
    server = steps(
        {"on": "CONNECT", "send": "220 mx"},
        {"on": "EHLO", "send": "250-mx.example.com\r\n250 AUTH PLAIN LOGIN"},
        {"on": "AUTH", "send": "235 ok"},
    )
    error = failure(transport, at(server, security=Security.STARTTLS, username="u", password="p"))
    assert (error.category, error.code) == (AUTH, "SMTP_NOT_SUPPORTED")
    assert "TLS is required" in error.text
    assert said(server) == ["EHLO client.example.org"]


@pytest.mark.parametrize(
    ("reply", "category"),
    [("454 4.7.0 not now", TRANSIENT), ("500 5.5.1 what", AUTH), ("554 5.7.3 no", AUTH), ("250 ok", UNKNOWN)],
)
def test_starttls_that_is_refused_sends_nothing(serve, transport, server_tls, reply, category):  # sec-02
    server = serve(Rule("STARTTLS", reply), tls=server_tls, users={"u": "p"})
    error = failure(transport, at(server, security=Security.STARTTLS, username="u", password="p"))
    assert error.category is category
    assert "TLS is required" in error.text
    assert said(server) == ["EHLO client.example.org", "STARTTLS"]


def test_a_server_that_only_says_helo_cannot_be_protected(serve, transport, server_tls):
    server = serve(Rule("EHLO", "502 no"), tls=server_tls)
    assert failure(transport, at(server, security=Security.STARTTLS)).code == "SMTP_NOT_SUPPORTED"
    assert server.lines("MAIL") == []


def test_plain_text_after_the_reply_to_starttls_is_an_attack(serve, client, server_tls, trusting):
    server = serve(Rule("STARTTLS", "220 go\r\n250 injected"), tls=server_tls)
    error = failure(client.transport(ssl_context_factory=trusting), at(server, security=Security.STARTTLS))
    assert (error.category, error.code) == (TRANSIENT, "SMTP_TLS")
    assert said(server) == ["EHLO client.example.org", "STARTTLS"]


def test_starttls_answered_by_no_tls(serve, transport):
    server = serve(Rule("STARTTLS", "220 go\r\n"), extensions=("STARTTLS",))
    server.on("STARTTLS", "220 go")
    error = failure(transport, at(server, security=Security.STARTTLS))
    assert error.code in ("SMTP_TLS", "SMTP_TIMEOUT", "SMTP_DISCONNECTED")
    assert server.lines("MAIL") == []


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.IMPLICIT_TLS])
def test_a_certificate_nobody_vouches_for_is_refused(serve, transport, server_tls, security):
    server = serve(tls=server_tls, is_implicit_tls=security is Security.IMPLICIT_TLS, users={"u": "p"})
    error = failure(transport, at(server, security=security, username="u", password="p"))
    assert (error.category, error.code) == (AUTH, "SMTP_TLS_CERT")
    assert isinstance(error.__cause__, ssl.SSLCertVerificationError)
    assert server.lines("AUTH") == server.lines("MAIL") == []


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.IMPLICIT_TLS])
def test_a_certificate_of_another_host_is_refused(serve, client, authority, trusting, security):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example.net").configure_cert(context)
    server = serve(tls=context, is_implicit_tls=security is Security.IMPLICIT_TLS)
    error = failure(client.transport(ssl_context_factory=trusting), at(server, security=security))
    assert (error.category, error.code) == (AUTH, "SMTP_TLS_CERT")


def test_the_dot_that_ends_an_absolute_name_is_in_no_certificate(serve, server_tls, trusting):
    told: list[str | None] = []
    server_tls.sni_callback = lambda _, name, __: told.append(name)
    try:
        server = serve(tls=server_tls, is_implicit_tls=True)
        wire = SmtpWire(socket.create_connection(("127.0.0.1", server.port)), time.monotonic)
        wire.encrypt(trusting(), "localhost.", 5)
        assert wire.read_reply(lambda: 5)[0] == 220
        wire.close()
    finally:
        server_tls.sni_callback = None
    assert told == ["localhost"]


def test_implicit_tls_to_a_server_that_speaks_plainly(serve, transport):
    error = failure(transport, at(serve(), security=Security.IMPLICIT_TLS))
    assert (error.category, error.code) == (TRANSIENT, "SMTP_TLS")


def test_a_handshake_that_stalls_is_left_in_time(client):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        transport = client.transport(read_timeout_seconds=SHORT)
        error = failure(transport, at(port, security=Security.IMPLICIT_TLS))
    assert (error.category, error.code) == (TRANSIENT, "SMTP_TIMEOUT")


# AUTH


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN", "CRAM-MD5"])
@pytest.mark.parametrize("password", ["secret word", "pässwörd€"])
def test_authentication_by_what_the_server_offers(serve, transport, mechanism, password):
    server = serve(users={"üser@example.org": password}, mechanisms=[mechanism], is_auth_required=True)
    send(transport, at(server, username="üser@example.org", password=password))
    send(transport, at(server, username="üser@example.org", password=password))
    assert server.logins == ["üser@example.org"]
    assert len(server.messages) == 2


def test_mechanisms_in_lower_case_or_in_the_old_style_are_understood(serve, transport):
    server = serve(extensions=("AUTH=login plain",), users={"u": "p"}, mechanisms=["LOGIN", "PLAIN"])
    server.on("EHLO", "250-mx\r\n250 AUTH=login plain")
    send(transport, at(server, username="u", password="p"))
    assert server.logins == ["u"]


def test_authentication_after_starttls(serve, client, server_tls, trusting):
    server = serve(tls=server_tls, users={"u": "p"}, is_auth_required=True)
    transport = client.transport(ssl_context_factory=trusting)
    send(transport, at(server, security=Security.STARTTLS, username="u", password="p"))
    verbs = [line.split(" ")[0].upper() for line in said(server)]
    assert verbs[:5] == ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL"]


@pytest.mark.parametrize("username", [None, "", "  "])
def test_a_blank_username_means_no_authentication(serve, transport, username):
    server = serve(users={"u": "p"})
    send(transport, at(server, username=username, password="p"))
    assert server.lines("AUTH") == []


SECRET = "Tr0ub4dor-and-3"


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN", "CRAM-MD5"])
@pytest.mark.parametrize("debug", [False, True])
def test_wrong_credentials_are_never_repeated(serve, client, caplog, mechanism, debug):  # F2
    caplog.set_level(logging.DEBUG)
    hidden = [
        SECRET,
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"\0user\0{SECRET}".encode()).decode(),
    ]
    server = serve(users={"user": "another"}, mechanisms=[mechanism])
    server.on("AUTH", "535-5.7.8 you said " + " ".join(hidden) + "\r\n535 5.7.8 and that is wrong")
    error = failure(client.transport(debug=debug), at(server, username="user", password=SECRET))
    assert (error.category, error.code) == (AUTH, "SMTP_535_5.7.8")
    assert error.text == "AUTH: 535 5.7.8 you said *** *** *** 5.7.8 and that is wrong"
    told = [error.text, str(error), repr(error), repr(error.__cause__), caplog.text]
    told.append(repr(at(server, username="user", password=SECRET)))
    assert not [h for h in hidden for text in told if h in text]
    assert server.lines("MAIL") == []


@pytest.mark.parametrize(
    ("reply", "code", "category"),
    [
        ("454 4.7.0 later", "SMTP_454_4.7.0", TRANSIENT),
        ("432 4.7.12 change your password", "SMTP_432_4.7.12", AUTH),
        ("535 5.7.8 no", "SMTP_535_5.7.8", AUTH),  # F2
        ("500 5.5.6 too long", "SMTP_500_5.5.6", AUTH),
        ("421 4.3.0 bye", "SMTP_421_4.3.0", TRANSIENT),
    ],
)
def test_refused_authentication(serve, transport, reply, code, category):
    server = serve(Rule("AUTH", reply), users={"u": "p"}, mechanisms=["PLAIN"])
    error = failure(transport, at(server, username="u", password="p"))
    assert (error.code, error.category) == (code, category)


def test_a_wrong_password_is_tried_once(serve, transport):
    server = serve(users={"u": "right"}, mechanisms=["PLAIN", "LOGIN"])
    failure(transport, at(server, username="u", password="wrong"))
    assert len(server.lines("AUTH")) == 1


def test_the_next_mechanism_is_tried_where_one_does_not_work(serve, transport):
    server = serve(Rule("AUTH CRAM-MD5", "535 5.7.8 no plain password here"), users={"u": "p"})
    send(transport, at(server, username="u", password="p"))
    assert server.logins == ["u"]


@pytest.mark.parametrize("mechanisms", [["XOAUTH2", "GSSAPI"], []])
def test_no_mechanism_in_common(serve, transport, mechanisms):
    server = serve(users={"u": "p"}, mechanisms=mechanisms)
    error = failure(transport, at(server, username="u", password="p"))
    assert (error.category, error.code) == (AUTH, "SMTP_NOT_SUPPORTED")


def test_authentication_that_is_not_offered(serve, transport):
    error = failure(transport, at(serve(), username="u", password="p"))
    assert (error.category, error.code) == (AUTH, "SMTP_NOT_SUPPORTED")


@pytest.mark.parametrize("reply", ["334 !!!", "334 YQ=="])
def test_a_server_that_keeps_asking(serve, transport, reply):
    server = serve(Rule("*", reply), users={"u": "p"}, mechanisms=["PLAIN"])
    server.on("CONNECT")
    server.on("EHLO")
    error = failure(transport, at(server, username="u", password="p"))
    assert (error.category, error.code) == (AUTH, "SMTP_504")


# Trace


def test_the_trace_shows_the_dialogue_without_bodies_and_credentials(serve, client, caplog):
    caplog.set_level(logging.DEBUG, "messaging.mail.smtp")
    server = serve(users={"user": SECRET}, mechanisms=["PLAIN"])
    send(client.transport(debug=True), at(server, username="user", password=SECRET))
    assert "C: AUTH PLAIN ***" in caplog.messages
    assert f"C: ({len(MESSAGE)} octets)" in caplog.messages
    assert "S: 250 2.0.0 queued" in caplog.messages
    assert "body" not in caplog.text
    assert base64.b64encode(f"\0user\0{SECRET}".encode()).decode() not in caplog.text


def test_nothing_is_logged_without_the_trace(serve, transport, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    send(transport, serve())
    assert caplog.messages == []
    assert capfd.readouterr() == ("", "")


def test_an_exception_nobody_foresaw_goes_on_and_ends_the_connection(serve, transport):
    class Broken:
        def check_start(self) -> None: ...

        def check_last_byte(self) -> None:
            raise ZeroDivisionError

        def timeout(self, limit_seconds: float) -> float:
            return limit_seconds

        def reply_timeout(self) -> float:
            return 5

    server = serve()
    with pytest.raises(ZeroDivisionError):
        send(transport, server, through=Broken())
    server.wait_until(lambda: server.open_connections == 0, 5)
    assert server.transactions == []


# Other far ends


def test_a_server_in_a_process_of_its_own(tmp_path: Path, transport):
    refusal = Rule("RCPT TO:<*", "451 4.7.1 later", times=1, per_line=True)
    with SmtpServerProcess(tmp_path, [refusal]) as server:
        for status in (DEFERRED, ACCEPTED):
            results = send(transport, server, "a@example.com", "b@example.com")
            assert {r.status for r in results.values()} == {status}
        (message,) = server.wait_for(1, 5)
        assert (message.content, message.recipients) == (MESSAGE, ("a@example.com", "b@example.com"))
        transport.close_all()


def test_postfix_takes_what_we_send(servers_folder: Path, transport):
    sink = packages.require("smtp-sink")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = servers_folder / f"sink-{port}"
    folder.mkdir()
    folder.chmod(0o777)  # as root the sink becomes nobody
    command = sink.command("-d", str(folder / "mail."), f"127.0.0.1:{port}", "100")
    process = subprocess.Popen(command, env={**os.environ, **sink.environment()}, cwd=folder)
    try:
        deadline = time.monotonic() + 10
        while is_refused(transport, port):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        lines = b".\r\n..two\r\nlast\r\n"
        with ThreadPoolExecutor(4) as threads:
            sent = threads.map(lambda n: send(transport, port, f"r{n}@example.com", message=MESSAGE + lines), range(50))
            assert all(next(iter(results.values())).status is ACCEPTED for results in sent)
        transport.close_all()
        deadline = time.monotonic() + 5
        while len(kept := [f.read_bytes() for f in folder.glob("mail.*")]) < 51 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(kept) == 51
        whole = (MESSAGE + lines).replace(b"\r\n", b"\n")
        assert sum(whole in each.replace(b"\r\n", b"\n") for each in kept) == 50
    finally:
        process.terminate()
        process.wait(5)
