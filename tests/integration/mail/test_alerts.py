"""Alert mails of poison: one a dead letter, few in a while, none about an alert; a failure is only logged."""

import logging
from dataclasses import replace
from typing import Any

import pytest
import redis
from pydantic import ValidationError
from sqlalchemy import Engine, text

from messaging import tenancy
from messaging.clock import utc_now
from messaging.delivery.dead_letter import store_poison
from messaging.delivery.poison import PoisonMessage, PoisonType
from messaging.mail.alerts import KEY, MAX_ALERTS, WINDOW_SECONDS, Alerting
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.settings import Settings
from tests.conftest import MakeSettings


def poison(engine: Engine, **fields: Any) -> int:
    given = {"type": PoisonType.UNKNOWN_TASK, "queue": "mail_send", "body": b"s3cret", "error": "no s3cret", **fields}
    with engine.begin() as connection:
        stored = store_poison(connection, PoisonMessage(**given), record_tables=[MAIL_SEND_RECORD])
    assert stored is not None
    return stored


def mails(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(text("SELECT * FROM mail_send_record ORDER BY id")))


@pytest.fixture
def alerting(
    make_settings: MakeSettings, engine: Engine, redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> Alerting:
    monkeypatch.setattr(tenancy, "_multi_tenancy", False)
    settings = make_settings(dead_letter={"alert_recipients": " ann@example.com, , ben@example.com "})
    return Alerting(engine, redis_client, settings, utc_now)


def test_each_recipient_is_told_of_what_happened_and_of_nothing_in_it(
    alerting: Alerting, engine: Engine
) -> None:  # operate.md O33
    letter = poison(
        engine,
        queue="mail\r\nBcc: x@example.com",
        task_name="other.task",
        worker_name="w@host",
        body=b'[["42"], {"tenant_id": 7}, {}]',
    )
    record = alerting.tell(letter)
    [mail] = mails(engine)
    assert mail.id == record
    assert mail.to_addresses == ["ann@example.com", "ben@example.com"]
    assert (mail.scope, mail.status) == ("PLATFORM", "PENDING")
    assert mail.subject == f"Dead letter {letter} from queue mail Bcc: x@example.com"
    told = mail.body_text
    for part in (str(letter), "other.task", "w@host", "UNKNOWN_TASK", "42", "7"):
        assert part in told
    assert "s3cret" not in told + mail.subject
    assert mail.body_html is None


def test_with_nobody_to_tell_nothing_is_written(
    engine: Engine, settings: Settings, redis_client: "redis.Redis"
) -> None:
    alerting = Alerting(engine, redis_client, settings, utc_now)  # operate.md O33
    assert alerting.tell(poison(engine)) is None
    assert mails(engine) == []
    assert not redis_client.exists(KEY)


def test_with_multi_tenancy_the_platform_sends_it(
    alerting: Alerting, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    settings = alerting.settings.model_copy(update={"multi_tenancy": True})
    with tenancy.tenant(7):
        replace(alerting, settings=settings).tell(poison(engine))
    assert [mail.tenant_id for mail in mails(engine)] == [tenancy.PLATFORM_TENANT_ID]


def test_a_dead_letter_is_told_of_once(alerting: Alerting, engine: Engine) -> None:
    letter = poison(engine)
    assert alerting.tell(letter) == alerting.tell(letter)
    assert len(mails(engine)) == 1


def test_ten_in_five_minutes_are_enough(
    alerting: Alerting, engine: Engine, redis_client: "redis.Redis", caplog: pytest.LogCaptureFixture
) -> None:
    letters = [poison(engine) for _ in range(MAX_ALERTS + 2)]
    told = [alerting.tell(letter) for letter in letters]
    assert [record is not None for record in told] == [True] * MAX_ALERTS + [False] * 2
    assert "enough lately" in caplog.text
    # The first of them was five minutes ago: there is room for one more.
    redis_client.zincrby(KEY, -WINDOW_SECONDS, str(letters[0]))
    assert alerting.tell(letters[-1]) is not None
    assert alerting.tell(letters[-2]) is None
    assert 0 < redis_client.ttl(KEY) <= WINDOW_SECONDS


def test_an_alerts_own_mail_that_becomes_poison_is_told_to_nobody(
    alerting: Alerting, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    record = alerting.tell(poison(engine))
    own = poison(
        engine, type=PoisonType.TASK_RAISED, body=[[[[record, 1]]], {}, {}], task_name="messaging.deliver_mail"
    )
    assert alerting.tell(own) is None
    assert len(mails(engine)) == 1
    assert "an alert's mail became a dead letter" in caplog.text


def test_a_failing_alert_is_logged_and_leaves_the_dead_letter(
    alerting: Alerting, engine: Engine, make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:  # operate.md O33
    letter = poison(engine)
    away = redis.Redis(port=1, socket_connect_timeout=0.1)
    with caplog.at_level(logging.ERROR):
        assert Alerting(engine, away, alerting.settings, utc_now).tell(letter) is None
    assert "no alert of a dead letter" in caplog.text
    unfit = make_settings(dead_letter={"alert_recipients": "a..b@example..com"})
    assert Alerting(engine, alerting.redis, unfit, utc_now).tell(letter) is None
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM dead_letter_message")).scalar_one() == 1
    assert mails(engine) == []


@pytest.mark.parametrize("recipients", ["ann", "ann@example.com;ben@example.com x", "Ann <ann@example.com>"])
def test_recipients_that_are_no_addresses_are_refused_at_start(make_settings: MakeSettings, recipients: str) -> None:
    with pytest.raises(ValidationError, match="allowed: mail addresses such as operations@"):
        make_settings(dead_letter={"alert_recipients": recipients})
