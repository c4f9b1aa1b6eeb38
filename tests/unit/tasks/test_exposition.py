"""The metrics of a host over HTTP."""

import threading
import time
import urllib.error
import urllib.request

import pytest

from messaging.embedded import free_port
from tasks.exposition import serve


def test_metrics_are_shown_without_a_look_up_of_the_hosts_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_resolver(name: str = "") -> str:
        raise AssertionError(f"the name of {name!r} was looked up")

    monkeypatch.setattr("socket.getfqdn", no_resolver)
    port, stopping = free_port(), threading.Event()
    server = threading.Thread(target=serve, args=(port, stopping), daemon=True)
    server.start()
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    assert answer.status == 200
                break
            except urllib.error.URLError:
                assert time.monotonic() < deadline
                assert server.is_alive()
                time.sleep(0.02)
    finally:
        stopping.set()
    server.join(5)
    assert not server.is_alive()
