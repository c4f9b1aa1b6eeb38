"""Workers that are killed, stopped, held up: what they had comes back, and none of it is sent twice."""

import itertools
import signal
import time

from tests.acceptance.conftest import Start
from tests.acceptance.records import (
    accept,
    assert_each_once,
    attempt_outcomes,
    attempts,
    dead_letters,
    recipient,
    row,
    rows,
    statuses,
    wait_for,
)
from tests.acceptance.system import STALE_SECONDS
from tests.polling import eventually, stays


def test_a_worker_killed_in_the_middle_of_a_send_is_swept_and_its_mail_sent(start: Start) -> None:
    # operate.md O45, send.md F16
    setup = start()
    worker = setup.workers[0]
    # Before the final dot: nothing was delivered, so nothing may be delivered twice.
    setup.smtp.on("MAIL", hang=True, times=1)
    (record_id,) = accept(setup, 1)
    setup.smtp.wait_for_command("MAIL", 30)
    claimed_at = row(setup, record_id).claimed_at
    worker.kill()
    setup.smtp.release()
    assert worker.container.status == "exited"
    worker.restart()
    wait_for(setup, {"SENT": 1}, 60)
    assert_each_once(setup, 1)
    swept, sent = attempts(setup, record_id)
    assert (swept.outcome, sent.outcome) == ("SWEPT", "SENT")
    assert (swept.ended_at - claimed_at).total_seconds() >= STALE_SECONDS
    assert row(setup, record_id).retry_count == 1
    assert row(setup, record_id).uncertain


def test_a_worker_killed_among_many_mails_loses_none_and_repeats_only_what_was_in_flight(start: Start) -> None:
    # D1 of the protocol, section 7
    mails = 500
    setup = start(mail_workers=2)
    setup.smtp.on("EOD", delay_seconds=0.03)
    accept(setup, mails)
    setup.smtp.wait_for(mails // 4, 60)
    setup.workers[0].kill()
    killed_at = time.monotonic()
    setup.workers[0].restart()
    wait_for(setup, {"SENT": mails}, 90)
    assert set(setup.smtp.copies()) == {recipient(f"m{n}") for n in range(mails)}
    assert max(setup.smtp.copies().values()) <= 2
    # An outcome is committed 50 ms after its reply at most; the machine is allowed to be slower than that.
    first_seen = {m.recipients[0]: m.at for m in reversed(setup.smtp.messages)}
    repeated = [to for to, count in setup.smtp.copies().items() if count > 1]
    assert [to for to in repeated if first_seen[to] < killed_at - 1.0] == []
    assert len(repeated) <= attempt_outcomes(setup)["SWEPT"]


def test_a_worker_asked_to_end_finishes_its_sends_and_gives_the_rest_back(start: Start) -> None:
    setup = start(threads=2, control=False, beats=0)
    worker = setup.workers[0]
    setup.smtp.on("EOD", delay_seconds=2, times=2)
    ids = accept(setup, 10)
    setup.publish_accepted(ids[:5])
    setup.publish_accepted(ids[5:])
    setup.smtp.wait_for_command("EOD", 30, count=2)
    worker.kill("SIGTERM")
    stays(worker.is_running, 0.5, "it waits for its sends")
    assert worker.wait_exit(20) == 0
    assert statuses(setup) == {"SENT": 2, "RETRY": 8}
    given_back = [record for record in rows(setup, ids) if record.status == "RETRY"]
    assert {(r.error_code, r.retry_count, r.swept_at) for r in given_back} == {("CLAIM_RELEASED", 0, None)}

    setup.add_worker("mail1", "mail_send")
    setup.add_worker("control", "control", threads=2)
    setup.add_beat()
    worker.restart()
    wait_for(setup, {"SENT": 10}, 60)
    assert_each_once(setup, 10)
    assert attempt_outcomes(setup) == {"SENT": 10}
    assert {record.retry_count for record in rows(setup, ids)} == {0}


def test_a_worker_asked_to_end_twice_ends(start: Start) -> None:
    setup = start(mail_workers=4, control=False, beats=0)
    for worker in setup.workers:
        worker.kill("SIGTERM")
        worker.kill("SIGTERM")
    for worker in setup.workers:
        # The second may also come when Python has put its handlers away.
        assert worker.wait_exit(30) in (0, -signal.SIGTERM)


def test_a_worker_held_up_past_stale_does_not_send_what_was_swept_meanwhile(start: Start) -> None:
    setup = start(threads=1, control=False, beats=0)
    held = setup.workers[0]
    setup.smtp.on("MAIL", hang=True, times=1)
    ids = accept(setup, 4)
    setup.publish_accepted(ids)
    setup.smtp.wait_for_command("MAIL", 30)
    held.kill("SIGSTOP")
    assert statuses(setup) == {"SENDING": 4}

    setup.add_worker("mail1", "mail_send")
    setup.add_worker("control", "control", threads=2)
    setup.add_beat()
    wait_for(setup, {"SENT": 4}, 120)
    assert_each_once(setup, 4)
    held.kill("SIGCONT")
    setup.smtp.release()
    stays(lambda: len(setup.smtp.transactions) == 4, 4, "nothing more is sent")
    assert statuses(setup) == {"SENT": 4}
    assert {tuple(a.outcome for a in attempts(setup, record_id)) for record_id in ids} == {("SWEPT", "SENT")}
    # It is well, and takes new work.
    setup.workers[1].kill("SIGTERM")
    assert setup.workers[1].wait_exit(30) == 0
    accept(setup, 20, prefix="later")
    wait_for(setup, {"SENT": 24}, 60)
    assert_each_once(setup, 24)


def test_a_worker_continued_right_after_the_sweep_sends_nothing(start: Start) -> None:
    setup = start(threads=1, control=False, beats=0)
    held = setup.workers[0]
    setup.smtp.on("MAIL", hang=True, times=1)
    ids = accept(setup, 4)
    setup.publish_accepted(ids)
    setup.smtp.wait_for_command("MAIL", 30)
    held.kill("SIGSTOP")
    # Sweeps and no ticks: what was swept stays where it is.
    setup.add_worker("control", "control", threads=2)
    setup.wait_ready()

    def is_swept() -> bool:
        setup.app.send_task("messaging.sweep", queue="control")
        return statuses(setup) == {"RETRY": 4}

    eventually(is_swept, 60, "all are swept")
    held.kill("SIGCONT")
    setup.smtp.release()
    stays(lambda: not setup.smtp.transactions, 4, "nothing is sent")
    assert statuses(setup) == {"RETRY": 4}
    assert {(r.retry_count, r.error_code) for r in rows(setup, ids)} == {(1, "ZOMBIE_RECOVERED")}


def test_a_late_reply_does_not_overwrite_what_the_next_worker_wrote(start: Start) -> None:
    # case claim-02
    setup = start(threads=1, control=False, beats=0)
    held = setup.workers[0]
    setup.smtp.on("EOD", hang=True, times=1)
    (record_id,) = accept(setup, 1)
    setup.publish_accepted([record_id])
    setup.smtp.wait_for_command("EOD", 30)
    held.kill("SIGSTOP")
    setup.smtp.on("RCPT", "550 5.1.1 no such user")
    setup.add_worker("mail1", "mail_send")
    setup.add_worker("control", "control", threads=2)
    setup.add_beat()
    wait_for(setup, {"FAILED": 1}, 90)
    written = row(setup, record_id)
    setup.smtp.release()
    stays(lambda: row(setup, record_id) == written, 0.3, "the server's 250 waits for the worker")
    held.kill("SIGCONT")

    def lost_outcomes() -> list[str]:
        lines = [line for line in held.logs().splitlines() if "outcome lost" in line]
        return [line for line in lines if f'"record_id": {record_id}' in line and '"outcome": "SENT"' in line]

    eventually(lost_outcomes, 20, "the lost outcome is logged with the record's id")
    assert row(setup, record_id) == written
    assert written.error_code == "SMTP_550_5.1.1"


def test_a_record_that_kills_its_worker_each_time_ends_as_dead_letter_and_its_neighbours_are_sent(
    start: Start,
) -> None:
    # operate.md O30
    max_retries = 2
    setup = start(threads=1, beats=0, settings={"RETRY__MAX_RETRIES": str(max_retries)})
    worker = setup.workers[0]
    # A killer shows itself at the far end: whenever it arrives there, its worker is killed with SIGKILL.
    killer_line = f"RCPT TO:<{recipient('m2')}>"
    setup.smtp.on(killer_line, hang=True)
    ids = accept(setup, 6)
    killer = ids[2]
    setup.publish_accepted(ids)
    kills: list[float] = []

    def has_killed() -> bool:
        """Kill the worker when the killer has arrived once more, and start it again as a supervisor does."""
        arrived = sum(line.startswith(killer_line) for _, line in setup.smtp.commands)
        if arrived <= len(kills):
            return False
        if not kills:
            # What it sent before is recorded first: a kill right after a reply is the one moment that repeats a mail.
            eventually(lambda: statuses(setup) == {"SENT": 2, "SENDING": 4}, 2, "two are recorded as sent")
        worker.kill()
        kills.append(time.monotonic())
        worker.restart()
        return True

    eventually(has_killed, 30, "the first kill")
    setup.add_beat()
    setup.wait_ready()
    expected = {"SENT": 5, "DEAD_LETTER": 1}
    eventually(lambda: not has_killed() and statuses(setup) == expected, 150, "it ends in DEAD_LETTER")
    stays(lambda: not has_killed(), 3, "it is not tried again")

    # The first attempt and each retry; between two of them lie the sweep's wait and its cool-down: no tight loop.
    assert len(kills) == max_retries + 1
    assert min(b - a for a, b in itertools.pairwise(kills)) > STALE_SECONDS
    dead = row(setup, killer)
    assert (dead.status, dead.retry_count, dead.error_code) == ("DEAD_LETTER", max_retries, "ZOMBIE_RECOVERED")
    (letter,) = dead_letters(setup)
    assert (letter.source, letter.event_id) == ("SEND_EXHAUSTED", killer)
    assert_each_once(setup, 5)
    assert {a.outcome for a in attempts(setup, killer)} == {"SWEPT"}
    # Its neighbours spent one retry when it took them along for the first time; after that it travelled alone.
    assert [r.retry_count for r in rows(setup, ids) if r.id != killer] == [0, 0, 1, 1, 1]
