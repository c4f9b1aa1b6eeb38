"""How workers and beats start, or refuse to; what an idle system does; what two beats do."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from messaging import programs
from messaging.delivery.hints import live_workers
from messaging.embedded import Postgres, free_port
from messaging.mail.mail_request import MAIL_REQUEST
from tests.acceptance.conftest import Start
from tests.acceptance.local_nodes import LocalNode
from tests.acceptance.records import accept, assert_each_once, wait_for
from tests.acceptance.system import MessagingSetup
from tests.polling import eventually, stays


@pytest.fixture
def unmigrated_url(postgres: Postgres) -> Iterator[str]:
    """A database that nobody has migrated."""
    name = f"unmigrated_{os.urandom(6).hex()}"
    postgres.create_database(name)
    yield postgres.url(name)
    postgres.drop_database(name)


def refusal(setup: MessagingSetup, argv: list[str], **variables: str) -> str:
    """The one line with which a program refuses to start."""
    process = setup.process("refused", argv, **variables)
    code = process.wait(60)
    log = process.history()
    assert code not in (0, -9), log
    assert "Traceback" not in log
    for secret in setup.secrets:
        assert secret not in log
    (line,) = [line for line in log.splitlines() if line.startswith("messaging: ")]
    return line


WORKER = programs.worker(queues=["mail_send"], name="refused", concurrency=1)


def test_a_worker_refuses_a_schema_that_is_behind_and_names_the_command(start: Start, unmigrated_url: str) -> None:
    setup = start(mail_workers=0, control=False, beats=0)
    line = refusal(setup, WORKER, DATABASE_URL=unmigrated_url)
    assert "messaging db upgrade" in line


def test_a_worker_refuses_to_start_without_what_it_depends_on(start: Start) -> None:
    setup = start(mail_workers=0, control=False, beats=0)
    nobody = free_port()
    line = refusal(setup, WORKER, DATABASE_URL=f"postgresql+psycopg://u:pw@127.0.0.1:{nobody}/messaging")
    assert "database does not answer" in line
    assert "MESSAGING_DATABASE_URL" in line
    line = refusal(setup, WORKER, REDIS_URL=f"redis://127.0.0.1:{nobody}/0")
    assert "Redis does not answer" in line
    assert "MESSAGING_REDIS_URL" in line
    line = refusal(setup, WORKER, BROKER_URL=f"redis://127.0.0.1:{nobody}/0")
    assert "broker does not answer" in line
    assert "MESSAGING_BROKER_URL" in line


@pytest.mark.parametrize("argv", [WORKER, programs.beat()], ids=["worker", "beat"])
def test_contradicting_settings_stop_the_start_with_their_name(start: Start, argv: list[str]) -> None:
    # operate.md O59, of the programs
    setup = start(mail_workers=0, control=False, beats=0)
    line = refusal(setup, argv, SWEEPER__STALE_SECONDS="2", SWEEPER__INTERVAL_SECONDS="1")
    assert "I1" in line
    assert "SWEEPER__STALE_SECONDS" in line
    assert "allowed" in line


def test_a_worker_of_mail_requests_starts_by_either_command(start: Start) -> None:
    setup = start(mail_workers=0, control=False, beats=0)
    ours = str(Path(sys.executable).with_name("messaging"))
    celerys = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-l", "INFO"]
    commands = {
        "ours": [ours, "worker", "--queue", "mail_request", "--name", "ours"],
        "celerys": [*celerys, "-Q", "mail_request", "-n", "celerys@%h"],
    }
    processes = [setup.process(name, argv) for name, argv in commands.items()]

    def names() -> set[str]:
        with setup.redis as client:
            return {name.partition("@")[0] for name in live_workers(client, MAIL_REQUEST)}

    eventually(lambda: names() == set(commands), 60, "both have told of themselves")
    eventually(lambda: all(" ready." in process.history() for process in processes), 60, "both consume")
    for process in processes:
        process.ask_to_end()
    assert [process.wait(30) for process in processes] == [0, 0]
    assert names() == set()


def test_a_misspelt_queue_stops_the_start(start: Start) -> None:
    setup = start(mail_workers=0, control=False, beats=0)
    process = setup.process("refused", programs.worker(queues=["mail_sent"], name="refused"))
    assert process.wait(60) != 0
    assert "mail_sent" in process.history()


def test_an_idle_system_writes_nothing_and_piles_nothing_up(start: Start) -> None:
    setup = start(mail_workers=1, beats=2)
    accept(setup, 5)
    wait_for(setup, {"SENT": 5}, 60)
    written = row_versions(setup)
    used = cpu_seconds(setup.workers[0])
    began = time.monotonic()
    stays(lambda: setup.queue_length("control") < 20 and not setup.queue_length("mail_send"), 5, "queues are short")
    elapsed = time.monotonic() - began
    assert row_versions(setup) == written
    # A worker of the channel has nothing to do.
    assert cpu_seconds(setup.workers[0]) - used < 0.3 * elapsed
    assert all(node.is_running() for node in setup.nodes)
    with setup.redis as client:  # but for a tick that is just being taken
        eventually(lambda: not client.exists("msg:unacked"), 5, "every message is acknowledged")
    for name, log in setup.logs().items():
        above = [line for line in log.splitlines() if any(f'"level": "{x}"' in line for x in ("warning", "error"))]
        assert not above, f"{name}: {above}"


def test_messages_that_come_while_all_threads_are_busy_do_not_wait_for_a_timer(start: Start) -> None:
    setup = start(mail_workers=0, beats=0)
    # Ticks send no events, so nothing but their end tells the worker's loop that a thread is free.
    for _ in range(60):
        setup.app.send_task("messaging.dispatch", args=("mail",), queue="control")
    eventually(lambda: setup.queue_length("control") == 0, 8, "the ticks are begun")


def row_versions(setup: MessagingSetup) -> list[tuple[object, ...]]:
    """Every record with the transaction that wrote it last."""
    with setup.engine.connect() as connection:
        found = connection.execute(text("SELECT id, version, xmin::text FROM mail_send_record ORDER BY id"))
        return [tuple(row) for row in found]


def cpu_seconds(node: LocalNode) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_second_beat_changes_nothing_and_the_first_may_die(start: Start) -> None:
    setup = start(beats=2)
    accept(setup, 100)
    wait_for(setup, {"SENT": 100}, 60)
    setup.others[0].kill()
    accept(setup, 100, prefix="later")
    wait_for(setup, {"SENT": 200}, 60)
    assert_each_once(setup, 200)


def test_a_beat_asked_to_end_ends_whatever_it_is_at(start: Start) -> None:
    # Ticks so dense that most signals come in the middle of a publish.
    dense = {"DISPATCH__INTERVAL_SECONDS": "0.02", "DISPATCH__TICK_EXPIRES_SECONDS": "2"}
    setup = start(mail_workers=0, control=False, beats=6, settings=dense)
    for beat in setup.others:
        beat.kill("SIGTERM")
    assert [beat.wait_exit(20) for beat in setup.others] == [0] * 6


def test_no_process_of_a_system_outlives_it(start: Start) -> None:
    setup = start(mail_workers=2, beats=2)
    accept(setup, 500)
    setup.smtp.wait_for(50, 60)
    setup.workers[0].kill("SIGSTOP")
    setup.teardown_processes()
    assert all(not node.is_running() for node in setup.nodes)
    assert not setup.left_behind()
