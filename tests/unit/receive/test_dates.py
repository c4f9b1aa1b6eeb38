"""Date fields (RFC 5322, 3.3 and 4.3)."""

from datetime import UTC, datetime

import pytest

from messaging.receive.dates import parse_date

NOON = datetime(2025, 11, 3, 12, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "Mon, 3 Nov 2025 12:00:01 +0000",
        "Mon, 03 Nov 2025 12:00:01 -0000",
        "3 Nov 2025 12:00:01 GMT",
        "Mon, 3 Nov 2025 07:00:01 EST",
        "Mon, 3 Nov 2025 05:00:01 -0700 (PDT)",
        "Mon,  3\tNov 2025  14:00:01 +0200 (Central European Summer Time)",
        "mon, 3 november 2025 12.00.01 ut",
        "Monday, 3-Nov-25 12:00:01 UTC",
        "Mon, 3 Nov 2025 12:00:01 GMT+0000",
        "Mon, 3 Nov 2025 12:00:01.250 Z",
        "Mon, 3 Nov 2025 12:00:01 PM +0000",
        "Mon, 3 Nov 125 12:00:01 +0000",
        "Mon, 3 Nov 2025 17:30:01 +05:30",
        "Mon Nov  3 12:00:01 2025 +0000",
        "Mon Nov  3 12:00:01 GMT 2025",
        "2025-11-03T12:00:01Z",
        "2025-11-03 13:00:01 +0100",
    ],
)
def test_a_moment(value: str) -> None:
    assert parse_date(value) == NOON


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            "",
            "now",
            "Mon, 3 Nov 2025 12:00:01",
            "Mon, 3 Nov 2025 12:00:01 XYZ",
            "Mon, 31 Feb 2025 12:00:01 +0000",
        ),
        *("Mon, 3 Foo 2025 12:00:01 +0000", "Mon, 3 Nov 2025 25:00:01 +0000", "Mon, 3 Nov 2025 12:00:01 +9999"),
        *(
            "Mon, 1 Jan 0001 00:00:00 +0100",
            "Fri, 31 Dec 9999 23:59:59 -0100",
            "Mon, 3 Nov 2025 12:00:01 A",
            "\x00",
            "١",
        ),
    ],
)
def test_no_moment(value: str | None) -> None:
    assert parse_date(value) is None


def test_a_leap_second_is_the_second_before_it() -> None:
    assert parse_date("Sat, 31 Dec 2016 23:59:60 +0000") == datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)
