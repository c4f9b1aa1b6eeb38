"""What speaks for a report in a mail that has no fields of one, and what against it."""

from functools import cache, lru_cache

from messaging.receive.classify import codes, reasons, senders
from messaging.receive.classify.originals import own_text, quoted_text, returned_headers
from messaging.receive.classify.phrases import Phrases, comparable, outcome, table
from messaging.receive.classify.recipients_in_text import named_recipients
from messaging.receive.classify.reply_subjects import Strength, read_subject
from messaging.receive.classify.structure import parts_of, report_type
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import BounceReason

#: Of a text that is searched for wordings: reports say it early.
MAX_TEXT_CHARS = 16_384
#: Of a subject, for its first words and a tag such as `[Postmaster]` before them.
MAX_BEGIN_CHARS = 40
_OF_MANY = frozenset({"list-unsubscribe", "list-id", "list-post"})
#: Reasons that lie with an address.
_OF_ADDRESSES = frozenset(
    {BounceReason.USER_UNKNOWN, BounceReason.HOST_UNKNOWN, BounceReason.MAILBOX_FULL, BounceReason.SUSPENDED}
)


class Evidence:
    """The signs of one mail; each is looked for when it is asked for."""

    def __init__(self, message: ParsedMail) -> None:
        self._message = message
        self._subject = comparable(message.subject or "")

    @property
    def has_certain_subject(self) -> bool:
        """Whether only mail servers write such a subject."""
        return self._subject_is("certain") and not _subjects("goods").is_in(self._subject)

    @property
    def begins_certainly(self) -> bool:
        """Whether the subject begins so: behind other words it may be what somebody writes about."""
        return self.has_certain_subject and _subjects("certain").is_in(self._subject[:MAX_BEGIN_CHARS])

    @property
    def names_recipient(self) -> bool:
        """Whether the own text names somebody else than those whom the mail went to."""
        return bool(named_recipients(self._message, self._own_text()))

    @property
    def has_possible_subject(self) -> bool:
        """Whether the subject may be that of a report."""
        return self._subject_is("possible") or self._subject_is("certain")

    @property
    def is_notice(self) -> bool:
        """Whether it is another of a machine's messages: by its subject, such as a warning of a quota, or what a job of
        cron has written, which may be what a mail system said to it.
        """
        is_of_cron = "X-Cron-Env" in self._message.headers or self._subject.startswith("cron <")
        return is_of_cron or self._subject_is("notices")

    @property
    def has_code(self) -> bool:
        """Whether a reply or enhanced code stands in subject or own text."""
        text = self._said()
        return codes.reply_code(text) is not None or codes.enhanced_code(text) is not None

    @property
    def quotes_server(self) -> bool:
        """Whether the codes stand as mail servers write them: a price or a number of an order does not."""
        return codes.is_dialogue(self._said())

    @property
    def names_useless_address(self) -> bool:
        """Whether the own text says why an address that it names gets nothing, without a code of any kind."""
        return reasons.from_text(self._own_text()) in _OF_ADDRESSES and self.names_recipient

    @property
    def tells_an_outcome(self) -> bool:
        """Whether the own text says that mail failed or waits, or got there."""
        compared = comparable(self._own_text())
        return any(outcome(name).is_in(compared) for name in ("failed", "delayed", "delivered"))

    @property
    def has_original(self) -> bool:
        """Whether the message, or its header, comes back in a part or behind a line of the text."""
        return self.returns_message or bool(quoted_text(self._message.rule_text))

    @property
    def returns_message(self) -> bool:
        """Whether the message, or its header, comes back in a part."""
        return bool(returned_headers(self._message))

    @property
    def shows_what_failed(self) -> bool:
        """Whether codes, an original or an address with its reason stand behind the words."""
        return self.quotes_server or self.has_original or self.names_useless_address

    @property
    def names_failed(self) -> bool:
        """Whether the header does: Exim's and Gmail's way."""
        return "X-Failed-Recipients" in self._message.headers

    @property
    def is_report(self) -> bool:
        """Whether it calls itself a report of delivery, without the part that would make it one."""
        return report_type(next(parts_of(self._message))) in ("", "delivery-status")

    @property
    def is_bulk(self) -> bool:
        """Whether it comes from a list or a campaign."""
        return self._message.headers.has_any(_OF_MANY)

    def _subject_is(self, kind: str) -> bool:
        if kind not in _kinds_of(self._subject) or senders.is_answer(self._message):
            return False
        # Behind `Automatic reply:` stand the words of the mail that is answered.
        return read_subject(self._message.subject).strength is Strength.NONE

    def _said(self) -> str:
        return f"{self._message.subject or ''}\n{self._own_text()}"

    def _own_text(self) -> str:
        return own_text(self._message.rule_text)[:MAX_TEXT_CHARS]


@lru_cache(maxsize=4)  # one rule after the other asks for one subject
def _kinds_of(subject: str) -> frozenset[str]:
    return frozenset([kind for kind in ("certain", "possible", "notices") if _subjects(kind).is_in(subject)])


@cache
def _subjects(kind: str) -> Phrases:
    return Phrases(table("subjects")[kind])
