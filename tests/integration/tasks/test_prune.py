"""The tick of retention in a real worker: the night's run, once, in its hour, on a queue of its own."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, insert, text

from messaging.retention.prune import begins_night
from messaging.sandbox.models import CAPTURED_MESSAGE
from tests.conftest import MakeSettings
from tests.integration.tasks.conftest import Broker, Make
from tests.polling import eventually


def add_captured(engine: Engine) -> None:
    values = {"channel": "mail", "record_id": 1, "recipients": [], "captured_at": text("now() - interval '9 days'")}
    with engine.begin() as connection:
        connection.execute(insert(CAPTURED_MESSAGE).values(**values))


def test_the_tick_prunes_in_its_hour(engine: Engine, broker: Broker, make: Make) -> None:
    add_captured(engine)
    hour = str(datetime.now(UTC).hour)
    make("maintenance", RETENTION__CAPTURED_DAYS="7", RETENTION__HOUR=hour).start()
    broker.task("messaging.prune", [[], {}, {}], queue="maintenance")

    def is_gone() -> bool:
        with engine.connect() as connection:
            return not connection.execute(text("SELECT count(*) FROM captured_message")).scalar_one()

    eventually(is_gone)


def test_one_tick_a_night_begins_a_run(engine: Engine, make_settings: MakeSettings) -> None:
    now = datetime.now(UTC)
    nightly = make_settings(retention={"captured_days": 7, "hour": now.hour})
    assert not begins_night(engine, make_settings(retention={"hour": now.hour}))
    by_day = make_settings(retention={"captured_days": 7, "hour": (now + timedelta(hours=12)).hour})
    assert not begins_night(engine, by_day)
    assert [begins_night(engine, nightly) for _ in range(3)] == [True, False, False]
    with engine.begin() as connection:
        connection.execute(text("UPDATE prune_progress SET started_at = started_at - interval '23 hours'"))
    assert begins_night(engine, nightly)
