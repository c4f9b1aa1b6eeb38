"""The probes: one asks nobody, the other names what fails, and neither hangs on what hangs (operate.md section 11)."""

import json
import socket
import threading
import time

import pytest
import redis
from sqlalchemy import Engine

from messaging import metrics
from messaging.embedded import free_port
from messaging.web.health import Readiness
from tests.integration.web.callers import Answer, Site
from tests.integration.web.conftest import Open
from tests.polling import eventually


def failing(answer: Answer) -> list[str]:
    found: list[str] = json.loads(answer.body).get("failing", [])
    assert answer.status == (503 if found else 200)
    return found


def test_a_process_whose_dependencies_answer_is_ready(site: Site) -> None:
    assert site.get("/healthz").status == 200
    assert failing(site.get("/readyz")) == []


@pytest.mark.parametrize(
    ("setting", "url", "name"),
    [
        ("database_url", "postgresql://nobody:s3cret@127.0.0.1:{port}/nothing", "database"),
        ("redis_url", "redis://:s3cret@127.0.0.1:{port}/0", "redis"),
    ],
)
def test_what_is_down_is_named_without_its_address(
    open_site: Open, setting: str, url: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    site = open_site({setting: url.format(port=free_port())})
    answer = site.get("/readyz")
    assert failing(answer) == [name]
    assert site.get("/healthz").status == 200
    assert "s3cret" not in answer.text + caplog.text
    assert "127.0.0.1" not in answer.text


def test_a_schema_behind_the_code_is_not_ready(site: Site, engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    assert failing(site.get("/readyz")) == ["database"]
    assert any("messaging db upgrade" in str(getattr(record, "failing", "")) for record in caplog.records)


def test_what_hangs_costs_two_seconds_and_not_one_thread_for_each_question(open_site: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site = open_site({"redis_url": f"redis://127.0.0.1:{silent.getsockname()[1]}/0"})
        began = time.monotonic()
        answers: list[Answer] = []
        threads = [threading.Thread(target=lambda: answers.append(site.get("/readyz"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert site.get("/healthz").status == 200
        for thread in threads:
            thread.join(20)
        assert [failing(answer) for answer in answers] == [["redis"]] * 4
        assert time.monotonic() - began < 6


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_is_given_again_for_a_second_and_then_looked_up() -> None:
    clock, found = Seconds(), ["down"]
    looked = []

    def look() -> str | None:
        looked.append(clock.now)
        return found[0] if found else None

    ready = Readiness({"database": look}, clock)
    assert ready.failing() == ready.failing() == {"database": "down"}
    found.clear()
    clock.now = 1.0
    assert ready.failing() == ready.failing() == {}
    assert looked == [0.0, 1.0]
    ready.close()


def test_a_look_that_hangs_is_not_made_again_beside_itself() -> None:
    clock, release = Seconds(), threading.Event()
    looked = []

    def look() -> str | None:
        looked.append(clock.now)
        release.wait(10)
        return None

    ready = Readiness({"database": look, "redis": lambda: None}, clock, seconds=0.05)
    for second in range(3):
        clock.now = float(second)
        assert ready.failing() == {"database": "no answer within 0.05 s"}
    release.set()
    clock.now = 4.0
    deadline = time.monotonic() + 5
    while ready.failing() and time.monotonic() < deadline:
        clock.now += 1
    assert ready.failing() == {}
    assert looked[0] == 0.0
    assert len(looked) <= 2
    ready.close()


def test_details_tell_how_the_lines_stand_and_fail_nothing(
    site: Site, engine: Engine, redis_client: "redis.Redis"
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO mail_send_record (scope, status, to_addresses, next_attempt_at, claimed_at, claim_token)"
            " VALUES ('TENANT', 'PENDING', '[]', now() - interval '1 hour', NULL, NULL),"
            " ('TENANT', 'SENDING', '[]', now(), now() - interval '1 hour', 1)"
        )
    redis_client.set("msg:beat:alive", 1)
    answer = site.get("/readyz")
    details = json.loads(answer.body)["details"]
    assert answer.status == 200
    assert details["beat"] == "alive"
    assert details["mail"]["due"] == 1
    assert details["mail"]["oldest_due_seconds"] >= 3600
    assert details["mail"]["stuck_sending"] == 1
    assert details["sms"] == {
        "due": 0,
        "oldest_due_seconds": 0,
        "overdue": 0,
        "oldest_overdue_seconds": 0,
        "stuck_sending": 0,
    }
    assert details["age_seconds"] >= 0


def test_details_that_cannot_be_had_hold_no_probe_back() -> None:
    release = threading.Event()
    ticker = Seconds()

    def hang() -> dict[str, int]:
        release.wait(30)
        return {"due": 1}

    ready = Readiness({"database": lambda: None}, ticker, seconds=0.01, details=hang)
    assert ready.details() == {}
    assert ready.failing() == {}
    release.set()
    eventually(lambda: ready.details() != {}, what="details are told once they are known")
    ready.close()


def test_metrics_of_all_processes_are_shown(site: Site) -> None:
    site.get("/nowhere")
    shown = site.get("/metrics")
    assert shown.status == 200
    assert shown.headers["content-type"] == metrics.CONTENT_TYPE
    # Which file a count went to is settled by the first test of this process that counted.
    assert "# TYPE messaging_http_request_seconds histogram" in shown.text
