"""A row of each kind that a path of the API may name, in whatever tenant is current; its texts name the tenant.

A new resource with an id in its paths is one line in `ROWS`: the tests that try to cross tenants ask for it.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from messaging import api, tenancy
from messaging.access.models import ApiToken, Operator
from messaging.access.roles import Role
from messaging.inbox.models import InboxNotification
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.receive.models import MailReceiveRecord, MailReceiveServerConfig
from messaging.sandbox.models import CapturedMessage
from messaging.sms.models import SmsProviderConfig, SmsProviderRegion, SmsTemplate, SmsTemplateProviderBinding
from messaging.webhooks.models import WebhookEndpoint, WebhookSendRecord

#: The person whose inbox the callers of every tenant have: the same number, another person.
USER_ID = 12


def marker() -> str:
    """What the texts of the current tenant's rows hold."""
    return f"property-of-{tenancy.current().tenant_id}"


def _another() -> str:
    """The same, unlike every one before."""
    return f"{marker()}-{next(_numbers)}"


_numbers = itertools.count()


def _added(session: Session, row: Any) -> int:
    session.add(row)
    session.flush()
    return int(row.id)


def _mail(session: Session) -> int:
    return api.send_mail(
        to=["ann@example.org"],
        subject=marker(),
        text_body=marker(),
        server_config_id=_server(session),
        session=session,
    )


def _sms(session: Session) -> int:
    return api.send_sms(phone_number="+4915112345678", content=marker(), session=session)


def _server(session: Session) -> int:
    row = MailSendServerConfig(
        name=marker(), protocol="SMTP", host="127.0.0.1", port=1, from_address="shop@example.org", password=marker()
    )
    return _added(session, row)


def _mailbox(session: Session) -> int:
    row = MailReceiveServerConfig(name=marker(), protocol="IMAP", host="127.0.0.1", port=1, password=marker())
    return _added(session, row)


def _mail_template(session: Session) -> int:
    return _added(session, MailTemplate(code=_another(), name=marker(), subject=marker(), body_text=marker()))


def _received(session: Session) -> int:
    row = MailReceiveRecord(
        server_config_id=_mailbox(session),
        folder_name="INBOX",
        message_id=f"<{_another()}@example.org>",
        subject=marker(),
        body_text=marker(),
        received_at=datetime.now(UTC),
    )
    return _added(session, row)


def _provider(session: Session) -> int:
    row = SmsProviderConfig(
        name=marker(),
        provider_type="TWILIO",
        api_key="k",
        api_secret=marker(),
        api_endpoint="http://127.0.0.1:1",
        sender_number="+14155550100",
    )
    return _added(session, row)


def _route(session: Session) -> int:
    return _added(session, SmsProviderRegion(provider_config_id=_provider(session), region_code="DE"))


def _sms_template(session: Session) -> int:
    return _added(session, SmsTemplate(code=_another(), name=marker(), content=marker()))


def _binding(session: Session) -> int:
    row = SmsTemplateProviderBinding(
        template_id=_sms_template(session), provider_config_id=_provider(session), external_template_id=marker()
    )
    return _added(session, row)


def _suppression(session: Session) -> int:
    return api.add_suppression(f"{_another()}@example.org", note=marker(), session=session)


def _notification(session: Session) -> int:
    return _added(session, InboxNotification(recipient_id=USER_ID, title=marker(), content=marker()))


def _captured(session: Session) -> int:
    row = CapturedMessage(
        channel="mail",
        record_id=_mail(session),
        recipients=["ann@example.org"],
        subject=marker(),
        raw=marker().encode(),
    )
    return _added(session, row)


def _endpoint(session: Session) -> int:
    row = WebhookEndpoint(name=marker(), url=f"https://127.0.0.1/{marker()}", secret=f"whsec_{marker()}")
    return _added(session, row)


def _webhook_record(session: Session) -> int:
    row = WebhookSendRecord(
        endpoint_id=_endpoint(session),
        event_type="message.sent",
        payload={"subject": marker()},
        scope="TENANT",
        next_attempt_at=datetime.now(UTC) + timedelta(hours=1),
    )
    return _added(session, row)


def _token(session: Session) -> int:
    row = ApiToken(name=marker(), token_hash=_another(), prefix="msg_", role=Role.SENDER)
    return _added(session, row)


def _operator(session: Session) -> int:
    return _added(session, Operator(user_name=_another(), display_name=marker(), role=Role.VIEWER))


#: The part of a path before its first parameter, below the API's base -> makes a row that the parameter may name.
ROWS: dict[str, Callable[[Session], int]] = {
    "/captured": _captured,
    "/inbox": _notification,
    "/inbox/me": _notification,
    "/mail/messages": _mail,
    "/mail/received": _received,
    "/mail/received/fetch": _mailbox,
    "/mail/receive-servers": _mailbox,
    "/mail/send-servers": _server,
    "/mail/templates": _mail_template,
    "/operators": _operator,
    "/sms/messages": _sms,
    "/sms/providers": _provider,
    "/sms/routes": _route,
    "/sms/template-bindings": _binding,
    "/sms/templates": _sms_template,
    "/suppressions": _suppression,
    "/tokens": _token,
    "/webhooks": _endpoint,
    "/webhooks/deliveries": _webhook_record,
}
