"""Retention: how far pruning has come, and a run now. It is the system's: of all tenants, whoever asks."""

import time
from collections.abc import Callable, Collection

from sqlalchemy.orm import Session

from messaging import audit
from messaging.api.calls import in_session, member
from messaging.api.process import environment
from messaging.clock import boot_seconds
from messaging.retention import prune as pruning
from messaging.retention.kinds import PruneKind
from messaging.retention.models import PRUNE_PROGRESS
from messaging.retention.prune import Pruned, PruneLine
from messaging.tenancy import PLATFORM_TENANT_ID


def list_prune_progress(*, session: Session | None = None) -> list[PruneLine]:
    """Of each kind, and of each channel where it has several, its age and how far it has come."""
    settings = environment().settings
    with in_session(session) as s:
        return pruning.progress(s, settings)


def prune(
    kinds: Collection[PruneKind] | None = None,
    *,
    dry_run: bool = False,
    on_batch: Callable[[str, int], None] = lambda name, rows: None,
) -> list[Pruned]:
    """Prune now what is older than its `RETENTION__*_DAYS`, of these kinds (None: all); kinds without an age are left.

    Commits batch by batch, and ends after `RETENTION__TIME_BUDGET_SECONDS` at the latest: the next run goes on.
    `on_batch` hears after each batch of whom and how many rows so far. `dry_run` counts and changes nothing.

    Raises:
        StateError: Another run is under way.
        TypeError: A value of another type.
        ValueError: No such kind.
    """
    chosen = None if kinds is None else [member("kinds", kind, PruneKind) for kind in kinds]
    made = environment()
    if dry_run:
        return pruning.count(made.engine, made.settings, made.files, kinds=chosen)
    so_far: dict[str, int] = {}

    def heard(name: str, rows: int) -> None:
        so_far[name] = rows
        on_batch(name, rows)

    try:
        return pruning.prune(
            made.engine,
            made.settings,
            made.files,
            kinds=chosen,
            is_stopping=lambda: False,
            rest=time.sleep,
            ticker=boot_seconds,
            on_batch=heard,
        )
    finally:
        # Also of a run that failed or was broken off: what it took is gone.
        if so_far:
            with in_session(None) as s:
                audit.note(s, "prune", PRUNE_PROGRESS, None, after=so_far, tenant_id=PLATFORM_TENANT_ID)
