"""The reports of a real Postfix and a real Exim, from their octets to the records they are about.

Mails, refusals and servers: `tests/data/bounces/README.md`.
"""

import pytest
from sqlalchemy import Engine, text

from messaging.db.encryption import use_keys
from messaging.receive.arrival import Incoming, Origin, Reader
from messaging.receive.classify.chain import classify
from messaging.receive.link import LinkCounts
from messaging.receive.parse import ParseLimits, parse, parse_envelope
from messaging.receive.store import Store
from messaging.settings import Settings
from messaging.tenancy import use_multi_tenancy
from tests.far_end.record_bounces import CASES, FOLDER, KEY, Case
from tests.integration.receive.books import MAILBOX, Books


@pytest.fixture
def books(engine: Engine, settings: Settings) -> Books:
    use_multi_tenancy(False)
    return Books(engine, settings)


def fetched(books: Books, case: Case, *, is_named_by_id: bool = True) -> int:
    """Store and link a case's report; the record it is about."""
    columns = {} if is_named_by_id else {"message_id": f"<{case.record_id}@rewritten.example>"}
    message_id = f"<{case.record_id}.0123456789abcdef01234567@shop.example>"
    record_id = books.sent(*case.recipients, id=case.record_id, **{"message_id": message_id, **columns})
    octets = (FOLDER / f"{case.name}.eml").read_bytes()
    reader = Reader(ParseLimits(), parse=parse, parse_envelope=parse_envelope, classify=classify)
    arrival = reader.read(Origin(MAILBOX, 0, "INBOX"), Incoming("1", len(octets), octets))
    list(Store(books.engine, None).keep([arrival]))
    assert books.link() == LinkCounts(linked=1)
    return record_id


#: What becomes of each record: status, code, who bounced for good, who not, and whose addresses are of no use.
OUTCOMES: dict[str, tuple[str, str | None, set[str], set[str], set[str]]] = {
    **{
        f"{server}-{name}": ("FAILED", code, permanent, set(), useless)
        for server in ("postfix", "exim")
        for name, code, permanent, useless in (
            ("mailbox-full", "552 5.2.2", {"full@refusing.example"}, set()),
            ("refused-after-data", "554 5.7.1", {"content@refusing.example"}, set()),
            (
                "two-recipients",
                "550 5.1.1",
                {"gone@refusing.example", "full@refusing.example"},
                {"gone@refusing.example"},
            ),
            ("reply-of-three-lines", "550 5.7.1", {"lines@refusing.example"}, set()),
            ("headers-only", "550 5.1.1", {"gone@refusing.example"}, {"gone@refusing.example"}),
            ("utf8-address", "550 5.1.1", {"größe@refusing.example"}, {"größe@refusing.example"}),
        )
    },
    **{f"{server}-delayed": ("SENT", None, set(), set(), set()) for server in ("postfix", "exim")},
    "postfix-unknown-user": ("FAILED", "550 5.0.0", {"unknown@exim.example"}, set(), {"unknown@exim.example"}),
    "exim-unknown-user": ("FAILED", "550 5.1.1", {"unknown@local.example"}, set(), {"unknown@local.example"}),
    # What is of no use is where their aliases lead, which may be one place of several.
    "postfix-forwarded": ("FAILED", "550 5.1.1", {"forwarded@local.example"}, set(), set()),
    "postfix-unknown-domain": ("FAILED", "5.1.2", {"moved@local.example"}, set(), set()),
    "postfix-expired": ("FAILED", "451 4.3.2", set(), {"busy@refusing.example"}, set()),
    # Exim writes 5.0.0 whatever the reply was, and the enhanced code decides.
    "exim-expired": ("FAILED", "451 5.0.0", {"busy@refusing.example"}, set(), set()),
}


@pytest.mark.parametrize("is_named_by_id", [True, False], ids=["by-message-id", "by-verp"])
def test_each_report_says_of_its_record_what_happened(
    books: Books, is_named_by_id: bool
) -> None:  # receive.md R2, R37, R39, R40, R41, R67, R68
    if not is_named_by_id:
        use_keys((KEY,))
    found = {}
    for case in CASES:
        with books.engine.begin() as connection:
            connection.execute(text("TRUNCATE suppression, mail_receive_record"))
        row = books.record(fetched(books, case, is_named_by_id=is_named_by_id))
        bounced: dict[bool, set[str]] = {True: set(), False: set()}
        for address, told in row.recipient_results.items():
            if told["result"] == "bounced":
                bounced[told["permanent"]].add(address)
        assert set(row.bounced_recipients or ()) == bounced[True] | bounced[False]
        useless = {address for _, address, *_ in books.suppressed()}
        found[case.name] = row.status, row.bounce_code, bounced[True], bounced[False], useless
    assert found == OUTCOMES
