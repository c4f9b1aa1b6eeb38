"""A look ahead: whether a message would be sent, by what, and what is in its way."""

from typing import overload

from sqlalchemy.orm import Session

from messaging.api.calls import in_session
from messaging.api.process import environment
from messaging.clock import boot_seconds, utc_now
from messaging.mail.checking import MailCheck, check_mail
from messaging.requests import SendMail, SendSms
from messaging.sms.checking import SmsCheck, check_sms


@overload
def check(request: SendMail, *, session: Session | None = None) -> MailCheck: ...
@overload
def check(request: SendSms, *, session: Session | None = None) -> SmsCheck: ...
def check(request: SendMail | SendSms, *, session: Session | None = None) -> MailCheck | SmsCheck:
    """What would become of a mail or text message if it were handed in now; sends, writes and charges nothing.

    Looks in the caller's transaction, at everything: the request, its template and how that renders, its server or
    provider and route with readable credentials, the month's quota, the suppression list, the attachments. Answers what
    it found and what would be used; nobody outside is asked, so the other side may still refuse the message, and what
    is there now may change before it is sent.

    Raises:
        TypeError: It is neither a `SendMail` nor a `SendSms`.
    """
    settings = environment().settings
    now = utc_now()
    with in_session(session) as s:
        match request:
            case SendMail():
                return check_mail(s, request, settings=settings, now=now, ticker=boot_seconds)
            case SendSms():
                return check_sms(s, request, settings=settings, now=now, ticker=boot_seconds)
    raise TypeError(f"check takes a SendMail or a SendSms, not {type(request).__name__}")
