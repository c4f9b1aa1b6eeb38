"""The demo's supervisor on real processes: restarts, the stop, and that nothing is left."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from messaging.demo.supervisor import Program, Supervisor
from messaging.embedded import Valkey
from messaging.errors import ConfigurationError
from tests.polling import eventually

STAYS = "import time; print('up', flush=True); time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
PARENT = "import subprocess, sys, time; subprocess.Popen(['sleep', '654']); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path, tmp_path)
    yield made
    made.stop(())


def program(name: str, script: str, stop_seconds: float = 5.0) -> Program:
    return Program(name, [sys.executable, "-c", script], dict(os.environ), stop_seconds=stop_seconds)


def is_up(supervisor: Supervisor, name: str, times: int = 1) -> bool:
    path = supervisor.log_path(name)
    return path.exists() and path.read_text().count("up") == times


def test_a_program_that_is_killed_is_started_again(supervisor: Supervisor) -> None:
    supervisor.start(program("a", STAYS))
    eventually(lambda: is_up(supervisor, "a"))
    first = supervisor.pid("a")
    supervisor.kill("a")
    eventually(lambda: is_up(supervisor, "a", times=2))
    assert supervisor.pid("a") not in (None, first)
    assert supervisor.restarts == ["a"]
    supervisor.require_hope()


def test_a_program_that_never_stays_up_is_hopeless_and_its_log_is_told(supervisor: Supervisor) -> None:
    supervisor.start(program("a", "raise SystemExit('no schema')"))

    def is_hopeless() -> bool:
        try:
            supervisor.require_hope()
        except ConfigurationError:
            return True
        return False

    began = time.monotonic()
    eventually(is_hopeless)
    assert time.monotonic() - began > 0.5 + 1 + 2  # the pauses grow
    with pytest.raises(ConfigurationError, match=r"(?s)a does not stay up.*no schema"):
        supervisor.require_hope()


def test_a_stop_ends_groups_in_order_and_then_the_rest(supervisor: Supervisor) -> None:
    notes = "import signal, sys, time\ndef end(*_): print('ended', time.monotonic()); sys.exit()\n"
    script = f"{notes}signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)"
    names = ("rest", "second", "first")
    supervisor.start(*(program(name, script) for name in names))
    eventually(lambda: all(is_up(supervisor, name) for name in names))
    supervisor.stop([("first",), ("second",)])
    ended = {name: float(supervisor.log_path(name).read_text().split()[-1]) for name in names}
    assert ended["first"] < ended["second"] < ended["rest"]


def test_a_program_that_ignores_the_stop_is_killed(supervisor: Supervisor) -> None:
    supervisor.start(program("deaf", DEAF, stop_seconds=0.2))
    eventually(lambda: is_up(supervisor, "deaf"))
    pid = supervisor.pid("deaf")
    began = time.monotonic()
    supervisor.stop(())
    assert time.monotonic() - began < 5
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_what_a_program_started_goes_with_it(supervisor: Supervisor) -> None:
    supervisor.start(program("parent", PARENT))
    eventually(lambda: is_up(supervisor, "parent"))
    pid = supervisor.pid("parent")
    assert any(group_of(each) == pid for each in sleepers())
    supervisor.stop(())
    eventually(lambda: not any(group_of(each) == pid for each in sleepers()))


def sleepers() -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes() == b"sleep\x00654\x00":
                found.append(int(process.name))
        except OSError:
            continue
    return found


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def test_a_server_that_ends_is_started_again_where_it_was(supervisor: Supervisor, servers_folder: Path) -> None:
    with Valkey(servers_folder / "supervised") as server:
        port, first = server.port, server.pid
        supervisor.watch(server)
        supervisor.start(program("a", STAYS))
        server.kill()
        eventually(lambda: supervisor.restarts == ["valkey"])
        assert server.pid not in (None, first)
        assert server.port == port
        supervisor.halt_restarts()
