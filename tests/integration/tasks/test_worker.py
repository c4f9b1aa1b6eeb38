"""A worker process: refuses to start where it could not work, shows the host's metrics, ends cleanly, and warns."""

import json
import os
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from sqlalchemy import Engine, text

from messaging.delivery.hints import live_workers
from messaging.embedded import Postgres, Valkey, free_port
from messaging.settings import Settings
from tests.acceptance.local_nodes import ROOT
from tests.integration.tasks.conftest import Broker, Worker
from tests.polling import eventually

Make = Callable[..., Worker]


@pytest.fixture
def make(settings: Settings, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Make:
    """A worker with settings of its own; variables without their prefix."""

    def make(name: str = "one", **environment: str) -> Worker:
        folder = tmp_path / name
        folder.mkdir()
        required = {
            "DATABASE_URL": settings.database_url,
            "REDIS_URL": settings.redis_url,
            "SECRETS_KEYS": ",".join(settings.secrets_keys),
            "METRICS__DIRECTORY": str(tmp_path / "metrics"),
        }
        made = Worker({f"MESSAGING_{key}": value for key, value in (required | environment).items()}, folder)
        request.addfinalizer(made.stop)
        return made

    return make


def refusal(worker: Worker) -> str:
    """The one line of a worker that does not start."""
    worker.run()
    eventually(lambda: not worker.is_running())
    assert worker.exit_code() == 1
    lines = [line for line in worker.log().splitlines() if line.startswith("messaging: ")]
    assert len(lines) == 1, worker.log()
    assert "Traceback" not in worker.log()
    return lines[0]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"DATABASE_URL": "postgresql://u:sesame@127.0.0.1:1/none"}, ["start PostgreSQL", "MESSAGING_DATABASE_URL"]),
        ({"REDIS_URL": "redis://:sesame@127.0.0.1:1/0"}, ["Redis does not answer", "MESSAGING_REDIS_URL"]),
        ({"BROKER_URL": "redis://:sesame@127.0.0.1:1/0"}, ["the broker does not answer", "MESSAGING_BROKER_URL"]),
        ({"SECRETS_KEYS": ""}, ["MESSAGING_SECRETS_KEYS", "empty"]),  # O59
        ({"SWEEPER__STALE_SECONDS": "100"}, ["I1", "250.05", "100"]),  # O59
        ({"DISPATCH__TICK_EXPIRES_SECONDS": "1"}, ["I6", "DISPATCH__TICK_EXPIRES_SECONDS is 1"]),  # O59
        ({"METRICS__DIRECTORY": "/dev/null/metrics"}, ["METRICS__DIRECTORY"]),
    ],
    ids=["database", "redis", "broker", "key", "stale", "expires", "metrics"],
)
def test_a_worker_that_could_not_work_says_in_one_line_what_to_do(
    make: Make, environment: dict[str, str], words: list[str]
) -> None:
    line = refusal(make(**environment))
    assert all(word in line for word in words), line
    assert "sesame" not in line


def test_a_schema_behind_the_code_names_the_command(make: Make, postgres: Postgres) -> None:
    postgres.create_database("empty")
    try:
        assert "messaging db upgrade" in refusal(make(DATABASE_URL=postgres.url("empty")))
    finally:
        postgres.drop_database("empty")


def test_a_worker_is_registered_while_it_lives_and_ends_cleanly(make: Make, redis_client: "redis.Redis") -> None:
    worker = make().start()
    registered = eventually(lambda: live_workers(redis_client, "mail"))
    assert list(registered.values()) == [2]
    worker.stop()
    assert worker.exit_code() == 0
    assert live_workers(redis_client, "mail") == {}
    assert worker.lines("error") == worker.lines("critical") == []


def test_metrics_are_shown_by_one_worker_and_taken_over_when_it_is_killed(make: Make, broker: Broker) -> None:
    port = free_port()
    first = make("first", METRICS__PORT=str(port)).start()
    second = make("second", METRICS__PORT=str(port)).start()
    broker.task("other.task", [[1], {}, {}])
    counted = 'messaging_poison_total{event_type="UNKNOWN_TASK"} 1.0'

    def shown() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                body: str = answer.read().decode()
                return body
        except (urllib.error.URLError, ConnectionError):
            return ""

    eventually(lambda: counted in shown())
    assert "metrics are shown here" in first.log()
    assert "metrics are shown here" not in second.log()
    first.process.kill()
    eventually(lambda: "metrics are shown here" in second.log())
    eventually(lambda: counted in shown())  # the dead worker's counts are kept


def test_due_records_are_warned_about_while_the_broker_is_down(
    make: Make, engine: Engine, valkey: Valkey
) -> None:  # O58
    workers = [make(name, DISPATCH__STRANDED_WARN_SECONDS="1").start() for name in ("first", "second")]
    valkey.stop()
    try:
        with engine.begin() as connection:
            connection.execute(
                text("INSERT INTO mail_send_record (scope, to_addresses) VALUES ('TENANT', '[\"a@b.example\"]')")
            )

        def warnings() -> list[dict[str, object]]:
            return [line for w in workers for line in w.lines("warning") if line["event"] == "due records wait"]

        found = eventually(warnings)[0]
        assert (found["channel"], found["away"], found["due"]) == ("mail", "broker", 1)
        later = found["timestamp"]
        # The look after the next one has been taken when the age that a look sees has grown by two intervals.
        eventually(lambda: _age(engine) > 5)
        assert [line["timestamp"] for line in warnings()] == [later]
        assert all(w.is_running() for w in workers)
    finally:
        valkey.start()


def _age(engine: Engine) -> float:
    with engine.connect() as connection:
        return float(
            connection.execute(
                text("SELECT extract(epoch FROM now() - next_attempt_at) FROM mail_send_record")
            ).scalar_one()
        )


def test_a_send_that_hangs_ends_the_process_within_the_grace(settings: Settings, tmp_path: Path) -> None:  # C16, I7
    script = """
    import signal, sys, time
    from messaging.clock import boot_seconds
    from messaging.delivery.channel import Claim
    from tasks import logs, worker
    logs.configure("INFO")
    process = worker.start(hostname="hung@here", threads=1, queues={"mail_send"})
    def on_sigterm(*_):
        print("SIGTERM", flush=True)
        process.begin_stop()
    signal.signal(signal.SIGTERM, on_sigterm)
    # A send whose claim is older than the budget by the watchdog's seconds, in a thread that never comes back.
    aged = boot_seconds() - 61
    process.find_delivery("mail").watch.begin(Claim(1, 1, 1, 0, 0, {}, aged))
    while True:
        time.sleep(0.1)
    """
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        env={
            **os.environ,
            "MESSAGING_DATABASE_URL": settings.database_url,
            "MESSAGING_REDIS_URL": settings.redis_url,
            "MESSAGING_SECRETS_KEYS": ",".join(settings.secrets_keys),
            "MESSAGING_METRICS__DIRECTORY": str(tmp_path / "metrics"),
            "MESSAGING_DELIVERY__SEND_BUDGET_SECONDS": "60",
            "MESSAGING_DELIVERY__SEND_MAX_SECONDS": "40",
            "MESSAGING_DELIVERY__WATCHDOG_SECONDS": "1",
            "MESSAGING_DELIVERY__REPLY_WAIT_SECONDS": "1",
            "MESSAGING_DELIVERY__PREPARE_MAX_SECONDS": "5",
            "MESSAGING_DELIVERY__COMMIT_TIMEOUT_SECONDS": "1",
            "MESSAGING_DELIVERY__STOP_GRACE_SECONDS": "8",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1, done.stderr
    assert done.stdout == "SIGTERM\n"
    assert [line["event"] for line in lines if line["level"] in ("critical", "error")] == [
        "a send hangs; the worker ends, to be started anew",
        "sends or fetches did not end within DELIVERY__STOP_GRACE_SECONDS, the worker ends without them",
    ]
    assert time.monotonic() - started < 5 + 8 + 10  # one look, the grace, the start


def test_importing_the_tasks_reads_no_environment_and_connects_to_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tasks.dispatch, tasks.deliver, tasks.sweep, tasks.heartbeat, tasks.poison"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
