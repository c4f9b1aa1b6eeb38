"""The demo's own settings, as environment variables: times so short that a killed worker's mail goes out in seconds."""

import os
from collections.abc import Mapping
from pathlib import Path

#: What each program's environment is freed of: settings of another system, and of another PostgreSQL.
_FOREIGN_PREFIXES = ("MESSAGING_", "CELERY_", "FLOWER_", "PG", "PROMETHEUS_")

#: All inequalities I1 to I9 of the protocol hold; `load_settings` checks it. The sum that a killed worker's mail waits
#: is stale + a sweep + at most 1.5 cool-downs.
_TIMES = {
    "DATABASE__CONNECT_TIMEOUT_SECONDS": 1,
    "DATABASE__LOCK_TIMEOUT_SECONDS": 0.5,
    "DATABASE__STATEMENT_TIMEOUT_SECONDS": 1,
    "MAIL__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": 0.5,
    "MAIL__TRANSPORT__READ_TIMEOUT_SECONDS": 1,
    "SMS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": 0.5,
    "SMS__TRANSPORT__READ_TIMEOUT_SECONDS": 1,
    "WEBHOOKS__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": 0.5,
    "WEBHOOKS__TRANSPORT__READ_TIMEOUT_SECONDS": 1.5,
    # The shop's application runs on this host.
    "WEBHOOKS__TRANSPORT__ALLOW_PRIVATE": "true",
    "DELIVERY__REPLY_WAIT_SECONDS": 2,
    "DELIVERY__SEND_MAX_SECONDS": 3.5,
    "DELIVERY__PREPARE_MAX_SECONDS": 0.5,
    "DELIVERY__CHUNK_HOLD_SECONDS": 1,
    "DELIVERY__SEND_BUDGET_SECONDS": 5,
    "DELIVERY__COMMIT_TIMEOUT_SECONDS": 1,
    "DELIVERY__CLOCK_MARGIN_SECONDS": 0.2,
    "DELIVERY__STOP_GRACE_SECONDS": 8.1,
    "SWEEPER__STALE_SECONDS": 6.5,
    "SWEEPER__INTERVAL_SECONDS": 1,
    "SWEEPER__COOLDOWN_SECONDS": 4,
    "RETRY__BASE_SECONDS": 1,
    "RETRY__MAX_SECONDS": 8,
    "RETRY__JITTER": 0.2,
    "DISPATCH__LEASE_SECONDS": 30,
    "DISPATCH__TICK_EXPIRES_SECONDS": 5,
}

#: Over these in the worker that fetches, which sends nothing: on a busy machine a mailbox answers late, and the next
#: fetch is a quarter of a minute away.
FETCHING_TIMES = {
    "MESSAGING_MAIL__TRANSPORT__CONNECTION_TIMEOUT_SECONDS": "5",
    "MESSAGING_MAIL__TRANSPORT__READ_TIMEOUT_SECONDS": "10",
    "MESSAGING_DELIVERY__SEND_MAX_SECONDS": "17",
    "MESSAGING_DELIVERY__SEND_BUDGET_SECONDS": "19",
    "MESSAGING_SWEEPER__STALE_SECONDS": "21",
}


def without_foreign(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without other systems' settings."""
    return {name: value for name, value in environment.items() if not name.startswith(_FOREIGN_PREFIXES)}


def demo_settings(
    *, database_url: str, redis_url: str, secrets_key: str, public_base_url: str, flower_url: str, folder: Path
) -> dict[str, str]:
    """The demo's `MESSAGING_` variables; every process of it needs all of them, and so does `messaging show`."""
    settings = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "SECRETS_KEYS": secrets_key,
        "PUBLIC_BASE_URL": public_base_url,
        "FLOWER_URL": flower_url,
        "METRICS__DIRECTORY": folder / "metrics",
        "MAIL__EHLO_NAME": "demo.example.net",
        "MULTI_TENANCY": "true",
        **_TIMES,
    }
    return {f"MESSAGING_{name}": str(value) for name, value in settings.items()}


def become(variables: Mapping[str, str]) -> None:
    """Give this process the settings, as an application has its own: the nudge's Celery reads them from here."""
    kept = without_foreign(os.environ)
    os.environ.clear()
    os.environ.update({**kept, **variables})


def write_file(path: Path, variables: Mapping[str, str]) -> None:
    """A file to source in a shell, for the user's eyes only: it holds passwords."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.writelines(f"export {name}='{value}'\n" for name, value in sorted(variables.items()))
