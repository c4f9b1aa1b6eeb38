"""The HTTP application on a real port, in a thread of the test, on the test's own PostgreSQL."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import Engine

from messaging import tenancy
from messaging.clock import Ticker, boot_seconds
from messaging.web.app import create_app
from messaging.web.auth import Authenticator
from messaging.web.limits import Limits
from messaging.web.serve import server
from tests.conftest import MakeSettings
from tests.integration.sms.accounts import Accounts
from tests.integration.sms.receipt_records import Records
from tests.integration.web.callers import PUBLIC_URL, Account, Site
from tests.polling import eventually

#: Starts an application; `limits`, `ticker`, `authenticator` and options of the server as keywords, settings as a dict.
Open = Callable[..., Site]


@pytest.fixture
def open_site(make_settings: MakeSettings, engine: Engine) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_site(
            settings: Mapping[str, Any] | None = None,
            *,
            engine: Engine = engine,
            limits: Limits | None = None,
            ticker: Ticker = boot_seconds,
            authenticator: Authenticator | None = None,
            **options: Any,
        ) -> Site:
            made = make_settings(**{"public_base_url": PUBLIC_URL, **(settings or {})})
            running = server(
                create_app(made, engine, limits=limits, ticker=ticker, authenticator=authenticator),
                **{"host": "127.0.0.1", "port": 0, "timeout_graceful_shutdown": 1, **options},
            )
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
            thread.start()

            def begin_stop() -> None:
                running.should_exit = True

            stack.callback(thread.join, 10)
            stack.callback(begin_stop)
            eventually(lambda: running.started or not thread.is_alive(), 10, "the application to listen")
            return Site(listening.getsockname()[1], begin_stop)

        yield open_site


@pytest.fixture
def site(open_site: Open) -> Site:
    return open_site()


@pytest.fixture
def accounts(make_settings: MakeSettings, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Accounts:
    """Providers of tenant 7 and others, with multi-tenancy on."""
    make_settings()
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    return Accounts(engine)


@pytest.fixture
def records(engine: Engine) -> Records:
    return Records(engine)


@pytest.fixture
def twilio(accounts: Accounts) -> Account:
    return Account(accounts)
