"""How much of a server's or provider's daily and per-minute windows is taken; see `messaging.rate_limit`."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from messaging import rate_limit
from messaging.api.calls import in_session
from messaging.api.process import environment
from messaging.clock import utc_now
from messaging.mail import channel as mail_channel
from messaging.mail import server_admin
from messaging.mail.server_admin import ServerLine
from messaging.rate_limit import RateWindows, Used
from messaging.sms import channel as sms_channel
from messaging.sms import provider_admin
from messaging.sms.provider_admin import ProviderLine


@dataclass(frozen=True, slots=True)
class SendWindows:
    """The windows of a configuration: limits, None of one that is off, and what is taken of the running ones."""

    daily_send_limit: int | None
    sent_this_day: int
    rate_limit_per_minute: int | None
    sent_this_minute: int


def mail_server_windows(config_id: int, *, session: Session | None = None) -> SendWindows:
    """What is taken of the windows of a mail server of this tenant; the day is that of `QUOTA__TIMEZONE`.

    Raises:
        RecordNotFound: No such server in this tenant.
        RateLimitUnavailable: Valkey or Redis does not answer.
    """
    environment()
    with in_session(session) as s:
        line = server_admin.get_server(s, config_id)
    return _windows(mail_channel.NAME, line)


def sms_provider_windows(config_id: int, *, session: Session | None = None) -> SendWindows:
    """The same of an SMS provider."""
    environment()
    with in_session(session) as s:
        line = provider_admin.get_provider(s, config_id)
    return _windows(sms_channel.NAME, line)


def send_windows(channel: str, lines: Sequence[ServerLine | ProviderLine]) -> dict[int, SendWindows]:
    """The same of several configurations of a channel, by id; those with no limit are told without a look.

    Raises:
        RateLimitUnavailable: Valkey or Redis does not answer.
    """
    windows = rate_limit.connect(environment().settings, clock=utc_now)
    try:
        return {line.id: _read(windows, channel, line) for line in lines}
    finally:
        windows.close()


def _windows(channel: str, line: ServerLine | ProviderLine) -> SendWindows:
    return send_windows(channel, [line])[line.id]


def _read(windows: RateWindows, channel: str, line: ServerLine | ProviderLine) -> SendWindows:
    daily, per_minute = line.daily_send_limit or None, line.rate_limit_per_minute or None
    used = windows.used(channel, line.tenant_id, line.id) if daily or per_minute else Used(0, 0)
    return SendWindows(daily, used.this_day, per_minute, used.this_minute)
