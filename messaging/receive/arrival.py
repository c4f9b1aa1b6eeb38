"""A mail as a server gave it, and what was read from it. Reading never fails for a mail's sake.

Not here: getting it (`imap`, `pop3`) and storing it (`store`).
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from messaging.clock import Clock, utc_now
from messaging.receive import identity
from messaging.receive.charsets import storable
from messaging.receive.classification import Classification, Flags
from messaging.receive.headers import Headers
from messaging.receive.message_ids import spelled
from messaging.receive.parse import ParseLimits
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import MailType, TruncationReason

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a mail was found, and whose it is."""

    config_id: int
    #: The owner of the mailbox.
    tenant_id: int
    folder_name: str
    #: None for POP3.
    uid_validity: int | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A mail as the server gave it."""

    #: IMAP UID or POP3 unique id.
    server_uid: str
    #: As reported; None when the server did not say.
    size: int | None
    #: All of it, or its header block alone where it is too large.
    octets: bytes = field(repr=False)
    is_whole: bool = True
    #: IMAP's INTERNALDATE; None where there is none: the topmost Received field says it.
    internal_date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A mail that was read, ready to be stored."""

    origin: Origin
    incoming: Incoming = field(repr=False)
    mail: ParsedMail = field(repr=False)
    classification: Classification
    #: The Message-ID, or what stands for it.
    key: str
    #: None where the body was never transferred.
    content_sha256: str | None
    #: None: no field has a time that can be.
    received_at: datetime | None

    @property
    def keys(self) -> tuple[str, ...]:
        """Under which keys it may be stored, in order."""
        content = self.content_sha256 or identity.envelope_sha256(self.mail.headers, self.incoming.size)
        return identity.keys_of(self.key, content)

    @property
    def truncation_reason(self) -> TruncationReason | None:
        """Why it is not whole."""
        return self.mail.truncation_reason

    def without_content(self) -> "Arrival":
        """Envelope only, as what cannot be read or stored; of an unknown type."""
        return replace(self, mail=_envelope_of(self.mail), classification=Classification(MailType.UNKNOWN))


class Reader:
    """Reads what servers give; one per process, any thread."""

    def __init__(
        self,
        limits: ParseLimits,
        *,
        parse: Callable[[bytes, ParseLimits], ParsedMail],
        parse_envelope: Callable[[bytes, ParseLimits], ParsedMail],
        classify: Callable[[ParsedMail], Classification],
        clock: Clock = utc_now,
    ) -> None:
        self._limits = limits
        self._parse = parse
        self._parse_envelope = parse_envelope
        self._classify = classify
        self._clock = clock

    def read(self, origin: Origin, incoming: Incoming) -> Arrival:
        """Parse and classify. Whatever goes wrong with that, the mail is there: then with its envelope alone."""
        mail = self._parsed(incoming)
        classification = self._classified(mail)
        if mail.truncation_reason is TruncationReason.PARSE_FAILED or classification is None:
            flags = Flags() if classification is None else classification.flags
            mail, classification = _envelope_of(mail), Classification(MailType.UNKNOWN, flags)
        received = incoming.internal_date or identity.received_time(mail.headers)
        now = self._clock()
        return Arrival(
            origin=origin,
            incoming=incoming,
            mail=mail,
            classification=classification,
            key=_key(origin, incoming, mail),
            content_sha256=identity.content_sha256(mail.headers, incoming.octets) if incoming.is_whole else None,
            received_at=identity.plausible_time(received, now) or identity.plausible_time(mail.date, now),
        )

    def envelope(self, header: bytes) -> ParsedMail | None:
        """What a header block says; None where it cannot be read."""
        try:
            return self._parse_envelope(header, self._limits)
        except Exception:
            logger.exception("a mail's header cannot be parsed")
            return None

    def _parsed(self, incoming: Incoming) -> ParsedMail:
        try:
            if incoming.is_whole:
                return self._parse(incoming.octets, self._limits)
            mail = self._parse_envelope(incoming.octets, self._limits)
            return replace(mail, truncation_reason=TruncationReason.BODY_TOO_LARGE)
        except Exception:  # the only copy that the caller sees of a mail is lost with it otherwise
            logger.exception("a mail cannot be parsed", extra={"server_uid": incoming.server_uid})
        header = incoming.octets[: len(incoming.octets) - len(identity.body_of(incoming.octets))]
        mail = self.envelope(header) or ParsedMail(headers=Headers([]))
        reason = TruncationReason.PARSE_FAILED if incoming.is_whole else TruncationReason.BODY_TOO_LARGE
        return replace(mail, truncation_reason=reason)

    def _classified(self, mail: ParsedMail) -> Classification | None:
        try:
            return self._classify(mail)
        except Exception:
            logger.exception("a mail cannot be classified")
            return None


def _envelope_of(mail: ParsedMail) -> ParsedMail:
    return replace(
        mail,
        root=None,
        body_text=None,
        body_html=None,
        body_mode=None,
        attachments=(),
        truncation_reason=TruncationReason.PARSE_FAILED,
    )


def _key(origin: Origin, incoming: Incoming, mail: ParsedMail) -> str:
    key = spelled(mail.message_id)
    if key is not None:
        return storable(key)
    content = hashlib.sha256(incoming.octets).hexdigest() if incoming.is_whole else str(incoming.size or "")
    return identity.synthetic_key(
        mail.headers, config_id=origin.config_id, folder_name=origin.folder_name, date=mail.date, content=content
    )
