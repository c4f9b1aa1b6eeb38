"""Beat's tick for mailboxes, and the fetch of one: due mailboxes -> the fetch queue, published after the commit."""

from messaging.receive import polling
from tasks import worker
from tasks.app import app
from tasks.poison import WrongArguments


@app.task(name="messaging.fetch_tick")
def fetch_tick() -> dict[str, int]:
    """Ask for a fetch of every mailbox that is due; answers how many were. What no worker begins in time is dropped."""
    process = worker.process()
    settings = process.settings
    due = polling.take_due(process.engine, default_interval_seconds=settings.mail.fetch.interval_seconds)
    published = 0
    try:
        for mailbox in due:
            app.send_task(
                "messaging.fetch_mailbox",
                args=(mailbox.config_id,),
                queue=settings.queues.mail_fetch,
                expires=mailbox.interval_seconds,
            )
            published += 1
    finally:
        polling.give_back(process.engine, [mailbox.config_id for mailbox in due[published:]])
    return {"published": published}


@app.task(name="messaging.fetch_mailbox")
def fetch_mailbox(config_id: int) -> dict[str, int]:
    """Fetch one mailbox; see `Fetching.fetch`."""
    if type(config_id) is not int:
        raise WrongArguments(f"a mailbox's id is a whole number, not {config_id!r}")
    return worker.process().fetching.fetch(config_id)
