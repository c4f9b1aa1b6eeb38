"""Another attempt for all that a filter fits: in steps, once each, stopped when asked, told truthfully."""

import threading
from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging import api, batch_jobs, tenancy
from messaging.access.roles import Role
from messaging.api import access
from messaging.clock import boot_seconds
from tests.integration.web.console import stories
from tests.integration.web.console.conftest import PASSWORD, Browse


def work(engine: Engine) -> None:
    """What beat's tick does, until nothing is left."""
    while batch_jobs.go_on(engine, ticker=boot_seconds).steps:
        pass


def seed(engine: Engine, tenant: int = 7) -> dict[str, list[int]]:
    made = {
        status: [stories.mail(engine, tenant, status=status) for _ in range(n)]
        for status, n in {"FAILED": 4, "SENT": 2, "SENDING": 1, "DEAD_LETTER": 2}.items()
    }
    with tenancy.tenant(tenant):
        cancelled = stories.mail(engine, tenant)
        api.cancel(cancelled)
    return made | {"CANCELLED": [cancelled]}


def statuses(engine: Engine, ids: list[int]) -> list[str]:
    with engine.connect() as connection:
        rows = connection.execute(
            text("SELECT status FROM mail_send_record WHERE id = ANY(:ids) ORDER BY id"), {"ids": ids}
        )
        return list(rows.scalars())


def begin(browser: Any, query: str = "", channel: str = "mail") -> str:
    answer = browser.post(f"/console/{channel}/retry-all", data={"query": query})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def test_all_that_match_are_requeued_once_and_the_others_are_told(browse: Browse, engine: Engine) -> None:
    made = seed(engine)
    elsewhere = seed(engine, 8)
    browser = browse(Role.OPERATOR)
    asked = browser.get("/console/mail/retry-all").text
    assert "7 records can be requeued" in asked  # with the cancelled one, which is told at the end
    job = begin(browser)
    later = stories.mail(engine, status="FAILED")
    assert "Running" in browser.get(job).text
    work(engine)
    shown = browser.get(job).text
    assert "6 requeued, 4 skipped: 1 is SENDING, 2 is SENT, 1 was cancelled" in shown
    assert "Done" in shown
    assert statuses(engine, made["FAILED"] + made["DEAD_LETTER"]) == ["RETRY"] * 6
    assert statuses(engine, made["SENT"] + made["CANCELLED"]) == ["SENT", "SENT", "FAILED"]
    assert statuses(engine, [later]) == ["FAILED"]
    assert set(statuses(engine, elsewhere["FAILED"])) == {"FAILED"}
    work(engine)
    with engine.connect() as connection:
        told = connection.execute(text("SELECT action, count(*) FROM audit_log GROUP BY action")).all()
        actors = set(connection.execute(text("SELECT actor FROM audit_log WHERE action = 'retry'")).scalars())
    counts = {row[0]: row[1] for row in told}
    assert (counts["retry"], counts["begin batch retry"], counts["end batch job"]) == (6, 1, 1)
    assert [actor.partition(":")[0] for actor in actors] == ["operator"]


def test_what_was_never_attempted_goes_out_when_its_time_has_come(browse: Browse, engine: Engine) -> None:
    waiting = stories.mail(engine)
    browser = browse(Role.OPERATOR)
    job = begin(browser)
    work(engine)
    assert "0 requeued, 1 skipped: 1 waits for its first attempt" in browser.get(job).text
    assert statuses(engine, [waiting]) == ["PENDING"]
    assert browser.get("/console/mail/retry-all?status=PENDING").status_code == 409
    assert browser.get("/console/mail/retry-all?q=nobody@").status_code == 200
    assert browser.post("/console/mail/retry-all", data={"query": "q=nobody@"}).headers["location"] == "/console/mail"


def test_the_filter_confines_it_and_is_shown_in_words(browse: Browse, engine: Engine) -> None:
    made = seed(engine)
    browser = browse(Role.OPERATOR)
    job = begin(browser, "status=DEAD_LETTER")
    work(engine)
    assert "2 requeued" in browser.get(job).text
    assert "status DEAD_LETTER" in browser.get(job).text
    assert set(statuses(engine, made["FAILED"])) == {"FAILED"}
    assert "Batch jobs" in browser.get("/console/batches").text
    assert browser.get("/console/mail/retry-all?status=SENT").status_code == 409
    assert browser.post("/console/mail/retry-all", data={"query": "since=yesterday"}).status_code == 303
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM batch_job")).scalar_one() == 1


def test_it_stops_when_asked_and_two_workers_make_no_step_twice(
    browse: Browse, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_jobs, "STEP_RECORDS", 1)
    made = seed(engine)
    browser = browse(Role.OPERATOR)
    job = begin(browser)
    assert batch_jobs._step(engine) == 1
    assert browser.post(f"{job}/stop").status_code == 303
    work(engine)
    shown = browser.get(job).text
    assert "Stopped" in shown
    assert browser.post(f"{job}/stop").status_code == 303
    assert "has ended" in browser.get(job).text
    begin(browser)
    workers = [threading.Thread(target=work, args=(engine,)) for _ in range(3)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    work(engine)
    with engine.connect() as connection:
        versions = connection.execute(
            text("SELECT max(n) FROM (SELECT count(*) n FROM audit_log WHERE action = 'retry' GROUP BY target_id) x")
        ).scalar_one()
        seen = connection.execute(text("SELECT seen FROM batch_job ORDER BY id DESC LIMIT 1")).scalar_one()
    assert versions <= 2  # a record of the first job is in RETRY and may be asked for again by the second
    assert seen == 10
    assert set(statuses(engine, made["FAILED"] + made["DEAD_LETTER"])) == {"RETRY"}


def test_the_platform_retries_one_tenants_or_all_and_a_tenant_only_its_own(browse: Browse, engine: Engine) -> None:
    one, other = seed(engine, 7), seed(engine, 8)
    platform = browse(Role.PLATFORM)
    job = begin(platform, "status=FAILED&tenant=8")
    work(engine)
    assert set(statuses(engine, other["FAILED"])) == {"RETRY"}
    assert set(statuses(engine, one["FAILED"])) == {"FAILED"}
    assert browse(Role.OPERATOR, 8).get(job).status_code == 403
    begin(platform, "status=DEAD_LETTER")
    work(engine)
    assert set(statuses(engine, one["DEAD_LETTER"] + other["DEAD_LETTER"])) == {"RETRY"}
    # An operator in the platform's tier who is not the platform's has its records only.
    with tenancy.tenant(tenancy.PLATFORM_TENANT_ID):
        access.add_operator("narrow", password=PASSWORD, role=Role.OPERATOR)
    narrow = browse(None)
    narrow.post("/console/sign-in", data={"user_name": "narrow", "password": PASSWORD})
    begin(narrow, "status=FAILED")
    work(engine)
    assert set(statuses(engine, one["FAILED"])) == {"FAILED"}
    # A tenant id that a tenant writes is not read.
    begin(browse(Role.OPERATOR, 7), "status=FAILED&tenant=8")
    work(engine)
    assert set(statuses(engine, one["FAILED"])) == {"RETRY"}
    assert browse(Role.VIEWER).post("/console/mail/retry-all", data={"query": ""}).status_code == 403
