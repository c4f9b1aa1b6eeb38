"""Mail: accept it."""

from collections.abc import Sequence
from typing import Any, overload

from sqlalchemy.orm import Session

from messaging.api.calls import given, in_session
from messaging.api.process import environment
from messaging.clock import utc_now
from messaging.mail import channel
from messaging.mail.acceptance import accept_mails
from messaging.requests import SendMail


@overload
def send_mail(request: SendMail, *, session: Session | None = None) -> int: ...
@overload
def send_mail(*, session: Session | None = None, **fields: Any) -> int: ...
def send_mail(request: SendMail | None = None, *, session: Session | None = None, **fields: Any) -> int:
    """Accept one mail; answers its record's id. It goes out once the transaction has committed.

    Takes a `SendMail`, or its fields as keywords. Checks everything before it writes anything (RFC 5322 addresses,
    sizes, times); templates, servers and quotas are looked at when it is delivered.

    Raises:
        MessageRejected: The input cannot be accepted; names field and value. Nothing was written, and the transaction
            is still usable.
        PreparationError: The file store did not take an attachment; nothing was written either.
    """
    chosen = given("send_mail", SendMail, channel.NAME, request, fields)
    shared = environment()
    with in_session(session) as s:
        return accept_mails(s, [chosen], settings=shared.settings, now=utc_now(), single=True, files=shared.files)[0]


def send_mail_batch(requests: Sequence[SendMail], *, session: Session | None = None) -> list[int]:
    """Accept 1 to 500 mails, all or none, in one insert; answers ids in the order of the requests.

    Raises:
        MessageRejected: As `send_mail`, with the index of the item.
    """
    shared = environment()
    with in_session(session) as s:
        return accept_mails(s, requests, settings=shared.settings, now=utc_now(), single=False, files=shared.files)
