"""The probes: one asks nobody, the other names what fails, and neither hangs on what hangs (operate.md section 11)."""

import json
import socket
import threading
import time

import pytest
from sqlalchemy import Engine

from messaging.embedded import free_port
from messaging.web.health import Readiness
from tests.integration.web.callers import Answer, Site
from tests.integration.web.conftest import Open


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
