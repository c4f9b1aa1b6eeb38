"""How long the committer gathers: an outcome is committed at most a window after the server's reply."""

import pytest

from messaging.delivery.committer import Pace

WINDOW = 0.05


@pytest.mark.parametrize("commit", [0.0, 0.001, 0.005, 0.01, 0.02, 0.025])
def test_an_outcome_that_came_as_a_commit_began_is_in_the_next_one_within_the_window(commit: float) -> None:
    pace = Pace(WINDOW)
    pace.committed(commit)
    assert commit + pace.gather_seconds(commit) + commit <= WINDOW


def test_one_slow_commit_among_quick_ones_is_reckoned_with() -> None:
    pace = Pace(WINDOW)
    pace.committed(0.02)
    for _ in range(3):
        pace.committed(0.002)
    assert 0.002 + pace.gather_seconds(0.002) + 0.015 <= WINDOW


def test_quick_commits_share_most_of_the_window() -> None:
    pace = Pace(WINDOW)
    pace.committed(0.02)
    for _ in range(30):
        pace.committed(0.002)
    assert pace.gather_seconds(0.002) == pytest.approx(0.03)


def test_what_waits_longer_already_waits_for_nobody() -> None:
    pace = Pace(WINDOW)
    pace.committed(0.2)
    assert pace.gather_seconds(0.2) == 0


def test_a_committer_gathers_again_soon_after_the_database_was_away() -> None:
    pace = Pace(WINDOW)
    pace.committed(300.0)
    for _ in range(20):
        pace.committed(0.002)
    assert pace.gather_seconds(0.002) > 0.02
