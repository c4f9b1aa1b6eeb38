"""An embedded Valkey, or another server of its kind."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from messaging.child_process import spawn
from messaging.embedded import programs
from messaging.embedded.server import NotYet, Server, environment

#: Settings of every embedded Valkey: what is queued survives a restart, and nothing is ever evicted.
VALKEY_SETTINGS = {
    "bind": "127.0.0.1",
    "save": '""',
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
}


class Valkey(Server):
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
        self._env = environment() | ({"LD_LIBRARY_PATH": library_path} if library_path else {})
        self._settings = VALKEY_SETTINGS | {name.replace("_", "-"): str(value) for name, value in conf.items()}

    @property
    def url(self) -> str:
        """Address of database 0."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def _prepare(self) -> None:
        if self._binary is None:
            self._binary = programs.valkey_program()

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
        with redis.Redis.from_url(self.url, socket_timeout=5, retry=Retry(NoBackoff(), 0)) as client:
            try:
                client.ping()
            except redis.RedisError as exc:
                raise NotYet(str(exc)) from exc
