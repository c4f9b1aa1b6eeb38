"""The states of a send record and the moves between them (protocol, section 2). The guards live in the statements."""

from enum import StrEnum


class SendStatus(StrEnum):
    """Where a send record stands."""

    #: Accepted, never claimed.
    PENDING = "PENDING"
    #: Claimed by a worker.
    SENDING = "SENDING"
    #: The other side took it, for at least one recipient.
    SENT = "SENT"
    #: Waits for another attempt.
    RETRY = "RETRY"
    #: Ended without success; `error_code` says why.
    FAILED = "FAILED"
    #: Ended because the attempt budget is used up.
    DEAD_LETTER = "DEAD_LETTER"


#: States a tick hands out.
OPEN_STATUSES = (SendStatus.PENDING, SendStatus.RETRY)

#: States that only a manual retry or a bounce leaves.
FINAL_STATUSES = (SendStatus.SENT, SendStatus.FAILED, SendStatus.DEAD_LETTER)

#: Every allowed change of status. Lease and promote (PENDING or RETRY to itself) change the version alone.
TRANSITIONS: frozenset[tuple[SendStatus, SendStatus]] = frozenset(
    {
        (SendStatus.PENDING, SendStatus.PENDING),  # T2, T2a
        (SendStatus.PENDING, SendStatus.SENDING),  # T3
        (SendStatus.PENDING, SendStatus.FAILED),  # T5 expired, T17
        (SendStatus.PENDING, SendStatus.RETRY),  # T16
        (SendStatus.RETRY, SendStatus.RETRY),  # T2, T2a, T14, T16
        (SendStatus.RETRY, SendStatus.SENDING),  # T3
        (SendStatus.RETRY, SendStatus.FAILED),  # T5 expired, T17
        (SendStatus.RETRY, SendStatus.SENT),  # T5 expired with one accepted, T14
        (SendStatus.SENDING, SendStatus.SENDING),  # T4
        (SendStatus.SENDING, SendStatus.SENT),  # T6, T5, T8, T9, T13 with one accepted
        (SendStatus.SENDING, SendStatus.RETRY),  # T7, T11, T12
        (SendStatus.SENDING, SendStatus.FAILED),  # T5, T9
        (SendStatus.SENDING, SendStatus.DEAD_LETTER),  # T8, T13
        (SendStatus.FAILED, SendStatus.RETRY),  # T15
        (SendStatus.DEAD_LETTER, SendStatus.RETRY),  # T15
        (SendStatus.SENT, SendStatus.FAILED),  # T18
        # A read receipt, and of those that ended without success a bounce as well.
        (SendStatus.SENT, SendStatus.SENT),
        (SendStatus.FAILED, SendStatus.FAILED),
        (SendStatus.DEAD_LETTER, SendStatus.DEAD_LETTER),
    }
)
