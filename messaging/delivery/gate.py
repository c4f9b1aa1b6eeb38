"""How old a claim may be when a send starts and ends (rule 5), and how long each step of it may take.

Ages count from before the claim statement was sent; source: the protocol's inequalities I1 to I3.
"""

from dataclasses import dataclass
from typing import Protocol

from messaging.clock import Ticker


class ClaimTooOld(Exception):
    """The sweep could take the record back before this send would end: nothing may be sent, the claim is released."""


class SendDeferred(Exception):
    """What the far side took cannot be told apart from a message that is being sent now: the claim is released."""


@dataclass(frozen=True, slots=True)
class SendLimits:
    """The four durations a send is held to; all in seconds."""

    #: How old a claim may get before its send has ended.
    send_budget_seconds: float
    #: One send, from connect to reply.
    send_max_seconds: float
    #: Waiting for the reply to the last byte.
    reply_wait_seconds: float


class Gate(Protocol):
    """What a transport asks while it sends one record."""

    def check_start(self) -> None:
        """First check, before the envelope. Raises `ClaimTooOld`."""

    def check_last_byte(self) -> None:
        """Second check, immediately before the last byte. Raises `ClaimTooOld`."""

    def timeout(self, limit_seconds: float) -> float:
        """Seconds the next socket operation may take: `limit_seconds`, or what is left of the send if that is less.

        Raises: TimeoutError, when nothing is left.
        """

    def reply_timeout(self) -> float:
        """Seconds to wait for the reply to the last byte. Never raises: that byte is out."""


class SendGate:
    """The gate of one send: `claimed_at` and the ticker count boot seconds."""

    def __init__(self, claimed_at: float, limits: SendLimits, ticker: Ticker) -> None:
        self._claimed_at = claimed_at
        self._limits = limits
        self._ticker = ticker
        self._started_at = ticker()
        #: Whether the last byte may be out: from then on the other side may have taken the message.
        self.is_last_byte_free = False

    def check_start(self) -> None:
        limits = self._limits
        if self._ticker() - self._claimed_at > limits.send_budget_seconds - limits.send_max_seconds:
            raise ClaimTooOld

    def check_last_byte(self) -> None:
        limits = self._limits
        if self._ticker() - self._claimed_at > limits.send_budget_seconds - limits.reply_wait_seconds:
            raise ClaimTooOld
        self.is_last_byte_free = True

    def timeout(self, limit_seconds: float) -> float:
        left = self._started_at + self._limits.send_max_seconds - self._ticker()
        if left <= 0:
            raise TimeoutError("the send took longer than DELIVERY__SEND_MAX_SECONDS")
        return min(limit_seconds, left)

    def reply_timeout(self) -> float:
        left = self._started_at + self._limits.send_max_seconds - self._ticker()
        # A send that used its time up before the last byte still gets a moment for the reply: the message may be taken.
        return max(1.0, min(self._limits.reply_wait_seconds, left))
