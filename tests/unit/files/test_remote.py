"""Files behind fsspec URLs: what is written, what fails, and that nobody waits for a store that does not answer."""

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from messaging.errors import ConfigurationError
from messaging.files.remote import MAX_OPERATIONS, SLICE_BYTES, NotStored, RemoteStore, StoreFailed

LOCATION = "7/ab/abcd"


class Unreliable(MemoryFileSystem):
    """A store at the far end that hangs, or says what it must not."""

    protocol = "unreliable"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]
    #: Set: it answers.
    answers = threading.Event()
    says: Exception | None = None

    def info(self, path: str, **kwargs: Any) -> Any:
        self.answers.wait(30)
        if self.says is not None:
            raise self.says
        return super().info(path, **kwargs)


@pytest.fixture
def unreliable() -> Iterator[type[Unreliable]]:
    fsspec.register_implementation("unreliable", Unreliable, clobber=True)
    Unreliable.answers, Unreliable.says = threading.Event(), None
    Unreliable.store.clear()
    yield Unreliable
    Unreliable.answers.set()


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteStore:
    # The memory is one for the whole process: the path makes it this test's.
    return RemoteStore(f"{request.param}://{tmp_path}/files")


def write(store: RemoteStore, content: bytes, *, location: str = LOCATION, timeout: float = 10) -> None:
    store.write(location, content, timeout_seconds=timeout)


def read(store: RemoteStore, *, location: str = LOCATION, max_bytes: int = 10**8, timeout: float = 10) -> bytes:
    into = io.BytesIO()
    store.read(location, into, max_bytes=max_bytes, timeout_seconds=timeout)
    return into.getvalue()


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * (2 * SLICE_BYTES // 256 + 1)])
def test_what_is_written_is_read(store: RemoteStore, content: bytes) -> None:
    write(store, content)
    assert read(store) == content
    write(store, content)
    assert read(store) == content


def test_what_a_crash_left_half_written_is_written_again(store: RemoteStore) -> None:
    write(store, b"hal")
    write(store, b"whole")
    assert read(store) == b"whole"


def test_no_more_is_read_than_asked_for(store: RemoteStore) -> None:
    write(store, b"0123456789")
    assert read(store, max_bytes=4) == b"01234"


def test_a_file_that_is_not_there_is_told_from_a_store_that_is_not(store: RemoteStore, tmp_path: Path) -> None:
    with pytest.raises(StoreFailed):  # nothing was ever written: maybe the volume is not mounted
        read(store)
    write(store, b"x")
    with pytest.raises(NotStored):
        read(store, location="7/ab/ffff")


def test_a_folder_of_this_machine_holds_whole_files_only(tmp_path: Path) -> None:
    store = RemoteStore(f"file://{tmp_path}/files")
    write(store, b"content")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [tmp_path / "files" / LOCATION]
    beside = tmp_path / "as-usual"
    beside.touch()
    assert files[0].stat().st_mode == beside.stat().st_mode  # whoever sends may read it


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / LOCATION).mkdir(parents=True)
    with pytest.raises(StoreFailed, match="IsADirectoryError"):
        write(RemoteStore(f"file://{tmp_path}"), b"x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_written_to_fails(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("not a folder")
    with pytest.raises(StoreFailed, match=r"NotADirectoryError|FileExistsError"):
        write(RemoteStore(f"file://{tmp_path}/files"), b"x")


def test_a_store_that_hangs_is_given_up(unreliable: type[Unreliable]) -> None:
    store = RemoteStore("unreliable://host/files")
    started = time.monotonic()
    with pytest.raises(StoreFailed, match=r"did not answer within 0\.05 s"):
        write(store, b"x", timeout=0.05)
    assert time.monotonic() - started < 5
    unreliable.answers.set()
    write(store, b"x")
    assert read(store) == b"x"


def test_a_store_that_hangs_costs_a_bounded_number_of_threads(unreliable: type[Unreliable]) -> None:
    store = RemoteStore("unreliable://host/files")
    for _ in range(MAX_OPERATIONS):
        with pytest.raises(StoreFailed, match="did not answer"):
            write(store, b"x", timeout=0.001)
    with pytest.raises(StoreFailed, match="busy"):
        write(store, b"x", timeout=0.001)
    unreliable.answers.set()
    write(store, b"x")


def test_what_a_store_says_is_not_passed_on(unreliable: type[Unreliable]) -> None:
    unreliable.answers.set()
    unreliable.says = OSError("cannot reach https://user:hunter2@host")
    with pytest.raises(StoreFailed) as caught:
        write(RemoteStore("unreliable://user:hunter2@host/files"), b"x")
    assert str(caught.value) == "the file store failed: OSError"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_threads_do_not_share_a_file_system_object(store: RemoteStore) -> None:
    write(store, b"x" * SLICE_BYTES)
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(read(store))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"x" * SLICE_BYTES] * 8


@pytest.mark.parametrize("url", ["nosuchscheme://user:hunter2@host/files", "nosuch:files"])
def test_a_scheme_that_nothing_knows_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ConfigurationError, match="nosuch") as caught:
        RemoteStore(url)
    assert "hunter2" not in str(caught.value)
