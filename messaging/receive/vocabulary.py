"""The closed sets of words in which received mail is described. Stored codes are the values; source: `receive.md`."""

from enum import StrEnum


class MailType(StrEnum):
    """What a received mail is; exactly one."""

    #: Written by a person, or anything that no rule knows.
    NORMAL = "NORMAL"
    #: A message disposition notification (RFC 8098).
    READ_RECEIPT = "READ_RECEIPT"
    #: A report of delivery: failed, delayed or done (RFC 3464, and what has no such form).
    BOUNCE = "BOUNCE"
    #: An answer that a program gave, such as a vacation notice (RFC 3834).
    AUTO_REPLY = "AUTO_REPLY"
    #: An invitation, or an answer to one (RFC 6047).
    CALENDAR_INVITE = "CALENDAR_INVITE"
    #: A complaint (RFC 5965).
    FEEDBACK_REPORT = "FEEDBACK_REPORT"
    #: No rule matched, and one of them failed.
    UNKNOWN = "UNKNOWN"


class BounceKind(StrEnum):
    """How a delivery ended for one recipient, the worst first."""

    #: Failed, and another try would fail too.
    HARD = "HARD"
    #: Failed after retries.
    SOFT = "SOFT"
    #: Still being tried.
    DELAYED = "DELAYED"
    #: Delivered, relayed or expanded.
    SUCCESS = "SUCCESS"


class BounceReason(StrEnum):
    """Why a delivery failed or waits."""

    #: No such mailbox, or moved.
    USER_UNKNOWN = "USER_UNKNOWN"
    #: No such domain, or one that takes no mail.
    HOST_UNKNOWN = "HOST_UNKNOWN"
    MAILBOX_FULL = "MAILBOX_FULL"
    #: The mailbox is disabled or inactive.
    SUSPENDED = "SUSPENDED"
    #: Refused by a rule of the receiving side: authentication, block lists, relaying.
    POLICY = "POLICY"
    #: Refused as spam.
    SPAM = "SPAM"
    #: Too many messages or connections.
    RATE = "RATE"
    #: The message is too large.
    SIZE = "SIZE"
    #: Refused for what is in it: a virus, a file type, a broken form.
    CONTENT = "CONTENT"
    #: Given up after retries.
    EXPIRED = "EXPIRED"
    OTHER = "OTHER"


#: Reasons for which the address is of no use.
USELESS_ADDRESS = frozenset({BounceReason.USER_UNKNOWN, BounceReason.HOST_UNKNOWN})


#: Types of feedback reports in which nobody complains: a failed signature (RFC 6591), a mail that was taken out of the
#: spam folder (RFC 6430).
NO_COMPLAINT = frozenset({"auth-failure", "not-spam"})


class TruncationReason(StrEnum):
    """Why a stored mail is not whole."""

    #: Larger than `MAIL__FETCH__MAX_MESSAGE_BYTES`: envelope only.
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    MIME_PARTS_EXCEEDED = "MIME_PARTS_EXCEEDED"
    MIME_DEPTH_EXCEEDED = "MIME_DEPTH_EXCEEDED"
    #: One attachment or more is left out, the rest is whole.
    ATTACHMENT_TOO_LARGE = "ATTACHMENT_TOO_LARGE"
    #: The parser gave up: envelope only.
    PARSE_FAILED = "PARSE_FAILED"


class ReceivedStatus(StrEnum):
    """What a reader has done with a received mail."""

    UNREAD = "UNREAD"
    READ = "READ"
    ARCHIVED = "ARCHIVED"
    #: A mark; the row stays.
    DELETED = "DELETED"


class ReceivedFlag(StrEnum):
    """What is true of a mail beside its type."""

    MAILING_LIST = "MAILING_LIST"
    BULK = "BULK"
    ENCRYPTED = "ENCRYPTED"
    SIGNED = "SIGNED"
    SPAM = "SPAM"


class LinkStatus(StrEnum):
    """Whether a received mail is tied to the send record it is about."""

    #: It is about none.
    NONE = "NONE"
    #: Not looked up yet, not found yet, or its record is in the middle of an attempt.
    PENDING = "PENDING"
    LINKED = "LINKED"
    #: Not found within a day.
    UNMATCHED = "UNMATCHED"


class Protocol(StrEnum):
    """How a mailbox is read. IMAP only looks; POP3 drains: what is stored is deleted from the server."""

    IMAP = "IMAP"
    IMAPS = "IMAPS"
    POP3 = "POP3"
    POP3S = "POP3S"


class MailboxAuth(StrEnum):
    """How a mailbox is logged in to."""

    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a way
    XOAUTH2 = "XOAUTH2"
