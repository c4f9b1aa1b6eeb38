"""`/mail/check`, `/sms/check`: whether a message would be sent, by what, and what is in its way. Sends nothing."""

from pydantic import Field

from messaging import api
from messaging.access.roles import Permission
from messaging.delivery.checking import Severity
from messaging.web.api.mail_messages import MailGiven
from messaging.web.api.messages import check_scope
from messaging.web.api.resource import Caller, DbSession, Resource, needs
from messaging.web.api.shapes import Id, Shown, TenantId
from messaging.web.api.sms_messages import SmsGiven

routes = Resource("checks")

_SEND = [needs(Permission.SEND)]


class FindingShown(Shown):
    """One thing that a check has to say."""

    #: `ERROR`: it would be refused or fail; `WARNING`: it would go out, not quite as asked.
    severity: Severity
    code: str
    message: str
    #: Of the request; null where no one field is to blame.
    field: str | None


class CheckShown(Shown):
    """What every check answers; null stands for what could not be settled."""

    #: Whether nothing here keeps it from being sent; the other side may still refuse it.
    is_sendable: bool
    findings: list[FindingShown]
    template_id: Id | None
    missing_variables: list[str]
    #: Recipients that are on the suppression list.
    suppressed: list[str]
    #: Whose monthly quota it is charged to.
    quota_tenant_id: TenantId | None
    #: How many more that lets out; null too where it is unlimited.
    quota_remaining: int | None


class MailCheckShown(CheckShown):
    """What a check of a mail answers."""

    subject: str | None
    body_mode: str | None
    from_address: str | None
    server_config_id: Id | None
    server_name: str | None
    attachment_bytes: int = Field(description="Octets of all attachments; those that are not there left out.")


class SmsCheckShown(CheckShown):
    """What a check of a text message answers."""

    phone_number: str | None
    region_code: str | None
    content: str | None
    #: GSM7 or UCS2.
    encoding: str | None
    #: Messages that are charged.
    segments: int | None
    provider_config_id: Id | None
    provider_name: str | None
    provider_type: str | None
    external_template_id: str | None
    sign_name: str | None


@routes.post("/mail/check", dependencies=_SEND)
def check_mail(session: DbSession, caller: Caller, given: MailGiven) -> MailCheckShown:
    """What would become of a mail if it were handed in now. Writes, charges and sends nothing, and asks no server."""
    check_scope(caller, given)
    return MailCheckShown.model_validate(api.check(given.made(given.idempotency_key), session=session))


@routes.post("/sms/check", dependencies=_SEND)
def check_sms(session: DbSession, caller: Caller, given: SmsGiven) -> SmsCheckShown:
    """What would become of a text message if it were handed in now. Writes, charges and sends nothing."""
    check_scope(caller, given)
    return SmsCheckShown.model_validate(api.check(given.made(given.idempotency_key), session=session))
