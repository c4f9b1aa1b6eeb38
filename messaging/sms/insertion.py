"""What acceptance writes of a text message; inserted by `messaging.delivery.insertion`."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import JSON, BigInteger, Text

from messaging.delivery.insertion import Insertion
from messaging.sms.models import SMS_SEND_RECORD


class AcceptedSms(NamedTuple):
    """One row to write. Texts are exact `str`."""

    scope: str
    #: E.164 with the plus.
    phone_number: str
    content: str | None
    priority: str | None
    lane: int
    idempotency_key: str | None
    request_hash: str | None
    send_at: datetime | None
    expires_at: datetime | None
    # From here on rare: left out of the statement when no message of a call uses one of them.
    template_code: str | None
    #: JSON text, the caller's order kept.
    template_variables: str | None
    provider_config_id: int | None
    sign_name: str | None
    external_template_id: str | None


SMS_INSERTION = Insertion[AcceptedSms](
    SMS_SEND_RECORD,
    AcceptedSms._fields,
    {"template_variables": (Text(), JSON()), "provider_config_id": (BigInteger(), None)},
    rare_from="template_code",
    chars=lambda sms: len(sms.content or "") + len(sms.template_variables or ""),
)
