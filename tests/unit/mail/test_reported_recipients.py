"""Whom of a record's recipients a report means, whatever it calls them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.mail.reported_recipients import Meant, ReportedRecipient, Spellings, bounce_code, meant

A, B, C = "a@example.org", "b@example.org", "c@example.org"
NOBODY = ReportedRecipient()


def accepted(*addresses: str) -> dict[str, dict[str, str]]:
    return {address: {"result": "accepted"} for address in addresses}


def about(*names: str, is_permanent: bool = True) -> ReportedRecipient:
    return ReportedRecipient(names, "550" if is_permanent else "450", is_permanent=is_permanent)


@pytest.mark.parametrize(
    ("reply_code", "status", "shown"),
    [
        ("550", "5.1.1", "550 5.1.1"),
        ("550", None, "550"),
        (None, "5.1.1", "5.1.1"),
        (None, None, None),
        ("", "", None),
        ("550", "5.123.123" + "0" * 20, "550 5.123.1230000000"),
    ],
)
def test_a_code_is_what_there_is_of_the_two(reply_code: str | None, status: str | None, shown: str | None) -> None:
    assert bounce_code(reply_code, status) == shown


def test_those_that_are_named_are_meant_in_the_records_order() -> None:
    found = meant([A, B, C], accepted(A, B, C), [about(C), about("x@example.net"), about("A@EXAMPLE.ORG")])
    assert found == [Meant(A, about("A@EXAMPLE.ORG"), True), Meant(C, about(C), True)]


def test_of_two_groups_about_one_recipient_the_permanent_one_counts() -> None:
    for told in ([about(A, is_permanent=False), about(A)], [about(A), about(A, is_permanent=False)]):
        [found] = meant([A], accepted(A), told)
        assert found.reported.is_permanent


def test_a_report_that_names_nobody_means_the_only_recipient() -> None:
    assert meant([A], accepted(A), [NOBODY]) == [Meant(A, NOBODY, True)]
    assert meant([A], {}, [NOBODY]) == [Meant(A, NOBODY, True)]
    assert meant([A, B], accepted(A, B), [NOBODY]) == []


def test_one_that_names_somebody_else_means_the_only_recipient_and_does_not_name_it() -> None:
    [found] = meant([A], accepted(A), [about("x@example.net", is_permanent=False), about("y@example.net")])
    assert (found.address, found.is_named, found.reported) == (A, False, about("y@example.net"))


@pytest.mark.parametrize(("name", "is_named"), [("Kim Doe", True), ("kim", False), ("a", True), ("A", True)])
def test_the_name_of_a_person_names_nobody_else_and_that_of_a_user_may(name: str, is_named: bool) -> None:
    assert meant([A], accepted(A), [about(name)]) == [Meant(A, about(name), is_named)]


def test_a_local_part_of_two_recipients_is_nobodys() -> None:
    assert Spellings(["kim@example.org", "kim@example.net"]).named(["kim"]) is None


@pytest.mark.parametrize("closed", ["refused", "suppressed"])
def test_who_never_got_the_mail_is_not_meant_without_a_name(closed: str) -> None:
    results = {A: {"result": closed}, **accepted(B)}
    assert [one.address for one in meant([A, B], results, [NOBODY])] == [B]
    assert [one.address for one in meant([A, B], results, [about(A)])] == [A]


def test_who_bounced_before_may_be_meant_again() -> None:
    results = {A: {"result": "bounced"}, **accepted(B)}
    assert meant([A, B], results, [NOBODY]) == []


@pytest.mark.parametrize(
    ("name", "recipient"),
    [
        ("kim+a@example.org", "kim+a@example.org"),
        ("KIM+A@example.org", "kim+a@example.org"),
        ("kim@example.org", None),
        ("kim+c@example.org", None),
        ("lee+x@example.org", "lee@example.org"),
        ("lee", "lee@example.org"),
        ("<LEE>", "lee@example.org"),
        ("le", None),
        ("", None),
        ("@example.org", None),
        ("lee@sub.example.org", None),
        ("xlee@example.org", None),
    ],
)
def test_a_name_means_one_recipient_or_none(name: str, recipient: str | None) -> None:
    assert Spellings(["kim+a@example.org", "kim+b@example.org", "lee@example.org"]).named([name]) == recipient


def test_a_local_part_that_begins_with_a_plus_is_no_detail() -> None:
    assert Spellings(["+tag@example.org", A]).named(["+other@example.org"]) is None


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_text_is_compared_without_an_error(names: list[str]) -> None:
    assert Spellings([A, "j@xn--bcher-kva.example"]).named(names) in (None, A, "j@xn--bcher-kva.example")


def test_many_strangers_about_many_recipients_take_no_time() -> None:
    recipients = [f"user{n}@example.org" for n in range(1000)]
    reported = [ReportedRecipient((f"stranger{n}@example.net",)) for n in range(1000)]
    began = time.process_time()
    assert meant(recipients, {}, reported) == []
    assert time.process_time() - began < 2
