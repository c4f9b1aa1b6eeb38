"""The demo from start to end: servers, schema, programs, the shop's orders, what became of their mails, the stop.

Nothing outlives it: children are stopped in order, and killed by the kernel if this process is. Everything lies in a
folder of this run's own, so demos run side by side. What stays of it is captured mail and logs.
"""

import os
import secrets
import shlex
import shutil
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from cryptography.fernet import Fernet
from sqlalchemy.exc import SQLAlchemyError

from messaging import api, programs
from messaging.db import schema
from messaging.db.trouble import is_away
from messaging.demo import environment
from messaging.demo.display import Display
from messaging.demo.evidence import Ending, Journal, Row, conclude, is_final, read_rows, strangers
from messaging.demo.folder import leave, make_folder
from messaging.demo.shop import Accepted, Fate, first_order, further_orders, open_shop, place
from messaging.demo.supervisor import Program, Supervisor
from messaging.embedded import Postgres, Valkey, free_port
from messaging.embedded.programs import package_folder
from messaging.settings import load_settings

#: Seconds between two looks at the records.
LOOK_SECONDS = 0.1
#: Seconds between two orders, so that one can follow.
ORDER_SECONDS = 0.08
#: Seconds after which records that have not ended are wrong.
DEADLINE_SECONDS = 90.0
#: Seconds a program may take to come up.
START_SECONDS = 30.0

#: PostgreSQL's data is thrown away at the end, so it need not survive a crash of the machine.
POSTGRES_SETTINGS = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "32MB"}

#: Order of the stop: who asks for work first, who does it last, then where it goes.
STOP_ORDER = (("beat", "flower", "control"), ("mail-1", "mail-2"), ("smtp",))


class Stopped(Exception):
    """A signal asked the demo to end before it was through."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class DemoFailed(Exception):
    """Something the demo waits for does not come."""


class StopRequest:
    """Whether a signal came; noted in the handler and acted on between two steps, so that no step is cut in half."""

    def __init__(self) -> None:
        self.number = 0
        self._came = threading.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP are noted from here on; a second one during the stop changes nothing."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number
        self._came.set()

    def check(self) -> None:
        """Raises: Stopped, once a signal came."""
        if self._came.is_set():
            raise Stopped(self.number)

    def sleep(self, seconds: float) -> None:
        """Raises: Stopped, as soon as a signal comes."""
        if self._came.wait(seconds):
            raise Stopped(self.number)

    def wait(self) -> None:
        """Until a signal comes."""
        self._came.wait()


def run_demo(parent: Path | None, *, stay: bool) -> int:
    """Run the demo in a folder of its own inside `parent` (None: the temporary folder); answers the exit code.

    0 when every mail ended as it ought to, else 1; 128 and the signal's number when it was stopped before that.

    Raises: ConfigurationError, when something the demo needs is not there.
    """
    package_folder("flower", "flower")
    stop = StopRequest()
    with stop.listening():
        demo = _Demo(make_folder(parent), stop)
        try:
            with demo:
                is_right = demo.run()
                if stay:
                    demo.stay()
        except Stopped as exc:
            return 128 + exc.number
        except DemoFailed as exc:
            demo.say_failed(str(exc))
            return 1
    return 0 if is_right else 1


class _Demo:
    """One run."""

    def __init__(self, folder: Path, stop: StopRequest) -> None:
        self._folder = folder
        self._stop = stop
        self._orders = [first_order(), *further_orders()]
        self._display = Display(sum(order.fate is not Fate.ROLLED_BACK for order in self._orders))
        self._postgres = Postgres(folder, settings=POSTGRES_SETTINGS)
        self._valkey = Valkey(folder)
        self._supervisor = Supervisor(folder / "log", programs.working_folder())
        self._journal = Journal(folder / "journal.jsonl")
        self._accepted: list[Accepted] = []
        self._rows: dict[int, Row] = {}
        self._variables: dict[str, str] = {}
        self._flower_port = free_port()
        self._flower_login = f"demo:{secrets.token_urlsafe(9)}"
        self._resources = ExitStack()

    def __enter__(self) -> None:
        self._resources.callback(leave, self._folder)
        self._resources.callback(self._postgres.remove)
        self._resources.callback(self._remove_valkey)
        self._resources.callback(self._supervisor.stop, STOP_ORDER)

    def __exit__(self, *_: object) -> None:
        began_at = time.monotonic()
        self._resources.close()
        self._display.say(f"stopped in {time.monotonic() - began_at:.1f} s; captured mail and logs: {self._folder}")

    def _remove_valkey(self) -> None:
        self._valkey.stop()
        shutil.rmtree(self._valkey.home, ignore_errors=True)

    def run(self) -> bool:
        """Everything up to the closing table; answers whether all is as it ought to be."""
        say = self._display.say
        self._start_servers()
        say(f"PostgreSQL on port {self._postgres.port} and Valkey on port {self._valkey.port} run in {self._folder}")
        schema.upgrade(self._postgres.url())
        self._stop.check()
        self._configure()
        self._start_programs()
        open_shop(api.environment().engine, smtp_port=self._smtp_port())
        say("the schema is there; workers, beat and the mail server start")
        with self._display:
            self._deliver()
        endings = conclude(api.environment().engine, self._accepted, self._journal)
        self._display.conclude(endings)
        wrong = self._what_is_wrong(endings)
        for line in wrong:
            self._display.console.print(f"WRONG: {line}", style="bold red", soft_wrap=True)
        self._sum_up(endings, is_right=not wrong)
        return not wrong

    def stay(self) -> None:
        """Keep everything up until a signal comes."""
        self._display.console.print("All of it stays up until Ctrl-C.")
        self._stop.wait()

    def say_failed(self, reason: str) -> None:
        """Why it ended early."""
        self._display.say(f"FAILED: {reason}; logs: {self._folder / 'log'}")

    # -- the parts -------------------------------------------------------------------------------------------

    def _start_servers(self) -> None:
        with ThreadPoolExecutor() as pool:
            valkey = pool.submit(self._valkey.start)
            self._postgres.start()
            valkey.result()
        self._stop.check()
        self._supervisor.watch(self._postgres, self._valkey)

    def _configure(self) -> None:
        self._variables = environment.demo_settings(
            database_url=self._postgres.url(),
            redis_url=self._valkey.url,
            secrets_key=Fernet.generate_key().decode(),
            folder=self._folder,
        )
        environment.write_file(self._folder / "environment", self._variables)
        environment.become({**self._variables, "TMPDIR": str(self._folder / "tmp"), "PYTHONUNBUFFERED": "1"})
        api.configure(load_settings())

    def _program(self, name: str, argv: Sequence[str], **variables: str) -> Program:
        grace = load_settings().delivery.stop_grace_seconds
        return Program(name, argv, {**os.environ, **variables}, stop_seconds=grace)

    def _start_programs(self) -> None:
        """The mail server, one worker for ticks, two for mail, beat: what a system needs, on one machine."""
        folder = self._folder
        queues = load_settings().queues
        capture = [sys.executable, "-m", "messaging.demo.capture_server"]
        self._supervisor.start(
            self._program("smtp", [*capture, *map(str, (folder / "mail", self._journal.path, folder / "smtp.port"))]),
            *(
                # By their EHLO names the mail server tells which of them talks to it.
                self._program(
                    name,
                    programs.worker(queues=[queues.mail_send], name=name, concurrency=4),
                    MESSAGING_MAIL__EHLO_NAME=f"{name}.example.net",
                )
                for name in ("mail-1", "mail-2")
            ),
            self._program("control", programs.worker(queues=[queues.control], name="control", concurrency=2)),
            self._program("beat", programs.beat()),
        )

    def _start_flower(self) -> None:
        argv = programs.flower(address="127.0.0.1", port=self._flower_port)
        self._supervisor.start(self._program("flower", argv, FLOWER_BASIC_AUTH=self._flower_login))

    def _smtp_port(self) -> int:
        path = self._folder / "smtp.port"
        self._wait_for(path.exists, "the mail server does not start")
        return int(path.read_text())

    def _wait_for(self, condition: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + START_SECONDS
        while not condition():
            self._supervisor.require_hope()
            if time.monotonic() > until:
                raise DemoFailed(otherwise)
            self._stop.sleep(LOOK_SECONDS / 4)

    # -- the orders ------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        """Place all orders, and watch until every mail has ended or time is up."""
        engine = api.environment().engine
        first = self._orders[0]
        self._accepted.append(place(engine, first))
        self._display.say(f"order {first.number} is placed; its mail will be in flight when its worker is killed")
        self._kill_in_the_middle(first.address)
        waiting = iter(self._orders[1:])
        next_order_at = looked_at = 0.0
        order = next(waiting, None)
        until = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < until:
            at = time.monotonic()
            if order is not None and at >= next_order_at:
                self._accepted.append(place(engine, order))
                order, next_order_at = next(waiting, None), at + ORDER_SECONDS
            if at - looked_at >= LOOK_SECONDS:
                looked_at = at
                self._look()
                if order is None and is_final(self._accepted, self._rows):
                    return
            self._stop.sleep(LOOK_SECONDS / 4)

    def _kill_in_the_middle(self, address: str) -> None:
        """Wait until the mail server has taken the mail and said nothing, and kill the worker that waits for it."""

        def is_in_flight() -> bool:
            self._look()
            return address in self._journal.unanswered

        self._wait_for(is_in_flight, f"the mail to {address} does not reach the mail server")
        name = self._journal.unanswered[address].partition(".")[0]
        self._supervisor.kill(name)
        self._display.say(f"the mail server has taken that mail and keeps its reply: worker {name} is killed (SIGKILL)")
        self._start_flower()
        self._display.say(f"{len(self._orders) - 1} further orders come in, each in a transaction with its mail")

    def _look(self) -> None:
        self._supervisor.require_hope()
        self._journal.read()
        try:
            self._rows = read_rows(api.environment().engine, self._accepted)
        except SQLAlchemyError as exc:
            if not is_away(exc):
                raise
            return  # being restarted: what was seen last stands until the next look
        self._display.update(self._accepted, self._rows)

    # -- the end ---------------------------------------------------------------------------------------------

    def _what_is_wrong(self, endings: Sequence[Ending]) -> list[str]:
        wrong = [f"mail {e.accepted.mail_id}, {e.accepted.order.fate.value}: {e.wrong}" for e in endings if e.wrong]
        wrong += [
            f"the mail server took {message_id}, which is no record's"
            for message_id in strangers(endings, self._journal)
        ]
        files = len(list((self._folder / "mail").glob("*.eml")))
        copies = sum(ending.copies for ending in endings)
        if files != copies:
            wrong.append(f"{files} captured files for {copies} copies of our mails")
        try:
            self._wait_for(self._flower_answers, "Flower does not answer")
        except DemoFailed as exc:
            wrong.append(str(exc))
        return wrong

    def _flower_answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self._flower_url}/healthcheck", timeout=2):  # noqa: S310
            return True
        return False

    @property
    def _flower_url(self) -> str:
        return f"http://127.0.0.1:{self._flower_port}"

    def _sum_up(self, endings: Sequence[Ending], *, is_right: bool) -> None:
        took = self._display.elapsed_seconds
        if is_right:
            words = f"All {len(endings)} orders ended as they ought to, after {took:.1f} s."
        else:
            words = f"Not all is as it ought to be, after {took:.1f} s; logs: {self._folder / 'log'}"
        user, _, password = self._flower_login.partition(":")
        killed = self._accepted[0].mail_id
        for line in (
            words,
            f"Captured mail:  {self._folder / 'mail'}, one file each",
            f"Flower:         {self._flower_url}, user {user}, password {password}",
            f"One mail's story, while this runs:  . {shlex.quote(str(self._folder / 'environment'))}"
            f" && {shlex.quote(str(Path(sys.executable).with_name('messaging')))} show {killed}",
        ):
            self._display.console.print(line, soft_wrap=True, markup=False)
