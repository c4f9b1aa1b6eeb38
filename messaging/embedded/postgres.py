"""An embedded PostgreSQL, 18 or 16."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql

from messaging.child_process import spawn
from messaging.embedded import programs
from messaging.embedded.server import STOP_SECONDS, NotYet, Server, environment, wait_until
from messaging.errors import ConfigurationError

#: Settings of every embedded PostgreSQL. `random_page_cost`: the data lies in memory or on an SSD.
POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "random_page_cost": "1.1",
}


class Postgres(Server):
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
        if version not in programs.POSTGRES_FOLDERS:
            raise ConfigurationError(f"embedded PostgreSQL: version is {version}; allowed: 16, 18")
        self.version = version
        self.settings = {**POSTGRES_SETTINGS, **(settings or {})}
        self._uid = self._gid = 0
        #: Where its data lies, once it has been started.
        self.data = self.home / "data"
        self._programs = Path()

    def url(self, database: str = "messaging") -> str:
        """SQLAlchemy's address of a database."""
        return f"postgresql+psycopg://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str, template: str | None = None) -> None:
        """Creates a database, as a copy of `template` if given; nobody may be connected to that one."""
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            # By files: by the log, as is the default, it takes twice the time.
            statement = sql.SQL("{} TEMPLATE {} STRATEGY FILE_COPY").format(statement, sql.Identifier(template))
        self._execute(statement)

    def drop_database(self, name: str) -> None:
        """Drops a database, cutting off who is connected to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def remove(self) -> None:
        """Stops the server and removes its folder and its data, wherever that lies."""
        self.stop()
        shutil.rmtree((self.home / "data").resolve(), ignore_errors=True)
        shutil.rmtree(self.home, ignore_errors=True)

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
        try:
            self._connect().close()
        except psycopg.OperationalError as exc:
            raise NotYet(str(exc)) from exc

    def _prepare(self) -> None:
        self._programs = programs.postgres_programs(self.version)
        if os.geteuid() == 0:
            nobody = programs.nobody()
            self._uid, self._gid = nobody.pw_uid, nobody.pw_gid
            if not programs.is_open_to_others(self._programs / "bin" / "postgres"):
                self._programs = programs.copy_programs(self._programs)
            self.home.chmod(0o711)
            if not programs.is_open_to_others(self.home):
                self._link_data()
        self.data = (self.home / "data").resolve()
        if not self.data.exists():
            self._init()
        wait_until(lambda: not _is_in_use(self.data), STOP_SECONDS)
        if sys.platform == "linux":
            # Its process is gone, and its number may by now be another program's, which would stop the start.
            with suppress(FileNotFoundError):
                (self.data / "postmaster.pid").unlink()

    def _link_data(self) -> None:
        """Makes `data` a link to a folder that `nobody` can reach, unless it is one."""
        link = self.home / "data"
        if not link.is_symlink():
            link.symlink_to(programs.shared_folder() / f"data-{secrets.token_hex(8)}")

    def _init(self) -> None:
        """Makes the data folder under another name first: one that was interrupted is never taken for whole."""
        fresh = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=self.data.parent, prefix="password-") as password:
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
                    env=environment(),
                    cwd=fresh,
                    stdout=log.fileno(),
                ).wait()
        if code:
            raise ConfigurationError(f"initdb ended with {code}; its log, {self.log_path}, ends with:\n{self.log()}")
        fresh.rename(self.data)

    def _spawn(self, log: int) -> "subprocess.Popen[bytes]":
        settings = {**self.settings, "port": str(self.port)}
        return spawn(
            [self._programs / "bin" / "postgres", "-D", self.data, *(f"--{k}={v}" for k, v in settings.items())],
            death_signal=signal.SIGINT,
            uid=self._uid,
            gid=self._gid,
            env=environment(),
            cwd=self.data,
            stdout=log,
        )


def _is_in_use(data: Path) -> bool:
    """Whether a process of PostgreSQL still works in this data folder; after a crash they end one by one."""

    def is_inside(process: Path) -> bool:
        with suppress(OSError):
            return os.readlink(process) == str(data)
        return False

    return any(map(is_inside, Path("/proc").glob("[0-9]*/cwd")))
