"""What is pruned, each kind by an age of its own; apart from how, for who only names them."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from messaging.settings import RetentionSettings


class PruneKind(StrEnum):
    """A setting of `RETENTION__*_DAYS`, without its ending."""

    BODIES = "BODIES"
    RECORDS = "RECORDS"
    ATTEMPTS = "ATTEMPTS"
    RECEIVED = "RECEIVED"
    FILES = "FILES"
    NOTIFICATIONS = "NOTIFICATIONS"
    CAPTURED = "CAPTURED"
    DEAD_LETTERS = "DEAD_LETTERS"
    RECEIPTS = "RECEIPTS"

    def days(self, settings: "RetentionSettings") -> float | None:
        """The age at which rows go; None keeps them."""
        days: float | None = getattr(settings, f"{self.lower()}_days")
        return days
