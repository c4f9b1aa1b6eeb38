"""Marks of how far somebody has seen: written and read back, and nothing else taken for one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.inbox.unseen import Mark

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@given(
    st.integers(1, 2**62),
    st.integers(0, 2**40),
    st.lists(st.integers(0, 2**40), max_size=50),
)
def test_a_mark_is_read_back(xmin: int, width: int, offsets: list[int]) -> None:
    open_xids = tuple(sorted({xmin + offset for offset in offsets if offset < width}))
    mark = Mark(1_700_000_000, xmin, xmin + width, open_xids)
    assert Mark.parse(str(mark)) == mark
    assert Mark.of_snapshot(mark.snapshot, datetime.fromtimestamp(mark.seconds, UTC)) == mark


def test_a_mark_of_many_open_transactions_still_fits_into_a_header() -> None:
    xmin = 98_765_432_109
    mark = Mark(1_700_000_000, xmin, xmin + 3000, tuple(range(xmin, xmin + 3000, 3)))
    assert len(str(mark)) < 4_000


def test_the_time_of_a_mark_is_that_of_the_snapshot() -> None:
    assert Mark.of_snapshot("7:7:", AT) == Mark(int(AT.timestamp()), 7, 7, ())


@pytest.mark.parametrize(
    "written",
    [
        *("", "x", "1", "1-2", "1-2-", "1-2-3-", "1 -2-3", "1-2-3\n", "１-2-3"),
        "1-0-3",  # no transaction is 0
        f"1-{2**63}-0",
        f"1-{2**63 - 1}-1",
        "1-5-3-0-0",  # twice the same
        "1-5-3-3",  # open, and yet ended
        "1-5-0-0",
        "-1-5-0",
        "1-5-99999999999999999999",
        "1-5-9000000-" + "-".join(["1"] * 10_001),
    ],
)
def test_what_no_look_wrote_is_no_mark(written: str) -> None:
    assert Mark.parse(written) is None
