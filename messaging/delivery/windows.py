"""The windows of the configurations that a chunk's records go out by, asked before each send (`send.md` section 12).

Once one of them has refused, it is asked for all that is left of the chunk at once: a record a round trip would take
longer than their places are worth.
"""

from collections.abc import Callable, Sequence

from messaging.category import MarkerCode
from messaging.delivery.channel import Claim, RateLimits
from messaging.rate_limit import Full, RateWindows, Taken


def has_place(claim: Claim) -> bool:
    """Whether a window refused the record before, and reserved it the place at which it comes back."""
    return bool(claim.content["error_code"] == MarkerCode.QUOTA_EXCEEDED)


class ChunkWindows:
    """Asks for one chunk."""

    def __init__(self, windows: RateWindows, channel: str) -> None:
        self._windows = windows
        self._channel = channel
        #: Answers for records whose turn has not come.
        self._answers: dict[int, Taken | Full] = {}

    def find_full(
        self, claim: Claim, limits: RateLimits, later: Callable[[], Sequence[tuple[Claim, RateLimits | None]]]
    ) -> Full | None:
        """Take one send for this record; what is full where there is no room.

        `later` answers the records of the chunk whose turn comes after it, with their limits.

        Raises: RateLimitUnavailable.
        """
        answer = self._answers.pop(claim.record_id, None)
        if answer is None:
            [answer] = self._ask(limits, [claim])
            if isinstance(answer, Full):
                # Whoever comes back at its place has one: it is asked alone, when its turn has come.
                same = [one for one, of_one in later() if of_one == limits and not has_place(one)]
                self._answers |= zip([one.record_id for one in same], self._ask(limits, same), strict=True)
        return answer if isinstance(answer, Full) else None

    def pop_full(self, claim: Claim) -> Full | None:
        """The place reserved for a record whose turn will not come; None where none is."""
        answer = self._answers.pop(claim.record_id, None)
        return answer if isinstance(answer, Full) else None

    def _ask(self, limits: RateLimits, claims: Sequence[Claim]) -> list[Taken | Full]:
        return self._windows.take_many(
            self._channel,
            limits.owner_tenant_id,
            limits.config_id,
            daily=limits.daily,
            per_minute=limits.per_minute,
            places=[has_place(claim) for claim in claims],
        )
