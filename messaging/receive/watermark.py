"""The lease on a folder, and how far it was read: UIDVALIDITY and UID (RFC 9051, 2.3.1.1), `receive.md` 3.

A POP3 mailbox takes the same lease and leaves the UID columns alone. Every write names the row's id and the version it
expects and adds one: the version is the holder's token. Each is a statement, and a transaction, of its own.
"""

import logging
import threading
import weakref
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, Engine, Select, Update, bindparam, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from messaging.db.engine import autocommitting
from messaging.receive.models import MAIL_FETCH_WATERMARK

logger = logging.getLogger(__name__)

_t = MAIL_FETCH_WATERMARK.c


def _guarded(**values: Any) -> Update:
    """A write of whoever holds the version; made once, as a heartbeat comes often."""
    statement = update(MAIL_FETCH_WATERMARK).where(_t.id == bindparam("row_id"), _t.version == bindparam("held"))
    return statement.values(version=_t.version + 1, updated_at=func.now(), **values)


#: Never backwards: `UID n:*` names the last message even where that is older.
_FORWARD = func.greatest(_t.last_seen_uid, bindparam("done_uid", type_=BigInteger))
_ADOPT = _guarded(uid_validity=bindparam("validity"))
_RESET = _guarded(uid_validity=bindparam("validity"), last_seen_uid=0)
_HEARTBEAT = _guarded(in_progress_since=func.now(), last_seen_uid=_FORWARD)
_RELEASE = _guarded(in_progress_since=None, last_fetched_at=func.now(), last_seen_uid=_FORWARD)
_RELEASE_FAILED = _guarded(in_progress_since=None)


class Lease:
    """One worker's hold on one folder. Methods answer False once somebody newer holds it: stop, and write nothing."""

    def __init__(
        self, engine: Engine, row_id: int, version: int, *, uid_validity: int | None = None, last_seen_uid: int = 0
    ) -> None:
        """`engine` commits by itself; `version` is that of the row as the acquiring write left it."""
        self._engine = engine
        self._id = row_id
        self._version = version
        #: None until `adopt`.
        self.uid_validity = uid_validity
        #: The highest UID up to which everything was looked at.
        self.last_seen_uid = last_seen_uid
        #: False once it was let go.
        self.is_held = True

    def __repr__(self) -> str:
        return f"Lease(id={self._id}, version={self._version}, last_seen_uid={self.last_seen_uid})"

    def adopt(self, uid_validity: int) -> bool:
        """Keep the folder's UIDVALIDITY: of the first fetch."""
        is_mine = self._write(_ADOPT, validity=uid_validity)
        if is_mine:
            self.uid_validity = uid_validity
        return is_mine

    def reset(self, uid_validity: int) -> bool:
        """Begin at UID 1 again: the server numbers its messages anew."""
        is_mine = self._write(_RESET, validity=uid_validity)
        if is_mine:
            self.uid_validity, self.last_seen_uid = uid_validity, 0
        return is_mine

    def heartbeat(self, done_uid: int = 0) -> bool:
        """Say that the holder lives, and that everything up to this UID is done; never goes backwards."""
        is_mine = self._write(_HEARTBEAT, done_uid=done_uid)
        self.last_seen_uid = max(self.last_seen_uid, done_uid)
        return is_mine

    def release(self, done_uid: int = 0) -> bool:
        """Let go after a fetch that went well; 0 where no UID was finished."""
        is_mine = self._write(_RELEASE, done_uid=done_uid)
        self.is_held = False
        if not is_mine:
            logger.warning("a folder was taken over during its fetch", extra={"watermark_id": self._id})
        return is_mine

    def release_failed(self) -> bool:
        """Let go after a failure: nothing but the lease is touched."""
        is_mine = self._write(_RELEASE_FAILED)
        self.is_held = False
        if not is_mine:
            logger.debug("a folder whose fetch failed was taken over", extra={"watermark_id": self._id})
        return is_mine

    def _write(self, statement: Update, **values: int) -> bool:
        if not self.is_held:
            return False
        with self._engine.connect() as connection:
            given = {"row_id": self._id, "held": self._version, **values}
            is_mine = connection.execute(statement, given).rowcount == 1
        if is_mine:
            self._version += 1
        return is_mine


class Watermarks:
    """The leases of all folders; one per process, any thread."""

    def __init__(self, engine: Engine, *, lease_timeout_seconds: float) -> None:
        """A lease whose holder said nothing for that long is taken over: its holder is presumed dead."""
        self._engine = autocommitting(engine)
        self._lease_timeout = timedelta(seconds=lease_timeout_seconds)
        self._lock = threading.Lock()
        #: Those that this process has handed out.
        self._leases: weakref.WeakSet[Lease] = weakref.WeakSet()

    def acquire(self, config_id: int, folder_name: str, *, tenant_id: int) -> Lease | None:
        """The lease on a folder; None while somebody else holds it, or was faster.

        Of two who ask for an idle folder at once, one gets it. Raises what the driver raises.
        """
        lease = self._acquire(config_id, folder_name, tenant_id)
        if lease is not None:
            with self._lock:
                self._leases.add(lease)
        return lease

    def release_all(self) -> int:
        """Let go of all that this process holds, as it ends in the middle of a fetch; answers how many that were.

        What a fetch still does with its lease has no effect then.
        """
        with self._lock:
            held = [lease for lease in self._leases if lease.is_held]
        return sum(lease.release_failed() for lease in held)

    def _acquire(self, config_id: int, folder_name: str, tenant_id: int) -> Lease | None:
        with self._engine.connect() as connection:
            row = connection.execute(self._look(config_id, folder_name)).one_or_none()
            if row is None:
                new = insert(MAIL_FETCH_WATERMARK).values(
                    server_config_id=config_id,
                    folder_name=folder_name,
                    tenant_id=tenant_id,
                    in_progress_since=func.now(),
                )
                statement = new.on_conflict_do_nothing().returning(_t.id)
                new_id = connection.execute(statement).scalar_one_or_none()
                if new_id is not None:
                    return Lease(self._engine, new_id, 0)
                row = connection.execute(self._look(config_id, folder_name)).one_or_none()
            if row is None or not row.is_free:
                logger.debug("a folder is being fetched by another worker", extra={"config_id": config_id})
                return None
            lease = Lease(
                self._engine, row.id, row.version, uid_validity=row.uid_validity, last_seen_uid=row.last_seen_uid
            )
        return lease if lease.heartbeat() else None

    def _look(self, config_id: int, folder_name: str) -> Select[Any]:
        is_free = or_(_t.in_progress_since.is_(None), _t.in_progress_since <= func.now() - self._lease_timeout)
        return select(_t.id, _t.version, _t.uid_validity, _t.last_seen_uid, is_free.label("is_free")).where(
            _t.server_config_id == config_id, _t.folder_name == folder_name
        )
