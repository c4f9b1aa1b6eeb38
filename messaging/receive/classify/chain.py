"""The chain of rules and the flag detectors: `classify` never raises (`receive.md` 11, 14)."""

from typing import Protocol

from messaging.receive.classification import Classification
from messaging.receive.parsed import ParsedMail


class Rule(Protocol):
    """Says of a mail what it is, or None: pure; may raise, which counts as no match."""

    #: Rules run in ascending order, equal ones in the order in which they were registered.
    order: int

    def match(self, message: ParsedMail) -> Classification | None: ...


class FlagDetector(Protocol):
    """Adds flags to what a mail is; applying it twice changes nothing."""

    def apply(self, message: ParsedMail, classification: Classification) -> Classification: ...
