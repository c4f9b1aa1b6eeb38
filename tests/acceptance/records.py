"""What a test asks of the mail records: to accept some, and to see where they stand."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, text

from messaging import tenancy
from messaging.api import send_mail_batch
from messaging.db.session import transaction
from messaging.requests import SendMail
from tests.acceptance.system import MessagingSetup
from tests.polling import eventually

#: In every subject and body, and nowhere else: finds content where none belongs.
CONTENT_MARK = "confidential-f3b1"

BATCH = 500


def recipient(name: str) -> str:
    return f"{name}@rcpt.example.com"


def accept(
    setup: MessagingSetup, count: int, *, prefix: str = "m", tenant_id: int = tenancy.SINGLE_TENANT_ID
) -> list[int]:
    """Accept so many mails in one transaction, to `m0@...`, `m1@...` and so on."""
    requests = [
        SendMail(to=[recipient(f"{prefix}{n}")], subject=f"{CONTENT_MARK} {n}", text_body=f"{CONTENT_MARK} body {n}\n")
        for n in range(count)
    ]
    ids: list[int] = []
    with tenancy.tenant(tenant_id), transaction(setup.engine) as session:
        for start in range(0, count, BATCH):
            ids += send_mail_batch(requests[start : start + BATCH], session=session)
    return ids


def row(setup: MessagingSetup, record_id: int) -> Row[Any]:
    with setup.engine.connect() as connection:
        return connection.execute(text("SELECT * FROM mail_send_record WHERE id = :id"), {"id": record_id}).one()


def rows(setup: MessagingSetup, ids: Sequence[int]) -> list[Row[Any]]:
    """In the order of their ids."""
    with setup.engine.connect() as connection:
        return list(
            connection.execute(
                text("SELECT * FROM mail_send_record WHERE id = ANY (:ids) ORDER BY id"), {"ids": list(ids)}
            )
        )


def statuses(setup: MessagingSetup) -> Counter[str]:
    """How many records are in which state."""
    with setup.engine.connect() as connection:
        found = connection.execute(text("SELECT status, count(*) FROM mail_send_record GROUP BY status")).fetchall()
    return Counter(dict(found))


def attempts(setup: MessagingSetup, record_id: int) -> list[Row[Any]]:
    """The attempt log of a record."""
    with setup.engine.connect() as connection:
        return list(
            connection.execute(
                text("SELECT * FROM send_attempt WHERE record_id = :id ORDER BY attempt_no"), {"id": record_id}
            )
        )


def attempt_outcomes(setup: MessagingSetup) -> Counter[str]:
    """The attempt log of all records, counted."""
    with setup.engine.connect() as connection:
        found = connection.execute(text("SELECT outcome, count(*) FROM send_attempt GROUP BY outcome")).fetchall()
    return Counter(dict(found))


def dead_letters(setup: MessagingSetup) -> list[Row[Any]]:
    with setup.engine.connect() as connection:
        return list(connection.execute(text("SELECT * FROM dead_letter_message ORDER BY id")))


def wait_for(setup: MessagingSetup, expected: dict[str, int], seconds: float) -> None:
    """Wait until the records are in exactly these states, so many in each."""

    def is_reached() -> bool:
        return statuses(setup) == Counter(expected)

    try:
        eventually(is_reached, seconds, f"records are {expected}")
    except AssertionError as exc:
        raise AssertionError(f"{exc}; they are {dict(statuses(setup))}") from None


def assert_each_once(setup: MessagingSetup, count: int) -> None:
    """So many mails were taken by the server, no recipient has two."""
    copies = setup.smtp.copies()
    twice = {to: n for to, n in copies.items() if n > 1}
    assert not twice, f"sent more than once: {twice}"
    assert len(copies) == count
