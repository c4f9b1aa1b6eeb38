"""Rule 40: an answer that a program gave, such as a vacation notice (RFC 3834, 5), and what programs wrote of old."""

from functools import cache

from messaging.receive.classification import Classification
from messaging.receive.classify import keyword, senders
from messaging.receive.classify.evidence import Evidence
from messaging.receive.classify.flags import is_list_mail
from messaging.receive.classify.phrases import table
from messaging.receive.classify.references import answer_references
from messaging.receive.classify.reply_subjects import AutoSubject, Strength, read_subject
from messaging.receive.classify.structure import has_header, header_words, parts_of, report_type
from messaging.receive.headers import Headers
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import MailType

_ANSWER_HEADERS = ("In-Reply-To", "References")
_DENIALS = frozenset({"", "no", "false", "0"})
#: Values of Auto-Submitted that do not say a program wrote the mail: a rule that passes on a person's marks it, too.
_WRITTEN_BY_PERSONS = _DENIALS | {"auto-forwarded"}


class AutoReply:
    """Knows an automatic answer by what it says of itself, else by its subject together with a sign of a machine.

    Bounces come before: it stands behind their rules, and declines what still looks like one. It declines list mail,
    too, unless that says `auto-replied`: a list's answers to its own mails are no answer to ours.
    """

    order = 40

    def match(self, message: ParsedMail) -> Classification | None:
        """With the Message-IDs it answers."""
        headers = message.headers
        submitted = header_words(headers, "Auto-Submitted")
        is_replied = "auto-replied" in submitted
        if is_list_mail(headers) and not is_replied:
            return None
        subject = read_subject(message.subject)
        says_so = is_replied or _has_sign(headers)
        if not says_so and not _looks_so(message, subject, is_generated=bool(submitted - _WRITTEN_BY_PERSONS)):
            return None
        if _is_bounce(message):
            return None
        return Classification(MailType.AUTO_REPLY, reference_ids=answer_references(message))


def _has_sign(headers: Headers) -> bool:
    """Whether a field is there that only automatic answers carry."""
    if not headers.has_any(_sign_names()):  # as most mails
        return False
    for name, values in _signs():
        words = header_words(headers, name)
        if words & values if values else words - _DENIALS:
            return True
    return False


def _looks_so(message: ParsedMail, subject: AutoSubject, *, is_generated: bool) -> bool:
    """Whether a sign of a machine and a sign of an answer come together.

    A person answers `Re: Automatic reply: …` and passes on `Fwd: …`: with such a prefix a subject says nothing, unless
    no person can have sent the mail.
    """
    if not is_generated and subject.strength is Strength.NONE:
        return False
    headers = message.headers
    is_answer = has_header(headers, *_ANSWER_HEADERS)
    if is_generated:
        # Exchange marks what a rule passes on, too: a person's answer stays one.
        is_passed_on = subject.is_forward or has_header(headers, "Resent-From")
        is_answer = is_answer or subject.has_prefix
        return subject.strength > Strength.NONE or (is_answer and not is_passed_on)
    if senders.has_null_path(message):
        return True
    if _is_sent_to_many(headers) and (is_answer or subject.strength is Strength.PROGRAM):
        return True
    is_suppressing = has_header(headers, "X-Auto-Response-Suppress")
    return subject.strength is Strength.PROGRAM and not subject.has_prefix and (is_answer or is_suppressing)


def _is_sent_to_many(headers: Headers) -> bool:
    """Whether it has the precedence that vacation programs set; newsletters set it, too, and say how to leave."""
    is_newsletter = has_header(headers, "List-Unsubscribe")
    return not is_newsletter and bool(header_words(headers, "Precedence") & {"bulk", "junk"})


def _is_bounce(message: ParsedMail) -> bool:
    """Whether it reports a failure in spite of its marks."""
    signs = Evidence(message)
    if signs.names_failed or any(report_type(part) == "delivery-status" for part in parts_of(message)):
        return True
    return signs.has_certain_subject and keyword.RULE.match(message) is not None


@cache
def _signs() -> tuple[tuple[str, frozenset[str]], ...]:
    """Fields and the values they must have; without values any but a denial."""
    return tuple((one["name"], frozenset(one["values"])) for one in table("auto_replies")["header"])


@cache
def _sign_names() -> frozenset[str]:
    return frozenset(name.lower() for name, _ in _signs())


RULE = AutoReply()
