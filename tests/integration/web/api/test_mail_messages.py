"""Mails over HTTP: handed in one by one and in batches, listed, looked at, attempted again, called off."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging import tenancy
from messaging.access.roles import PERMISSIONS, Permission, Role
from messaging.web.auth import Identity
from tests.integration.web.api.conftest import MakeClient, OpenApi
from tests.integration.web.api.who_may import WHO_MAY

ALL = "/api/v1/mail/messages"
MAIL = {"to": ["Ann <ann@example.org>"], "subject": "Your order", "text_body": "Thank you."}

Put = Callable[..., None]


@pytest.fixture
def put(engine: Engine) -> Put:
    """Writes columns of a record as a worker would have left them; a NULL is None."""

    def put(record_id: str, **columns: Any) -> None:
        changed = ", ".join(f"{name} = :{name}" for name in columns)
        statement = text(f"UPDATE mail_send_record SET {changed} WHERE id = :id")
        with engine.begin() as connection:
            assert connection.execute(statement, {"id": int(record_id), **columns}).rowcount == 1

    return put


@pytest.fixture
def rows(engine: Engine) -> Callable[[], list[Any]]:
    """Every record of the database, as accepted."""

    def rows() -> list[Any]:
        with engine.connect() as connection:
            return list(connection.execute(text("SELECT * FROM mail_send_record ORDER BY id")))

    return rows


Rows = Callable[[], list[Any]]


def send(caller: TestClient, **fields: Any) -> str:
    answer = caller.post(ALL, json={**MAIL, **fields})
    assert answer.status_code == 202, answer.text
    assert list(answer.json()) == ["id"]
    return str(answer.json()["id"])


def ids(answer: dict[str, Any]) -> list[str]:
    return [line["id"] for line in answer["items"]]


# -- handing in


def test_a_mail_handed_in_is_stored_for_the_callers_tenant_and_told_by_its_id(client: MakeClient, rows: Rows) -> None:
    later = datetime(2030, 1, 2, 3, tzinfo=UTC)
    record_id = send(
        client(Role.SENDER, tenant=7, user_id=12),
        cc=["ben@example.org"],
        bcc=["cleo@example.org"],
        html_body="<p>Thank you.</p>",
        template_variables={"order": {"id": 17}},
        headers={"X-Campaign": "spring"},
        priority="HIGH",
        reply_to="shop@example.org",
        server_config_id="9007199254740993",
        send_at="2030-01-02T04:00:00+01:00",
        idempotency_key="order-17",
        read_receipt_requested=True,
        auto_submitted=False,
    )
    [row] = rows()
    assert (str(row.id), row.tenant_id, row.status, row.created_by_id) == (record_id, 7, "PENDING", 12)
    assert (row.to_addresses, row.cc_addresses) == (["Ann <ann@example.org>"], ["ben@example.org"])
    assert (row.bcc_addresses, row.template_variables) == (["cleo@example.org"], {"order": {"id": 17}})
    assert (row.priority, row.reply_to, row.server_config_id) == ("HIGH", "shop@example.org", 9007199254740993)
    assert (row.send_at, row.idempotency_key, row.headers) == (later, "order-17", {"X-Campaign": "spring"})
    assert (row.read_receipt_requested, row.auto_submitted, row.body_html) == (True, False, "<p>Thank you.</p>")


@pytest.mark.parametrize(  # tenancy tenant-01
    ("fields", "query", "headers"),
    [
        ({"tenant_id": 8}, {}, {}),
        ({"tenantId": "-1"}, {}, {}),
        ({}, {"tenant_id": "8"}, {"X-Tenant-Id": "8"}),
        ({}, {}, {"X-Tenant-Id": "-1"}),
    ],
)
def test_a_tenant_named_by_the_request_is_refused_or_of_no_account(
    client: MakeClient, rows: Rows, fields: dict[str, Any], query: dict[str, str], headers: dict[str, str]
) -> None:
    answer = client(Role.SENDER, tenant=7).post(ALL, json={**MAIL, **fields}, params=query, headers=headers)
    assert answer.status_code == (422 if fields else 202)
    assert {row.tenant_id for row in rows()} <= {7}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"to": []}, "to"),
        ({"to": ["nobody"]}, "to"),
        ({"to": ["a@example.org\u0000"]}, "to.0"),
        ({"to": "a@example.org"}, "to"),
        ({"subject": "x" * 501}, "subject"),
        ({"subject": "a\u0000b"}, "subject"),
        ({"text_body": None}, "text_body"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"priority": "URGENT"}, "priority"),
        ({"server_config_id": 5}, "server_config_id"),
        ({"server_config_id": "0"}, "server_config_id"),
        ({"headers": {"Bcc": "x@example.org"}}, "headers"),
        ({"headers": {"X-A": "1\r\nBcc: v@example.net"}}, "headers"),
        ({"unsubscribe_list": "news", "cc": ["b@example.org"]}, "unsubscribe_list"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"shiny": 1}, "shiny"),
        ({"attachments": [{"file_name": "a.txt"}]}, "attachments.0"),
        ({"attachments": [{"file_name": "a.txt", "content": "YQ==", "file_id": "5"}]}, "attachments.0"),
        ({"attachments": [{"file_name": "a.txt", "content": "no base64"}]}, "attachments.0.content"),
        ({"attachments": [{"file_name": " ", "content": "YQ=="}]}, "attachments"),
    ],
)
def test_what_cannot_be_accepted_is_refused_by_its_field(
    client: MakeClient, rows: Rows, fields: dict[str, Any], field: str
) -> None:
    answer = client(Role.SENDER).post(ALL, json={**MAIL, **fields})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "invalid", field)
    assert rows() == []


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("", MAIL | {"cc": ["b@example.org", "bob"]}, "cc has no @: 'bob'"),
        ("/batch", {"messages": [MAIL, MAIL | {"to": ["ann@"]}]}, "item 1: to has no domain right after the @: 'ann@'"),
    ],
)
def test_of_many_recipients_the_one_that_is_refused_is_named(
    client: MakeClient, path: str, body: dict[str, Any], message: str
) -> None:
    assert client(Role.SENDER).post(ALL + path, json=body).json()["message"] == message


def test_a_line_break_in_the_subject_adds_no_header(client: MakeClient, rows: Rows) -> None:  # security sec-01
    send(client(Role.SENDER), subject="hi\r\nBcc: victim@example.net\nX-A: 1")
    assert rows()[0].subject == "hi Bcc: victim@example.net X-A: 1"


def test_attachments_come_along_in_base64_or_are_stored_already(client: MakeClient, rows: Rows, engine: Engine) -> None:
    content = bytes(range(256))
    one = {"file_name": "../logo.png", "content_type": "image/png", "content_id": "logo"}
    send(
        client(Role.SENDER),
        html_body='<img src="cid:logo">',
        attachments=[{**one, "content": base64.b64encode(content).decode()}, {"file_name": "a.pdf", "file_id": "77"}],
    )
    stored, known = rows()[0].attachments
    assert (stored["file_name"], stored["content_type"], stored["content_id"]) == (".._logo.png", "image/png", "logo")
    assert (known["file_id"], known["file_name"]) == (77, "a.pdf")
    with engine.connect() as connection:
        kept = connection.execute(
            text("SELECT tenant_id, content FROM stored_file WHERE id = :id"), {"id": stored["file_id"]}
        )
        assert kept.one() == (7, content)


@pytest.mark.parametrize("where", ["header", "body"])
def test_the_same_key_again_answers_the_same_id_and_another_content_is_refused(
    client: MakeClient, rows: Rows, where: str
) -> None:
    caller = client(Role.SENDER)

    def post(subject: str) -> Any:
        key = {"idempotency_key": "order-1"} if where == "body" else {}
        headers = {"Idempotency-Key": "order-1"} if where == "header" else {}
        return caller.post(ALL, json={**MAIL, "subject": subject, **key}, headers=headers)

    first = post("A")
    assert (post("A").json(), first.status_code) == (first.json(), 202)
    other = post("B")
    assert (other.status_code, other.json()["field"]) == (422, "idempotency_key")
    assert len(rows()) == 1


def test_a_key_in_the_body_that_is_not_that_of_the_header_is_refused(client: MakeClient) -> None:
    answer = client(Role.SENDER).post(ALL, json={**MAIL, "idempotency_key": "a"}, headers={"Idempotency-Key": "b"})
    assert (answer.status_code, answer.json()["field"]) == (422, "idempotency_key")


def test_the_key_of_one_tenant_says_nothing_in_another(client: MakeClient) -> None:  # tenancy tenant-03
    answers = [client(Role.SENDER, tenant=t).post(ALL, json=MAIL, headers={"Idempotency-Key": "1"}) for t in (7, 8)]
    assert len({answer.json()["id"] for answer in answers}) == 2


# -- batches


def test_a_batch_is_accepted_in_its_order(client: MakeClient, rows: Rows) -> None:
    messages = [{**MAIL, "subject": f"S{n}"} for n in range(5)]
    answer = client(Role.SENDER).post(f"{ALL}/batch", json={"messages": messages})
    assert answer.status_code == 202
    subjects = {str(row.id): row.subject for row in rows()}
    assert [subjects[record_id] for record_id in answer.json()["ids"]] == ["S0", "S1", "S2", "S3", "S4"]


@pytest.mark.parametrize(
    ("messages", "field"),
    [([], "messages"), ([MAIL] * 501, "messages"), ([MAIL, {**MAIL, "to": ["nobody"]}], "1.to")],
)
def test_a_batch_is_accepted_whole_or_not_at_all(
    client: MakeClient, rows: Rows, messages: list[dict[str, Any]], field: str
) -> None:
    answer = client(Role.SENDER).post(f"{ALL}/batch", json={"messages": messages})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert rows() == []


def test_a_batch_sent_again_with_its_key_is_not_accepted_again(client: MakeClient, rows: Rows) -> None:
    caller = client(Role.SENDER)
    body = {"messages": [{**MAIL, "idempotency_key": "own"}, MAIL, {**MAIL, "subject": "B"}]}
    first, again = (
        caller.post(f"{ALL}/batch", json=body, headers={"Idempotency-Key": "batch-1"}).json() for _ in range(2)
    )
    assert first == again
    assert [row.idempotency_key for row in rows()] == ["own", "batch-1#1", "batch-1#2"]
    long = caller.post(f"{ALL}/batch", json=body, headers={"Idempotency-Key": "k" * 250})
    assert (long.status_code, long.json()["field"]) == (422, "Idempotency-Key")


# -- whose


def test_the_platforms_scope_is_for_the_platform(client: MakeClient, rows: Rows) -> None:
    asked = {**MAIL, "scope": "PLATFORM"}
    for role in (Role.SENDER, Role.TENANT_ADMIN):
        answer = client(role).post(ALL, json=asked)
        assert (answer.status_code, answer.json()["field"]) == (403, "scope")
        assert client(role).post(f"{ALL}/batch", json={"messages": [MAIL, asked]}).status_code == 403
    assert rows() == []
    assert client(Role.PLATFORM).post(ALL, json=asked).status_code == 202
    assert [(row.tenant_id, row.scope) for row in rows()] == [(tenancy.PLATFORM_TENANT_ID, "PLATFORM")]


def test_a_service_of_the_application_may_use_the_platforms_scope_for_a_tenant(open_api: OpenApi, rows: Rows) -> None:
    class Service:
        async def authenticate(self, request: object) -> Identity:
            return Identity("service:otp", 7, frozenset({Permission.SEND, Permission.PLATFORM}))

    with TestClient(open_api(options={"authenticator": Service()})) as caller:
        assert caller.post(ALL, json={**MAIL, "scope": "PLATFORM"}).status_code == 202
    assert [(row.tenant_id, row.scope) for row in rows()] == [(7, "PLATFORM")]


def test_without_tenants_the_scope_is_everybodys(open_api: OpenApi, client: MakeClient, rows: Rows) -> None:
    send(client(Role.SENDER, app=open_api(multi_tenancy=False), tenant=0), scope="PLATFORM")
    assert [row.tenant_id for row in rows()] == [0]


@pytest.mark.parametrize(("method", "path", "needed"), WHO_MAY)
def test_each_operation_is_for_whom_it_is(client: MakeClient, method: str, path: str, needed: set[Permission]) -> None:
    record_id = send(client(Role.SENDER))
    body = {"": MAIL, "/batch": {"messages": [MAIL]}, "/retry": {"ids": [record_id]}}.get(path)
    for role in (Role.SENDER, Role.VIEWER, Role.OPERATOR, Role.TENANT_ADMIN):
        answer = client(role).request(method, ALL + path.format(id=record_id), json=body)
        assert (answer.status_code == 403) is PERMISSIONS[role].isdisjoint(needed), (role, answer.text)
    assert client(None).request(method, ALL + path.format(id=record_id), json=body).status_code == 401


# -- looking


def test_the_status_says_where_a_mail_stands_and_why(client: MakeClient, put: Put) -> None:
    caller = client(Role.SENDER)
    record_id = send(caller)
    result = {"result": "refused", "code": "SMTP_550", "text": "no", "at": "2030-01-01T00:00:00+00:00"}
    results = json.dumps({"ann@example.org": result})
    put(record_id, status="FAILED", error_code="SMTP_550", error_message="no such user", recipient_results=results)
    status = caller.get(f"{ALL}/{record_id}/status").json()
    told = ("id", "subject", "to", "status", "retry_count", "error_code", "error_message", "sent_at", "bounced")
    assert [status[name] for name in told] == [
        *(record_id, "Your order", ["Ann <ann@example.org>"], "FAILED", 0, "SMTP_550", "no such user", None, False)
    ]
    assert status["recipient_results"]["ann@example.org"] == {
        "result": "refused",
        "code": "SMTP_550",
        "text": "no",
        "at": "2030-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(("state", "is_told"), [("PENDING", True), ("RETRY", True), ("SENT", False), ("FAILED", False)])
def test_what_is_final_has_no_next_attempt(client: MakeClient, put: Put, state: str, is_told: bool) -> None:
    caller = client(Role.SENDER)
    record_id = send(caller)
    put(record_id, status=state)
    assert (caller.get(f"{ALL}/{record_id}/status").json()["next_attempt_at"] is not None) is is_told


@pytest.mark.parametrize("path", ["", "/status", "/attempts"])
@pytest.mark.parametrize("record_id", ["404", "2147483648", "9223372036854775808", "-1", "0", "x", "1e3", "٣"])
def test_an_id_that_is_none_is_not_found(client: MakeClient, record_id: str, path: str) -> None:
    # operate.md O53, web/admin web-01
    answer = client().get(f"{ALL}/{record_id}{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("record_id", ["404", "99999999999999999999"])
def test_what_is_not_there_is_neither_retried_nor_called_off(client: MakeClient, record_id: str) -> None:  # web-01
    for action in ("retry", "cancel"):
        assert client().post(f"{ALL}/{record_id}/{action}").status_code == 404


def test_a_text_message_is_no_mail(client: MakeClient) -> None:
    caller = client()
    text_id = caller.post("/api/v1/sms/messages", json={"phone_number": "+4915112345678", "content": "Hi"}).json()["id"]
    for path in ("", "/status", "/attempts"):
        assert caller.get(f"{ALL}/{text_id}{path}").status_code == 404
    for action in ("retry", "cancel"):
        assert caller.post(f"{ALL}/{text_id}/{action}").status_code == 404
    assert caller.post(f"{ALL}/retry", json={"ids": [text_id]}).json() == {"requeued": 0}


def test_a_mail_is_told_with_its_whole_story_and_its_bodies_only_where_they_are_asked_for(
    client: MakeClient, engine: Engine
) -> None:
    caller = client()
    headers = {"X-Request-Id": "req-17", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    given = {**MAIL, "template_variables": {"code": "123456"}, "idempotency_key": "k"}
    given["attachments"] = [{"file_name": "a.txt", "content_type": "text/plain", "content": "YQ=="}]
    record_id = caller.post(ALL, json=given, headers=headers).json()["id"]
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO send_attempt (tenant_id, channel, record_id, attempt_no, started_at, outcome, error_code,
                    provider, config_id)
                VALUES (7, 'mail', :id, 1, now(), 'RETRY', 'SMTP_421', 'smtp', 5)"""),
            {"id": int(record_id)},
        )

    short = caller.get(f"{ALL}/{record_id}")
    told = caller.get(f"{ALL}/{record_id}", params={"bodies": "true"}).json()

    assert "Thank you." not in short.text
    assert "123456" not in short.text
    bodies = {"body_text": "Thank you.", "template_variables": {"code": "123456"}}
    assert told == short.json() | bodies
    assert short.json()["body_text"] is None
    assert (told["id"], told["tenant_id"], told["status"], told["why"]) == (
        *(record_id, "7", "PENDING", "accepted, and not yet taken by a worker"),
    )
    assert (told["request_id"], told["trace_id"]) == ("req-17", "0af7651916cd43dd8448eb211c80319c")
    [file] = told["files"]
    assert (file["file_name"], file["content_type"], file["file_id"].isdecimal()) == ("a.txt", "text/plain", True)
    assert told["recipients"] == [
        {"address": "ann@example.org", "result": "open", "code": None, "text": None, "at": None}
    ]
    attempts = caller.get(f"{ALL}/{record_id}/attempts").json()["items"]
    assert attempts == told["attempts"]
    [attempt] = attempts
    assert (attempt["attempt_no"], attempt["outcome"], attempt["error_code"]) == (1, "RETRY", "SMTP_421")
    assert (attempt["provider"], attempt["config_id"]) == ("smtp", "5")


# -- lists


def test_a_list_goes_from_the_newest_on_by_cursors(client: MakeClient) -> None:
    caller = client()
    sent = [send(caller) for _ in range(5)]
    seen: list[str] = []
    cursor, sizes = None, []
    while True:
        answer = caller.get(ALL, params={"size": 2} | ({"cursor": cursor} if cursor else {})).json()
        seen, sizes, cursor = [*seen, *ids(answer)], [*sizes, len(answer["items"])], answer["next_cursor"]
        if cursor is None:
            break
        # What comes meanwhile moves nothing.
        send(caller)
    assert (seen, sizes) == (sent[::-1], [2, 2, 1])


def test_a_list_is_narrowed_by_what_a_mail_is(client: MakeClient, put: Put) -> None:
    caller = client()
    start = datetime.now(UTC) - timedelta(seconds=60)
    plain = send(caller, to=["Ben <BEN@example.org>"], cc=["cleo@example.org"])
    by_code, by_id = send(caller, template_code="welcome"), send(caller, template_id="5", server_config_id="9")
    failed = send(caller)
    put(failed, status="FAILED", error_code="SMTP_550")
    put(by_id, created_at=start - timedelta(days=1))
    send(client(tenant=8), template_code="welcome")

    def found(**asked: str) -> list[str]:
        answer = caller.get(ALL, params=asked)
        assert answer.status_code == 200, answer.text
        return ids(answer.json())

    assert found() == [failed, by_code, plain, by_id]
    assert found(status="FAILED") == [failed]
    assert found(error_code="SMTP_550", created_after=start.isoformat()) == [failed]
    assert found(recipient="ben@EXAMPLE.org") == found(recipient="Cleo <cleo@example.org>") == [plain]
    assert found(template_code="welcome") == [by_code]
    assert found(template_id="5") == found(server_config_id="9") == [by_id]
    assert found(created_before=start.isoformat()) == [by_id]
    assert found(scope="PLATFORM") == []


def test_a_line_of_a_list_tells_what_a_table_shows(client: MakeClient) -> None:
    caller = client()
    record_id = send(caller, template_id="5", server_config_id="9", send_at="2030-01-01T00:00:00Z")
    [line] = caller.get(ALL).json()["items"]
    assert line == {
        "id": record_id,
        "status": "PENDING",
        "scope": "TENANT",
        "subject": "Your order",
        "template": "id 5",
        "to": ["Ann <ann@example.org>"],
        "server_config_id": "9",
        "retry_count": 0,
        "error_code": None,
        "created_at": line["created_at"],
        "next_attempt_at": "2030-01-01T00:00:00Z",
        "sent_at": None,
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"size": 0},
        {"size": 201},
        {"cursor": "x"},
        {"cursor": base64.urlsafe_b64encode(b"at:1").decode()},
        {"cursor": base64.urlsafe_b64encode(b"at:9223372036854775807:1").decode()},
        {"cursor": base64.urlsafe_b64encode(b"id:5").decode()},
        {"status": "SENDED"},
        {"recipient": "nobody"},
        {"template_id": "9223372036854775808"},
        {"created_after": "yesterday"},
        {"created_after": "2030-01-01T00:00:00"},
        {"error_code": "a\u0000"},
        {"tenant_id": "8"},
    ],
)
def test_what_cannot_narrow_a_list_is_refused(client: MakeClient, asked: dict[str, Any]) -> None:
    answer = client().get(ALL, params=asked)
    assert (answer.status_code, answer.json()["field"]) == (422, next(iter(asked)))


# -- mending


@pytest.mark.parametrize(  # operate.md O51
    ("columns", "status"),
    [
        ({}, 200),
        ({"status": "RETRY"}, 200),
        ({"status": "FAILED", "error_code": "SMTP_550"}, 200),
        ({"status": "DEAD_LETTER", "error_code": "SMTP_421"}, 200),
        ({"status": "SENT"}, 409),
        ({"status": "SENDING", "claimed_at": datetime.now(UTC)}, 409),
        ({"status": "FAILED", "error_code": "CANCELLED"}, 409),
    ],
)
def test_a_mail_is_attempted_again_where_its_state_allows_it(
    client: MakeClient, put: Put, columns: dict[str, Any], status: int
) -> None:
    caller = client(Role.OPERATOR)
    record_id = send(caller)
    if columns:
        put(record_id, **columns)
    answer = caller.post(f"{ALL}/{record_id}/retry")
    assert answer.status_code == status
    if status == 200:
        is_final = columns.get("status") in ("FAILED", "DEAD_LETTER")
        assert (answer.json()["status"], answer.json()["retry_count"]) == ("RETRY", int(is_final))
    else:
        assert answer.json()["code"] == "conflict"


def test_many_are_attempted_again_and_the_others_left_out(client: MakeClient, put: Put) -> None:  # operate.md O51
    caller = client(Role.OPERATOR)
    sent, failed, called_off, waiting = (send(caller) for _ in range(4))
    put(sent, status="SENT")
    put(failed, status="FAILED", error_code="SMTP_550")
    caller.post(f"{ALL}/{called_off}/cancel")
    others = send(client(tenant=8))
    body = {"ids": [sent, failed, called_off, waiting, waiting, others, "404"]}
    assert caller.post(f"{ALL}/retry", json=body).json() == {"requeued": 2}
    for bad in ({"ids": []}, {"ids": [5]}, {"ids": ["x"]}, {"ids": ["1"] * 501}, {}):
        assert caller.post(f"{ALL}/retry", json=bad).status_code == 422


@pytest.mark.parametrize(
    ("columns", "status", "answer"),
    [
        ({}, 200, {"answer": "cancelled", "status": "FAILED"}),
        ({"uncertain": True}, 200, {"answer": "stopped", "status": "FAILED"}),
        ({"status": "FAILED", "error_code": "CANCELLED"}, 200, {"answer": "cancelled", "status": "FAILED"}),
        ({"status": "SENDING", "claimed_at": datetime.now(UTC)}, 409, {"code": "in_progress", "status": "SENDING"}),
        ({"status": "DEAD_LETTER"}, 409, {"code": "already_final", "status": "DEAD_LETTER"}),
        ({"status": "SENT"}, 409, {"code": "too_late", "status": "SENT"}),
    ],
)
def test_a_cancel_is_answered_truthfully(
    client: MakeClient, put: Put, columns: dict[str, Any], status: int, answer: dict[str, str]
) -> None:
    caller = client(Role.SENDER)
    record_id = send(caller)
    if columns:
        put(record_id, **columns)
    told = caller.post(f"{ALL}/{record_id}/cancel")
    assert told.status_code == status
    assert told.json().items() >= answer.items()
    assert ("message" in told.json()) is (status == 409)


def test_what_another_tenant_sent_is_not_there(client: MakeClient) -> None:  # operate.md O5
    record_id = send(client(tenant=8))
    for role, tenant in ((Role.TENANT_ADMIN, 7), (Role.PLATFORM, -1)):
        caller = client(role, tenant=tenant)
        assert ids(caller.get(ALL).json()) == []
        for path in ("", "/status", "/attempts"):
            assert caller.get(f"{ALL}/{record_id}{path}").status_code == 404
        for action in ("retry", "cancel"):
            assert caller.post(f"{ALL}/{record_id}/{action}").status_code == 404
    assert client(tenant=8).get(f"{ALL}/{record_id}/status").json()["status"] == "PENDING"
