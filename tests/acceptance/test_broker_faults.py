"""The broker is flushed, restarted or away: nothing is lost, nothing is sent twice (`operate.md` section 13)."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Start
from tests.acceptance.records import accept, assert_each_once, attempt_outcomes, rows, statuses, wait_for
from tests.acceptance.system import LEASE_SECONDS, MessagingSetup
from tests.far_end import packages
from tests.polling import eventually, stays

#: With Valkey, and once also with Debian's redis-server.
with_both_brokers = pytest.mark.parametrize("broker_kind", ["valkey", "redis-server"], indirect=True)

MAILS = 1000


@pytest.fixture
def start_on_each(start: Start) -> Iterator[Callable[..., list[MessagingSetup]]]:
    """Starts a system on Valkey and one on Debian's redis-server: half a minute passes for both at once.

    Where the second cannot be had the test runs with the first, and is skipped at its end; in CI it fails.
    """
    kinds = ["valkey"]
    with suppress(packages.FarEndMissing):
        packages.find("redis-server")
        kinds.append("redis-server")
    yield lambda **system: [start(broker=kind, **system) for kind in kinds]
    packages.require("redis-server")


def begin_to_send(setup: MessagingSetup) -> list[int]:
    """Accept 1,000 mails to a server that takes its time, and wait until some have gone and many are under way."""
    setup.smtp.on("EOD", delay_seconds=0.03)
    ids = accept(setup, MAILS)
    setup.smtp.wait_for(MAILS // 5, 60)
    return ids


def assert_nothing_was_lost_or_repeated(setup: MessagingSetup, ids: list[int]) -> None:
    assert_each_once(setup, len(ids))
    # Nobody was killed, so no attempt vanished: what was lost was only handed out, and cost no retry.
    assert attempt_outcomes(setup) == {"SENT": len(ids)}
    assert {record.retry_count for record in rows(setup, ids)} == {0}


def test_a_broker_flushed_in_the_middle_of_1000_mails_loses_and_repeats_none(
    start_on_each: Callable[..., list[MessagingSetup]],
) -> None:
    # operate.md O49
    setups = start_on_each(mail_workers=2)
    accepted = [send_until_flushed(setup) for setup in setups]
    for setup, ids in zip(setups, accepted, strict=True):
        wait_for(setup, {"SENT": MAILS}, LEASE_SECONDS + 90)
        assert_nothing_was_lost_or_repeated(setup, ids)


def send_until_flushed(setup: MessagingSetup) -> list[int]:
    ids = begin_to_send(setup)
    eventually(lambda: setup.queue_length("mail_send"), 10, "messages are queued")
    with setup.redis as client:
        client.flushall()
    return ids


@with_both_brokers
def test_a_broker_restarted_in_the_middle_of_1000_mails_loses_and_repeats_none(start: Start) -> None:
    setup = start(mail_workers=2)
    ids = begin_to_send(setup)
    setup.broker.restart()
    wait_for(setup, {"SENT": MAILS}, LEASE_SECONDS + 90)
    assert_nothing_was_lost_or_repeated(setup, ids)
    assert all(node.is_running() for node in setup.nodes)


def test_a_broker_that_crashes_in_the_middle_of_1000_mails_loses_and_repeats_none(start: Start) -> None:
    setup = start(mail_workers=2)
    ids = begin_to_send(setup)
    setup.broker.kill()
    assert setup.broker.container.status == "exited"
    setup.broker.restart()
    wait_for(setup, {"SENT": MAILS}, LEASE_SECONDS + 90)
    assert_nothing_was_lost_or_repeated(setup, ids)


def test_a_broker_away_for_30_seconds_in_the_middle_of_1000_mails_loses_and_repeats_none(
    start_on_each: Callable[..., list[MessagingSetup]],
) -> None:
    # operate.md O56, of the broker: what is under way ends, nothing else begins
    setups = start_on_each(mail_workers=2)
    accepted = [send_until_away(setup) for setup in setups]
    back_at = time.monotonic() + 30
    ended = [statuses(setup)["SENT"] for setup in setups]
    stays(
        lambda: [statuses(setup)["SENT"] for setup in setups] == ended,
        max(0.0, back_at - time.monotonic()),
        "nothing new is sent",
    )
    for setup, ids in zip(setups, accepted, strict=True):
        assert all(node.is_running() for node in setup.nodes)
        setup.server.start()
        wait_for(setup, {"SENT": MAILS}, LEASE_SECONDS + 90)
        assert_nothing_was_lost_or_repeated(setup, ids)


def send_until_away(setup: MessagingSetup) -> list[int]:
    ids = begin_to_send(setup)
    setup.server.stop()
    eventually(lambda: "SENDING" not in statuses(setup), 15, "sends under way have ended")
    return ids


@with_both_brokers
def test_a_worker_consumes_again_after_its_idle_broker_restarted_twice(start: Start) -> None:
    # case redis-02
    setup = start()
    started_at = time.monotonic()
    setup.broker.restart()
    setup.broker.restart()
    assert time.monotonic() - started_at < 3
    accept(setup, 5)
    wait_for(setup, {"SENT": 5}, 60)
    assert_each_once(setup, 5)
    assert all(node.is_running() for node in setup.nodes)


@with_both_brokers
def test_mails_accepted_while_the_broker_is_away_are_reported_once_and_sent_later(start: Start) -> None:
    # operate.md O58; the warning comes while the broker is away
    setup = start(settings={"DISPATCH__STRANDED_WARN_SECONDS": "2"})
    setup.server.stop()
    accept(setup, 20)
    eventually(lambda: stranded_warnings(setup), 30, "a warning that records wait")
    stays(lambda: len(stranded_warnings(setup)) == 1, 6, "one warning")
    (warning,) = stranded_warnings(setup)
    assert warning["channel"] == "mail"
    assert warning["away"] == "broker"
    assert statuses(setup) == {"PENDING": 20}
    # Case redis-02: a health probe is red while nobody consumes.
    assert doctor(setup) == (1, True)
    setup.server.start()
    wait_for(setup, {"SENT": 20}, 60)
    assert_each_once(setup, 20)


def doctor(setup: MessagingSetup) -> tuple[int, bool]:
    """The exit code of `messaging doctor`, and whether it names the broker as failing."""
    command = str(Path(sys.executable).with_name("messaging"))
    process = setup.process("doctor", [command, "doctor", "--json"])
    code = process.wait(60)
    findings = json.loads(process.history())
    return code, any(f["check"] == "broker" and f["level"] == "fail" for f in findings)


def test_mails_that_no_worker_takes_are_reported_as_waiting_for_workers(start: Start) -> None:
    setup = start(mail_workers=0, settings={"DISPATCH__STRANDED_WARN_SECONDS": "2"})
    accept(setup, 3)
    eventually(lambda: stranded_warnings(setup), 30, "a warning that records wait")
    assert [w["away"] for w in stranded_warnings(setup)] == ["workers"]
    setup.add_worker("mail0", "mail_send")
    setup.wait_ready()
    wait_for(setup, {"SENT": 3}, 60)


def stranded_warnings(setup: MessagingSetup) -> list[dict[str, Any]]:
    """Of all processes."""
    lines = [line for log in setup.logs().values() for line in log.splitlines() if '"due records wait"' in line]
    return [json.loads(line) for line in lines]
