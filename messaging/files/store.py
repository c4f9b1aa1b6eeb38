"""The file store: content kept by tenant in PostgreSQL or behind a URL, and read back as it was or not at all.

Not here: which files a mail has, and how much they may be together (`messaging.mail`).
"""

import hashlib
import logging
import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from sqlalchemy import Connection, Engine, LargeBinary, Row, bindparam, func, insert, select, text
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.category import MarkerCode
from messaging.db.engine import autocommitting
from messaging.errors import PreparationError
from messaging.files.models import STORED_FILE
from messaging.files.names import clean_file_name
from messaging.files.remote import SLICE_BYTES, NotStored, RemoteStore, StoreFailed
from messaging.requests import MessageScope
from messaging.settings import Settings

logger = logging.getLogger(__name__)

#: Bytes of one file in PostgreSQL; a store behind a URL has no limit of ours.
MAX_DATABASE_BYTES = 25 * 1_048_576
#: Bytes of an opened file that are held in memory; what is larger lies in an unlinked temporary file.
MAX_MEMORY_BYTES = 1_048_576
#: Seconds that a store behind a URL may take for one file.
STORE_SECONDS = 20.0
#: As long as the column, and the type where nobody said one.
_MAX_TYPE_CHARS, _NO_TYPE = 255, "application/octet-stream"

_t = STORED_FILE.c
_INSERT = insert(STORED_FILE).returning(_t.id)
_FIND = select(_t.id, _t.tenant_id, _t.sha256, _t.file_name, _t.content_type, _t.size, _t.location).where(
    _t.id.in_(bindparam("ids", expanding=True)), _t.tenant_id.in_(bindparam("tenants", expanding=True))
)
_SLICE = select(func.substring(_t.content, bindparam("start"), SLICE_BYTES, type_=LargeBinary)).where(
    _t.id == bindparam("id")
)

_DELETE = text("""
    DELETE FROM stored_file WHERE id = ANY (CAST(:ids AS bigint[])) AND (location IS NULL OR :is_behind_url)
    RETURNING id, location
""")
_IS_NAMED = text("""
    SELECT EXISTS (SELECT FROM stored_file WHERE tenant_id = :tenant_id AND sha256 = :sha256 AND location = :place)
""")
#: A place is held by who is about to name it, until the transaction ends, and taken by who clears it.
_HOLD_PLACE = text("SELECT pg_advisory_xact_lock_shared(hashtextextended('stored_file ' || :place, 0))")
_TAKE_PLACE = text("SELECT pg_try_advisory_lock(hashtextextended('stored_file ' || :place, 0))")
_LEAVE_PLACE = text("SELECT pg_advisory_unlock(hashtextextended('stored_file ' || :place, 0))")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What is known of a stored file without reading it."""

    file_id: int
    tenant_id: int
    #: Of the content, in hex.
    sha256: str
    #: As data: never a path.
    file_name: str
    content_type: str
    #: Bytes.
    size: int


@dataclass(frozen=True, slots=True)
class LaidFile:
    """A file whose content is at its place, and that no row names yet."""

    tenant_id: int
    sha256: str
    #: Bytes.
    size: int
    #: Path within a store behind a URL; None: `content` goes into the row.
    location: str | None
    content: bytes | None = field(repr=False)


def readable_by(tenant_id: int, scope: str) -> frozenset[int]:
    """Whose files a mail of this tenant may carry: its own, and with scope PLATFORM the platform's too."""
    return frozenset({tenant_id, tenancy.PLATFORM_TENANT_ID} if scope == MessageScope.PLATFORM else {tenant_id})


class FileStore:
    """The store of `FILE_STORE_URL`; one per process, any thread.

    Every method raises PreparationError with ATTACHMENT_STORE_MISSING where the setting is `none:`.
    """

    def __init__(self, engine: Engine, settings: Settings) -> None:
        """Connects to nothing. Raises: ConfigurationError, for a scheme that nothing installed here knows."""
        url = settings.file_store_url
        self._engine = autocommitting(engine)
        self._is_off = url == "none:"
        self._remote = None if url in ("db:", "none:") else RemoteStore(url)

    @property
    def is_on(self) -> bool:
        """Whether there is a store."""
        return not self._is_off

    def store(
        self,
        connection: Connection | Session,
        content: bytes,
        *,
        file_name: str,
        content_type: str | None,
        tenant_id: int,
    ) -> int:
        """Keep a file; answers its id. The row is written in the caller's transaction.

        Behind a URL the content is written first, at a place that follows from it: a caller that rolls back leaves a
        file that nobody names and that the next equal one takes over.

        Raises: PreparationError (ATTACHMENT_TOO_LARGE, ATTACHMENT_UNAVAILABLE) before anything is written over the
            connection.
        """
        laid = self._lay(content, tenant_id, holder=connection)
        return self.enter(connection, laid, file_name=file_name, content_type=content_type)

    def lay_down(self, content: bytes, *, tenant_id: int) -> LaidFile:
        """The first half of `store`, for who writes several files in one transaction: touches no connection.

        Behind a URL the content gets a place of its own, which nobody shares and `take_back` may clear.

        Raises: PreparationError (ATTACHMENT_TOO_LARGE, ATTACHMENT_UNAVAILABLE).
        """
        return self._lay(content, tenant_id, suffix=f"-{secrets.token_hex(8)}")

    def enter(
        self, connection: Connection | Session, laid: LaidFile, *, file_name: str, content_type: str | None
    ) -> int:
        """The second half: the row of a laid file, in the caller's transaction; answers its id."""
        context = tenancy.current()
        row = {
            "tenant_id": laid.tenant_id,
            "sha256": laid.sha256,
            "file_name": clean_file_name(file_name),
            "content_type": _type_of(content_type),
            "size": laid.size,
            "location": laid.location,
            "content": laid.content,
            "created_by_id": context.user_id,
            "created_by": context.user_name,
        }
        file_id: int = connection.execute(_INSERT, row).scalar_one()
        return file_id

    def take_back(self, laid: LaidFile) -> None:
        """Clear a laid file whose row was not kept. Best effort: what stays behind is named by nobody."""
        if self._remote is None or laid.location is None:
            return
        try:
            self._remote.delete(laid.location, timeout_seconds=STORE_SECONDS)
        except StoreFailed as exc:
            logger.warning("a file that no row names stays in the file store: %s", exc)

    def delete(self, connection: Connection, file_ids: Collection[int]) -> list[str]:
        """Delete rows of files, in the caller's transaction, which has locked them; nothing may name them any more.

        Answers the places whose content is nobody's once that has committed: for `clear`. A file behind a URL stays as
        long as FILE_STORE_URL names none.
        """
        rows = connection.execute(_DELETE, {"ids": list(file_ids), "is_behind_url": self._remote is not None})
        return [row.location for row in rows if row.location is not None]

    def clear(self, places: Iterable[str]) -> None:
        """Clear places of deleted files, but for one that a row names or that a caller is about to name.

        Best effort: what stays behind is named by nobody. Raises: what the driver raises.
        """
        for place in places:
            with self._engine.connect() as connection:
                if connection.execute(_TAKE_PLACE, {"place": place}).scalar_one():
                    try:
                        self._clear(connection, place)
                    finally:
                        connection.execute(_LEAVE_PLACE, {"place": place})

    def _clear(self, connection: Connection, place: str) -> None:
        tenant_id, _, name = place.split("/", 2)
        sha256 = name.partition("-")[0]
        of_place = {"tenant_id": int(tenant_id), "sha256": sha256, "place": place}
        if self._remote is None or connection.execute(_IS_NAMED, of_place).scalar_one():
            return
        try:
            self._remote.delete(place, timeout_seconds=STORE_SECONDS)
        except StoreFailed as exc:
            logger.warning("a file that no row names stays in the file store: %s", exc)

    def _lay(
        self, content: bytes, tenant_id: int, *, suffix: str = "", holder: Connection | Session | None = None
    ) -> LaidFile:
        self._check_is_on()
        sha256 = hashlib.sha256(content).hexdigest()
        if self._remote is None:
            if len(content) > MAX_DATABASE_BYTES:
                raise PreparationError(
                    MarkerCode.ATTACHMENT_TOO_LARGE,
                    f"a file of {len(content)} bytes; PostgreSQL keeps at most {MAX_DATABASE_BYTES} in one",
                )
            return LaidFile(tenant_id, sha256, len(content), None, content)
        place = f"{tenant_id}/{sha256[:2]}/{sha256}{suffix}"
        if holder is not None:
            # Until it has committed, so that `clear` takes nothing away from the row that is about to name it.
            holder.execute(_HOLD_PLACE, {"place": place})
        try:
            self._remote.write(place, content, timeout_seconds=STORE_SECONDS)
        except StoreFailed as exc:
            raise PreparationError(MarkerCode.ATTACHMENT_UNAVAILABLE, str(exc)) from exc
        return LaidFile(tenant_id, sha256, len(content), place, None)

    def describe(self, ids: Iterable[int], tenants: Collection[int]) -> dict[int, FileInfo]:
        """Those of these files that belong to one of these tenants; one query. Raises what the driver raises."""
        self._check_is_on()
        return {row.id: _info(row) for row in self._find(ids, tenants)}

    def open(self, file_id: int, tenants: Collection[int], *, timeout_seconds: float = STORE_SECONDS) -> BinaryIO:
        """The whole file, verified, at its beginning; the caller closes it. Holds no database connection.

        Up to 1 MiB is in memory, more in an unlinked temporary file. `timeout_seconds` is for a store behind a URL.

        Raises:
            PreparationError: ATTACHMENT_NOT_FOUND, ATTACHMENT_UNAVAILABLE.
            SQLAlchemyError: what the driver raises.
        """
        self._check_is_on()
        row = next(iter(self._find([file_id], tenants)), None)
        if row is None:
            raise PreparationError(
                MarkerCode.ATTACHMENT_NOT_FOUND, f"stored file {file_id} is not there, or not the tenant's"
            )
        spool = cast(BinaryIO, SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES))  # noqa: SIM115 - the caller closes it
        try:
            self._fill(spool, row, timeout_seconds)
            _verify(spool, row)
        except BaseException as exc:
            spool.close()
            if isinstance(exc, OSError):
                what = exc.strerror or type(exc).__name__
                message = f"stored file {file_id} cannot be laid down: {what}"
                raise PreparationError(MarkerCode.ATTACHMENT_UNAVAILABLE, message) from exc
            raise
        return spool

    def _find(self, ids: Iterable[int], tenants: Collection[int]) -> list[Row[tuple[int, ...]]]:
        with self._engine.connect() as connection:
            return list(connection.execute(_FIND, {"ids": list(ids), "tenants": list(tenants)}))

    def _fill(self, spool: BinaryIO, row: Row[tuple[int, ...]], timeout_seconds: float) -> None:
        if row.location is None:
            self._copy(row.id, spool)
            return
        if self._remote is None:
            raise PreparationError(
                MarkerCode.ATTACHMENT_STORE_MISSING,
                f"stored file {row.id} lies behind a URL, and FILE_STORE_URL names none",
            )
        try:
            self._remote.read(row.location, spool, max_bytes=row.size, timeout_seconds=timeout_seconds)
        except NotStored:
            raise PreparationError(
                MarkerCode.ATTACHMENT_NOT_FOUND, f"the content of stored file {row.id} is not in the file store"
            ) from None
        except StoreFailed as exc:
            raise PreparationError(MarkerCode.ATTACHMENT_UNAVAILABLE, f"stored file {row.id}: {exc}") from exc

    def _copy(self, file_id: int, into: BinaryIO) -> None:
        with self._engine.connect() as connection:
            start = 1
            while octets := connection.execute(_SLICE, {"id": file_id, "start": start}).scalar():
                into.write(octets)
                start += len(octets)

    def _check_is_on(self) -> None:
        if self._is_off:
            raise PreparationError(MarkerCode.ATTACHMENT_STORE_MISSING, "FILE_STORE_URL is none:, files are off")


def _verify(spool: BinaryIO, row: Row[tuple[int, ...]]) -> None:
    """A file that was cut or changed is never sent: maybe it is being put back."""
    size = spool.tell()
    spool.seek(0)
    digest = hashlib.sha256()
    while octets := spool.read(SLICE_BYTES):
        digest.update(octets)
    spool.seek(0)
    if size != row.size or digest.hexdigest() != row.sha256:
        raise PreparationError(
            MarkerCode.ATTACHMENT_UNAVAILABLE,
            f"stored file {row.id} has changed: {size} bytes, not the {row.size} stored",
        )


def _type_of(content_type: str | None) -> str:
    """The type as data; one that no header can hold is not passed on by `messaging.mail` either."""
    if content_type and len(content_type) <= _MAX_TYPE_CHARS and content_type.isprintable():
        return content_type
    return _NO_TYPE


def _info(row: Row[tuple[int, ...]]) -> FileInfo:
    return FileInfo(row.id, row.tenant_id, row.sha256, row.file_name, row.content_type, row.size)
