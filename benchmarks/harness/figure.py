"""A figure: what was measured, against what, and whether it passes its bar. Also the interleaved runs it comes from."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

#: Runs of each contender; the median is what counts.
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """What a figure must reach; it holds for the ratio where there is one, else for the value."""

    sign: Literal[">=", "<=", "=="]
    limit: float

    def passes(self, number: float) -> bool:
        match self.sign:
            case ">=":
                return number >= self.limit
            case "<=":
                return number <= self.limit
            case "==":
                return number == self.limit

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}"


def at_least(limit: float) -> Bar:
    """The bar of a figure that should be high."""
    return Bar(">=", limit)


def at_most(limit: float) -> Bar:
    """The bar of a figure that should be low."""
    return Bar("<=", limit)


def exactly(limit: float) -> Bar:
    """The bar of a count."""
    return Bar("==", limit)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table and one object of `results.jsonl`."""

    name: str
    value: float
    unit: str
    #: What it is compared with, and that one's own figure; None for a plain report.
    against: str | None = None
    ratio: float | None = None
    bar: Bar | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the bar is reached; None where there is none."""
        if self.bar is None:
            return None
        return self.bar.passes(self.value if self.ratio is None else self.ratio)

    def as_json(self) -> dict[str, Any]:
        """The seven fields of `results.jsonl`."""
        return {
            **asdict(self),
            "value": significant(self.value),
            "ratio": None if self.ratio is None else significant(self.ratio),
            "bar": None if self.bar is None else str(self.bar),
            "ok": self.ok,
        }


def compare(name: str, unit: str, ours: float, theirs: float, what: str, bar: Bar | None = None) -> Figure:
    """A figure whose ratio is ours over theirs."""
    return Figure(name, ours, unit, f"{what}: {significant(theirs):g} {unit}", ours / theirs, bar)


def significant(number: float) -> float:
    """Three digits: more would be noise."""
    return float(f"{number:.3g}") if abs(number) < 1000 else float(round(number))


def interleave(contenders: Mapping[str, Callable[[], float]], *, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """What each contender measured in each round.

    They take turns, and the order is reversed every other round, so that a slow spell of the machine, or what one
    leaves in its caches, does not always hit the same one.
    """
    names = list(contenders)
    results: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            results[name].append(contenders[name]())
    return results


def medians(results: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each contender's runs."""
    return {name: statistics.median(values) for name, values in results.items()}
