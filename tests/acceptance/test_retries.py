"""A server that breaks off each time: the budget bounds the attempts, and waits grow."""

from itertools import pairwise

from messaging.api import retry
from tests.acceptance.conftest import Start
from tests.acceptance.records import accept, attempts, dead_letters, row, wait_for
from tests.polling import stays

MAX_RETRIES = 5
#: Seconds; the product's 30, 60, 120, 240, 480 in small.
NOMINAL_WAITS = (1, 2, 4, 4, 4)


def test_a_flapping_server_uses_up_one_budget_and_a_manual_retry_gives_one_attempt(start: Start) -> None:
    # case claim-04
    setup = start(
        settings={
            "RETRY__MAX_RETRIES": str(MAX_RETRIES),
            "RETRY__BASE_SECONDS": "1",
            "RETRY__MULTIPLIER": "2",
            "RETRY__MAX_SECONDS": "4",
        }
    )
    setup.smtp.on("EOD", close="before")
    (record_id,) = accept(setup, 1)
    wait_for(setup, {"DEAD_LETTER": 1}, 120)
    log = attempts(setup, record_id)
    assert [a.outcome for a in log] == ["RETRY"] * MAX_RETRIES + ["DEAD_LETTER"]
    waits = [(b.started_at - a.ended_at).total_seconds() for a, b in pairwise(log)]
    # Half of the nominal wait at least, in whole seconds and never under one; how late a tick comes is not its matter.
    assert [wait >= max(1, nominal // 2) - 0.1 for wait, nominal in zip(waits, NOMINAL_WAITS, strict=True)] == [
        True
    ] * MAX_RETRIES
    assert row(setup, record_id).retry_count == MAX_RETRIES
    assert [letter.event_id for letter in dead_letters(setup)] == [record_id]
    assert len(setup.smtp.transactions) == MAX_RETRIES + 1

    retry(record_id)
    setup.smtp.wait_for_command("EOD", 30, count=MAX_RETRIES + 2)
    wait_for(setup, {"DEAD_LETTER": 1}, 30)
    stays(lambda: len(setup.smtp.transactions) == MAX_RETRIES + 2, 3, "one attempt more")
    assert len(attempts(setup, record_id)) == MAX_RETRIES + 2
    assert not setup.smtp.messages
