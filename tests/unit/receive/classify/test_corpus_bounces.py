"""How bounces are read on the corpus of real mails, where it is at hand: a folder beside the checkout."""

from typing import Any

import pytest

from tests.unit.receive.classify.test_corpus import CORPUS, is_right, judged

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real mails does not lie beside the checkout")


def bounces() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [pair for pair in judged() if pair[0]["type"] == "bounce"]


def test_of_a_hundred_bounces_ninety_nine_are_found_and_nothing_else_is_taken_for_one() -> None:
    assert sum(is_right(*pair) for pair in bounces()) >= 0.99 * len(bounces())
    taken = [pair[0] for pair in judged() if pair[1]["type"] == "bounce"]
    assert [one["file"] for one in taken if "bounce" not in (one["type"], *one.get("type_accept", ()))] == []


def test_all_recipients_are_right_in_ninety_eight_of_a_hundred() -> None:
    known = [pair for pair in bounces() if "recipients" in pair[0]]
    right = [set(expected["recipients"]) == set(found["recipients"]) for expected, found in known]
    assert sum(right) >= 0.98 * len(known)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("status", 0.98),
        ("reply_code", 0.97),
        ("action", 0.97),
        ("original_message_id", 0.97),
        ("hard_bounce", 0.97),
    ],
)
def test_what_a_bounce_says_is_right(name: str, share: float) -> None:
    known = [pair for pair in bounces() if pair[0].get(name) is not None]
    right = [found[name] in (expected[name], *expected.get(f"{name}_accept", ())) for expected, found in known]
    assert sum(right) >= share * len(known)
