"""Events to an endpoint: signed, tried again by the core's table, never redirected, never into a private network."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from messaging.category import ErrorCategory
from messaging.webhooks.signing import new_secret
from tests.far_end.provider_server import Fault, Reply, Request
from tests.integration.webhooks.desk import WebhookDesk


def test_an_event_arrives_signed_and_says_what_happened(desk: WebhookDesk) -> None:
    record_id = desk.event(desk.add())
    assert desk.deliver(record_id) == {"sent": 1}
    [request] = desk.server.requests
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == f"evt_{record_id}"
    row = desk.row(record_id)
    body = json.loads(request.body)
    assert body == {
        "type": "message.sent",
        "timestamp": row.created_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": {"id": "17", "channel": "mail", "status": "SENT", "subject": "Grüße"},
    }
    assert [one.data["id"] for one in desk.api.calls] == ["17"]  # it was verified by the standard's library
    assert (row.status, row.error_code) == ("SENT", None)
    [attempt] = desk.attempts(record_id)
    assert (attempt.channel, attempt.provider, attempt.outcome) == ("webhook", "http", "SENT")


def test_a_body_that_was_changed_does_not_verify(desk: WebhookDesk) -> None:
    desk.deliver(desk.event(desk.add()))
    [request] = desk.server.requests
    with pytest.raises(WebhookVerificationError):
        Webhook(desk.secret).verify(request.body.replace(b"SENT", b"LOST"), dict(request.headers))


def test_what_failed_comes_again_with_the_same_id_and_body_and_a_new_time(desk: WebhookDesk) -> None:
    record_id = desk.event(desk.add())
    desk.server.next.append(Reply(500))
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    first, second = desk.server.requests
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(first.headers["webhook-timestamp"]) <= int(second.headers["webhook-timestamp"])
    assert [a.error_code for a in desk.attempts(record_id)] == ["HTTP_500", None]


@pytest.mark.parametrize(
    ("reply", "status", "category"),
    [
        (Reply(200), "SENT", None),
        (Reply(299), "SENT", None),
        (Reply(301, headers={"Location": "/elsewhere"}), "RETRY", ErrorCategory.TRANSIENT),
        (Reply(400), "RETRY", ErrorCategory.TRANSIENT),
        (Reply(401), "RETRY", ErrorCategory.TRANSIENT),
        (Reply(404), "RETRY", ErrorCategory.TRANSIENT),
        (Reply(429), "RETRY", ErrorCategory.QUOTA),
        (Reply(503), "RETRY", ErrorCategory.TRANSIENT),
        (Reply(410), "FAILED", ErrorCategory.PERMANENT),
        (Fault.CLOSE_AFTER, "RETRY", ErrorCategory.TRANSIENT),
        (Fault.GARBAGE, "RETRY", ErrorCategory.TRANSIENT),
    ],
    ids=str,
)
def test_answers_and_what_becomes_of_the_event(
    desk: WebhookDesk, reply: Reply | Fault, status: str, category: ErrorCategory | None
) -> None:
    record_id = desk.event(desk.add())
    desk.server.next.append(reply)
    desk.deliver(record_id)
    [attempt] = desk.attempts(record_id)
    assert (desk.row(record_id).status, attempt.category) == (status, category)
    assert len(desk.server.requests) == 1  # a redirect is not followed


def test_an_endpoint_that_asks_for_a_wait_gets_it(desk: WebhookDesk) -> None:
    record_id = desk.event(desk.add())
    desk.server.next.append(Reply(503, headers={"Retry-After": "1200"}))
    desk.deliver(record_id)
    row = desk.row(record_id)
    assert (row.next_attempt_at - row.updated_at).total_seconds() == pytest.approx(1200, abs=5)


def test_an_answers_words_are_not_kept(desk: WebhookDesk) -> None:
    record_id = desk.event(desk.add())
    desk.server.next.append(Reply(500, "root:x:0:0"))
    desk.deliver(record_id)
    assert "root" not in desk.row(record_id).error_message
    assert "root" not in desk.attempts(record_id)[0].error_message


def test_used_up_retries_end_in_the_dead_letters(make_desk: Callable[..., WebhookDesk]) -> None:
    desk = make_desk(retry={"max_retries": 0})
    record_id = desk.event(desk.add())
    desk.server.next.append(Reply(500))
    assert desk.deliver(record_id) == {"dead_letter": 1}


def test_gone_disables_the_endpoint_and_what_waits_for_it_fails(desk: WebhookDesk) -> None:
    endpoint_id = desk.add()
    first, second = desk.event(endpoint_id), desk.event(endpoint_id)
    desk.server.next.append(Reply(410))
    assert desk.deliver(first) == {"failed": 1}
    assert desk.endpoint(endpoint_id).active is False
    assert desk.endpoint(endpoint_id).gone_at is not None
    assert desk.deliver(second) == {"failed": 1}
    assert desk.row(second).error_code == "ENDPOINT_DISABLED"
    assert len(desk.server.requests) == 1


def test_an_endpoint_that_points_elsewhere_by_now_is_not_disabled(make_desk: Callable[..., WebhookDesk]) -> None:
    desk = make_desk(config_cache_ttl_seconds=1)
    endpoint_id = desk.add()
    desk.deliver(desk.event(endpoint_id))  # its address is known to the worker now
    desk.change(endpoint_id, url=desk.url + "/new")
    desk.server.next.append(Reply(410))
    desk.deliver(desk.event(endpoint_id))
    assert desk.endpoint(endpoint_id).active is True


def test_the_endpoint_of_another_tenant_or_none_is_not_called(desk: WebhookDesk) -> None:
    for endpoint_id in (desk.add(tenant_id=8), 10**6):
        record_id = desk.event(endpoint_id)
        assert desk.deliver(record_id) == {"failed": 1}
        assert desk.row(record_id).error_code == "CONFIG_NOT_RESOLVABLE"
    assert desk.server.requests == []


# operate.md: signed webhooks; a secret that is being replaced
@pytest.mark.parametrize(("hours", "old_verifies"), [(1, True), (-1, False)])
def test_a_replaced_secret_signs_until_its_time_is_over(desk: WebhookDesk, hours: int, old_verifies: bool) -> None:
    new, old = new_secret(), desk.secret
    until = datetime.now(UTC) + timedelta(hours=hours)
    endpoint_id = desk.add(secret=f"{new} {old}", replaced_secret_until=until)
    desk.api.secret = new
    assert desk.deliver(desk.event(endpoint_id)) == {"sent": 1}
    desk.api.secret = old
    assert desk.deliver(desk.event(endpoint_id)) == {"sent" if old_verifies else "retry": 1}


# A name that resolves to this host is what a tenant would use to reach what only we can reach.
def test_a_private_address_is_not_connected_to(make_desk: Callable[..., WebhookDesk]) -> None:
    desk = make_desk(allow_private=False)
    for host in ("127.0.0.1", "localhost"):
        record_id = desk.event(desk.add(url=desk.url.replace("127.0.0.1", host)))
        assert desk.deliver(record_id) == {"failed": 1}
        row = desk.row(record_id)
        assert (row.error_code, row.uncertain) == ("HTTP_ADDRESS_REFUSED", False)
        # A tenant must not learn what names mean in here.
        assert "no public address" in row.error_message
        assert "127.0.0.1" not in row.error_message
    assert desk.server.connections == 0


def test_an_endpoint_that_never_answers_keeps_a_thread_for_its_time_only(
    make_desk: Callable[..., WebhookDesk],
) -> None:
    desk = make_desk(read_timeout_seconds=0.2)
    record_id = desk.event(desk.add())
    desk.server.next.append(Fault.DRIP)
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.row(record_id).error_code == "HTTP_NO_REPLY"


def test_what_sandbox_mode_keeps_is_not_called(make_desk: Callable[..., WebhookDesk]) -> None:
    desk = make_desk(sandbox={"mode": "capture"})
    record_id = desk.event(desk.add())
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.server.requests == []


def test_an_endpoint_that_moves_off_the_list_in_the_middle_is_not_called(
    make_desk: Callable[..., WebhookDesk],
) -> None:
    desk = make_desk(sandbox={"mode": "allowlist", "allow": ["127.0.0.1"]})
    listed, moving = desk.add(), desk.add()
    answer = desk.api.answer

    def move(request: Request) -> Reply:
        desk.change(moving, url=desk.url.replace("127.0.0.1", "localhost"))
        return answer(request)

    desk.api.answer = move  # type: ignore[method-assign]
    first, second = desk.event(listed), desk.event(moving)
    assert desk.deliver(first, second) == {"sent": 1, "retry": 1}
    assert (len(desk.server.requests), desk.row(second).error_code) == (1, "ENDPOINT_CHANGED")
    assert desk.deliver(second) == {"sent": 1}  # kept
    assert len(desk.server.requests) == 1
