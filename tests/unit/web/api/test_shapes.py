"""Ids, times and texts on the wire."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from messaging.web.api.shapes import Given, Id, Shown, TenantId, Text, Time


class In(Given):
    id: Id = 1
    tenant_id: TenantId = 0
    at: Time | None = None
    text: Text = ""


class Out(Shown):
    id: Id
    tenant_id: TenantId
    at: Time


def test_ids_are_strings_and_times_utc_on_the_wire() -> None:
    shown = Out(id=2**63 - 1, tenant_id=-1, at=datetime.fromisoformat("2030-01-31T09:00:00+01:00"))

    assert shown.model_dump_json() == '{"id":"9223372036854775807","tenant_id":"-1","at":"2030-01-31T08:00:00Z"}'


# web/admin web-01
@pytest.mark.parametrize(
    "value",
    ["0", "-1", "01", "+1", " 1", "1.0", "1e3", "", "x", "9223372036854775808", "9" * 5000, "١", 1, 1.0, True, None],
)
def test_what_is_no_id_on_the_wire_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        In(id=value)


@pytest.mark.parametrize(("value", "found"), [("-1", -1), ("0", 0), ("7", 7), ("-9223372036854775807", 1 - 2**63)])
def test_a_tenant_may_be_0_or_below(value: str, found: int) -> None:
    assert In.model_validate({"tenant_id": value}).tenant_id == found


@pytest.mark.parametrize("value", ["--1", "-", "", "9223372036854775808", "1_0", 7])
def test_what_is_no_tenant_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        In.model_validate({"tenant_id": value})


def test_a_time_is_taken_into_utc() -> None:
    taken = In.model_validate({"at": "2030-01-31T08:00:00+01:00"}).at

    assert taken == datetime(2030, 1, 31, 7, tzinfo=UTC)
    assert taken is not None
    assert taken.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        "2030-01-31T08:00:00",
        "2030-01-31",
        "1893456000",
        "1893456000.5",
        "-1",
        1893456000,
        "",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_what_is_no_moment_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        In.model_validate({"at": value})


def test_text_that_no_column_holds_is_refused() -> None:
    for value in ("a\x00b", "\ud800"):
        with pytest.raises(ValidationError):
            In(text=value)


def test_a_member_that_is_not_known_is_refused_and_no_value_repeated() -> None:
    with pytest.raises(ValidationError) as refused:
        In.model_validate({"password": "s3cret"})

    assert "s3cret" not in str(refused.value)


def test_only_what_was_sent_is_told_for_a_change() -> None:
    assert In.model_validate({"at": None, "text": "x"}).sent() == {"at": None, "text": "x"}
