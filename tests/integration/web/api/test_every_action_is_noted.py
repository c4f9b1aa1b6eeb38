"""Whatever an operator does over HTTP is in the audit log: tried on every unsafe operation that the API describes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from messaging import api, tenancy
from messaging.access.models import Operator
from messaging.access.roles import Role
from messaging.api import access
from messaging.audit import AUDIT_LOG
from messaging.db.session import transaction
from messaging.tenancy import PLATFORM_TENANT_ID
from tests.integration.web.api.conftest import MakeClient
from tests.integration.web.api.rows import ROWS, USER_ID
from tests.integration.web.api.samples import OPERATIONS, Operation

UNSAFE = {one.name: one for one in OPERATIONS if one.method != "GET"}

#: Operations that are none of an operator's actions on what is kept, and why.
NOT_NOTED = {
    **dict.fromkeys(
        ("send_mail", "send_mail_batch", "send_sms", "send_sms_batch", "send_inbox", "send_inbox_batch"),
        "a message: its record says who handed it in",
    ),
    **dict.fromkeys(
        ("check_mail", "check_sms", "preview_mail_template", "preview_sms_template", "change_body_mode"),
        "a question: nothing is written",
    ),
    **dict.fromkeys(
        ("mark_my_notification_read", "mark_my_inbox_read"), "a person's own inbox, of the application's users"
    ),
}


@dataclass(frozen=True)
class Case:
    """How an operation is called so that it changes something, and what the log says then."""

    action: str
    table: str
    #: With `{id}` where the row's id belongs.
    body: Mapping[str, Any] | None = None
    #: Makes the row that the path names; None: by its prefix in `ROWS`.
    row: Callable[[Session], int] | None = None
    role: Role = Role.TENANT_ADMIN
    content: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    #: None: any that tells of success.
    status: int | None = None


def _disabled_operator(session: Session) -> int:
    row = Operator(user_name="ben", role=Role.VIEWER, active=False)
    session.add(row)
    session.flush()
    return row.id


def _quota(session: Session) -> int:
    api.set_quota_limits(7, mail=5, session=session)
    found: int = session.connection().execute(text("SELECT id FROM tenant_message_quota")).scalar_one()
    return found


def _dead_letter(session: Session) -> int:
    found: int = (
        session.connection()
        .execute(
            text(
                "INSERT INTO dead_letter_message (source, event_type, payload)"
                " VALUES ('BROKER_POISON', 'UNDECODABLE', '{}') RETURNING id"
            )
        )
        .scalar_one()
    )
    return found


def _default_mailbox(session: Session) -> int:
    row_id = ROWS["/mail/receive-servers"](session)
    api.set_default_mailbox(row_id, session=session)
    return row_id


SERVER = {"name": "relay", "protocol": "SMTP", "host": "smtp.example.com", "port": 587, "from_address": "a@example.com"}
LOGIN = {"username": "a", "password": "p"}
MAILBOX = {"name": "box", "protocol": "IMAPS", "host": "imap.example.com", "port": 993, **LOGIN}
PROVIDER = {"name": "CM", "provider_type": "CM", "api_key": "k", "sender_id": "Shop"}
PASSWORD = "correct horse battery staple"
RENAMED = {"name": "renamed"}

CASES = {
    "retry_mail": Case("retry", "mail_send_record"),
    "retry_mails": Case("retry", "mail_send_record", {"ids": ["{id}"]}),
    "cancel_mail": Case("cancel", "mail_send_record"),
    "retry_text_message": Case("retry", "sms_send_record"),
    "retry_text_messages": Case("retry", "sms_send_record", {"ids": ["{id}"]}),
    "cancel_text_message": Case("cancel", "sms_send_record"),
    "retry_webhook_delivery": Case("retry", "webhook_send_record"),
    "mark_received_read": Case("mark", "mail_receive_record"),
    "mark_received_read_batch": Case("mark", "mail_receive_record", {"ids": ["{id}"]}, ROWS["/mail/received"]),
    "archive_received": Case("mark", "mail_receive_record"),
    "mark_received_deleted": Case("mark", "mail_receive_record"),
    "mark_notification_read": Case("read", "inbox_notification"),
    "mark_inbox_read": Case("read", "inbox_notification", row=ROWS["/inbox"], body={"recipient_id": str(USER_ID)}),
    "clear_captured": Case("clear", "captured_message", row=ROWS["/captured"]),
    "add_suppression": Case("create", "suppression", {"address": "ann@example.org"}),
    "lift_suppression": Case("lift", "suppression", {"reason": "asked"}),
    "import_suppressions": Case("import", "suppression", content="address\nann@example.org\n"),
    "add_mail_server": Case("create", "mail_send_server_config", SERVER),
    "change_mail_server": Case("update", "mail_send_server_config", RENAMED),
    "delete_mail_server": Case("delete", "mail_send_server_config"),
    "copy_mail_server": Case("create", "mail_send_server_config", RENAMED),
    "choose_default_mail_server": Case("set default", "mail_send_server_config"),
    # Nobody answers there, which is noted as well.
    "test_mail_server": Case("test", "mail_send_server_config"),
    "test_mailbox": Case("test", "mail_receive_server_config"),
    "test_sms_provider": Case("test", "sms_provider_config"),
    "test_webhook": Case("test", "webhook_endpoint"),
    "fetch_mailbox": Case("fetch", "mail_receive_server_config", status=502),
    "fetch_default_mailbox": Case("fetch", "mail_receive_server_config", row=_default_mailbox, status=502),
    "add_mailbox": Case("create", "mail_receive_server_config", MAILBOX),
    "change_mailbox": Case("update", "mail_receive_server_config", RENAMED | LOGIN),
    "delete_mailbox": Case("delete", "mail_receive_server_config"),
    "copy_mailbox": Case("create", "mail_receive_server_config", RENAMED | LOGIN),
    "choose_default_mailbox": Case("set default", "mail_receive_server_config"),
    "add_mail_template": Case(
        "create", "mail_template", {"code": "a", "name": "A", "subject": "s", "body_text": "t", "body_mode": "PLAIN"}
    ),
    "change_mail_template": Case("disable", "mail_template", {"active": False}),
    "delete_mail_template": Case("delete", "mail_template"),
    "copy_mail_template": Case("create", "mail_template", {"code": "another"}),
    "add_sms_template": Case("create", "sms_template", {"code": "a", "name": "A", "content": "c"}),
    "change_sms_template": Case("update", "sms_template", RENAMED),
    "delete_sms_template": Case("delete", "sms_template"),
    "copy_sms_template": Case("create", "sms_template", {"code": "another"}),
    "add_sms_provider": Case("create", "sms_provider_config", PROVIDER),
    "change_sms_provider": Case("update", "sms_provider_config", RENAMED),
    "delete_sms_provider": Case("delete", "sms_provider_config"),
    "copy_sms_provider": Case("create", "sms_provider_config", {"api_key": "k", "api_secret": "s"}),
    "add_sms_route": Case(
        "create",
        "sms_provider_region",
        {"provider_config_id": "{id}", "region_code": "FR"},
        ROWS["/sms/providers"],
    ),
    "change_sms_route": Case("update", "sms_provider_region", {"priority": 5}),
    "delete_sms_route": Case("delete", "sms_provider_region"),
    "add_sms_binding": Case("create", "sms_template_provider_binding"),
    "change_sms_binding": Case("update", "sms_template_provider_binding", {"priority": 5}),
    "delete_sms_binding": Case("delete", "sms_template_provider_binding"),
    "add_quota": Case(
        "create", "tenant_message_quota", {"tenant_id": "9", "mail_monthly_limit": 5}, role=Role.PLATFORM
    ),
    "change_quota": Case("update", "tenant_message_quota", {"mail_monthly_limit": 6}, _quota, Role.PLATFORM),
    "delete_quota": Case("delete", "tenant_message_quota", row=_quota, role=Role.PLATFORM),
    "resolve_dead_letter": Case("resolve", "dead_letter_message", row=_dead_letter, role=Role.PLATFORM),
    "discard_dead_letter": Case("discard", "dead_letter_message", row=_dead_letter, role=Role.PLATFORM),
    "add_token": Case("create", "api_token", {"name": "shop", "role": "SENDER"}),
    "revoke_token": Case("revoke", "api_token"),
    "add_operator": Case("create", "operator", {"user_name": "ann", "role": "VIEWER", "password": PASSWORD}),
    "change_operator": Case("update", "operator", {"display_name": "Ben"}),
    "disable_operator": Case("disable", "operator"),
    "enable_operator": Case("enable", "operator", row=_disabled_operator),
    "set_operator_password": Case("set password", "operator", {"password": PASSWORD}),
    "add_webhook": Case("create", "webhook_endpoint", {"name": "shop", "url": "https://example.com/hook"}),
    "change_webhook": Case("update", "webhook_endpoint", RENAMED),
    "delete_webhook": Case("delete", "webhook_endpoint"),
    "rotate_webhook_secret": Case("rotate secret", "webhook_endpoint", {"keep_hours": 1}),
}

#: Called by a person who is signed in, in a test of their own.
BY_A_PERSON = {"change_own_password", "sign_in", "sign_out"}


def test_every_unsafe_operation_is_noted_or_says_why_not() -> None:
    named = [*NOT_NOTED, *CASES, *BY_A_PERSON]
    assert len(named) == len(set(named))
    assert set(named) == set(UNSAFE)


def _filled(value: Any, row_id: int) -> Any:
    match value:
        case str():
            return value.replace("{id}", str(row_id))
        case list():
            return [_filled(one, row_id) for one in value]
        case dict():
            return {name: _filled(one, row_id) for name, one in value.items()}
        case _:
            return value


def _noted(engine: Engine, since: int) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(AUDIT_LOG.select().where(AUDIT_LOG.c.id > since).order_by(AUDIT_LOG.c.id)))


def _made_row(operation: Operation, case: Case, engine: Engine, tenant_id: int) -> int:
    make = case.row or ROWS.get(operation.prefix.removesuffix("/retry"))
    if make is None:
        return 0
    with tenancy.tenant(tenant_id), transaction(engine) as session:
        return make(session)


@pytest.mark.parametrize("name", CASES)
def test_what_an_operator_does_is_noted(name: str, client: MakeClient, engine: Engine) -> None:
    operation, case = UNSAFE[name], CASES[name]
    tenant_id = PLATFORM_TENANT_ID if case.role is Role.PLATFORM else 7
    caller = client(case.role, 7, user_id=USER_ID)
    row_id = _made_row(operation, case, engine, tenant_id)
    body = _filled(case.body, row_id)
    if name == "add_sms_binding":
        with tenancy.tenant(7), transaction(engine) as session:
            template, provider = ROWS["/sms/templates"](session), ROWS["/sms/providers"](session)
        body = {"template_id": str(template), "provider_config_id": str(provider)}
    before = max((line.id for line in _noted(engine, 0)), default=0)

    options: dict[str, Any] = {"content": case.content} if case.content else {"json": body}
    headers = {"x-request-id": "request-1"} | ({"content-type": "text/csv"} if case.content else {})
    answer = caller.request(
        operation.method, operation.at(row_id), params=_filled(dict(case.params), row_id), headers=headers, **options
    )

    assert answer.is_success if case.status is None else answer.status_code == case.status, answer.text
    found = [line for line in _noted(engine, before) if (line.action, line.target_type) == (case.action, case.table)]
    assert [(line.tenant_id, line.request_id, line.actor[:6]) for line in found] == [(tenant_id, "request-1", "token:")]
    [line] = found
    assert line.target_id == row_id or case.action in ("create", "import", "clear") or name == "mark_inbox_read"
    assert line.action == "read" or line.before is not None or line.after is not None
    assert PASSWORD not in str(line)


def test_a_person_who_signs_in_changes_their_own_password_and_signs_out_is_noted(
    client: MakeClient, engine: Engine
) -> None:
    with tenancy.tenant(7):
        operator_id = access.add_operator("ann", password=PASSWORD, role=Role.OPERATOR, display_name="Ann")
    browser = client(None)
    assert browser.post("/api/v1/session", json={"user_name": "ann", "password": PASSWORD}).is_success
    signed_in = _noted(engine, 0)[-1]
    assert (signed_in.action, signed_in.target_type, signed_in.target_id) == ("sign in", "operator", operator_id)

    changed = browser.post(
        "/api/v1/session/password",
        json={"current": PASSWORD, "password": f"another {PASSWORD}"},
        headers={"x-requested-with": "fetch"},
    )

    assert changed.is_success, changed.text
    [line] = _noted(engine, signed_in.id)
    assert (line.action, line.target_id, line.actor) == ("set password", operator_id, f"operator:{operator_id}")
    assert (line.actor_name, line.tenant_id) == ("Ann", 7)
    assert PASSWORD not in str(line)

    assert browser.delete("/api/v1/session", headers={"x-requested-with": "fetch"}).is_success
    [line] = _noted(engine, line.id)
    assert (line.action, line.target_id, line.actor) == ("sign out", operator_id, f"operator:{operator_id}")
    assert (line.actor_name, line.tenant_id) == ("ann", 7)
