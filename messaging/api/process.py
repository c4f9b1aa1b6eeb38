"""What the calls of this process share: settings, engine and file store."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Engine

from messaging import metrics, tenancy
from messaging.db.encryption import keys_put_back, use_keys
from messaging.db.engine import create_engine
from messaging.files import FileStore
from messaging.settings import Settings, load_settings


@dataclass(frozen=True, slots=True)
class Environment:
    """What the calls of this process share."""

    settings: Settings
    engine: Engine
    files: FileStore


_environment: Environment | None = None
_configuring = threading.Lock()


def configure(settings: Settings | None = None, *, engine: Engine | None = None) -> Environment:
    """Set the process up: settings (None reads the environment) and the engine for calls without a session.

    The first call of any function here does it by itself. May be called again.

    Raises: ConfigurationError.
    """
    global _environment
    chosen = settings or load_settings()
    use_keys(chosen.secrets_keys)
    tenancy.use_multi_tenancy(chosen.multi_tenancy)
    if chosen.metrics.directory:
        metrics.use_directory(chosen.metrics.directory, database_url=chosen.database_url)
    used = engine or create_engine(chosen)
    _environment = Environment(chosen, used, FileStore(used, chosen))
    return _environment


def environment() -> Environment:
    """The process's set-up, made from the environment when nobody configured it. Raises: ConfigurationError."""
    with _configuring:
        return _environment or configure()


@contextmanager
def unconfigured() -> Iterator[None]:
    """Within the block nobody has set the process up; afterwards it is as it was before.

    For tests, which each configure it their own way. Not for a process in which other threads call us meanwhile.
    """
    global _environment
    with keys_put_back(), tenancy.multi_tenancy_unsaid():
        before, _environment = _environment, None
        try:
            yield
        finally:
            _environment = before
