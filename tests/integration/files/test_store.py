"""The file store over a real database: send.md sections 2 and 8, operate.md section 8 (FILE_STORE_URL)."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, func, select, update
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.category import ErrorCategory, MarkerCode
from messaging.errors import PreparationError
from messaging.files import STORED_FILE, FileStore, StoredFile, readable_by
from messaging.files.remote import SLICE_BYTES
from messaging.files.store import MAX_DATABASE_BYTES
from messaging.requests import MessageScope
from messaging.settings import Settings
from tests.conftest import MakeSettings

TENANT, OTHER, PLATFORM = 7, 8, -1
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 40


@pytest.fixture(params=["db", "file", "memory"])
def store(request: pytest.FixtureRequest, engine: Engine, make_settings: MakeSettings, tmp_path: Path) -> FileStore:
    url = "db:" if request.param == "db" else f"{request.param}://{tmp_path}/files"
    return FileStore(engine, make_settings(file_store_url=url))


@pytest.fixture
def folder_store(engine: Engine, make_settings: MakeSettings, tmp_path: Path) -> FileStore:
    return FileStore(engine, make_settings(file_store_url=f"file://{tmp_path}"))


def put(engine: Engine, store: FileStore, content: bytes = PDF, *, tenant_id: int = TENANT, name: str = "a.pdf") -> int:
    with engine.begin() as connection:
        return store.store(connection, content, file_name=name, content_type="application/pdf", tenant_id=tenant_id)


def get(store: FileStore, file_id: int, *tenants: int) -> bytes:
    with store.open(file_id, tenants or (TENANT,)) as file:
        return file.read()


def refusal(store: FileStore, file_id: int, *tenants: int) -> PreparationError:
    with pytest.raises(PreparationError) as caught:
        store.open(file_id, tenants or (TENANT,))
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 1000, SLICE_BYTES, 2 * SLICE_BYTES + 17])
def test_a_file_comes_back_as_it_was(engine: Engine, store: FileStore, size: int) -> None:
    content = (PDF * (size // len(PDF) + 1))[:size]
    file_id = put(engine, store, content)
    with store.open(file_id, {TENANT}) as file:
        assert file.read() == content
        file.seek(0)
        assert file.read(10) == content[:10]
    info = store.describe([file_id, 10**12], {TENANT})[file_id]
    assert (info.size, info.sha256) == (size, hashlib.sha256(content).hexdigest())
    assert (info.tenant_id, info.file_name, info.content_type) == (TENANT, "a.pdf", "application/pdf")


def test_a_file_belongs_to_its_tenant(engine: Engine, store: FileStore) -> None:
    theirs, ours, shared = (put(engine, store, tenant_id=t) for t in (OTHER, TENANT, PLATFORM))
    assert store.describe([theirs, ours, shared], {TENANT}).keys() == {ours}
    assert store.describe([theirs, ours, shared], {TENANT, PLATFORM}).keys() == {ours, shared}
    for file_id, tenants in ((theirs, {TENANT, PLATFORM}), (shared, {TENANT}), (10**12, {TENANT}), (ours, set())):
        error = refusal(store, file_id, *tenants) if tenants else refusal(store, file_id, 0)
        assert (error.marker, error.category) == (MarkerCode.ATTACHMENT_NOT_FOUND, ErrorCategory.INVALID_INPUT)
    assert get(store, shared, TENANT, PLATFORM) == PDF


def test_a_mail_carries_files_of_its_tenant_and_with_scope_platform_the_platforms() -> None:
    assert readable_by(TENANT, MessageScope.TENANT) == {TENANT}
    assert readable_by(TENANT, MessageScope.PLATFORM) == {TENANT, PLATFORM}
    assert readable_by(PLATFORM, "PLATFORM") == {PLATFORM}


def test_a_file_is_stored_with_the_callers_transaction(engine: Engine, store: FileStore) -> None:
    with Session(engine) as session:
        file_id = store.store(session, PDF, file_name="a.pdf", content_type=None, tenant_id=TENANT)
        assert store.describe([file_id], {TENANT}) == {}  # not committed
        session.rollback()
    assert refusal(store, file_id).marker == MarkerCode.ATTACHMENT_NOT_FOUND
    with tenancy.acting_as(tenancy.Context(tenant_id=TENANT, user_id=5, user_name="eva")):
        file_id = put(engine, store)
    assert get(store, file_id) == PDF
    with engine.connect() as connection:
        row = connection.execute(select(STORED_FILE).where(STORED_FILE.c.id == file_id)).one()
    assert (row.created_by_id, row.created_by) == (5, "eva")


def test_equal_contents_of_a_tenant_lie_in_one_place_and_have_rows_of_their_own(
    engine: Engine, folder_store: FileStore, tmp_path: Path
) -> None:
    first, second = put(engine, folder_store), put(engine, folder_store, name="b.pdf")
    put(engine, folder_store, tenant_id=OTHER)
    assert first != second
    sha256 = hashlib.sha256(PDF).hexdigest()
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert files == [f"7/{sha256[:2]}/{sha256}", f"8/{sha256[:2]}/{sha256}"]


def test_a_name_is_data_and_never_a_path(engine: Engine, folder_store: FileStore, tmp_path: Path) -> None:  # sec-04
    name = "../../etc/cron.d/x\0\r\n"
    file_id = put(engine, folder_store, name=name)
    assert folder_store.describe([file_id], {TENANT})[file_id].file_name == ".._.._etc_cron.d_x"
    assert [path for path in tmp_path.rglob("*") if path.is_file() and "cron" in path.name] == []
    file_id = put(engine, folder_store, name="x" * 1000)
    assert len(folder_store.describe([file_id], {TENANT})[file_id].file_name) == 255


@pytest.mark.parametrize("content_type", [None, "", "x" * 300, "text/plain\r\nBcc: e@e.com", "a\0b"])
def test_a_type_that_no_column_holds_is_none(engine: Engine, store: FileStore, content_type: str | None) -> None:
    with engine.begin() as connection:
        file_id = store.store(connection, b"x", file_name="x", content_type=content_type, tenant_id=TENANT)
    assert store.describe([file_id], {TENANT})[file_id].content_type == "application/octet-stream"


def test_the_database_takes_files_up_to_a_limit(engine: Engine, settings: Settings) -> None:
    store = FileStore(engine, settings)
    with engine.begin() as connection, pytest.raises(PreparationError) as caught:
        store.store(connection, bytes(MAX_DATABASE_BYTES + 1), file_name="x", content_type=None, tenant_id=TENANT)
    assert caught.value.marker == MarkerCode.ATTACHMENT_TOO_LARGE
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(STORED_FILE)).scalar_one() == 0


def test_without_a_store_there_are_no_files(engine: Engine, settings: Settings, make_settings: MakeSettings) -> None:
    file_id = put(engine, FileStore(engine, settings))
    off = FileStore(engine, make_settings(file_store_url="none:"))
    for call in (
        lambda: off.open(file_id, {TENANT}),
        lambda: off.describe([file_id], {TENANT}),
        lambda: put(engine, off),
    ):
        with pytest.raises(PreparationError) as caught:
            call()
        assert (caught.value.marker, caught.value.category) == (
            MarkerCode.ATTACHMENT_STORE_MISSING,
            ErrorCategory.AUTH,
        )


def test_files_stay_readable_where_they_were_written(
    engine: Engine, settings: Settings, folder_store: FileStore
) -> None:
    in_database = FileStore(engine, settings)
    old, new = put(engine, in_database), put(engine, folder_store)
    assert get(folder_store, old) == PDF
    error = refusal(in_database, new)
    assert error.marker == MarkerCode.ATTACHMENT_STORE_MISSING


@pytest.mark.parametrize("content", [PDF[:-1], PDF + b"x", PDF[:-1] + b"x", b""])
def test_a_file_that_has_changed_is_not_sent(
    engine: Engine, folder_store: FileStore, tmp_path: Path, content: bytes
) -> None:
    file_id = put(engine, folder_store)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    path.write_bytes(content)
    error = refusal(folder_store, file_id)
    assert (error.marker, error.category) == (MarkerCode.ATTACHMENT_UNAVAILABLE, ErrorCategory.TRANSIENT)
    path.write_bytes(PDF)
    assert get(folder_store, file_id) == PDF


@pytest.mark.parametrize("content", [PDF[:-1], PDF + b"x", PDF[:-1] + b"x", None])
def test_a_row_that_has_changed_is_not_sent(engine: Engine, settings: Settings, content: bytes | None) -> None:
    store = FileStore(engine, settings)
    file_id = put(engine, store)
    with engine.begin() as connection:
        connection.execute(update(STORED_FILE).where(STORED_FILE.c.id == file_id).values(content=content))
    assert refusal(store, file_id).marker == MarkerCode.ATTACHMENT_UNAVAILABLE


def test_a_file_gone_from_a_store_that_answers_is_not_found(
    engine: Engine, folder_store: FileStore, tmp_path: Path
) -> None:
    file_id = put(engine, folder_store)
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    path.unlink()
    assert refusal(folder_store, file_id).marker == MarkerCode.ATTACHMENT_NOT_FOUND


def test_a_store_that_is_away_is_unavailable(
    engine: Engine, make_settings: MakeSettings, folder_store: FileStore, tmp_path: Path
) -> None:
    file_id = put(engine, folder_store)
    unmounted = FileStore(engine, make_settings(file_store_url=f"file://{tmp_path}/nothing-here"))
    assert refusal(unmounted, file_id).marker == MarkerCode.ATTACHMENT_UNAVAILABLE
    (tmp_path / "blocked").write_text("no folder")
    blocked = FileStore(engine, make_settings(file_store_url=f"file://{tmp_path}/blocked"))
    with Session(engine) as session:
        with pytest.raises(PreparationError) as caught:
            blocked.store(session, PDF, file_name="x", content_type=None, tenant_id=TENANT)
        assert caught.value.marker == MarkerCode.ATTACHMENT_UNAVAILABLE
        assert str(tmp_path) not in str(caught.value)
        session.execute(select(1))  # still usable


def test_an_open_file_holds_no_connection(engine: Engine, store: FileStore) -> None:  # S20
    file_id = put(engine, store, PDF * 200)
    with store.open(file_id, {TENANT}) as file:
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        assert len(file.read()) == len(PDF) * 200


def test_the_database_is_read_in_slices(engine: Engine, settings: Settings) -> None:
    store = FileStore(engine, settings)
    file_id = put(engine, store, bytes(3 * SLICE_BYTES + 1))
    lengths: list[int] = []

    @event.listens_for(engine, "after_cursor_execute")
    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        lengths.append("substring" in statement)

    get(store, file_id)
    assert sum(lengths) == 5  # four slices and the end


def test_reads_of_the_orm_leave_the_content_where_it_is(engine: Engine, settings: Settings) -> None:
    file_id = put(engine, FileStore(engine, settings))
    tenancy.use_multi_tenancy(True)
    with tenancy.tenant(TENANT), Session(engine) as session:
        row = session.get_one(StoredFile, file_id)
        assert "content" not in row.__dict__
    with tenancy.tenant(OTHER), Session(engine) as session:
        assert session.get(StoredFile, file_id) is None


MEMORY = """
import resource, sys
from messaging.db.engine import create_engine
from messaging.files import FileStore
from messaging.settings import Settings

settings = Settings(database_url=sys.argv[1], redis_url="redis://localhost", secrets_keys=(sys.argv[2],))
store = FileStore(create_engine(settings), settings)
store.describe([0], {7})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with store.open(int(sys.argv[3]), {7}) as file:
    size = sum(len(octets) for octets in iter(lambda: file.read(65536), b""))
unit = 1 if sys.platform == "darwin" else 1024
print(size, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
"""


def test_a_large_file_is_read_with_little_memory(engine: Engine, settings: Settings) -> None:
    file_id = put(engine, FileStore(engine, settings), bytes(20 * 1_048_576))
    arguments = [settings.database_url, settings.secrets_keys[0], str(file_id)]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    size, grown = map(int, done.stdout.split())
    assert size == 20 * 1_048_576
    assert grown < 12 * 1_048_576


def test_a_laid_file_that_is_taken_back_takes_nobody_elses_with_it(
    engine: Engine, store: FileStore, tmp_path: Path
) -> None:
    other = put(engine, store)
    kept, dropped = (store.lay_down(PDF, tenant_id=TENANT) for _ in range(2))
    with engine.begin() as connection:
        file_id = store.enter(connection, kept, file_name="b.pdf", content_type=None)
    store.take_back(dropped)
    assert get(store, other) == get(store, file_id) == PDF
    store.take_back(dropped)


def test_what_is_taken_back_is_gone(folder_store: FileStore, tmp_path: Path) -> None:
    laid = folder_store.lay_down(PDF, tenant_id=TENANT)
    assert [path for path in tmp_path.rglob("*") if path.is_file()]
    folder_store.take_back(laid)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
