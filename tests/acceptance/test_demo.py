"""`messaging demo` as a process: it ends by itself with everything right, and leaves nothing behind however it ends."""

import email
import email.policy
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.polling import eventually

#: Seconds a demo may take by the issue, on two cores that are busy with nothing else.
LIMIT_SECONDS = 30.0
#: Seconds after which a test gives up.
PATIENCE_SECONDS = 200.0

#: Orders, and their records, four of them of text messages; of the mails, those the server takes (one of them twice,
#: as its worker is killed) beside the three behind a small window, of which it takes what is not waiting at the end.
ORDERS, RECORDS, TAKEN, WINDOWED = 48, 48, 33, 3
#: What the provider of text messages takes.
TEXTS_TAKEN = 3

MESSAGING = Path(sys.executable).with_name("messaging")

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for what is left in /proc"),
    pytest.mark.xdist_group("demo"),
]


class Demo:
    """One run in a folder of its own."""

    def __init__(self, parent: Path, *, has_terminal: bool = False) -> None:
        self.began_at = time.monotonic()
        self._output = b""
        argv = [MESSAGING, "demo", "--no-open", "--state", parent]
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "50"}
        before = set(parent.glob("*"))
        ours, theirs = pty.openpty() if has_terminal else os.pipe()
        self._ours = ours
        self.process = subprocess.Popen(
            argv,
            env=environment,
            stdin=theirs if has_terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._parent, self._before = parent, before

    def _read(self) -> None:
        with suppress(OSError):  # a terminal whose other side is gone says so with an error
            while select.select([self._ours], [], []) and (read := os.read(self._ours, 65536)):
                self._output += read
        os.close(self._ours)

    @property
    def output(self) -> str:
        return self._output.decode(errors="replace").replace("\r\n", "\n")

    @property
    def folder(self) -> Path:
        made = [path for path in self._parent.glob("*") if path not in self._before and path.name in self.output]
        return made[0]

    def wait_for(self, words: str) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while words not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < until, self.output
            time.sleep(0.05)

    def wait(self) -> int:
        code = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(10)
        return code


@pytest.fixture
def parent(servers_folder: Path) -> Path:
    """Where demos make their folders; `nobody`, as whom PostgreSQL runs for root, may pass through."""
    made = servers_folder / f"demos-{uuid.uuid4().hex}"
    made.mkdir(mode=0o711)
    return made


@pytest.fixture
def start(parent: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def begin(*, has_terminal: bool = False) -> Demo:
        started.append(Demo(parent, has_terminal=has_terminal))
        return started[-1]

    yield begin
    for demo in started:
        demo.process.kill()
        demo.wait()
    shutil.rmtree(parent, ignore_errors=True)


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that work in a folder, or have its name in their arguments or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
            if process.name == str(os.getpid()) or not command:
                continue
            told = command + (process / "environ").read_bytes() + os.readlink(process / "cwd").encode()
            if str(folder).encode() in told:
                found.append(command.decode(errors="replace")[:200])
    return found


def wait_until_gone(folder: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while left := processes_of(folder):
        assert time.monotonic() < until, left
        time.sleep(0.05)


def assert_only_mail_and_logs_stay(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} <= {"journal.jsonl", "log", "mail"}


def captured(folder: Path) -> "list[email.message.EmailMessage]":
    policy = email.policy.default
    return [email.message_from_bytes(path.read_bytes(), policy=policy) for path in (folder / "mail").glob("*.eml")]


def assert_it_says_so(demo: Demo) -> None:
    """The exit code and the closing table."""
    assert demo.wait() == 0, demo.output
    assert f"All {ORDERS} orders ended as they ought to" in demo.output
    assert "WRONG" not in demo.output
    assert_only_mail_and_logs_stay(demo.folder)


def assert_all_is_right(demo: Demo) -> None:
    """What it says, and the mail server's own files."""
    assert_it_says_so(demo)
    messages = captured(demo.folder)
    subjects = {int(match[1]) for m in messages if (match := re.match(r"Your order (\d+):", m["Subject"]))}
    assert TAKEN < len(subjects) < TAKEN + WINDOWED
    by_id: dict[str, int] = {}
    for message in messages:
        by_id[message["Message-ID"]] = by_id.get(message["Message-ID"], 0) + 1
    assert sorted(by_id.values()) == [1] * (len(subjects) - 1) + [2]
    senders = {str(message["From"]) for message in messages}
    assert {sender.partition("@")[2] for sender in senders} == {
        "shop.example.com>",
        "corner.example.com>",
        "market.example.com>",
    }
    for message in messages:
        assert [part.get_filename() for part in message.iter_attachments()] == ["Terms – 返品.txt"]
        logo = next(part for part in message.walk() if part.get_content_type() == "image/png")
        assert (logo["Content-ID"], logo.get_content_disposition()) == ("<logo>", "inline")
    facts = [json.loads(line) for line in (demo.folder / "journal.jsonl").read_text().splitlines()]
    texts = [fact["text"] for fact in facts if fact["event"] == "text taken"]
    assert len(texts) == TEXTS_TAKEN
    assert all(text.startswith('"The Small Shop": thank you - your order ') for text in texts)
    assert {fact["answer"] for fact in facts if fact["event"] == "callback"} == {200}
    answers = sorted(fact["answer"] for fact in facts if fact["event"] == "answered")
    assert answers == ["answered", "bounced", "read"]
    told = [fact for fact in facts if fact["event"].startswith("told")]
    assert {fact["event"] for fact in told} == {"told", "told while busy"}
    assert sum(fact["event"] == "told while busy" for fact in told) == 1
    assert {"message.sent", "message.failed", "message.bounced", "message.read", "message.delivered"} <= {
        fact["type"] for fact in told
    }


def test_a_killed_demo_takes_its_children_along_and_the_next_one_ends_by_itself_with_everything_right(
    start: Callable[..., Demo],
) -> None:
    killed = start()
    killed.wait_for("more orders come in")
    folder = killed.folder
    assert len(processes_of(folder)) >= 6
    killed.process.kill()
    killed.wait()
    wait_until_gone(folder, 10)
    demo = start()
    assert_all_is_right(demo)
    took = time.monotonic() - demo.began_at
    # Where other tests share the cores, time goes by their number.
    assert took < LIMIT_SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), demo.output
    assert processes_of(demo.folder) == []
    told = " ".join(demo.output.split())  # the table's cells are wrapped
    for status in (
        "SENT",
        "FAILED",
        "no record",
        "SWEPT (ZOMBIE_RECOVERED)",
        "RETRY (SMTP_450_4.2.0)",
        "SMTP_550_5.1.1",
        "RENDER_FAILED",
        "MONTHLY_QUOTA_EXCEEDED",
        "QUOTA_EXCEEDED",
        "SENT DELIVERED",
        "SENT UNDELIVERED",
        "21610: Attempt to send to unsubscribed recipient",
        "FAILED BOUNCED",
        "and came back: BOUNCED: smtp; 550 5.1.1 <customer-11@moved.example.net>",
        "SENT READ",
        "read at",
        "SENT ANSWERED",
        "SUPPRESSED: on the suppression list since",
    ):
        assert status in told
    assert f"{RECORDS} of {RECORDS} have ended" in demo.output
    assert not folder.exists()


def test_side_by_side_one_ends_by_itself_and_one_with_a_terminal_stays_up_until_ctrl_c(
    start: Callable[..., Demo],
) -> None:
    demo, other = start(has_terminal=True), start()
    assert_all_is_right(other)
    assert demo.folder != other.folder
    demo.wait_for("stays up until Ctrl-C")
    assert f"{RECORDS} of {RECORDS} have ended" in demo.output  # the bar beside the live table
    assert demo.process.poll() is None
    told = re.search(r"Flower: +(http://\S+), user (\S+), password (\S+)", demo.output)
    assert told is not None
    url, user, password = told.groups()
    assert flower_answers(f"{url}/api/workers", "") == 401
    assert flower_answers(f"{url}/api/workers", f"{user}:{password}") == 200
    link = re.search(r"Console: +(http://\S+)", demo.output)
    assert link is not None
    assert_the_console_shows_what_goes_on(link[1])
    shown = subprocess.run(
        ["sh", "-c", f". '{demo.folder}/environment'; '{MESSAGING}' show 1 --tenant 1; '{MESSAGING}' doctor"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert (shown.returncode, shown.stderr) == (0, ""), shown.stdout
    assert "SWEPT" in shown.stdout
    assert "mail_request: 1 with 2 threads" in shown.stdout
    os.killpg(demo.process.pid, signal.SIGINT)  # as a terminal does
    assert_it_says_so(demo)
    assert processes_of(demo.folder) == []


def assert_the_console_shows_what_goes_on(link: str) -> None:
    """The link signs in once, and orders come in while all stays up."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    signing_in = urllib.request.Request(link, method="POST", headers={"Sec-Fetch-Site": "same-origin"})
    with browser.open(signing_in, timeout=20) as reply:
        assert reply.status == 200
    later = f"customer-{ORDERS + 1}@example.com"
    eventually(lambda: later in read(browser, link.partition("/link/")[0] + "/mail"), what="another order's mail")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        browser.open(signing_in, timeout=20)


def read(browser: urllib.request.OpenerDirector, url: str) -> str:
    with browser.open(url, timeout=20) as reply:
        return str(reply.read().decode())


def flower_answers(url: str, login: str) -> int:
    request = urllib.request.Request(url)
    if login:
        request.add_header("Authorization", f"Basic {b64encode(login.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as exc:
        exc.close()
        return exc.code


@pytest.mark.parametrize(
    ("words", "number"),
    [
        pytest.param("the schema is there", signal.SIGTERM, id="sigterm-at-the-start"),
        pytest.param("more orders come in", signal.SIGTERM, id="sigterm-while-mails-move"),
        pytest.param("more orders come in", signal.SIGINT, id="ctrl-c-while-mails-move"),
    ],
)
def test_stopped_in_the_middle_it_leaves_nothing(
    start: Callable[..., Demo], words: str, number: signal.Signals
) -> None:
    demo = start()
    demo.wait_for(words)
    assert len(processes_of(demo.folder)) >= 6
    os.kill(demo.process.pid, number)
    assert demo.wait() == 128 + number
    assert processes_of(demo.folder) == []
    assert_only_mail_and_logs_stay(demo.folder)
