"""What is recorded of a reply or a fault: results of recipients, and texts that people read. Pure.

A text is one line: stage, refused address if any, the other side's words; without control characters, and cut.
"""

from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.errors import DeliveryError
from messaging.mail.smtp_replies import FaultCode, Reply, Stage, classify, error_code

#: Longest text kept, in characters.
MAX_TEXT_CHARS = 1000


def reply_of(code: int, text: bytes) -> Reply:
    """The reply as people and tables read it; what is no UTF-8 is replaced."""
    decoded = text.decode("utf-8", "replace")
    return Reply(code, decoded if decoded.isprintable() else "\n".join(map(_printable, decoded.split("\n"))))


def acceptance(reply: Reply) -> RecipientResult:
    """The result of a recipient whose server took the message."""
    return RecipientResult(RecipientStatus.ACCEPTED, error_code(reply), words_of(reply)[:MAX_TEXT_CHARS])


def refusal(reply: Reply, stage: Stage, address: str | None = None, *, others_taken: bool = False) -> RecipientResult:
    """The result of a refused recipient; `address` is None where the reply is about the message."""
    category = classify(reply, stage, others_taken=others_taken)
    status = RecipientStatus.DEFERRED if category.is_retryable else RecipientStatus.REFUSED
    return RecipientResult(status, error_code(reply), failure_text(stage, words_of(reply), address), category)


def fault(code: FaultCode, stage: Stage, words: str, *, is_uncertain: bool = False) -> DeliveryError:
    """The error of an attempt that ended without a deciding reply."""
    return DeliveryError(code.category, code, failure_text(stage, words), is_uncertain=is_uncertain)


def failure_text(stage: Stage, words: str, address: str | None = None) -> str:
    """What `error_message` will say."""
    of_whom = "" if address is None else f" <{address}>"
    return f"{stage}{of_whom}: {_printable(words)}".rstrip()[:MAX_TEXT_CHARS]


def words_of(reply: Reply) -> str:
    """Code and text in one line."""
    return f"{reply.code} {reply.text}".replace("\n", " ").rstrip()


def words_of_error(exc: OSError) -> str:
    """What the system says, without its number."""
    return exc.strerror or str(exc) or type(exc).__name__


def _printable(line: str) -> str:
    return "".join(c for c in line.replace("\t", " ") if c.isprintable())
