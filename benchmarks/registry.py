"""The benchmarks by name, in the order they run; `make bench ONLY=name` runs one."""

from collections.abc import Callable, Iterator

from benchmarks import drain, fair_claim, tick
from benchmarks.harness.figure import Figure
from benchmarks.harness.stand import Stand

BENCHMARKS: dict[str, Callable[[Stand], Iterator[Figure]]] = {
    "drain": drain.run,
    "tick": tick.run,
    "fair_claim": fair_claim.run,
}
