"""The benchmarks by name, in the order they run; `make bench ONLY=name` runs one."""

from collections.abc import Callable, Iterator

from benchmarks import acceptance, breakdown, drain, fair_claim, first_byte, memory, slow_server, tick
from benchmarks.harness.figure import Figure
from benchmarks.harness.stand import Stand

BENCHMARKS: dict[str, Callable[[Stand], Iterator[Figure]]] = {
    "drain": drain.run,
    "slow_server": slow_server.run,
    "acceptance": acceptance.run,
    "tick": tick.run,
    "fair_claim": fair_claim.run,
    "first_byte": first_byte.run,
    "memory": memory.run,
    "breakdown": breakdown.run,
}
