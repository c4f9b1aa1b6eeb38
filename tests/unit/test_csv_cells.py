"""Cells that a spreadsheet would run are guarded, all others stay, and each is read back as it was."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.csv_cells import guarded, unguarded


@pytest.mark.parametrize(  # web/admin web-02
    "cell",
    ["=cmd|' /C calc'!A0", "@SUM(1+1)", "-2+3", "\t=1+1", "\r=1", "\n=1", "+1+2", "+49 151", " =1", "＝1+1", "＠x"],
)
def test_what_a_spreadsheet_would_run_begins_with_an_apostrophe(cell: str) -> None:
    assert guarded(cell) == "'" + cell
    assert unguarded(guarded(cell)) == cell


@pytest.mark.parametrize("cell", ["+4915112345678", "ann@example.org", 'a"b,c\nd', "'tis", "", "1-2", " 1"])
def test_other_cells_stay_as_they_are(cell: str) -> None:  # web/admin web-02
    assert guarded(cell) == cell == unguarded(cell)


@given(st.text("='+-@\t\r\na1\" ,", max_size=6))
def test_every_cell_comes_back_through_a_csv_reader(cell: str) -> None:
    target = io.StringIO()
    csv.writer(target).writerow([guarded(cell), "end"])
    [[read, _]] = csv.reader(io.StringIO(target.getvalue(), newline=""))
    assert unguarded(read) == cell
