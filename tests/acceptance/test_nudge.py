"""The nudge: a mail goes out at once after its commit, and no broker can hold a commit up."""

import socket
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from messaging.embedded import free_port
from tests.acceptance.accepting import Application, application
from tests.acceptance.conftest import Start
from tests.acceptance.local_nodes import ROOT
from tests.acceptance.records import assert_each_once, row, wait_for
from tests.acceptance.system import MessagingSetup

#: So seldom that a mail that waits for beat shows.
RARE_TICKS = {"DISPATCH__INTERVAL_SECONDS": "10", "DISPATCH__TICK_EXPIRES_SECONDS": "100"}

#: More than any commit takes here, and far less than any time-out of a broker connection.
SLOW_COMMIT_SECONDS = 1.0


@contextmanager
def shop(setup: MessagingSetup, **variables: str) -> Iterator[Application]:
    """An application beside the workers, with the nudge on unless `variables` say otherwise."""
    env = setup.environment | {f"MESSAGING_{name}": value for name, value in variables.items()}
    with application(env, ROOT, setup.folder / "shop.log") as running:
        yield running


def test_a_mail_goes_out_at_once_after_its_commit(start: Start) -> None:
    setup = start(settings=RARE_TICKS)
    with shop(setup) as app:
        app.accept(1, "first")  # loads the tasks, makes the connection
        wait_for(setup, {"SENT": 1}, 60)
        waits = []
        for n in range(5):
            accepted = app.accept(1, f"m{n}-")
            wait_for(setup, {"SENT": n + 2}, 60)
            waits.append(row(setup, accepted["ids"][0]).sent_at.timestamp() - accepted["committed_at"])
    # Not a measurement: without the nudge they would wait five seconds on average.
    assert statistics.median(waits) < 1.5, waits
    assert_each_once(setup, 6)


def test_without_the_nudge_the_next_tick_sends_it(start: Start) -> None:
    setup = start()
    with shop(setup, DISPATCH__NUDGE="") as app:
        app.accept(3, "m")
        wait_for(setup, {"SENT": 3}, 30)
    assert_each_once(setup, 3)


@contextmanager
def refusing() -> Iterator[int]:
    """A port where nobody listens."""
    yield free_port()


@contextmanager
def silent() -> Iterator[int]:
    """A broker that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


@contextmanager
def dropping() -> Iterator[int]:
    """A host that drops packets: the queue of connections is full, so the kernel does not answer another one."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        clients = []
        try:
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
                clients.append(client)
            yield port
        finally:
            for client in clients:
                client.close()


@pytest.mark.parametrize("broker", [refusing, silent, dropping])
def test_a_commit_takes_no_longer_with_a_broker_that_does_not_answer(start: Start, broker: object) -> None:
    setup = start(mail_workers=0, control=False, beats=0)
    with broker() as port:  # type: ignore[operator]
        url = f"redis://127.0.0.1:{port}/0"
        with shop(setup, BROKER_URL=url) as nudging, shop(setup, DISPATCH__NUDGE="") as plain:
            for app in (nudging, plain):
                app.accept(1, "first")
            taken: dict[Application, list[float]] = {nudging: [], plain: []}
            for n in range(40):  # in turn, so that the machine's load falls on both
                for app in (nudging, plain):
                    taken[app].append(app.accept(1, f"m{n}-")["commit_seconds"])
    assert max(taken[nudging]) < SLOW_COMMIT_SECONDS
    assert statistics.median(taken[nudging]) < 3 * statistics.median(taken[plain]) + 0.005
