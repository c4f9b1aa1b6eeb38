"""Which sends are under way in a process, and for how long (C16); what a delivery task may hold."""

import threading

import pytest

from messaging.delivery.attempt import SendWatch
from messaging.delivery.channel import Claim
from messaging.delivery.worker import _pair


def claim(record_id: int, claimed_at: float) -> Claim:
    return Claim(record_id, 1, 5, 0, 0, {"prepared_at": None}, claimed_at)


def test_c16_the_oldest_send_under_way_is_seen_from_any_thread() -> None:
    now = 100.0
    watch = SendWatch(lambda: now)
    assert watch.oldest_seconds() == 0
    watch.begin(claim(1, 90.0))
    other = threading.Thread(target=watch.begin, args=(claim(2, 40.0),))
    other.start()
    other.join()
    assert watch.oldest_seconds() == 60
    watch.end()
    now = 400.0
    assert watch.oldest_seconds() == 360


@pytest.mark.parametrize("pair", [["1", 2], [1, None], [1.0, 2], [True, 1]])
def test_a_chunk_holds_pairs_of_integers(pair: list[object]) -> None:
    with pytest.raises(ValueError, match="pairs"):
        _pair(pair)  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", [[1], [1, 2, 3], []])
def test_a_chunk_holds_pairs(pair: list[int]) -> None:
    with pytest.raises(ValueError):
        _pair(pair)
