"""Delivery: a chunk of (record id, version) goes to the channel's worker; nothing else."""

from typing import Any

from tasks import worker
from tasks.app import app
from tasks.poison import WrongArguments

#: What may become of a record; Flower shows every count, 0 too.
RESULTS = ("sent", "retry", "failed", "dead_letter", "released", "not_mine")


@app.task(name="messaging.deliver_mail")
def deliver_mail(pairs: list[list[int]]) -> dict[str, int]:
    """Deliver mail; answers counts by what became of the records."""
    return dict.fromkeys(RESULTS, 0) | worker.process().deliver("mail", _checked(pairs))


def _checked(pairs: Any) -> list[list[int]]:
    """Raises: WrongArguments for what no tick publishes."""
    match pairs:
        case [_, *_] if all(isinstance(p, list) and len(p) == 2 and all(type(n) is int for n in p) for p in pairs):
            return list(pairs)
        case _:
            raise WrongArguments("pairs of record id and version are needed, both integers")
