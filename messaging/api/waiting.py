"""The outcome for a caller who cannot go on without it."""

import time

from messaging.api.records import MailStatus, SmsStatus, status
from messaging.clock import boot_seconds
from messaging.delivery.status import FINAL_STATUSES
from messaging.delivery.waiting import MAX_WAIT_SECONDS, pauses
from messaging.errors import shown_value


def wait(record_id: int, timeout_seconds: float = 30.0, *, channel: str | None = None) -> MailStatus | SmsStatus:
    """Wait until a mail or text message is SENT, FAILED or DEAD_LETTER, at most so long; answers where it stands then.

    Call it once the transaction that accepted the message has committed: nobody sends it before. What is being retried
    may take hours, so look at `status` of the answer. Holds neither a connection nor a transaction while it waits.

    Raises:
        RecordNotFound: No such record in this tenant (or channel), or none that is committed.
        TypeError: The time is no number.
        ValueError: It is below 0 or above 300 seconds.
    """
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, int | float):
        raise TypeError(f"timeout_seconds is {shown_value(timeout_seconds)}; it is of type float")
    if not 0 <= timeout_seconds <= MAX_WAIT_SECONDS:
        raise ValueError(f"timeout_seconds is {timeout_seconds}; allowed: 0 to {MAX_WAIT_SECONDS:g}")
    for pause in pauses(timeout_seconds, boot_seconds):
        found = status(record_id, channel=channel)
        if found.status in FINAL_STATUSES:
            return found
        time.sleep(pause)
    return status(record_id, channel=channel)
