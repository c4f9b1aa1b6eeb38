"""What is told of changed inboxes fits into notifications, and is read back."""

import pytest

from messaging.inbox.changed import MAX_PAYLOAD_OCTETS, Inbox, _written, heard


def test_a_batch_of_500_of_the_longest_ids_is_told_in_payloads_that_fit() -> None:
    inboxes = [Inbox(2**63 - 1, 2**63 - 1 - n) for n in range(500)]
    payloads = list(_written(inboxes))
    assert all(len(payload.encode()) <= MAX_PAYLOAD_OCTETS < 8000 for payload in payloads)
    assert [inbox for payload in payloads for inbox in heard(payload)] == inboxes


def test_the_platform_is_a_tenant_too() -> None:
    assert heard(next(_written([Inbox(-1, 5)]))) == [Inbox(-1, 5)]


def test_nothing_is_told_of_nothing() -> None:
    assert list(_written([])) == heard("") == []


@pytest.mark.parametrize("payload", ["x", "1", "1:", ":1", "1:2:3", "1:2 x"])
def test_what_somebody_else_wrote_is_told_apart(payload: str) -> None:
    with pytest.raises(ValueError):
        heard(payload)
