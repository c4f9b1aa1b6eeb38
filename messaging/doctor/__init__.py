"""Looks at everything a running system needs and says for each finding what to do. Changes nothing.

Bounded: what is down or hangs costs seconds, and database, Redis and broker are looked at side by side.
"""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread

from messaging import tenancy
from messaging.db.encryption import use_keys
from messaging.doctor.brokers import look_at_broker, look_at_redis
from messaging.doctor.database import OLD_TRANSACTION_SECONDS, look_at_database
from messaging.doctor.findings import Finding, Findings, Level
from messaging.doctor.sandbox import look_at_sandbox
from messaging.settings import Settings

__all__ = ["AREA_SECONDS", "Finding", "Level", "examine"]

#: Seconds after which an area counts as not answering, whatever it hangs on.
AREA_SECONDS = 8.0


def examine(settings: Settings, *, old_transaction_seconds: float = OLD_TRANSACTION_SECONDS) -> list[Finding]:
    """All findings, in the order one would mend them."""
    use_keys(settings.secrets_keys)
    tenancy.use_multi_tenancy(settings.multi_tenancy)
    areas: dict[str, Callable[[], Findings]] = {
        "database": lambda: look_at_database(settings, old_transaction_seconds),
        "redis": lambda: look_at_redis(settings),
        "broker": lambda: look_at_broker(settings),
    }
    running = {name: _start(look) for name, look in areas.items()}
    wait(running.values(), timeout=AREA_SECONDS)
    findings: list[Finding] = list(look_at_sandbox(settings))
    for name, future in running.items():
        if future.done():
            findings += future.result()
        else:
            findings.append(
                Finding(
                    name, Level.FAIL, f"no answer within {AREA_SECONDS:g} s", "look at the host, the network, names"
                )
            )
    return findings


def _start(look: Callable[[], Findings]) -> "Future[list[Finding]]":
    """Looks in a daemon thread: one that hangs does not keep the program."""
    future: Future[list[Finding]] = Future()

    def run() -> None:
        try:
            future.set_result(list(look()))
        except BaseException as exc:  # noqa: BLE001 - raised again where the result is taken
            future.set_exception(exc)

    Thread(target=run, daemon=True).start()
    return future
