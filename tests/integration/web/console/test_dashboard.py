"""The first page: figures of whom it is for, what is not well before all else, links to the records they are of."""

from datetime import timedelta

import redis
from sqlalchemy import Engine

from messaging import tenancy
from messaging.access.roles import Role
from messaging.api import figures
from messaging.channels import CHANNELS
from messaging.clock import boot_seconds
from messaging.delivery.hints import BEAT_ALIVE_KEY
from messaging.figures.gather import gather
from messaging.figures.outcomes import Window
from tests.integration.figures import rows
from tests.integration.web.console import stories
from tests.integration.web.console.conftest import Browse


def count(engine: Engine) -> None:
    """What beat's tick does: mark, and count up to the mark."""
    for _ in range(2):
        gather(engine, ticker=boot_seconds, is_stopping=lambda: False)


def attempts(engine: Engine, tenant: int = 7, *, sent: int = 3, failed: int = 2) -> None:
    count(engine)
    with engine.begin() as connection:
        for _ in range(sent):
            rows.attempt(connection, tenant=tenant, ago=timedelta(seconds=1))
        for _ in range(failed):
            record_id = rows.record(connection, tenant)
            rows.attempt(connection, "FAILED", tenant=tenant, record_id=record_id, category="INVALID_INPUT")
    count(engine)


def test_attempts_are_shown_by_outcome_server_template_and_category(browse: Browse, engine: Engine) -> None:
    attempts(engine)
    with tenancy.tenant(7):
        told = figures.outcome_figures(Window.HOUR)
    mail = told.channels["mail"]
    assert dict(mail.by_outcome) == {"SENT": 3, "FAILED": 2}
    assert sum(bar.sent for bar in mail.bars) == 3
    assert [(one.of, one.failed, one.attempts) for one in told.servers] == [(3, 2, 5)]
    assert [(one.of, one.failed) for one in told.templates] == [("order", 2)]
    assert [(one.category, one.attempts) for one in told.categories] == [("INVALID_INPUT", 2)]
    shown = browse(Role.VIEWER).get("/console/").text
    assert '<b class="big">3</b>' in shown
    assert "2 of 5" in shown
    assert "template=order" in shown
    assert "Invalid input" in shown
    for window in Window:
        assert browse(Role.VIEWER).get(f"/console/?window={window.value}").status_code == 200


def test_each_tenant_sees_its_own_figures_and_the_platform_all(browse: Browse, engine: Engine) -> None:
    attempts(engine, 7, sent=3, failed=0)
    attempts(engine, 8, sent=5, failed=0)
    stories.mail(engine, 8)
    assert '<b class="big">3</b>' in browse(Role.VIEWER).get("/console/").text
    with tenancy.tenant(7):
        assert figures.line_figures()["mail"].due == 0
    with tenancy.tenant(8):
        assert figures.line_figures()["mail"].due == 1
    platform = browse(Role.PLATFORM)
    assert '<b class="big">8</b>' in platform.get("/console/").text
    assert '<b class="big">5</b>' in platform.get("/console/?tenant=8").text
    # What a tenant writes into the address is nobody's business.
    assert '<b class="big">3</b>' in browse(Role.VIEWER).get("/console/?tenant=8").text


def test_what_is_not_well_comes_first(browse: Browse, engine: Engine, redis_client: "redis.Redis") -> None:
    # Of a test before it in this process, which may have been heard of.
    redis_client.delete(BEAT_ALIVE_KEY, *(f"msg:workers:{channel}" for channel in CHANNELS))
    attempts(engine, sent=1, failed=6)
    stories.mail(engine)
    shown = browse(Role.VIEWER).get("/console/").text
    assert "Look at these first" in shown
    assert "6 of 7 attempts failed" in shown
    assert "7 due, and no worker is heard of" in shown
    assert browse(Role.VIEWER).get("/console/?window=%00").status_code == 200


def test_the_console_begins_here(browse: Browse) -> None:
    assert browse(Role.VIEWER).get("/console").headers["location"] == "/console/"
