"""What the doctor says of one thing, and how long it looks."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

#: Seconds one connection or answer may take.
ANSWER_SECONDS = 2.0

#: Most servers or tenants that one finding names.
MAX_NAMED = 10


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    #: Works, but somebody should look.
    WARN = "warn"
    #: Mail does not go out as it should.
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    level: Level
    detail: str
    #: What to do; empty when all is well.
    advice: str = ""


Findings = Iterator[Finding]
