"""Where dead letters come from, and what operators said to them; apart from their table, for who only names them."""

from enum import StrEnum


class DeadLetterSource(StrEnum):
    """Where a dead letter comes from."""

    #: A record that used up its attempts.
    SEND_EXHAUSTED = "SEND_EXHAUSTED"
    #: A task message that could never be processed.
    BROKER_POISON = "BROKER_POISON"


class DeadLetterStatus(StrEnum):
    """What an operator said to it; final but for the first."""

    PENDING = "PENDING"
    #: It was seen to.
    RESOLVED = "RESOLVED"
    #: Nothing is to come of it.
    DISCARDED = "DISCARDED"
