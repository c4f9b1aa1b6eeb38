"""The chain of rules and the flag detectors: `classify` never raises (`receive.md` 11, 14).

Rules say what a mail is, the first match in ascending order; then every detector adds its flags. An application adds
its own by entry points in the groups `RULE_GROUP` and `FLAG_DETECTOR_GROUP`, objects or classes, or where it starts:

    class Invoices:
        order = 25  # after Dsn, before MailerDaemon

        def match(self, message):
            return Classification(MailType.AUTO_REPLY) if message.from_address == "robot@example.com" else None

    register_rule(Invoices())
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any, Protocol

from messaging.receive.classification import Classification, checked
from messaging.receive.classify import (
    auto_reply,
    calendar_invite,
    dsn,
    feedback_report,
    keyword,
    mailer_daemon,
    read_receipt,
)
from messaging.receive.classify.flags import DETECTORS
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import MailType, TruncationReason

logger = logging.getLogger(__name__)

RULE_GROUP = "messaging.classification_rules"
FLAG_DETECTOR_GROUP = "messaging.flag_detectors"


#: What most mails are.
_NORMAL = Classification(MailType.NORMAL)


class Rule(Protocol):
    """Says of a mail what it is, or None: pure; may raise, which counts as no match."""

    #: Rules run in ascending order, equal ones in the order in which they were registered.
    order: int

    def match(self, message: ParsedMail) -> Classification | None: ...


class FlagDetector(Protocol):
    """Adds flags to what a mail is; applying it twice changes nothing."""

    def apply(self, message: ParsedMail, classification: Classification) -> Classification: ...


#: Ours, in their order.
RULES: tuple[Rule, ...] = (
    read_receipt.RULE,
    feedback_report.RULE,
    calendar_invite.RULE,
    dsn.RULE,
    mailer_daemon.RULE,
    auto_reply.RULE,
    keyword.RULE,
)


class Chain:
    """Rules in their order and the detectors behind them; it never changes, so any thread may use it."""

    def __init__(self, rules: Iterable[Rule], detectors: Iterable[FlagDetector]) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: rule.order))
        self.detectors = tuple(detectors)

    def classify(self, message: ParsedMail) -> Classification:
        """What a mail is. A rule or detector that raises is logged and taken for one that found nothing."""
        return self._with_flags(message, self._typed(message))

    def _typed(self, message: ParsedMail) -> Classification:
        if message.truncation_reason is TruncationReason.PARSE_FAILED:
            return Classification(MailType.UNKNOWN)  # what is left of it may mislead
        has_failed = False
        for rule in self.rules:
            try:
                found = rule.match(message)
                if found is not None:
                    checked(found)
            except Exception as exc:  # noqa: BLE001 - anybody's rule, anybody's mail
                has_failed = True
                _log_failure("classification rule failed", rule, exc)
            else:
                if found is not None:
                    return found
        return Classification(MailType.UNKNOWN) if has_failed else _NORMAL

    def _with_flags(self, message: ParsedMail, classification: Classification) -> Classification:
        for detector in self.detectors:
            try:
                flagged = detector.apply(message, classification)
                if flagged is not classification:
                    checked(flagged)
            except Exception as exc:  # noqa: BLE001 - anybody's detector, anybody's mail
                _log_failure("flag detector failed", detector, exc)
            else:
                classification = flagged
        return classification


class Registry:
    """What a process's chain is made of. May be used from any thread; entry points are loaded once, at first use."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rules: list[Rule] = []
        self._detectors: list[FlagDetector] = []
        self._is_loaded = False
        self._chain: Chain | None = None

    def register_rule(self, rule: Rule) -> None:
        """Add a rule; mails that are being classified at this moment may still do without it.

        Raises: TypeError, when it has no whole number as `order` or no `match`.
        """
        _check_rule(rule)
        with self._lock:
            self._rules.append(rule)
            self._chain = None

    def register_flag_detector(self, detector: FlagDetector) -> None:
        """Add a flag detector, behind those that are there.

        Raises: TypeError, when it has no `apply`.
        """
        _check_detector(detector)
        with self._lock:
            self._detectors.append(detector)
            self._chain = None

    @property
    def chain(self) -> Chain:
        """Ours, then those of entry points and those registered, in the order in which they came."""
        made = self._chain
        if made is not None:
            return made
        with self._lock:
            if not self._is_loaded:
                self._load()
                self._is_loaded = True
            if self._chain is None:
                self._chain = Chain(self._rules, self._detectors)
            return self._chain

    def classify(self, message: ParsedMail, chain: Chain | None = None) -> Classification:
        """What a mail is, by this process's chain or by another one. Never raises."""
        return (chain or self.chain).classify(message)

    def _load(self) -> None:
        # Before what an application registered meanwhile: ours come first among equals.
        self._rules[:0] = (*RULES, *_entry_points(RULE_GROUP, _check_rule))
        self._detectors[:0] = (*DETECTORS, *_entry_points(FLAG_DETECTOR_GROUP, _check_detector))


def _entry_points(group: str, check: Callable[[Any], None]) -> Iterator[Any]:
    """The objects of a group, made from their classes where they are such; a broken one is logged and left out."""
    for point in entry_points(group=group):
        try:
            loaded = point.load()
            made = loaded() if isinstance(loaded, type) else loaded
            check(made)
        except Exception as exc:  # noqa: BLE001 - anybody's package
            logger.error(
                "entry point left out", extra={"group": group, "entry_point": point.value, "error": _words(exc)}
            )
        else:
            yield made


def _check_rule(rule: Any) -> None:
    is_class = isinstance(rule, type)
    if is_class or not isinstance(getattr(rule, "order", None), int) or not callable(getattr(rule, "match", None)):
        raise TypeError(f"{rule!r} is no rule: it needs a whole number `order` and a method `match`")


def _check_detector(detector: Any) -> None:
    if isinstance(detector, type) or not callable(getattr(detector, "apply", None)):
        raise TypeError(f"{detector!r} is no flag detector: it needs a method `apply`")


def _log_failure(event: str, failed: object, exc: Exception) -> None:
    # Without the traceback's values: an exception's text may repeat the mail.
    where = exc.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    at = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else ""
    kind = type(failed)
    logger.warning(event, extra={"of": f"{kind.__module__}.{kind.__qualname__}", "error": type(exc).__name__, "at": at})


def _words(exc: Exception) -> str:
    return f"{type(exc).__name__}: {exc}"


#: What this process knows.
_PROCESS = Registry()
classify = _PROCESS.classify
register_rule = _PROCESS.register_rule
register_flag_detector = _PROCESS.register_flag_detector
