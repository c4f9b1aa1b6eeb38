"""Mail requests with a real database and Valkey: accepted once, counted, and given back while one of them is away."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from sqlalchemy import Engine, text

from messaging import tenancy
from messaging.clock import boot_seconds, utc_now
from messaging.db.engine import create_engine
from messaging.delivery.dead_letter import store_poison
from messaging.delivery.poison import PoisonMessage, PoisonType
from messaging.embedded import free_port
from messaging.mail.mail_request import (
    MailRequest,
    MailRequests,
    RequestFailed,
    RequestGivenBack,
    RequestRefused,
    RequestRepeats,
    read_request,
)
from messaging.settings import Settings

ADDRESS = "confidential@example.com"

Make = Callable[..., MailRequests]


def request(task_id: str = "t1", *, to: Any = ADDRESS, code: Any = "welcome", tenant_id: int | None = 7) -> MailRequest:
    return read_request(to, code, {"name": "confidential"}, None, tenant_id, task_id=task_id)


@pytest.fixture(autouse=True)
def _every_row_has_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)


@pytest.fixture
def make(make_settings: Callable[..., Settings], engine: Engine, redis_client: "redis.Redis") -> Make:
    """What handles requests; a message is repeated after 1 s, so that one waits for half of that."""

    def make(
        *, database: Engine = engine, client: "redis.Redis" = redis_client, is_stopping: bool = False
    ) -> MailRequests:
        settings = make_settings(
            multi_tenancy=True,
            celery={"visibility_timeout_seconds": 1},
            database={"lock_timeout_seconds": 0.2},
        )
        stopping = threading.Event()
        if is_stopping:
            stopping.set()
        return MailRequests(database, client, settings, clock=utc_now, ticker=boot_seconds, stopping=stopping)

    return make


@pytest.fixture
def away(settings: Settings) -> Iterator[Engine]:
    """A database that nobody serves."""
    nowhere = f"postgresql+psycopg://127.0.0.1:{free_port()}/x"
    engine = create_engine(settings.model_copy(update={"database_url": nowhere}))
    yield engine
    engine.dispose()


def rows(engine: Engine) -> list[tuple[int, str]]:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT tenant_id, idempotency_key FROM mail_send_record ORDER BY id"))
        return [tuple(row) for row in found]


def test_a_message_that_comes_again_makes_no_second_mail(
    make: Make, engine: Engine, redis_client: "redis.Redis"
) -> None:  # operate.md O62
    requests = make()
    for _ in range(2):
        assert requests.handle(request()) == {"accepted": 1, "ignored": 0}
    assert requests.handle(request(tenant_id=8)) == {"accepted": 1, "ignored": 0}
    assert rows(engine) == [(7, "mail-request:t1"), (8, "mail-request:t1")]
    # What ended as it should is not held against the message.
    assert redis_client.keys("poison:*") == []
    assert tenancy.current().tenant_id is None


@pytest.mark.parametrize("given", [{"to": None}, {"code": " "}])
def test_without_recipient_or_code_it_is_ignored_with_a_line(
    make: Make, engine: Engine, caplog: pytest.LogCaptureFixture, given: dict[str, Any]
) -> None:  # operate.md O62
    assert make().handle(request(**given)) == {"accepted": 0, "ignored": 1}
    assert rows(engine) == []
    [line] = [record for record in caplog.records if record.message.startswith("mail request ignored")]
    assert (line.levelname, line.__dict__["task_id"]) == ("WARNING", "t1")
    assert "confidential" not in caplog.text


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"to": "confidential"}, "to"),
        ({"to": [f"{ADDRESS} confidential"]}, "to"),
        ({"to": [5]}, "to"),
        ({"code": "confidential" * 20}, "template_code"),
        ({"tenant_id": None}, "scope"),
    ],
)
def test_what_acceptance_refuses_is_told_by_its_field_and_not_repeated(
    make: Make, engine: Engine, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(RequestRefused, match=f"^{field} ") as refused:
        make().handle(request(**given))
    assert "confidential" not in str(refused.value)
    assert rows(engine) == []


def test_an_id_that_was_used_for_another_mail_is_refused(make: Make, engine: Engine) -> None:
    requests = make()
    requests.handle(request())
    with pytest.raises(RequestRefused, match="idempotency_key was used before"):
        requests.handle(request(to="other@example.com"))
    assert len(rows(engine)) == 1


def test_deliveries_that_do_not_end_are_counted_for_a_day_and_stop_the_message(
    make: Make, engine: Engine, redis_client: "redis.Redis"
) -> None:
    requests = make()
    redis_client.set("poison:t1", 4)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE mail_send_record RENAME TO elsewhere"))
    with pytest.raises(RequestFailed):
        requests.handle(request())  # the fifth
    assert redis_client.get("poison:t1") == b"5"
    assert 86_000 < redis_client.ttl("poison:t1") <= 86_400
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE elsewhere RENAME TO mail_send_record"))
    with pytest.raises(RequestRepeats, match="6 times"):
        requests.handle(request())
    assert rows(engine) == []


def test_a_bug_is_told_by_its_type_and_place_and_without_its_words(make: Make, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE mail_send_record ADD CHECK (template_code <> 'welcome')"))
    with pytest.raises(RequestFailed, match=r"^IntegrityError at line \d+ of \S+\.py$") as failed:
        make().handle(request())
    assert failed.value.__suppress_context__


def test_while_the_database_is_away_it_is_given_back_and_not_counted(
    make: Make, away: Engine, redis_client: "redis.Redis"
) -> None:  # operate.md O66
    with pytest.raises(RequestGivenBack):
        make(database=away).handle(request())
    assert redis_client.keys("poison:*") == []


def test_while_redis_is_away_nothing_is_accepted_that_could_not_be_counted(make: Make, engine: Engine) -> None:
    with redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 0)) as away, pytest.raises(RequestGivenBack):
        make(client=away).handle(request())
    assert rows(engine) == []


def test_a_worker_that_stops_waits_for_nobody(make: Make, away: Engine) -> None:
    began = boot_seconds()
    with pytest.raises(RequestGivenBack):
        make(database=away, is_stopping=True).handle(request())
    assert boot_seconds() - began < 0.4
    # Where nothing is away, a request is accepted all the same.
    assert make(is_stopping=True).handle(request())["accepted"] == 1


def test_two_at_once_make_one_mail(make: Make, engine: Engine) -> None:
    requests = make()
    answers: list[dict[str, int]] = []
    threads = [threading.Thread(target=lambda: answers.append(requests.handle(request()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == [{"accepted": 1, "ignored": 0}] * 4
    assert len(rows(engine)) == 1


def test_a_message_that_is_the_only_copy_is_archived_beside_another_like_it(engine: Engine) -> None:
    message = PoisonMessage(
        type=PoisonType.TASK_RAISED,
        queue="mail_request",
        body=[[], {"to": ["a@example.com"], "tenant_id": 7}],
        error="bug",
        task_name="messaging.mail_request",
        is_only_copy=True,
    )
    with engine.begin() as connection:
        stored = [store_poison(connection, message, record_tables=[]) for _ in range(2)]
    assert None not in stored
    assert len(set(stored)) == 2
