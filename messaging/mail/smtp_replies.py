"""What an SMTP reply says: its `error_code`, its enhanced status and its ErrorCategory, decided by tables.

The mapping of exceptions is in `smtp`, which talks to the server; what a category means for the record is decided by
`messaging.delivery.retry`. Sources: RFC 5321 section 4.2, RFC 3463 and the IANA registry of enhanced status codes.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from messaging.category import ErrorCategory
from messaging.delivery.error_words import classify_words


class Stage(StrEnum):
    """The step of the dialogue that a reply answers; the value is the word `error_message` opens with."""

    #: The greeting.
    CONNECT = "CONNECT"
    #: EHLO or HELO, before and after TLS.
    EHLO = "EHLO"
    #: The STARTTLS command, before the handshake.
    STARTTLS = "STARTTLS"
    #: The whole authentication exchange.
    AUTH = "AUTH"
    #: MAIL FROM.
    MAIL = "MAIL"
    #: One RCPT TO.
    RCPT = "RCPT"
    #: DATA and the reply to the final dot.
    DATA = "DATA"


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the server."""

    #: Three digits; -1 where the line did not start with any.
    code: int
    #: The words after the code; lines of a multi-line reply are separated by LF.
    text: str


class FaultCode(StrEnum):
    """`error_code` of an attempt that ended without a deciding reply."""

    #: The server closed the connection before the final dot.
    SMTP_DISCONNECTED = "SMTP_DISCONNECTED"
    #: The connection or the time ended after the final dot: the message may have been taken.
    SMTP_NO_REPLY_AFTER_DATA = "SMTP_NO_REPLY_AFTER_DATA"
    #: The server offers no STARTTLS, no AUTH, or no mechanism in common.
    SMTP_NOT_SUPPORTED = "SMTP_NOT_SUPPORTED"
    #: An address needs SMTPUTF8 and the server does not offer it.
    SMTP_UTF8_UNSUPPORTED = "SMTP_UTF8_UNSUPPORTED"
    #: No answer in time, or the whole send took too long, before the final dot.
    SMTP_TIMEOUT = "SMTP_TIMEOUT"
    #: Refused, reset, aborted, broken pipe, unreachable, and every other operating system error.
    SMTP_CONNECT = "SMTP_CONNECT"
    #: The server's name does not resolve.
    SMTP_DNS = "SMTP_DNS"
    #: The server's certificate cannot be verified.
    SMTP_TLS_CERT = "SMTP_TLS_CERT"
    #: Any other TLS failure.
    SMTP_TLS = "SMTP_TLS"
    #: An address or a command cannot be written in the octets the server takes.
    SMTP_ENCODING = "SMTP_ENCODING"
    #: The message cannot be built from the record.
    SMTP_MESSAGE = "SMTP_MESSAGE"
    #: The message is larger than the SIZE the server announces (RFC 1870).
    SMTP_SIZE = "SMTP_SIZE"

    @property
    def category(self) -> ErrorCategory:
        """What this fault says about trying again."""
        return FAULT_CATEGORY[self]


FAULT_CATEGORY: dict[FaultCode, ErrorCategory] = {
    FaultCode.SMTP_DISCONNECTED: ErrorCategory.TRANSIENT,
    FaultCode.SMTP_NO_REPLY_AFTER_DATA: ErrorCategory.TRANSIENT,
    FaultCode.SMTP_NOT_SUPPORTED: ErrorCategory.AUTH,
    FaultCode.SMTP_UTF8_UNSUPPORTED: ErrorCategory.INVALID_INPUT,
    FaultCode.SMTP_TIMEOUT: ErrorCategory.TRANSIENT,
    FaultCode.SMTP_CONNECT: ErrorCategory.TRANSIENT,
    FaultCode.SMTP_DNS: ErrorCategory.TRANSIENT,
    FaultCode.SMTP_TLS_CERT: ErrorCategory.AUTH,
    FaultCode.SMTP_TLS: ErrorCategory.TRANSIENT,
    FaultCode.SMTP_ENCODING: ErrorCategory.INVALID_INPUT,
    FaultCode.SMTP_MESSAGE: ErrorCategory.INVALID_INPUT,
    FaultCode.SMTP_SIZE: ErrorCategory.INVALID_INPUT,
}

#: Codes that say more than the 5.7.0 or 5.7.1 that comes with them: looked at before the enhanced status.
CODE_BEFORE_STATUS: dict[int, ErrorCategory] = {
    432: ErrorCategory.AUTH,  # password transition needed, RFC 4954
    525: ErrorCategory.AUTH,  # account disabled (non-standard)
    530: ErrorCategory.AUTH,  # authentication or TLS required, RFC 4954 and RFC 3207
    534: ErrorCategory.AUTH,  # mechanism too weak, RFC 4954
    535: ErrorCategory.AUTH,  # credentials invalid, RFC 4954
    538: ErrorCategory.AUTH,  # encryption needed for the mechanism, RFC 4954
}

#: What big providers say with a code that means something else by itself: code, status, and its category at any stage.
PROVIDER_REPLY: dict[tuple[int, str], ErrorCategory] = {
    # Exchange Online: "432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded": load, not credentials.
    (432, "4.3.2"): ErrorCategory.TRANSIENT,
}

REPLY_CODE: dict[int, ErrorCategory] = {
    421: ErrorCategory.TRANSIENT,  # service closing
    450: ErrorCategory.TRANSIENT,  # mailbox busy, greylisted
    451: ErrorCategory.TRANSIENT,  # local error
    452: ErrorCategory.TRANSIENT,  # storage full, too many recipients
    454: ErrorCategory.TRANSIENT,  # TLS or authentication temporarily unavailable
    455: ErrorCategory.TRANSIENT,  # parameters cannot be handled now
    422: ErrorCategory.TRANSIENT,  # recipient's mailbox full (non-standard)
    431: ErrorCategory.TRANSIENT,  # out of memory or disk (non-standard)
    441: ErrorCategory.TRANSIENT,  # recipient's server does not answer (non-standard)
    442: ErrorCategory.TRANSIENT,  # connection dropped (non-standard)
    446: ErrorCategory.TRANSIENT,  # hop count exceeded (non-standard)
    447: ErrorCategory.TRANSIENT,  # timed out (non-standard)
    449: ErrorCategory.TRANSIENT,  # routing error (non-standard)
    453: ErrorCategory.TRANSIENT,  # no mail to hand over, ATRN (RFC 2645)
    458: ErrorCategory.TRANSIENT,  # unable to queue messages, ETRN (RFC 1985)
    459: ErrorCategory.TRANSIENT,  # node not allowed, ETRN (RFC 1985)
    471: ErrorCategory.TRANSIENT,  # the server's own filter failed (non-standard)
    500: ErrorCategory.PERMANENT,  # syntax error, unknown command
    501: ErrorCategory.INVALID_INPUT,  # bad argument
    502: ErrorCategory.PERMANENT,  # command not implemented
    503: ErrorCategory.PERMANENT,  # bad sequence of commands
    504: ErrorCategory.PERMANENT,  # parameter not implemented
    510: ErrorCategory.PERMANENT,  # bad address (non-standard)
    511: ErrorCategory.PERMANENT,  # bad address (non-standard)
    512: ErrorCategory.PERMANENT,  # recipient's domain not found (non-standard)
    515: ErrorCategory.PERMANENT,  # destination address invalid (non-standard)
    517: ErrorCategory.PERMANENT,  # bad sender address (non-standard)
    521: ErrorCategory.PERMANENT,  # host takes no mail, RFC 7504
    523: ErrorCategory.INVALID_INPUT,  # over the recipient's size limit (non-standard)
    541: ErrorCategory.PERMANENT,  # rejected as spam (non-standard)
    550: ErrorCategory.PERMANENT,  # mailbox unavailable, policy
    551: ErrorCategory.PERMANENT,  # user not local
    552: ErrorCategory.INVALID_INPUT,  # message too big; at RCPT see REPLY_CODE_AT_STAGE
    553: ErrorCategory.PERMANENT,  # mailbox name not allowed
    554: ErrorCategory.PERMANENT,  # transaction failed
    555: ErrorCategory.INVALID_INPUT,  # parameter not recognised
    556: ErrorCategory.PERMANENT,  # domain takes no mail, RFC 7504
}

#: Codes that mean something else at one stage.
REPLY_CODE_AT_STAGE: dict[tuple[int, Stage], ErrorCategory] = {
    (552, Stage.RCPT): ErrorCategory.PERMANENT,  # the mailbox is over its storage, whatever the message
}

#: What a class of replies or of enhanced statuses says when nothing finer is known.
CLASS_DEFAULT: dict[int, ErrorCategory] = {4: ErrorCategory.TRANSIENT, 5: ErrorCategory.PERMANENT}

#: By status; `x` stands for classes 4 and 5, a row with the class goes before it. None: the default of the class.
ENHANCED_STATUS: dict[str, ErrorCategory | None] = {
    "x.1.0": None,  # other address status
    "x.1.1": None,  # bad destination mailbox
    "x.1.2": None,  # bad destination system
    "5.1.3": ErrorCategory.INVALID_INPUT,  # bad destination syntax
    "x.1.4": None,  # destination ambiguous
    "x.1.6": None,  # mailbox has moved
    "5.1.7": ErrorCategory.INVALID_INPUT,  # bad sender syntax
    "5.1.8": ErrorCategory.PERMANENT,  # bad sender system
    "x.1.9": None,  # relayed to a non-compliant mailer
    "5.1.10": ErrorCategory.PERMANENT,  # destination has a null MX
    "x.2.0": None,  # other mailbox status
    "x.2.1": None,  # mailbox disabled
    "x.2.2": None,  # mailbox full: 4.2.2 may pass later, 5.2.2 not
    "x.2.3": ErrorCategory.INVALID_INPUT,  # message longer than the mailbox allows
    "x.2.4": None,  # mailing list expansion
    "x.3.0": None,  # other system status
    "x.3.1": None,  # system full
    "x.3.2": None,  # system takes no mail
    "x.3.3": None,  # feature missing
    "x.3.4": ErrorCategory.INVALID_INPUT,  # message too big for the system
    "x.3.5": None,  # system misconfigured
    "x.3.6": None,  # priority was changed
    "x.4.0": None,  # other network status
    "x.4.1": None,  # no answer from host
    "x.4.2": None,  # bad connection
    "x.4.3": None,  # directory server failure
    "x.4.4": None,  # unable to route
    "4.4.5": None,  # mail system congestion
    "5.4.5": ErrorCategory.QUOTA,  # large providers: "5.4.5 Daily user sending limit exceeded"
    "x.4.6": None,  # routing loop
    "x.4.7": None,  # delivery time expired
    "x.5.0": None,  # other protocol status
    "x.5.1": None,  # invalid command
    "x.5.2": None,  # syntax error
    "x.5.3": ErrorCategory.INVALID_INPUT,  # too many recipients; when others were taken see classify
    "x.5.4": None,  # invalid command arguments
    "x.5.5": None,  # wrong protocol version
    "x.5.6": ErrorCategory.AUTH,  # authentication exchange line too long
    "5.6.0": ErrorCategory.INVALID_INPUT,  # other content status
    "5.6.1": ErrorCategory.INVALID_INPUT,  # media not supported
    "5.6.2": ErrorCategory.INVALID_INPUT,  # conversion required and prohibited
    "5.6.3": ErrorCategory.INVALID_INPUT,  # conversion required but not supported
    "5.6.4": ErrorCategory.INVALID_INPUT,  # conversion with loss
    "5.6.5": ErrorCategory.INVALID_INPUT,  # conversion failed
    "5.6.6": ErrorCategory.INVALID_INPUT,  # message content not available
    "5.6.7": ErrorCategory.INVALID_INPUT,  # non-ASCII addresses not permitted
    "5.6.8": ErrorCategory.INVALID_INPUT,  # reply would need UTF-8
    "5.6.9": ErrorCategory.INVALID_INPUT,  # UTF-8 header cannot be transferred
    "5.6.10": ErrorCategory.INVALID_INPUT,  # the registry's second number for 5.6.8
    "x.7.0": None,  # other security status
    "x.7.1": None,  # not authorised, relaying, policy
    "x.7.2": None,  # mailing list expansion prohibited
    "x.7.3": None,  # security conversion required
    "x.7.4": None,  # security feature not supported
    "x.7.5": None,  # cryptographic failure
    "x.7.6": None,  # cryptographic algorithm not supported
    "x.7.7": None,  # message integrity failure
    "x.7.8": ErrorCategory.AUTH,  # credentials invalid
    "x.7.9": ErrorCategory.AUTH,  # mechanism too weak
    "x.7.10": ErrorCategory.AUTH,  # encryption needed
    "x.7.11": ErrorCategory.AUTH,  # encryption needed for the mechanism
    "4.7.12": ErrorCategory.AUTH,  # password transition needed
    "x.7.13": ErrorCategory.AUTH,  # account disabled
    "x.7.14": ErrorCategory.AUTH,  # trust relationship required
    "x.7.15": None,  # priority too low
    "x.7.16": ErrorCategory.INVALID_INPUT,  # message too big for its priority
    "x.7.17": None,  # mailbox owner has changed
    "x.7.18": None,  # domain owner has changed
    "x.7.19": None,  # owner test cannot be completed
    "x.7.20": None,  # no passing DKIM signature
    "x.7.21": None,  # no acceptable DKIM signature
    "x.7.22": None,  # no author-matched DKIM signature
    "x.7.23": None,  # SPF validation failed
    "x.7.24": None,  # SPF validation error
    "x.7.25": None,  # reverse DNS validation failed
    "x.7.26": None,  # several authentication checks failed
    "x.7.27": None,  # sender's domain has a null MX
    "x.7.28": ErrorCategory.QUOTA,  # mail flood detected
    "x.7.29": None,  # ARC validation failure
    "x.7.30": None,  # REQUIRETLS support required
}

#: By subject, for a detail that is not listed. Subject 0 says no more than the class: there the reply code decides.
ENHANCED_SUBJECT: dict[str, ErrorCategory | None] = {
    "x.1": None,  # addressing
    "x.2": None,  # mailbox
    "x.3": None,  # mail system
    "x.4": None,  # network and routing
    "x.5": None,  # mail delivery protocol
    "4.6": ErrorCategory.TRANSIENT,  # content
    "5.6": None,  # content
    "x.7": None,  # security and policy
}

#: More recipients than the server takes in one transaction; both classes.
TOO_MANY_RECIPIENTS = frozenset({"4.5.3", "5.5.3"})
#: The same from a server without statuses, whatever its code: 552 is what RFC 821 had for it (RFC 5321, 4.5.3.1.10).
TOO_MANY_RECIPIENTS_WORDS = "too many recipients"  # Exim: "552 too many recipients"

# The neighbours keep out what looks like a status inside an IPv4 address: "192.0.2.4 is listed", "5.6.7.8 is listed".
_ENHANCED = re.compile(r"(?<![0-9.])([245])\.([0-9]{1,3})\.([0-9]{1,3})(?![0-9]|\.[0-9])")


def enhanced_status(reply: Reply) -> str | None:
    """The status (RFC 3463) at the start of the text, else the first one in it.

    None where there is none, or where its class is not that of the reply code: such a status is not to be believed.
    """
    found = _ENHANCED.search(reply.text)
    if found is None or int(found[1]) != reply.code // 100:
        return None
    return found[0]


def error_code(reply: Reply) -> str:
    """The reply as `error_code` stores it, e.g. `SMTP_550_5.1.1`, or `SMTP_550` without an enhanced status."""
    status = enhanced_status(reply)
    return f"SMTP_{reply.code}" if status is None else f"SMTP_{reply.code}_{status}"


def classify(reply: Reply, stage: Stage | None, *, others_taken: bool = False) -> ErrorCategory:
    """What a refusing reply says about trying again.

    `stage` is None where the reply is known without the command it answered. `others_taken` says that the same
    transaction took another recipient, so that "too many recipients" is cured by the next one.
    """
    status = enhanced_status(reply)
    if status is not None and (reply.code, status) in PROVIDER_REPLY:
        return PROVIDER_REPLY[reply.code, status]
    by_stage = _by_stage(reply.code, stage)
    if by_stage is not None:
        return by_stage
    if reply.code in CODE_BEFORE_STATUS:
        return CODE_BEFORE_STATUS[reply.code]
    if status is None and others_taken and TOO_MANY_RECIPIENTS_WORDS in reply.text.lower():
        return ErrorCategory.TRANSIENT
    by_status = _by_status(status, others_taken)
    if by_status is not None:
        return by_status
    if stage is not None and (reply.code, stage) in REPLY_CODE_AT_STAGE:
        return REPLY_CODE_AT_STAGE[reply.code, stage]
    by_code = REPLY_CODE.get(reply.code) or CLASS_DEFAULT.get(reply.code // 100)
    return by_code or classify_words(reply.text)


def _by_stage(code: int, stage: Stage | None) -> ErrorCategory | None:
    is_transient, is_permanent = code // 100 == 4, code // 100 == 5
    match stage:
        case Stage.CONNECT | Stage.EHLO if is_transient or is_permanent:
            # "554 no SMTP service here": said of the server as it is now, not of this message.
            return ErrorCategory.TRANSIENT
        case Stage.STARTTLS if is_permanent:
            return ErrorCategory.AUTH
        case Stage.STARTTLS if code == 454:
            return ErrorCategory.TRANSIENT
        case Stage.AUTH if is_permanent or code == 432:
            return ErrorCategory.AUTH
        case Stage.AUTH if is_transient:
            return ErrorCategory.TRANSIENT
    return None


def _by_status(status: str | None, others_taken: bool) -> ErrorCategory | None:
    if status is None or status[0] not in "45":
        return None
    if status in TOO_MANY_RECIPIENTS and others_taken:
        return ErrorCategory.TRANSIENT
    default = CLASS_DEFAULT[int(status[0])]
    subject = status.rpartition(".")[0]
    for table, key in ((ENHANCED_STATUS, status), (ENHANCED_SUBJECT, subject)):
        for row in (key, "x" + key[1:]):
            if row in table:
                return table[row] or default
    return None
