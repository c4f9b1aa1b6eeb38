"""Events of mails through beat, ticks and workers as processes that are killed: none is lost, each is signed."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from messaging import api
from messaging.webhooks.signing import new_secret
from tests.acceptance.conftest import Start
from tests.acceptance.system import MessagingSetup
from tests.far_end.provider_server import Fault, ProviderServer, Reply, Request, serving
from tests.far_end.webhook_api import WebhookApi
from tests.polling import eventually

#: This host is where the application listens.
PRIVATE = {"WEBHOOKS__TRANSPORT__ALLOW_PRIVATE": "true"}


@pytest.fixture
def application() -> Iterator[ProviderServer]:
    with serving(WebhookApi(new_secret())) as server:
        yield server


def listen(server: ProviderServer) -> int:
    assert isinstance(server.api, WebhookApi)
    return api.add_webhook_endpoint(name="shop", url=f"{server.url}/hook", secret=server.api.secret).id


def calls(server: ProviderServer) -> list[Any]:
    assert isinstance(server.api, WebhookApi)
    return server.api.calls


def statuses(setup: MessagingSetup, table: str) -> dict[str, int]:
    with setup.engine.connect() as connection:
        rows = connection.execute(text(f"SELECT status, count(*) FROM {table} GROUP BY status"))
        return {row.status: row.count for row in rows}


def test_events_of_killed_workers_are_told_each_of_them_and_none_that_did_not_happen(
    start: Start, application: ProviderServer
) -> None:
    setup = start(mail_workers=0, settings=PRIVATE)
    mail = setup.add_worker("mail0", "mail_send", threads=2)
    webhook = setup.add_worker("webhook0", "webhook_send", threads=2)
    setup.wait_ready()
    endpoint_id = listen(application)
    ids = [api.send_mail(to=[f"u{n}@example.org"], subject="Order", text_body="Thank you.") for n in range(30)]
    eventually(lambda: len(calls(application)) >= 3, 60, "events arrive")
    for worker in (mail, webhook):
        worker.kill()
        worker.restart()
    eventually(lambda: statuses(setup, "mail_send_record") == {"SENT": 30}, 90, "every mail is sent")
    eventually(lambda: statuses(setup, "webhook_send_record") == {"SENT": 30}, 90, "every event is told")
    heard = {one.id: one for one in calls(application)}
    assert sorted(int(one.data["id"]) for one in heard.values()) == sorted(ids)  # one event a mail, whoever died
    assert {one.type for one in heard.values()} == {"message.sent"}
    with setup.engine.connect() as connection:
        endpoints = connection.execute(text("SELECT DISTINCT endpoint_id FROM webhook_send_record")).scalars().all()
    assert endpoints == [endpoint_id]


def test_a_worker_killed_before_the_answer_tells_it_again_under_the_same_id(
    start: Start, application: ProviderServer
) -> None:
    setup = start(mail_workers=0, settings=PRIVATE)
    worker = setup.add_worker("webhook0", "webhook_send")
    setup.wait_ready()
    endpoint_id = listen(application)
    take = application.api.answer

    def take_and_say_nothing(request: Request) -> Reply | Fault:
        application.api.answer = take  # type: ignore[method-assign]
        take(request)
        return Fault.NO_REPLY

    application.api.answer = take_and_say_nothing  # type: ignore[assignment,method-assign]
    trial = api.try_webhook_endpoint(endpoint_id)
    eventually(lambda: len(calls(application)) == 1, 30, "the application has the event")
    worker.kill()
    worker.restart()
    eventually(lambda: len(calls(application)) == 2, 60, "the event is told again")
    first, second = calls(application)
    assert (first.id, second.id, first.type) == (f"evt_{trial}", f"evt_{trial}", "webhook.test")
    eventually(lambda: statuses(setup, "webhook_send_record") == {"SENT": 1}, 30, "the delivery is sent")
    assert api.get_webhook_delivery(trial).uncertain is True
