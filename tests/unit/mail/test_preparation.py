"""Preparation of a mail: what is settled on the first attempt (send.md 4.2, 7, 8, 9.2)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.category import MarkerCode
from messaging.errors import PreparationError
from messaging.mail.preparation import PREPARED_COLUMNS, prepare_mail
from messaging.tenancy import use_multi_tenancy

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class OneServer:
    """Configurations of a tenant with one default server."""

    def __init__(self, **columns: Any) -> None:
        self.config = {
            "id": 5,
            "tenant_id": 0,
            "username": None,
            "from_address": "shop@example.com",
            "from_name": None,
            "envelope_sender": None,
            "reply_to_address": None,
            "read_receipt_enabled": False,
            **columns,
        }

    def find(self, config_id: int) -> dict[str, Any] | None:
        return self.config if config_id == self.config["id"] else None

    def defaults(self, tenant_id: int) -> list[dict[str, Any]]:
        return [self.config]


def prepared(record: dict[str, Any] | None = None, **columns: Any) -> dict[str, Any]:
    use_multi_tenancy(False)
    made: dict[str, Any] = {
        "id": 42,
        "tenant_id": 0,
        "scope": "TENANT",
        "server_config_id": None,
        "body_mode": "PLAIN",
        "body_html": None,
        "body_text": "hello",
        "reply_to": None,
        "read_receipt_requested": None,
        **(record or {}),
    }
    return prepare_mail(made, OneServer(**columns), now=NOW, max_body_chars=1000)  # type: ignore[arg-type]


def refused(record: dict[str, Any] | None = None, **columns: Any) -> PreparationError:
    with pytest.raises(PreparationError) as caught:
        prepared(record, **columns)
    return caught.value


def test_every_prepared_column_is_there() -> None:
    assert set(prepared()) == set(PREPARED_COLUMNS)


def test_from_is_the_from_address_else_the_username() -> None:
    assert prepared()["from_address"] == "shop@example.com"
    assert prepared(from_address=None, username="user@example.com")["from_address"] == "user@example.com"
    assert prepared(from_address="Shop <shop@example.com>")["from_name"] == "Shop"
    assert prepared(from_address="Shop <shop@example.com>", from_name="The\nShop")["from_name"] == "The Shop"


@pytest.mark.parametrize(
    ("column", "value"),
    [("from_address", "nobody"), ("envelope_sender", "a b@example.com"), ("reply_to_address", "support@, broken")],
)
def test_an_invalid_address_of_the_server_is_not_resolvable(column: str, value: str) -> None:
    columns: dict[str, Any] = {column: value}
    error = refused(None, **columns)
    assert error.marker is MarkerCode.CONFIG_NOT_RESOLVABLE
    assert column in str(error)


def test_a_name_that_the_record_cannot_hold_is_not_resolvable() -> None:
    assert prepared(from_address=f"{'n' * 100} <shop@example.com>")["from_name"] == "n" * 100
    error = refused(from_address=f"{'n' * 101} <shop@example.com>")
    assert error.marker is MarkerCode.CONFIG_NOT_RESOLVABLE
    assert "from_address" in str(error)


def test_a_server_without_any_sender_is_not_resolvable() -> None:
    assert refused(from_address=None, username="apikey").marker is MarkerCode.CONFIG_NOT_RESOLVABLE


def test_the_envelope_sender_is_the_configured_one_else_from() -> None:
    assert prepared()["envelope_sender"] == "shop@example.com"
    assert prepared(envelope_sender="bounces@example.com")["envelope_sender"] == "bounces@example.com"


def test_reply_to_of_the_request_stands_and_the_servers_fills_in() -> None:
    assert prepared(reply_to_address="ops@example.com; x@example.com")["reply_to"] == "ops@example.com, x@example.com"
    assert prepared({"reply_to": "own@example.com"}, reply_to_address="ops@example.com")["reply_to"] is None


@pytest.mark.parametrize(
    ("asked", "configured", "result"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_a_read_receipt_is_asked_for_by_the_request_else_by_the_server(
    asked: bool | None, configured: bool, result: bool
) -> None:
    record = {"read_receipt_requested": asked}  # S18
    assert prepared(record, read_receipt_enabled=configured)["read_receipt_requested"] is result


def test_the_message_id_names_the_record_and_the_senders_domain_and_is_never_the_same() -> None:
    first, second = prepared()["message_id"], prepared()["message_id"]
    assert first.startswith("<42.")
    assert first.endswith("@example.com>")
    assert first != second


def test_the_message_id_fits_its_column_whatever_the_domain() -> None:
    domain = ".".join(["a" * 60] * 3 + ["example", "com"])
    message_id = prepared({"id": 2**63 - 1}, from_address=f"a@{domain}")["message_id"]
    assert len(message_id) <= 255
    assert message_id.endswith(".example.com>")


def test_plain_text_is_derived_where_the_mode_wants_it_and_there_is_none() -> None:
    html = {"body_mode": "HTML_WITH_DERIVED_PLAIN", "body_html": "<p>Welcome <b>back</b></p>", "body_text": None}
    made = prepared(html)
    assert (made["body_mode"], made["body_text"]) == ("HTML_WITH_DERIVED_PLAIN", "Welcome back")
    given = prepared({**html, "body_text": "as the caller derived it"})
    assert (given["body_mode"], given["body_text"]) == ("HTML_WITH_DERIVED_PLAIN", None)


def test_html_of_which_no_text_is_left_is_sent_as_html_alone() -> None:
    made = prepared({"body_mode": "HTML_WITH_DERIVED_PLAIN", "body_html": "<img src='x'>", "body_text": None})
    assert (made["body_mode"], made["body_text"]) == ("HTML", None)


def test_a_derived_text_over_the_limit_fails_the_record() -> None:
    long = {"body_mode": "HTML_WITH_DERIVED_PLAIN", "body_html": "<p>" + "x" * 1001 + "</p>", "body_text": None}
    assert refused(long).marker is MarkerCode.BODY_TOO_LARGE
