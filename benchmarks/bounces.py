"""How bounces are read, and how fast, beside `flufl.bounce`: on the corpus of real mails where it lies beside the
checkout, else on the project's own samples; the first line says on which.

Measured, as `messaging classify --json` prints it: which mails are bounces, for whom, with which codes, action and
Message-ID, and whether the address is of no use, each against what is known of the mail; `flufl.bounce` says type and
recipients alone (whoever failed or waits). Then mails a second of one thread, octets to answer, on the mails of at most
20 kB, the two in turn.

What would make it lie: wordings that were written after the very mails (they are, in part: figures on mails that
nobody looked at are lower, of hard bounces above all); mails that a reader fails on counted as fast ones (both read
all of them).
"""

import email
import email.errors
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flufl.bounce import all_failures

from benchmarks.harness.figure import Bar, Figure, at_least, compare, interleave, medians, significant
from benchmarks.harness.stand import Stand
from messaging.receive.classify.chain import classify
from messaging.receive.classify.summary import summarise
from messaging.receive.parse import ParseLimits, parse

CORPUS = Path(__file__).parents[2] / "shared" / "corpus"
SAMPLES = Path(__file__).parents[1] / "tests" / "data" / "reports"
#: Of what is timed; larger ones are mostly attachments.
MAX_TIMED_OCTETS = 20_000
LIMITS = ParseLimits()

BARS = {
    "recall": at_least(0.99),
    "precision": at_least(0.995),
    "recipients": at_least(0.98),
    "status": at_least(0.98),
    "reply_code": at_least(0.97),
    "action": at_least(0.97),
    "original_message_id": at_least(0.97),
    "hard_bounce": at_least(0.97),
}
MAILS_A_SECOND = 300


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail and what is known of it."""

    raw: bytes
    expected: Mapping[str, Any]

    @property
    def is_bounce(self) -> bool:
        return bool(self.expected.get("type", "bounce") == "bounce")

    @property
    def may_be_bounce(self) -> bool:
        return self.is_bounce or "bounce" in self.expected.get("type_accept", ())


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader made of a mail."""

    is_bounce: bool
    values: Mapping[str, Any]


def run(stand: Stand) -> Iterator[Figure]:
    """Needs none of the stand's servers."""
    logging.getLogger("flufl.bounce").setLevel(logging.CRITICAL)  # it prints each mail that breaks one of its detectors
    folder = CORPUS if CORPUS.is_dir() else SAMPLES
    mails = [
        Mail((folder / expected["file"]).read_bytes(), expected)
        for expected in map(json.loads, (folder / "expected.jsonl").read_text("utf-8").splitlines())
    ]
    what = "the corpus" if folder is CORPUS else "the project's own samples, as there is no corpus beside the checkout"
    yield Figure(f"bounces, mails of {what}", len(mails), "mails")
    ours, theirs = shares(mails, our_reading), shares(mails, flufl_reading)
    for name, share in ours.items():
        yield of_share(name, share, theirs.get(name), BARS[name] if folder is CORPUS else None)
    yield from speed(mails)


def of_share(name: str, ours: float, theirs: float | None, bar: Bar | None) -> Figure:
    """A figure whose bar holds for our own share."""
    against = None if theirs is None else f"flufl.bounce: {significant(100 * theirs):g} %"
    bar = bar and Bar(bar.sign, bar.limit * 100)
    return Figure(f"bounces, {name.replace('_', ' ')}", 100 * ours, "%", against, None, bar)


def shares(mails: list[Mail], read: Callable[[bytes], Reading]) -> dict[str, float]:
    """What share of what is known a reader has right, by name; only what it says at all."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for mail in mails:
        reading = read(mail.raw)
        if mail.is_bounce:
            asked["recall"] += 1
            right["recall"] += reading.is_bounce
            for name in BARS.keys() & mail.expected.keys() & reading.values.keys() | {"recipients"}:
                if mail.expected.get(name) is not None:
                    asked[name] += 1
                    right[name] += is_right(name, mail.expected, reading.values.get(name))
        if reading.is_bounce:
            asked["precision"] += 1
            right["precision"] += mail.may_be_bounce
    return {name: right[name] / asked[name] for name in BARS if asked[name]}


def is_right(name: str, expected: Mapping[str, Any], found: Any) -> bool:
    """All recipients, or a value that is expected or accepted."""
    if name == "recipients":
        return set(found or ()) == set(expected[name])
    return found in (expected[name], *expected.get(f"{name}_accept", ()))


def our_reading(raw: bytes) -> Reading:
    """As the command prints it."""
    summary = summarise(classify(parse(raw, LIMITS)))
    return Reading(summary["type"] == "bounce", summary)


def flufl_reading(raw: bytes) -> Reading:
    """A bounce is what it finds anybody in; a mail that it cannot read is none."""
    try:
        temporary, permanent = all_failures(email.message_from_bytes(raw))
    except (LookupError, TypeError, ValueError, AttributeError, email.errors.MessageError):
        return Reading(False, {"recipients": []})
    found = [address.decode("utf-8", "replace").lower() for address in {*temporary, *permanent}]
    return Reading(bool(found), {"recipients": found})


def speed(mails: list[Mail]) -> Iterator[Figure]:
    """Mails a second of one thread."""
    raws = [mail.raw for mail in mails if len(mail.raw) <= MAX_TIMED_OCTETS]

    def rate(read: Callable[[bytes], Reading]) -> float:
        started = time.process_time()
        for raw in raws:
            read(raw)
        return len(raws) / (time.process_time() - started)

    results = medians(interleave({"ours": partial(rate, our_reading), "flufl": partial(rate, flufl_reading)}))
    yield compare(
        "bounces, mails parsed and classified",
        "mails/s",
        results["ours"],
        results["flufl"],
        "flufl.bounce",
        at_least(1),
    )
    yield Figure("bounces, the same alone", results["ours"], "mails/s", bar=at_least(MAILS_A_SECOND))
