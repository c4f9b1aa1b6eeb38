"""Types and flags on the corpus of real mails, where it is at hand: a folder beside the checkout."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from messaging.receive.classify.summary import summarise
from tests.unit.receive.classify.mails import classified

CORPUS = Path(__file__).parents[5] / "shared" / "corpus"
KINDS = ("read_receipt", "auto_reply", "calendar_invite", "feedback_report")

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real mails does not lie beside the checkout")


@cache
def judged() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of what is expected and what is found."""
    expected = [json.loads(line) for line in (CORPUS / "expected.jsonl").read_text().splitlines()]
    return [(one, summarise(classified((CORPUS / one["file"]).read_bytes()))) for one in expected]


def is_right(expected: dict[str, Any], found: dict[str, Any]) -> bool:
    return found["type"] in (expected["type"], *(expected.get("type_accept") or ()))


@pytest.mark.parametrize("kind", KINDS)
def test_nineteen_of_twenty_of_a_kind_are_found_and_nothing_else_is_taken_for_it(kind: str) -> None:
    of_kind = [is_right(*pair) for pair in judged() if pair[0]["type"] == kind]
    assert sum(of_kind) >= 0.95 * len(of_kind) > 0
    assert [pair[0]["file"] for pair in judged() if pair[1]["type"] == kind and not is_right(*pair)] == []


def test_no_mail_of_a_person_is_anything_else() -> None:
    wrong = [pair[0]["file"] for pair in judged() if pair[0]["file"].startswith("normal/") and not is_right(*pair)]
    assert wrong == []


def test_nineteen_of_twenty_flags_are_right_and_found() -> None:
    right: Counter[str] = Counter()
    for expected, found in judged():
        marked = expected["flags"]
        is_newsletter = bool(marked.get("list_unsubscribe")) and not marked.get("mailing_list")
        wanted = {
            "mailing_list": bool(marked.get("mailing_list")),
            "bulk": bool(marked.get("bulk")) or is_newsletter,
            "encrypted": bool(marked.get("encrypted")),
            "signed": bool(marked.get("signed")),
            "spam": bool(marked.get("spam_marked")),
        }
        right.update(name for name, is_set in wanted.items() if found["flags"].get(name, False) is is_set)
    assert min(right.values()) >= 0.95 * len(judged())


def test_nineteen_of_twenty_answers_name_what_they_answer() -> None:
    named = [
        pair[0]["original_message_id"] == pair[1]["original_message_id"]
        for pair in judged()
        if pair[0]["type"] in KINDS and pair[0].get("original_message_id")
    ]
    assert sum(named) >= 0.95 * len(named) > 0
