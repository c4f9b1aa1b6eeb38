"""The picture of the console in README and docs: made anew by this test, and kept where the others are.

To show a console that has changed: run it, then `cp .screenshots/console.png docs/img/console.png`.
"""

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Engine

from messaging import api, tenancy
from messaging.access.roles import Role
from messaging.channels import CHANNELS
from messaging.clock import boot_seconds
from messaging.delivery.hints import BEAT_ALIVE_KEY
from messaging.figures.gather import gather
from tests.integration.figures import rows
from tests.integration.web.console.browser.conftest import PICTURES, Keep, OpenTab

if TYPE_CHECKING:
    import redis

pytestmark = pytest.mark.xdist_group("browser")

#: What a picture in the repository may weigh, in octets.
MAX_OCTETS = 150_000

#: Attempts of a minute, by how long ago in minutes: a wave, a server that was slow for a while, refusals now and then.
SENT = [8 + (minute * 7) % 5 + (12 if 20 < minute < 40 else 0) for minute in range(60)]
RETRIED = [6 if 31 < minute < 36 else 0 for minute in range(60)]
FAILED = [1 if minute % 9 == 4 else 0 for minute in range(60)]


def test_the_picture_of_the_documentation(
    engine: Engine, redis_client: "redis.Redis", open_tab: OpenTab, keep: Keep
) -> None:
    _fill(engine)
    redis_client.set(BEAT_ALIVE_KEY, "1", ex=120)
    for channel in CHANNELS:
        alive = json.dumps({"threads": 8, "at": time.time()})
        redis_client.hset(f"msg:workers:{channel}", f"{channel}@worker-1", alive)
    tab = open_tab(Role.VIEWER, viewport={"width": 1280, "height": 760}, color_scheme="light")
    tab.goto("/console/")
    assert tab.get_by_text("All is well").is_visible()
    assert tab.get_by_text("order-confirmed").first.is_visible()
    keep(tab, "console")
    # Tests after it in this process have neither.
    redis_client.delete(BEAT_ALIVE_KEY, *(f"msg:workers:{channel}" for channel in CHANNELS))
    assert (PICTURES / "console.png").stat().st_size < MAX_OCTETS


def _fill(engine: Engine) -> None:
    """An hour of a shop."""
    with tenancy.tenant(7):
        server = api.add_mail_server(name="Postmark", host="smtp.example.org", port=587, from_address="a@example.org")
    counted(engine)
    with engine.begin() as connection:
        for minute in range(60):
            ago = timedelta(minutes=minute)
            for _ in range(SENT[minute]):
                rows.attempt(connection, ago=ago, config_id=server)
            for _ in range(SENT[minute] // 4):
                rows.attempt(connection, ago=ago, channel="sms", config_id=1)
            for outcome, count, category in (("RETRY", RETRIED, "TRANSIENT"), ("FAILED", FAILED, "INVALID_INPUT")):
                for _ in range(count[minute]):
                    template = "order-confirmed" if minute % 2 else "invoice"
                    record_id = rows.record(connection, template_code=template, status="SENT")
                    rows.attempt(connection, outcome, ago=ago, record_id=record_id, config_id=server, category=category)
    counted(engine)


def counted(engine: Engine) -> None:
    """What beat's tick does: mark, and count up to the mark."""
    for _ in range(2):
        gather(engine, ticker=boot_seconds)
