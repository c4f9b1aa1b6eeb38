"""Beat's tick for batch jobs: a little work on those that run, then the queue is free for other ticks."""

from messaging import batch_jobs
from messaging.clock import boot_seconds
from tasks import worker
from tasks.app import app


@app.task(name="messaging.batches", send_events=False)
def batches() -> dict[str, int]:
    """Go on with the jobs that run; answers how many steps were made and records looked at."""
    process = worker.process()
    done = batch_jobs.go_on(process.engine, ticker=boot_seconds, is_stopping=process.stopping.is_set)
    return {"steps": done.steps, "records": done.records}
