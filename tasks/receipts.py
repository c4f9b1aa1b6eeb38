"""Beat's tick for delivery receipts: those that came before their record knew its message id are applied."""

from messaging.sms.receipts import apply_waiting
from tasks import worker
from tasks.app import app


@app.task(name="messaging.receipts")
def receipts() -> dict[str, int]:
    """Apply what waits; answers how many receipts found their record and how many go on waiting."""
    process = worker.process()
    found = apply_waiting(process.engine, announcer=process.endpoints)
    return {"applied": found.applied, "waiting": found.looked_at - found.applied}
