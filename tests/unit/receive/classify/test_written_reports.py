"""What reports of many systems and languages say, and that what looks like one is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from messaging.receive.classify.summary import summarise
from tests.unit.receive.classify.mails import classified

FOLDER = Path(__file__).parents[3] / "data" / "reports"
EXPECTED: list[dict[str, Any]] = [
    json.loads(line) for line in (FOLDER / "expected.jsonl").read_text("utf-8").splitlines()
]


# receive.md R37 to R46, R67 among them; the mails of people: R47
@pytest.mark.parametrize("expected", EXPECTED, ids=[expected["file"] for expected in EXPECTED])
def test_a_report_is_read_as_its_system_meant_it(expected: dict[str, Any]) -> None:
    found = summarise(classified((FOLDER / expected["file"]).read_bytes()))
    wanted = {"type": "bounce", **expected}
    del wanted["file"]
    assert {name: found[name] for name in wanted} == wanted


def test_every_report_is_listed() -> None:
    assert {path.name for path in FOLDER.glob("*.eml")} == {one["file"] for one in EXPECTED}


def test_at_least_forty_systems_are_among_them() -> None:
    assert sum("type" not in one for one in EXPECTED) >= 40
