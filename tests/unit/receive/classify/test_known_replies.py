"""What servers are known to say, and the reason it gives: the order of the tables decides."""

from pathlib import Path

import pytest

from messaging.receive.classify.codes import enhanced_code, finer, reply_code
from messaging.receive.classify.reasons import is_doubtful, reason
from messaging.receive.vocabulary import USELESS_ADDRESS, BounceReason

DATA = Path(__file__).parents[3] / "data" / "replies"

#: Replies of Postfix, Exim, Sendmail, Gmail, Exchange Online, Yahoo and others.
REPLIES = {
    BounceReason.USER_UNKNOWN: [
        "550 5.1.1 <u@x.example>: Recipient address rejected: User unknown in local recipient table",
        "550 5.1.1 The email account that you tried to reach does not exist. Please try "
        "double-checking the recipient's email address for typos or unnecessary spaces.",
        "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup",
        "550 5.4.1 Recipient address rejected: Access denied. [DM6NAM10FT000.eop-nam10.prod.example]",
        "550 5.5.0 Requested action not taken: mailbox unavailable",
        "550 #5.1.0 Address rejected.",
        "551 not our customer",
        "553 sorry, this recipient is not in my validrcptto list (#5.7.1)",
        "550 No such user here",
        "550 5.7.1 Recipient not allowed: no such mailbox",
        "554 5.7.1 <u@x.example>: Recipient address rejected: user not found",
        "550 Requested action not taken: mailbox not found",
    ],
    BounceReason.HOST_UNKNOWN: [
        "550 5.1.2 <u@x.example>: Host unknown (Name server: x.example.: host not found)",
        "5.4.4 Unable to route: no mail hosts for domain",
        "Host or domain name not found. Name service error for name=x.example type=A: Host not found",
        "556 5.1.10 Domain does not accept mail (nullMX)",
        "all relevant MX records point to non-existent hosts",
    ],
    BounceReason.MAILBOX_FULL: [
        "452 4.2.2 The email account that you tried to reach is over quota",
        "552-5.2.2 The recipient's inbox is out of storage space. Please direct the recipient to",
        "554 5.2.2 mailbox full; STOREDRV.Deliver.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded",
        "550 5.7.1 Mailbox quota exceeded",
        "550 Mailbox <u@x.example> is full",
    ],
    BounceReason.SUSPENDED: [
        "550 5.2.1 The email account that you tried to reach is disabled",
        "554 30 Sorry, your message to u@x.example cannot be delivered. This mailbox is disabled (554.30).",
        "550 5.2.1 Mailbox disabled for this recipient",
    ],
    BounceReason.SPAM: [
        "550 5.7.1 Our system has detected that this message is likely unsolicited mail. To reduce "
        "the amount of spam sent to Gmail",
        "554 5.7.1 [P4] Message blocked due to spam content in the message.",
        "550 High probability of spam",
        "554 Message rejected on 2026/03/01: considered as spam",
    ],
    BounceReason.POLICY: [
        "550 5.7.1 Service unavailable; client [192.0.2.1] blocked using Spamhaus",
        "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org",
        "550 5.7.26 This mail has been blocked because the sender is unauthenticated. Gmail "
        "requires all senders to authenticate with either SPF or DKIM.",
        "550 5.7.509 Access denied, sending domain x.example does not pass DMARC verification",
        "550 5.7.1 Unable to relay for u@x.example",
        "454 4.7.1 <u@x.example>: Relay access denied",
        "450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]",
        "451 4.7.1 Greylisting in action, please come back later",
        "550 5.7.606 Access denied, banned sending IP [192.0.2.1]",
        "550 5.1.8 Access denied, bad outbound sender",
        "553 5.1.8 <s@x.example>... Domain of sender address s@x.example does not exist",
        "550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required; "
        "Delivery restriction check failed because the sender was not authenticated",
        "530 5.7.0 Must issue a STARTTLS command first",
        "550 5.7.1 Message rejected due to local policy",
    ],
    BounceReason.RATE: [
        "421 4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your IP address",
        "450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents "
        "additional messages from being delivered",
        "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume or user complaints",
        "421 Too many concurrent SMTP connections",
        "452 4.5.3 Too many recipients",
    ],
    BounceReason.SIZE: [
        "552 5.3.4 Message size exceeds fixed limit",
        "552-5.2.3 Your message exceeded Google's message size limits",
        "550 5.2.3 RESOLVER.RST.RecipSizeLimit; message too large for this recipient",
    ],
    BounceReason.CONTENT: [
        "552-5.7.0 This message was blocked because its content presents a potential security issue",
        "554 5.7.1 Virus found in message",
    ],
    BounceReason.EXPIRED: [
        "4.4.7 Delivery time expired",
        "550 4.4.7 QUEUE.Expired; message expired",
        "retry timeout exceeded",
        "connect to mx.example[192.0.2.1]:25: Connection timed out",
        "connect to mx.example[192.0.2.1]:25: Connection refused",
    ],
    BounceReason.OTHER: [
        "5.4.6 mail loops back to myself",
        "554 5.4.6 Too many hops",
        "450 4.4.3 Host or domain name not found. Name service error for name=x type=MX: Host not found, try again",
        "451 4.3.0 Temporary system problem",
        "432 4.3.2 STOREDRV.Storage; mailbox server is too busy",
        "451 4.3.2 System not accepting network messages",
    ],
}


@pytest.mark.parametrize(
    ("told", "reply"),
    [(told, reply) for told, replies in REPLIES.items() for reply in replies],
    ids=lambda one: str(one)[:40],
)
def test_a_known_reply_gives_its_reason(told: BounceReason, reply: str) -> None:
    assert reason((reply,), enhanced_code(reply), reply_code(reply)) is told


def known_replies(name: str) -> list[tuple[str, list[str], bool, str, str]]:
    """The system, the reasons that are right, whether the address is of no use, a report's Status field, the reply."""
    found = []
    for line in (DATA / name).read_text("utf-8").splitlines():
        system, reasons, useless, status, reply = line.split("\t")
        found.append((system, reasons.split("|"), useless == "yes", status, reply))
    return found


def told_by(status: str, reply: str) -> tuple[BounceReason, bool]:
    """The reason, and whether the address is of no use, as a report with that field and reply gives them."""
    reply_of = reply_code(reply)
    class_ = (status or reply_of or "")[:1] or None
    finest = finer(status or None, (enhanced_code(reply, class_),)) or enhanced_code(reply)
    found = reason((reply,), finest, reply_of)
    return found, found in USELESS_ADDRESS and not is_doubtful(found, finest, reply_of, reply)


@pytest.mark.parametrize("name", ["known.tsv", "further.tsv"])
def test_of_a_hundred_known_replies_ninety_eight_are_read_as_they_are_meant(name: str) -> None:
    replies = known_replies(name)
    wrong = [
        (system, reply)
        for system, reasons, is_useless, status, reply in replies
        if (told := told_by(status, reply))[0] not in reasons or told[1] != is_useless
    ]
    assert len(wrong) <= 0.02 * len(replies), wrong
