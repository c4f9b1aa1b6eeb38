"""An application that accepts mails, as a process of its own: `python -m tests.acceptance.accepting`.

Each line on standard input accepts so many mails in one transaction and answers, as JSON, how long the commit took.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from messaging import api
from messaging.db.session import transaction
from messaging.requests import SendMail


class Application:
    """The parent's end."""

    def __init__(self, popen: "subprocess.Popen[str]") -> None:
        self._popen = popen

    def accept(self, count: int, prefix: str) -> dict[str, Any]:
        """Answers `ids`, `commit_seconds` and `committed_at` (wall seconds)."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(f"{json.dumps({'count': count, 'prefix': prefix})}\n")
        self._popen.stdin.flush()
        answer: dict[str, Any] = json.loads(self._popen.stdout.readline())
        return answer


@contextmanager
def application(env: Mapping[str, str], folder: Path, log: Path) -> Iterator[Application]:
    """Runs while the block does."""
    command = [sys.executable, "-m", "tests.acceptance.accepting"]
    with log.open("wb") as errors:
        popen = subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    with popen:
        try:
            yield Application(popen)
        finally:
            assert popen.stdin is not None
            popen.stdin.close()
            try:
                popen.wait(10)
            except subprocess.TimeoutExpired:
                popen.kill()


def main() -> None:
    """Serve until standard input ends."""
    engine = api.environment().engine
    for line in sys.stdin:
        asked = json.loads(line)
        requests = [
            SendMail(to=[f"{asked['prefix']}{n}@rcpt.example.com"], subject="s", text_body="b")
            for n in range(asked["count"])
        ]
        with transaction(engine) as session:
            ids = api.send_mail_batch(requests, session=session)
            began = time.monotonic()
        answer = {"ids": ids, "commit_seconds": time.monotonic() - began, "committed_at": time.time()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
