"""What a delivery task takes as its argument: 1 to 50 pairs that the columns can hold (operate.md section 7)."""

from typing import Any

import pytest

from tasks.deliver import MAX_PAIRS, _checked
from tasks.poison import WrongArguments


@pytest.mark.parametrize("pairs", [[[1, 0]], [[2**63 - 1, 2**63 - 1]], [[1, 0]] * MAX_PAIRS])
def test_pairs_of_a_tick_are_taken(pairs: Any) -> None:
    assert _checked(pairs) == pairs


@pytest.mark.parametrize(
    "pairs", [None, [], {}, "11", [1, 2], [[1]], [[1, 2, 3]], [(1, 2)], [["1", 2]], [[True, 1]], [[1.0, 1]]]
)
def test_what_is_no_pairs_is_poison(pairs: Any) -> None:
    with pytest.raises(WrongArguments):
        _checked(pairs)


@pytest.mark.parametrize("pairs", [[[2**63, 0]], [[1, 2**63]], [[-1, 0]], [[1, 0]] * (MAX_PAIRS + 1)])
def test_numbers_that_no_column_holds_and_more_than_a_chunk_are_poison(pairs: Any) -> None:
    with pytest.raises(WrongArguments):
        _checked(pairs)
