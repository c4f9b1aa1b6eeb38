"""Which messages of a maildrop are stored, by the ids that their server gives them (RFC 1939, 7)."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ARRAY, Engine, String, any_, bindparam, select

from messaging.db.engine import autocommitting
from messaging.receive.models import MAIL_RECEIVE_RECORD
from messaging.receive.vocabulary import TruncationReason

_t = MAIL_RECEIVE_RECORD.c
_STORED = select(_t.server_uid, _t.message_id, _t.truncation_reason).where(
    _t.server_config_id == bindparam("config_id"),
    _t.server_uid == any_(bindparam("uids", type_=ARRAY(String))),
)


@dataclass(frozen=True, slots=True)
class StoredUid:
    """What is stored under an id."""

    #: Its key.
    message_id: str
    #: Whether it could not be parsed: the server may hold its only copy.
    is_unparsed: bool

    def has_key(self, key: str) -> bool:
        """Whether it is stored under this key, or the key with a mark of its content."""
        return self.message_id == key or self.message_id.startswith(f"{key}#")


def find_stored(engine: Engine, config_id: int, uids: Iterable[str]) -> dict[str, StoredUid]:
    """What is stored of a mailbox under these ids, by id; one query. Raises: what the driver raises."""
    found: dict[str, StoredUid] = {}
    with autocommitting(engine).connect() as connection:
        for uid, message_id, reason in connection.execute(_STORED, {"config_id": config_id, "uids": list(uids)}):
            is_unparsed = reason == TruncationReason.PARSE_FAILED
            if is_unparsed or uid not in found:
                found[uid] = StoredUid(message_id, is_unparsed)
    return found
