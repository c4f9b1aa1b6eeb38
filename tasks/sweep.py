"""Beat's sweep: claims of workers that vanished are taken back."""

from collections import Counter

from messaging.channels import CHANNELS
from messaging.delivery import sweep as stuck
from tasks import worker
from tasks.app import app


@app.task(name="messaging.sweep")
def sweep() -> dict[str, int]:
    """Sweep every channel; answers how many records went to retry, dead_letter and sent."""
    process = worker.process()
    counts: Counter[str] = Counter()
    for parts in CHANNELS.values():
        counts.update(
            stuck.sweep(
                process.autocommit,
                parts.table,
                process.redis,
                process.settings,
                channel=parts.name,
                provider=parts.provider,
                queue=parts.queue(process.settings),
                announcer=process.endpoints,
            )
        )
    return dict(counts)
