"""Beat's tick of retention, on a queue of its own: the one that begins the night's run takes up to its time budget."""

import logging

from messaging.clock import boot_seconds
from tasks import worker
from tasks.app import app

logger = logging.getLogger(__name__)


@app.task(name="messaging.prune")
def prune() -> dict[str, int]:
    """The night's run, once and in its hour; answers how many rows went, by kind, and how many passes go on later."""
    # Loaded here: every worker knows this task, and the others do without what it needs.
    from messaging.files import FileStore
    from messaging.retention import prune as pruning

    process = worker.process()
    if not pruning.begins_night(process.engine, process.settings):
        return {}
    try:
        told = pruning.prune(
            process.engine,
            process.settings,
            FileStore(process.engine, process.settings),
            is_stopping=process.stopping.is_set,
            rest=process.stopping.wait,
            ticker=boot_seconds,
        )
    except pruning.PruneBusy as exc:
        logger.info(str(exc))
        return {"busy": 1}
    counts = dict.fromkeys((one.kind.lower() for one in told), 0)
    for one in told:
        counts[one.kind.lower()] += one.rows
    return {**counts, "unfinished": sum(not one.is_done for one in told)}
