"""Each sample mail of a program is what its program meant it to be."""

import json
from pathlib import Path
from typing import Any

import pytest

from messaging.receive.classify.summary import summarise
from tests.unit.receive.classify.mails import classified

FOLDER = Path(__file__).parents[3] / "data" / "classified"
EXPECTED: list[dict[str, Any]] = [json.loads(line) for line in (FOLDER / "expected.jsonl").read_text().splitlines()]


# receive.md R36, R48 to R52, R66; the mails of people: R47
@pytest.mark.parametrize("expected", EXPECTED, ids=[expected["file"] for expected in EXPECTED])
def test_a_sample_is_what_its_program_meant(expected: dict[str, Any]) -> None:
    found = classified((FOLDER / expected["file"]).read_bytes())
    told = {**summarise(found), "detail": found.detail}
    wanted = {"flags": {}, **expected}
    del wanted["file"]
    assert {name: told[name] for name in wanted} == wanted


def test_every_sample_is_listed() -> None:
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.eml")} == {one["file"] for one in EXPECTED}
