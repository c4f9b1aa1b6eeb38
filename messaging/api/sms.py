"""Text messages: accept them, and say by whom they would go."""

from collections.abc import Sequence
from typing import Any, overload

from sqlalchemy.orm import Session

from messaging.api.calls import given, in_session
from messaging.api.process import environment
from messaging.clock import utc_now
from messaging.requests import MessageScope, SendSms
from messaging.sms import channel, explaining
from messaging.sms.acceptance import accept_sms
from messaging.sms.explaining import RouteExplanation


@overload
def send_sms(request: SendSms, *, session: Session | None = None) -> int: ...
@overload
def send_sms(*, session: Session | None = None, **fields: Any) -> int: ...
def send_sms(request: SendSms | None = None, *, session: Session | None = None, **fields: Any) -> int:
    """Accept one text message; answers its record's id. It goes out once the transaction has committed.

    Takes a `SendSms`, or its fields as keywords. The number is E.164 (`+4915112345678`), the text at most 2,000
    characters; template, country, provider and quota are looked at when it is delivered.

    Raises:
        MessageRejected: The input cannot be accepted; names field and value. Nothing was written, and the transaction
            is still usable.
    """
    chosen = given("send_sms", SendSms, channel.NAME, request, fields)
    shared = environment()
    with in_session(session) as s:
        return accept_sms(s, [chosen], settings=shared.settings, now=utc_now(), single=True)[0]


def send_sms_batch(requests: Sequence[SendSms], *, session: Session | None = None) -> list[int]:
    """Accept 1 to 500 text messages, all or none, in one insert; answers ids in the order of the requests.

    Raises:
        MessageRejected: As `send_sms`, with the index of the item.
    """
    shared = environment()
    with in_session(session) as s:
        return accept_sms(s, requests, settings=shared.settings, now=utc_now(), single=False)


def which_provider(
    phone_number: str, *, scope: MessageScope = MessageScope.TENANT, template_code: str | None = None
) -> RouteExplanation:
    """Which provider a message of this tenant to this number would take now, and why, step by step. Sends nothing.

    Raises:
        MessageRejected: The number is none that a message is accepted for.
        TenantContextMissing: No tenant is set.
    """
    return explaining.explain_route(environment().engine, phone_number, scope=scope, template_code=template_code)
