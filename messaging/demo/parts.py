"""The parts of the demo's system and their order: servers, then programs; the stop the other way round."""

import os
import secrets
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from cryptography.fernet import Fernet

from messaging import programs
from messaging.demo import environment
from messaging.demo.folder import leave
from messaging.demo.hook_server import PATH, SECRET_VARIABLE
from messaging.demo.mailbox_server import PASSWORD_VARIABLE
from messaging.demo.stop import StopRequest
from messaging.demo.supervisor import Program, Supervisor
from messaging.demo.text_server import TOKEN_VARIABLE
from messaging.embedded import Postgres, Valkey, free_port
from messaging.settings import Settings, load_settings
from messaging.webhooks.signing import new_secret

#: Seconds a program may take to come up.
START_SECONDS = 60.0
#: Seconds between two looks whether it has.
LOOK_SECONDS = 0.03

#: Seconds for the end of what has nothing under way that could be lost.
IDLE_STOP_SECONDS = 1.5

#: PostgreSQL's data is thrown away at the end, so it need not survive a crash of the machine.
POSTGRES_SETTINGS = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}

#: Order of the stop: who asks for work first, who does it last, then where it goes.
STOP_ORDER = (
    ("beat", "flower", "control"),
    ("mail-1", "mail-2", "sms", "fetch"),
    ("smtp", "texts", "hooks", "web", "mailbox"),
)


class DemoFailed(Exception):
    """Something the demo waits for does not come."""


class Parts:
    """Everything that runs beside this process; a context that leaves nothing behind."""

    def __init__(self, folder: Path, stop: StopRequest) -> None:
        self.folder = folder
        self.mail_folder, self.log_folder = folder / "mail", folder / "log"
        #: Written by the mail server and the provider of text messages.
        self.journal_path = folder / "journal.jsonl"
        #: To source in a shell.
        self.environment_path = folder / "environment"
        self.postgres = Postgres(folder, settings=POSTGRES_SETTINGS)
        self.valkey = Valkey(folder)
        self.supervisor = Supervisor(self.log_folder, programs.working_folder())
        self.flower_url = f"http://127.0.0.1:{free_port()}"
        self.flower_password = secrets.token_urlsafe(9)
        #: The HTTP application, where receipts come to.
        self.web_url = f"http://127.0.0.1:{free_port()}"
        #: Of our account at the provider of text messages; it signs receipts with it.
        self.text_auth_token = secrets.token_hex(16)
        #: By it the shop's application knows that an event is ours.
        self.hook_secret = new_secret()
        #: The shop's mailbox, over IMAP.
        self.mailbox_port = free_port()
        self.mailbox_password = secrets.token_urlsafe(9)
        self._stop = stop
        self._resources = ExitStack()
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="start")

    def __enter__(self) -> Self:
        for step in (self._leave, self.postgres.remove, self._stop_programs, self._pool.shutdown):
            self._resources.callback(step)  # the last one first: nothing is stopped while it starts
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.close()

    def _stop_programs(self) -> None:
        self.supervisor.stop(STOP_ORDER)
        self.valkey.stop()

    def _leave(self) -> None:
        shutil.rmtree(self.valkey.home, ignore_errors=True)
        leave(self.folder)

    def start_servers(self) -> "list[Future[object]]":
        """Begin to start PostgreSQL, Valkey and the far ends; the answers are there when the first two run."""
        takes_mail = ["messaging.demo.capture_server", self.mail_folder, self.journal_path, self._smtp_port_path]
        far_ends = {
            "smtp": [*takes_mail, f"--mailbox-port={self.mailbox_port}"],
            "texts": ["messaging.demo.text_server", self.journal_path, self._text_port_path],
            "hooks": ["messaging.demo.hook_server", self.journal_path, self._hook_port_path],
            "mailbox": ["messaging.demo.mailbox_server", self.mailbox_port],
        }
        variables = {
            **environment.without_foreign(os.environ),
            TOKEN_VARIABLE: self.text_auth_token,
            SECRET_VARIABLE: self.hook_secret,
            PASSWORD_VARIABLE: self.mailbox_password,
            "TMPDIR": str(self.folder / "tmp"),
        }
        for name, arguments in far_ends.items():
            self.supervisor.start(Program(name, [sys.executable, "-m", *map(str, arguments)], variables))
        return [self._pool.submit(self.postgres.start), self._pool.submit(self.valkey.start)]

    def configure(self) -> Settings:
        """The servers run: keep them running, and give this process and the programs their settings."""
        self.supervisor.watch(self.postgres, self.valkey)
        variables = environment.demo_settings(
            database_url=self.postgres.url(),
            redis_url=self.valkey.url,
            secrets_key=Fernet.generate_key().decode(),
            public_base_url=self.web_url,
            flower_url=self.flower_url,
            folder=self.folder,
        )
        environment.write_file(self.environment_path, variables)
        environment.become({**variables, "TMPDIR": str(self.folder / "tmp"), "PYTHONUNBUFFERED": "1"})
        return load_settings()

    def start_first(self, settings: Settings) -> None:
        """What a mail needs on its way: a worker for ticks (and the nightly run), one for mail, and beat."""
        queues = [settings.queues.control, settings.queues.maintenance]
        self._start(settings, "control", programs.worker(queues=queues, name="control", concurrency=2))
        self._start(settings, "beat", programs.beat(), stop_seconds=IDLE_STOP_SECONDS)
        self._start_mail_worker(settings, "mail-1")

    def start_others(self, settings: Settings) -> None:
        """A second worker for mail, one for texts, webhooks and requests; what speaks HTTP; a worker for mailboxes."""
        self._start_mail_worker(settings, "mail-2")
        queues = [settings.queues.sms_send, settings.queues.webhook_send, settings.queues.mail_request]
        argv = programs.worker(queues=queues, name="sms", concurrency=2)
        # How long a throttled message waits is the provider's to say; for mail the floor keeps a window's line.
        self._start(settings, "sms", argv, MESSAGING_RETRY__QUOTA_FLOOR_SECONDS="1")
        address, port = _listening(self.web_url)
        self._start(settings, "web", programs.web(host=address, port=port), stop_seconds=IDLE_STOP_SECONDS)
        address, port = _listening(self.flower_url)
        login = f"demo:{self.flower_password}"
        argv = programs.flower(address=address, port=port)
        self._start(settings, "flower", argv, stop_seconds=IDLE_STOP_SECONDS, FLOWER_BASIC_AUTH=login)
        # Last: beat's first tick for mailboxes comes 15 s after its start.
        argv = programs.worker(queues=[settings.queues.mail_fetch], name="fetch", concurrency=2)
        self._start(settings, "fetch", argv, stop_seconds=None, **environment.FETCHING_TIMES)

    def _start_mail_worker(self, settings: Settings, name: str) -> None:
        argv = programs.worker(queues=[settings.queues.mail_send], name=name, concurrency=4)
        # By its EHLO name the mail server tells which of them talks to it.
        self._start(settings, name, argv, MESSAGING_MAIL__EHLO_NAME=f"{name}.example.net")

    def _start(
        self, settings: Settings, name: str, argv: Sequence[str], *, stop_seconds: float | None = None, **variables: str
    ) -> None:
        grace = settings.delivery.stop_grace_seconds if stop_seconds is None else stop_seconds
        self.supervisor.start(Program(name, argv, {**os.environ, **variables}, stop_seconds=grace))

    @property
    def _smtp_port_path(self) -> Path:
        return self.folder / "smtp.port"

    def smtp_port(self) -> int:
        """Where the mail server listens. Raises: DemoFailed, Stopped."""
        self.wait_for(self._smtp_port_path.exists, "the mail server does not start")
        return int(self._smtp_port_path.read_text())

    @property
    def _text_port_path(self) -> Path:
        return self.folder / "texts.port"

    def text_endpoint(self) -> str:
        """Where the provider's API begins. Raises: DemoFailed, Stopped."""
        self.wait_for(self._text_port_path.exists, "the provider of text messages does not start")
        return f"http://127.0.0.1:{self._text_port_path.read_text()}/2010-04-01"

    @property
    def _hook_port_path(self) -> Path:
        return self.folder / "hooks.port"

    def hook_url(self) -> str:
        """Where the shop's application is told events. Raises: DemoFailed, Stopped."""
        self.wait_for(self._hook_port_path.exists, "the shop's application does not start")
        return f"http://127.0.0.1:{self._hook_port_path.read_text()}{PATH}"

    def wait_for(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait until it holds.

        Raises: DemoFailed, when it takes too long; Stopped; ConfigurationError for a program that does not stay up.
        """
        until = time.monotonic() + START_SECONDS
        while not condition():
            self.supervisor.require_hope()
            if time.monotonic() > until:
                raise DemoFailed(otherwise)
            self._stop.sleep(LOOK_SECONDS)

    def is_flower_there(self) -> bool:
        """Whether Flower answers."""
        with suppress(OSError), urllib.request.urlopen(f"{self.flower_url}/healthcheck", timeout=2):  # noqa: S310
            return True
        return False


def _listening(url: str) -> tuple[str, int]:
    """The host and port of a program's address."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port
