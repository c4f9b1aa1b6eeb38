"""How the list spells addresses and senders, and which entries are about a record."""

from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.requests import SuppressionReason
from messaging.suppression import Entry, Subject, Wanted, mail_address, sender_name

ANN, NUMBER = "ann@example.org", "+4915112345678"


def entry(number: int, tenant_id: int = 7, **fields: Any) -> Entry:
    values = {"sender": "", "list": "", "reason": SuppressionReason.MANUAL, "created_at": datetime.now(UTC), **fields}
    return Entry(id=number, tenant_id=tenant_id, **values)


@pytest.mark.parametrize(
    ("address", "spelled"),
    [
        ("Ann@example.org", ANN),
        ('"Ann Lee"@example.org', '"ann lee"@example.org'),
        ("STRAßE@example.org", "straße@example.org"),
        ("Ju\u0308rgen@example.org", "j\u00fcrgen@example.org"),
    ],
)
def test_mail_addresses_are_in_lower_case_and_composed(address: str, spelled: str) -> None:
    assert mail_address(address) == spelled
    assert mail_address(spelled) == spelled


@pytest.mark.parametrize(
    ("sender", "name"),
    [
        ("+1 (555) 010-9999", "+15550109999"),
        ("15550109999", "+15550109999"),
        ("+15550109999", "+15550109999"),
        ("72345", "72345"),
        (" Shop ", "shop"),
        ("SHOP 24", "shop 24"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_sender_has_one_spelling(sender: str | None, name: str) -> None:
    assert sender_name(sender) == name
    assert sender_name(name) == name


def test_an_entry_without_list_or_sender_stops_everything() -> None:
    found = {Wanted(7, ANN): [entry(1)]}
    for subject in (Subject({ANN: ANN}), Subject({ANN: ANN}, "news"), Subject({ANN: ANN}, sender="shop")):
        assert subject.stopped(7, found)[ANN].id == 1
        assert subject.stopped(8, found) == {}


@pytest.mark.parametrize("list_name", ["news", "offers", ""])
@pytest.mark.parametrize("sender", ["shop", "other", ""])
def test_a_narrowed_entry_stops_what_it_names(list_name: str, sender: str) -> None:
    subject = Subject({ANN: ANN}, list_name, sender)
    assert bool(subject.stopped(7, {Wanted(7, ANN): [entry(1, list="news")]})) == (list_name == "news")
    assert bool(subject.stopped(7, {Wanted(7, ANN): [entry(1, sender="shop")]})) == (sender == "shop")


def test_of_another_tenant_that_owns_the_sender_only_what_names_it_holds() -> None:
    subject = Subject({NUMBER: NUMBER}, sender="shop", sender_tenants=(-1,))
    assert list(subject.wanted(7)) == [Wanted(7, NUMBER), Wanted(-1, NUMBER)]
    assert subject.stopped(7, {Wanted(-1, NUMBER): [entry(1, -1)]}) == {}
    assert subject.stopped(7, {Wanted(-1, NUMBER): [entry(1, -1, sender="other")]}) == {}
    assert subject.stopped(7, {Wanted(-1, NUMBER): [entry(1, -1), entry(2, -1, sender="shop")]})[NUMBER].id == 2
