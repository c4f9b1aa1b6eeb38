"""Endings that are not as they ought to be are told: the demo's exit code is worth something."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from messaging.delivery.status import SendStatus
from messaging.delivery.stories import AttemptStory
from messaging.demo.answers import Answer
from messaging.demo.evidence import Ending, Journal, Row, is_final, what_is_wrong, wrong_counts
from messaging.demo.shop import ANSWERS, QUOTA, Accepted, Fate, another_order, first_order, further_orders
from messaging.mail.records import RecipientStory, Story
from messaging.requests import MessageScope

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def recipient(result: str) -> RecipientStory:
    return RecipientStory("ada@example.com", result, None, None, None)


def attempt(outcome: str) -> AttemptStory:
    return AttemptStory(1, NOW, NOW, outcome, None, None, None, None)


SENT = Story(
    **dict.fromkeys(Story.__dataclass_fields__)  # type: ignore[arg-type]
    | {
        "id": 1,
        "tenant_id": 0,
        "status": SendStatus.SENT,
        "why": "taken by the server",
        "scope": MessageScope.TENANT,
        "retry_count": 0,
        "created_at": NOW,
        "recipients": [recipient("accepted")],
        "attempts": [attempt("SENT")],
    }
)
FAILED = replace(SENT, status=SendStatus.FAILED, error_code="SMTP_550_5.1.1", attempts=[attempt("FAILED")])
SWEPT = replace(SENT, retry_count=1, attempts=[attempt("SWEPT"), attempt("SENT")])
GREYLISTED = replace(SENT, retry_count=2, attempts=[attempt("RETRY"), attempt("RETRY"), attempt("SENT")])
UNRENDERED = replace(FAILED, error_code="RENDER_FAILED")
OVER_QUOTA = replace(FAILED, error_code="MONTHLY_QUOTA_EXCEEDED")
WAITING = replace(SENT, status=SendStatus.RETRY, error_code="QUOTA_EXCEEDED", attempts=[])
BOUNCED = replace(
    FAILED, error_code="BOUNCED", bounced=True, bounce_code="550 5.1.1", sent_at=NOW, attempts=[attempt("SENT")]
)
SUPPRESSED = replace(FAILED, error_code="SUPPRESSED")
READ = replace(SENT, sent_at=NOW, read_receipt_received_at=NOW + timedelta(seconds=1))
PARTLY = replace(SENT, recipients=[recipient("accepted"), recipient("refused")])


@pytest.mark.parametrize(
    ("fate", "story", "copies"),
    [
        (Fate.TAKEN, SENT, 1),
        (Fate.REFUSED, FAILED, 0),
        (Fate.GREYLISTED, GREYLISTED, 1),
        (Fate.PARTLY, PARTLY, 1),
        (Fate.KILLED, SWEPT, 2),
        (Fate.KILLED, SWEPT, 1),
        (Fate.ROLLED_BACK, None, 0),
        (Fate.PLATFORM, SENT, 1),
        (Fate.HOSTILE, UNRENDERED, 0),
        (Fate.LIMITED, SENT, 1),
        (Fate.LIMITED, OVER_QUOTA, 0),
        (Fate.WINDOWED, SENT, 1),
        (Fate.WINDOWED, WAITING, 0),
        (Fate.BOUNCED, BOUNCED, 1),
        (Fate.READ, READ, 1),
        (Fate.AWAY, SENT, 1),
        (Fate.SUPPRESSED, SUPPRESSED, 0),
    ],
)
def test_what_ought_to_be_is_right(fate: Fate, story: Story | None, copies: int) -> None:
    assert what_is_wrong(fate, story, copies) == ""


@pytest.mark.parametrize(
    ("fate", "story", "copies", "told"),
    [
        (Fate.TAKEN, SENT, 2, "2 were taken"),
        (Fate.TAKEN, SENT, 0, "0 were taken"),
        (Fate.TAKEN, None, 0, "gone"),
        (Fate.TAKEN, FAILED, 0, "is FAILED"),
        (Fate.TAKEN, replace(SENT, status=SendStatus.RETRY), 0, "is RETRY"),
        (Fate.REFUSED, SENT, 1, "is SENT"),
        (Fate.REFUSED, FAILED, 1, "1 were taken"),
        (Fate.REFUSED, replace(FAILED, error_code="SMTP_TIMEOUT"), 0, "another reason"),
        (Fate.GREYLISTED, SENT, 1, "0 retries"),
        (Fate.GREYLISTED, GREYLISTED, 2, "2 were taken"),
        (Fate.PARTLY, SENT, 1, "one refused"),
        (Fate.KILLED, SENT, 1, "not killed"),
        (Fate.KILLED, SWEPT, 3, "3 were taken"),
        (Fate.KILLED, SWEPT, 0, "0 were taken"),
        (Fate.ROLLED_BACK, SENT, 1, "is SENT"),
        (Fate.ROLLED_BACK, None, 1, "1 were sent"),
        (Fate.HOSTILE, SENT, 1, "is SENT"),
        (Fate.HOSTILE, FAILED, 0, "never ends, yet"),
        (Fate.HOSTILE, UNRENDERED, 1, "1 were taken"),
        (Fate.LIMITED, FAILED, 0, "another reason"),
        (Fate.LIMITED, OVER_QUOTA, 1, "1 were taken"),
        (Fate.LIMITED, SENT, 2, "2 were taken"),
        (Fate.WINDOWED, replace(WAITING, retry_count=1), 0, "1 retries"),
        (Fate.WINDOWED, replace(WAITING, error_code="SMTP_450"), 0, "is RETRY"),
        (Fate.WINDOWED, WAITING, 1, "1 were taken"),
        (Fate.BOUNCED, SENT, 1, "yet it is SENT"),
        (Fate.BOUNCED, FAILED, 1, "yet it is FAILED"),
        (Fate.BOUNCED, replace(BOUNCED, bounce_code="550"), 1, "says 550, not 550 5.1.1"),
        (Fate.BOUNCED, BOUNCED, 2, "2 were taken"),
        (Fate.READ, SENT, 1, "came at None"),
        (Fate.READ, BOUNCED, 1, "is FAILED"),
        (Fate.READ, replace(READ, sent_at=NOW + timedelta(seconds=2)), 1, "not between"),
        (Fate.READ, READ, 0, "0 were taken"),
        (Fate.AWAY, READ, 1, "read receipt came"),
        (Fate.AWAY, BOUNCED, 1, "is FAILED"),
        (Fate.SUPPRESSED, SENT, 1, "yet it is SENT"),
        (Fate.SUPPRESSED, FAILED, 0, "yet it is FAILED"),
        (Fate.SUPPRESSED, SUPPRESSED, 1, "1 were taken"),
    ],
)
def test_what_ought_not_to_be_is_told(fate: Fate, story: Story | None, copies: int, told: str) -> None:
    assert told in what_is_wrong(fate, story, copies)


def test_all_is_final_when_every_record_that_ought_to_be_there_is() -> None:
    accepted = [Accepted(order, order.number) for order in [first_order(), *further_orders()]]
    answers = [ANSWERS.get(a.order.fate) for a in accepted]
    rows = {
        a.mail_id: Row(SendStatus.SENT, 0, answer=answer, awaited=answer)
        for a, answer in zip(accepted, answers, strict=True)
        if a.order.fate is not Fate.ROLLED_BACK
    }
    assert is_final(accepted, rows)
    for status in (SendStatus.PENDING, SendStatus.SENDING, SendStatus.RETRY):
        assert not is_final(accepted, rows | {1: Row(status, 0)})
    assert is_final(accepted, rows | {1: Row(SendStatus.RETRY, 0, "QUOTA_EXCEEDED")})
    assert not is_final(accepted, rows | {1: Row(SendStatus.SENT, 0, awaited=Answer.BOUNCED)})
    assert not is_final(accepted, rows | {1: Row(SendStatus.SENT, 0, answer=Answer.REPLIED, awaited=Answer.READ)})
    assert is_final(accepted, rows | {1: Row(SendStatus.FAILED, 0, awaited=Answer.BOUNCED)})
    del rows[1]
    assert not is_final(accepted, rows)


def test_the_shop_has_a_few_dozen_orders_of_every_fate() -> None:
    orders = [first_order(), *further_orders()]
    assert [order.number for order in orders] == list(range(1, 48))
    assert {order.fate for order in orders} == set(Fate) - {Fate.SUPPRESSED}
    assert len({order.address for order in orders}) == len(orders)
    bounced = next(order for order in orders if order.fate is Fate.BOUNCED)
    last = another_order(bounced, 48)
    assert (last.number, last.fate, last.address) == (48, Fate.SUPPRESSED, bounced.address)


@pytest.mark.parametrize(
    ("limited", "windowed", "given_back", "told"),
    [
        ((SENT,) * QUOTA + (OVER_QUOTA,), (SENT, WAITING), 0, []),
        ((SENT,) * QUOTA, (SENT, WAITING), 0, []),
        ((SENT,) * (QUOTA + 1), (SENT, WAITING), 0, [f"{QUOTA + 1} mails"]),
        ((SENT,) * QUOTA, (SENT, SENT), 0, ["ought to wait"]),
        ((SENT,) * QUOTA, (WAITING, WAITING), 0, ["none was sent"]),
        ((SENT,) * QUOTA, (WAITING, WAITING), 1, []),
        ((OVER_QUOTA,), (WAITING,), 0, ["0 mails", "none was sent"]),
    ],
)
def test_a_quota_and_a_window_let_their_number_through(
    limited: tuple[Story, ...], windowed: tuple[Story, ...], given_back: int, told: list[str]
) -> None:
    orders = {order.fate: order for order in further_orders()}
    endings = [
        Ending(Accepted(orders[fate], 1), story, 1, "")
        for fate, stories in ((Fate.LIMITED, limited), (Fate.WINDOWED, windowed))
        for story in stories
    ]
    found = wrong_counts(endings, given_back=given_back)
    assert len(found) == len(told)
    assert all(words in line for words, line in zip(told, found, strict=True))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Journal]:
    journal = Journal(tmp_path / "journal")

    def append(lines: str) -> Journal:
        with journal.path.open("a") as file:
            file.write(lines)
        journal.read()
        return journal

    return append


def test_a_journal_is_read_on_as_it_grows(write: Callable[[str], Journal]) -> None:
    fact = {"event": "taken", "message_id": "<1@x>", "recipients": ["a@x"], "client": "mail-1", "is_answered": False}
    taken = json.dumps(fact) + "\n"
    journal = write(taken + taken[:20])
    assert (journal.taken["<1@x>"], journal.unanswered) == (1, {"a@x": "mail-1"})
    journal = write(taken[20:])
    assert journal.taken["<1@x>"] == 2
    assert journal.taken_for["a@x"] == 2
    assert write('{"event": "deferred", "recipient": "b@x"}\n').deferred["b@x"] == 1
    assert write('{"event": "text taken", "sid": "SM1", "to": "+1", "text": "x"}\n').texts_for == {"+1": ["SM1"]}
