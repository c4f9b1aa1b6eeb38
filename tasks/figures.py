"""Beat's tick for the dashboard: attempts that ended are counted."""

from messaging.clock import boot_seconds
from messaging.figures.gather import gather
from tasks import worker
from tasks.app import app


@app.task(name="messaging.figures")
def figures() -> dict[str, int]:
    """Count what has ended; answers how many attempts it went through and how many old counts it removed."""
    process = worker.process()
    done = gather(process.engine, ticker=boot_seconds, is_stopping=process.stopping.is_set)
    return {"attempts": done.attempts, "removed": done.removed, "busy": int(done.is_busy)}
