"""The benchmarks by name, in the order they run; `make bench ONLY=name` runs one."""

from collections.abc import Callable, Iterator

from benchmarks import (
    acceptance,
    bounces,
    breakdown,
    console,
    drain,
    fair_claim,
    fetch,
    first_byte,
    hot_tenant,
    http,
    inbox,
    memory,
    render,
    retention,
    slow_server,
    small_window,
    sms,
    template,
    tick,
)
from benchmarks.harness.figure import Figure
from benchmarks.harness.stand import Stand

BENCHMARKS: dict[str, Callable[[Stand], Iterator[Figure]]] = {
    "drain": drain.run,
    "slow_server": slow_server.run,
    "sms": sms.run,
    "template": template.run,
    "hot_tenant": hot_tenant.run,
    "small_window": small_window.run,
    "acceptance": acceptance.run,
    "tick": tick.run,
    "fair_claim": fair_claim.run,
    "first_byte": first_byte.run,
    "fetch": fetch.run,
    "render": render.run,
    "memory": memory.run,
    "breakdown": breakdown.run,
    "bounces": bounces.run,
    "http": http.run,
    "inbox": inbox.run,
    "retention": retention.run,
    "console": console.run,
}
