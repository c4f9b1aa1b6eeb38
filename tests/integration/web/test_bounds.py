"""What one caller may cost: size, time and number of requests; and what every answer holds."""

import logging
import socket
import time

import pytest
from sqlalchemy import Engine

from messaging.web.envelope import SECURITY_HEADERS
from messaging.web.limits import Limits, Rate
from messaging.web.serve import TimedProtocol
from tests.integration.sms.accounts import Accounts
from tests.integration.sms.receipt_records import Records
from tests.integration.web.callers import PUBLIC_URL, Account, Site, read_all, signed, status_of, tell
from tests.integration.web.conftest import Open
from tests.polling import eventually

SMALL = Limits(max_body_octets=1000, body_seconds=0.3)


def head(target: str, *fields: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: x", *fields, "", ""]).encode()


def status_line(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_body_that_states_too_much_is_refused_before_it_is_sent(open_site: Open, twilio: Account) -> None:
    site = open_site(limits=SMALL)
    with site.raw() as connection:
        connection.sendall(head(twilio.path, "Content-Length: 1001", "Expect: 100-continue"))
        answer = read_all(connection)  # nothing of the body was asked for, and the connection ends
    assert status_line(answer) == 413
    assert b"100 Continue" not in answer


def test_a_body_that_states_no_size_is_read_up_to_the_bound(open_site: Open, twilio: Account, records: Records) -> None:
    site = open_site(limits=SMALL)
    with site.raw() as connection:
        connection.sendall(head(twilio.path, "Transfer-Encoding: chunked"))
        for _ in range(3):
            connection.sendall(b"1f4\r\n" + b"x" * 500 + b"\r\n")  # and no last chunk
        assert status_line(read_all(connection)) == 413
    assert records.receipts() == []


def test_a_body_within_the_bound_may_come_in_chunks(open_site: Open, twilio: Account, records: Records) -> None:
    site = open_site(limits=SMALL)
    body = status_of("SM1")
    fields = [f"{name}: {value}" for name, value in signed(PUBLIC_URL + twilio.path, body).items()]
    with site.raw() as connection:
        connection.sendall(head(twilio.path, "Transfer-Encoding: chunked", "Connection: close", *fields))
        for octet in body:
            connection.sendall(b"1\r\n" + bytes([octet]) + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        assert status_line(read_all(connection)) == 200
    assert [receipt.raw for receipt in records.receipts()] == [body.decode()]


def test_a_body_that_does_not_come_is_not_waited_for(open_site: Open, twilio: Account, records: Records) -> None:
    site = open_site(limits=SMALL)
    with site.raw() as connection:
        connection.sendall(head(twilio.path, "Content-Length: 900") + b"Message")
        began = time.monotonic()
        answer = read_all(connection)
    assert status_line(answer) == 408
    assert time.monotonic() - began < 5
    assert records.receipts() == []


def test_a_caller_that_leaves_in_the_middle_leaves_nothing(open_site: Open, twilio: Account, records: Records) -> None:
    site = open_site(limits=SMALL)
    with site.raw() as connection:
        connection.sendall(head(twilio.path, "Content-Length: 900") + b"Message")
    assert tell(site, twilio.path, status_of("SM1")).status == 200
    assert len(records.receipts()) == 1


@pytest.mark.parametrize("sent", [b"", b"POST /hooks/sms", head("/healthz", method="GET")[:-2]])
def test_a_head_that_does_not_come_is_not_waited_for(open_site: Open, sent: bytes) -> None:
    class Impatient(TimedProtocol):
        head_seconds = 0.2

    site = open_site(http=Impatient)
    with site.raw() as connection:
        connection.sendall(sent)
        assert read_all(connection) == b""
    assert site.get("/healthz").status == 200


def test_a_connection_serves_several_requests(open_site: Open) -> None:
    class Impatient(TimedProtocol):
        head_seconds = 5.0

    site = open_site(http=Impatient)
    with site.raw() as connection:
        for fields in ((), ("Connection: close",)):
            connection.sendall(head("/healthz", *fields, method="GET"))
            if not fields:
                assert status_line(connection.recv(65536)) == 200
        assert status_line(read_all(connection)) == 200


def test_a_head_that_is_too_long_is_refused(site: Site) -> None:
    with site.raw() as connection:
        try:
            connection.sendall(head("/" + "x" * 200_000))
            answer = read_all(connection)
        except ConnectionError:
            return  # it ended before all was sent
    assert status_line(answer) == 400


@pytest.mark.parametrize(
    "request_text",
    [
        b"nonsense\r\n\r\n",
        head("/x", "Content-Length: -1"),
        head("/x", "Content-Length: 1", "Content-Length: 2"),
        head("/x", "Content-Length: 1e3"),
    ],
)
def test_what_is_no_http_is_refused(site: Site, request_text: bytes) -> None:
    with site.raw() as connection:
        connection.sendall(request_text)
        assert status_line(read_all(connection)) == 400
    assert site.get("/healthz").status == 200


def test_a_flood_of_one_address_is_held_back_and_probes_are_not(
    open_site: Open, twilio: Account, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    site = open_site(limits=Limits(per_address=Rate(per_second=0.01, burst=3)))
    answers = [tell(site, twilio.path, status_of(f"SM{number}")) for number in range(6)]
    assert [answer.status for answer in answers] == [200, 200, 200, 429, 429, 429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 100
    assert len(records.receipts()) == 3
    assert site.get("/nowhere").status == 429
    assert site.get("/healthz").status == site.get("/readyz").status == 200
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [(record.getMessage(), record.client) for record in warnings] == [  # type: ignore[attr-defined]
        ("too many requests of one address", "127.0.0.1")
    ]


def test_callers_behind_a_trusted_proxy_are_counted_alone_and_nobody_else_names_its_address(
    open_site: Open, twilio: Account
) -> None:
    limits = Limits(per_address=Rate(per_second=0.01, burst=1))

    def statuses(site: Site) -> list[int]:
        callers = ("192.0.2.1", "192.0.2.1", "192.0.2.2")
        return [tell(site, twilio.path, status_of("SM1"), **{"X-Forwarded-For": host}).status for host in callers]

    assert statuses(open_site(limits=limits, trusted_proxies=["127.0.0.1"])) == [200, 429, 200]
    assert statuses(open_site(limits=limits, trusted_proxies=["192.0.2.9"])) == [200, 429, 429]
    assert statuses(open_site(limits=limits)) == [200, 429, 429]


def test_a_flood_of_one_token_leaves_the_others_alone(open_site: Open, accounts: Accounts) -> None:
    one, other = Account(accounts), Account(accounts)
    site = open_site(limits=Limits(per_token=Rate(per_second=0.01, burst=2)))
    assert [tell(site, one.path, status_of("SM1")).status for _ in range(3)] == [200, 200, 429]
    assert tell(site, other.path, status_of("SM1")).status == 200


def test_more_connections_than_allowed_are_told_to_come_again(open_site: Open) -> None:
    site = open_site(limit_concurrency=3)
    held: list[socket.socket] = []
    for _ in range(3):
        connection = socket.create_connection(("127.0.0.1", site.port))
        connection.sendall(head("/x", "Content-Length: 9")[:10])
        held.append(connection)
    assert site.get("/healthz").status == 503
    for connection in held:
        connection.close()


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/nowhere", 404),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
        ("GET", "/redoc", 404),
        ("GET", "/", 303),
        ("POST", "/healthz", 405),
        ("POST", "/hooks/sms/twilio/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 404),
        ("GET", "/hooks/unsubscribe/x", 404),
        ("OPTIONS", "/hooks/unsubscribe/x", 405),
    ],
)
def test_every_answer_is_safe_to_show(site: Site, method: str, target: str, status: int) -> None:
    answer = site.ask(method, target, headers={"Origin": "https://evil.example"})
    assert answer.status == status
    assert answer.headers.keys() >= SECURITY_HEADERS.keys()
    assert "server" not in answer.headers
    assert not {name for name in answer.headers if name.startswith("access-control") or name == "set-cookie"}


def test_a_mistake_of_ours_tells_nothing_of_itself(
    site: Site, twilio: Account, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE sms_receipt ADD CONSTRAINT never CHECK (raw = '')")
    answer = tell(site, twilio.path, status_of("SM1", "a-secret"))
    assert (answer.status, answer.text) == (500, "Internal Server Error")
    assert answer.headers.keys() >= SECURITY_HEADERS.keys()
    # It is logged once the answer is on its way.
    eventually(lambda: any(record.exc_info for record in caplog.records), 5, "the error in the log")


def test_what_is_under_way_at_a_stop_is_taken(open_site: Open, twilio: Account, records: Records) -> None:
    site = open_site(timeout_graceful_shutdown=10)
    body = status_of("SM1")
    fields = [f"{name}: {value}" for name, value in signed(PUBLIC_URL + twilio.path, body).items()]
    with site.raw() as connection:
        connection.sendall(head(twilio.path, f"Content-Length: {len(body)}", "Expect: 100-continue", *fields))
        assert status_line(connection.recv(65536)) == 100  # it is being read
        site.begin_stop()
        eventually(lambda: not site.is_listening(), 10, "the end of listening")
        connection.sendall(body)
        assert status_line(read_all(connection)) == 200
    assert len(records.receipts()) == 1
