"""Delivery: a chunk of (record id, version) goes to the channel's worker; nothing else."""

from typing import Any

from tasks import worker
from tasks.app import app
from tasks.poison import WrongArguments

#: Pairs of one task, and the largest id and version: a bigint.
MAX_PAIRS, MAX_NUMBER = 50, 2**63 - 1

#: What may become of a record; Flower shows every count, 0 too.
RESULTS = ("sent", "retry", "failed", "dead_letter", "released", "not_mine")


@app.task(name="messaging.deliver_mail")
def deliver_mail(pairs: list[list[int]]) -> dict[str, int]:
    """Deliver mail; answers counts by what became of the records."""
    return dict.fromkeys(RESULTS, 0) | worker.process().deliver("mail", _checked(pairs))


@app.task(name="messaging.deliver_sms")
def deliver_sms(pairs: list[list[int]]) -> dict[str, int]:
    """Deliver text messages; answers counts by what became of the records."""
    return dict.fromkeys(RESULTS, 0) | worker.process().deliver("sms", _checked(pairs))


@app.task(name="messaging.deliver_webhook")
def deliver_webhook(pairs: list[list[int]]) -> dict[str, int]:
    """Deliver webhooks; answers counts by what became of the records."""
    return dict.fromkeys(RESULTS, 0) | worker.process().deliver("webhook", _checked(pairs))


def _checked(pairs: Any) -> list[list[int]]:
    """Raises: WrongArguments for what no tick publishes."""
    match pairs:
        case [_, *_] if len(pairs) <= MAX_PAIRS and all(map(_is_pair, pairs)):
            return list(pairs)
        case _:
            raise WrongArguments(f"1 to {MAX_PAIRS} pairs of record id and version are needed, both integers")


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(type(n) is int and 0 <= n <= MAX_NUMBER for n in pair)
