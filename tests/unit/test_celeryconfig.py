"""celeryconfig.py holds Celery's settings, all of them by Celery's names, and nothing else."""

import ast
import runpy
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.app.defaults import NAMESPACES, flatten
from celery.schedules import schedule
from cryptography.fernet import Fernet

from messaging.channels import CHANNELS

FILE = Path(__file__).parents[2] / "celeryconfig.py"

Read = Callable[..., dict[str, Any]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """The settings the file makes of an environment."""

    def read(**environment: str) -> dict[str, Any]:
        required = {
            "DATABASE_URL": "postgresql://db.example/messaging",
            "REDIS_URL": "redis://:s3cret@cache.example/1",
            "SECRETS_KEYS": Fernet.generate_key().decode(),
        }
        for name, value in (required | environment).items():
            monkeypatch.setenv(f"MESSAGING_{name}", value)
        found = runpy.run_path(str(FILE))
        return {name: value for name, value in found.items() if not name.startswith("__")}

    return read


def test_every_name_is_a_setting_of_celery(read: Read) -> None:
    known = {name for name, _ in flatten(NAMESPACES)}
    assert read().keys() - known == set()


def test_it_imports_the_settings_and_nothing_else_of_ours() -> None:
    imports = [node for node in ast.walk(ast.parse(FILE.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == [
        "from kombu import Exchange as _Exchange",
        "from kombu import Queue as _Queue",
        "from messaging.settings import load_settings as _load_settings",
    ]


def test_every_task_of_beat_and_of_ours_has_a_queue(read: Read) -> None:
    config = read(
        QUEUES__CONTROL="ctl",
        QUEUES__MAIL_SEND="out",
        QUEUES__SMS_SEND="text",
        QUEUES__WEBHOOK_SEND="hook",
        QUEUES__MAIL_REQUEST="asked",
        QUEUES__MAIL_FETCH="in",
        QUEUES__MAINTENANCE="night",
    )
    assert {entry["task"] for entry in config["beat_schedule"].values()} <= config["task_routes"].keys()
    queues = {queue.name for queue in config["task_queues"]}
    assert {route["queue"] for route in config["task_routes"].values()} == queues
    assert queues == {"ctl", "out", "text", "hook", "asked", "in", "night"}
    assert config["task_default_queue"] == "ctl"


def test_every_tick_expires(read: Read) -> None:  # C15, I6
    config = read(
        DISPATCH__INTERVAL_SECONDS="0.25", DISPATCH__TICK_EXPIRES_SECONDS="20", SWEEPER__INTERVAL_SECONDS="40"
    )
    times = {n: (e["schedule"], e["options"]["expires"]) for n, e in config["beat_schedule"].items()}
    ticks = {f"dispatch-{channel}": (0.25, 20) for channel in CHANNELS}
    ticks |= {"sweep": (40, 40), "receipts": (15, 15), "fetch_tick": (15, 15), "heartbeat": (30, 30)}
    assert times == {**ticks, "figures": (15, 15), "batches": (2, 2), "prune": (300, 300)}


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Shanghai", "UTC"])
def test_every_tick_counts_elapsed_time_and_not_a_wall_clock(read: Read, zone: str) -> None:  # redis-04
    # The hour that is repeated at the end of daylight saving time: both are 01:00 in Los Angeles.
    last, now = datetime(2026, 11, 1, 8, tzinfo=UTC), datetime(2026, 11, 1, 9, tzinfo=UTC)
    config = read()
    assert (config["timezone"], config["enable_utc"]) == ("UTC", True)
    with Celery("ticks", set_as_current=False, timezone=zone) as app:
        for name, entry in config["beat_schedule"].items():
            assert isinstance(entry["schedule"], int | float), name
            hourly = schedule(3600, nowfun=lambda: now, app=app)
            assert hourly.is_due(last.astimezone(ZoneInfo(zone))) == (True, 3600)
            tick = schedule(entry["schedule"], nowfun=lambda: now, app=app)
            assert tick.is_due(now.astimezone(ZoneInfo(zone))) == (False, entry["schedule"])


def test_the_database_redelivers_and_the_broker_does_not(read: Read) -> None:
    config = read()
    assert (config["task_acks_late"], config["worker_disable_prefetch"], config["worker_pool"]) == (
        False,
        True,
        "tasks.pool:WakingPool",
    )
    assert config["accept_content"] == ["json"]
    assert config["result_backend"] is None
    assert config["broker_transport_options"]["global_keyprefix"] == "msg:"


def test_the_mail_request_alone_is_acknowledged_late_and_tells_nothing_by_events(read: Read) -> None:
    # operate.md section 15, P4
    config = read()
    assert config["task_annotations"] == {"messaging.mail_request": {"acks_late": True, "send_events": False}}
    assert not config.keys() & {"task_reject_on_worker_lost", "task_acks_on_failure_or_timeout"}


@pytest.mark.parametrize(("given", "interval"), [("300", 10), ("4", 4)])
def test_what_the_broker_still_holds_is_looked_for_as_soon_as_its_time_may_be_over(
    read: Read, given: str, interval: int
) -> None:
    options = read(CELERY__VISIBILITY_TIMEOUT_SECONDS=given)["broker_transport_options"]
    assert (options["visibility_timeout"], options["unacked_restore_interval"]) == (int(given), interval)
    assert options["unacked_restore_throttle"] == 1


@pytest.mark.parametrize(
    ("environment", "url"),
    [({}, "redis://:s3cret@cache.example/1"), ({"BROKER_URL": "redis://broker.example"}, "redis://broker.example")],
)
def test_the_broker_is_redis_unless_named(read: Read, environment: dict[str, str], url: str) -> None:
    assert read(**environment)["broker_url"] == url
