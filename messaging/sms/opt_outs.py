"""Who answers STOP gets nothing more from that sender, and START lifts it; so does a provider that says so.

The entry is on the list of whoever owns the provider's configuration: a STOP to a number of the platform's, by which
many tenants send, holds for all of them, as it does at the provider. Source: `sms.md` section 8, `operate.md` 16.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from messaging import suppression, tenancy
from messaging.db.session import transaction
from messaging.requests import SuppressionReason
from messaging.suppression import sender_name

logger = logging.getLogger(__name__)

#: The whole text of a message, in any case, that asks for nothing more, and that takes it back.
STOP_WORDS = frozenset({"STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT"})
START_WORDS = frozenset({"START", "YES", "UNSTOP"})


class Sender(Protocol):
    """What is asked of a provider's configuration."""

    @property
    def tenant_id(self) -> int: ...
    @property
    def sender(self) -> str | None: ...


class OptOut(StrEnum):
    """What an inbound message asked for."""

    STOP = "STOP"
    START = "START"


def opt_out_of(text: str) -> OptOut | None:
    """What the whole text asks for, trimmed and in any case; None for everything else, "stop it" too."""
    word = text.strip().upper()
    return OptOut.STOP if word in STOP_WORDS else OptOut.START if word in START_WORDS else None


def opt_out(session: Session, config: Sender, number: str, text: str) -> OptOut | None:
    """Do what an inbound message to this configuration's sender asks for, in the caller's transaction.

    `number` is the one it came from, in E.164. The same again changes nothing. Answers what it asked for.

    Raises: EntryRejected, when `number` is none.
    """
    asked = opt_out_of(text)
    if asked is None:
        return None
    sender = sender_name(config.sender)
    with tenancy.tenant(config.tenant_id):
        if asked is OptOut.STOP:
            suppression.add(
                session, channel=suppression.SMS, address=number, reason=SuppressionReason.OPT_OUT, sender=sender
            )
        else:
            suppression.lift_opt_out(session, number=number, sender=sender, note=f"answered {text.strip().upper()}")
    return asked


def note_opted_out(engine: Engine, record: Mapping[str, Any], config: Sender, note: str) -> None:
    """A provider says that the number of this record opted out: put it on the list, where a START will find it.

    Commits its own. That the database is away is only logged: the refusal itself must be recorded in any case, and the
    next one will say the same.
    """
    try:
        # Without a sender an entry of the platform would be about the platform's own messages alone.
        owner = config.tenant_id if config.sender else record["tenant_id"]
        with tenancy.tenant(owner), transaction(engine) as session:
            suppression.add(
                session,
                channel=suppression.SMS,
                address=record["phone_number"],
                reason=SuppressionReason.OPT_OUT,
                sender=config.sender or "",
                record_id=record["id"],
                note=note,
            )
    except SQLAlchemyError as exc:
        logger.warning("opt-out not noted", extra={"record_id": record["id"], "error": type(exc).__name__})
