"""Preparation of a mail: what is settled on the first attempt (send.md 4.2, 7, 8, 9.2)."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.fernet import Fernet

from messaging.category import MarkerCode
from messaging.db.encryption import use_keys
from messaging.errors import PreparationError
from messaging.mail import unsubscribe, verp
from messaging.mail.preparation import PREPARED_COLUMNS, Sources, prepare_mail
from messaging.templates.render import Renderer
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
            "verp": False,
            "reply_to_address": None,
            "read_receipt_enabled": False,
            **columns,
        }

    def find(self, config_id: int) -> dict[str, Any] | None:
        return self.config if config_id == self.config["id"] else None

    def defaults(self, tenant_id: int) -> list[dict[str, Any]]:
        return [self.config]


class OneTemplate:
    """A tenant's one template."""

    def __init__(self, **columns: Any) -> None:
        self.row = {
            "id": 3,
            "tenant_id": 0,
            "code": "welcome",
            "active": True,
            "strict": False,
            "redact": False,
            "inline_css": False,
            "subject": "Hello {{ name }}",
            "body_html": "<p>{{ name }}</p>",
            "body_text": None,
            "body_mode": "HTML",
            "default_priority": None,
            "reply_to": None,
            "attachments": None,
            "preferred_server_config_id": None,
            **columns,
        }

    def by_id(self, template_id: int) -> dict[str, Any] | None:
        return self.row if template_id == self.row["id"] else None

    def by_code(self, tenant_id: int, code: str) -> dict[str, Any] | None:
        is_it = (tenant_id, code) == (self.row["tenant_id"], self.row["code"]) and self.row["active"]
        return self.row if is_it else None


def prepared(
    record: dict[str, Any] | None = None,
    *,
    template: dict[str, Any] | None = None,
    base_url: str | None = None,
    **columns: Any,
) -> dict[str, Any]:
    use_multi_tenancy(False)
    made: dict[str, Any] = {
        "id": 42,
        "tenant_id": 0,
        "scope": "TENANT",
        "template_id": None,
        "template_code": None,
        "template_variables": None,
        "server_config_id": None,
        "to_addresses": ["Bob <bob@example.net>"],
        "cc_addresses": [],
        "bcc_addresses": [],
        "subject": None,
        "body_mode": "PLAIN",
        "body_html": None,
        "body_text": "hello",
        "attachments": None,
        "reply_to": None,
        "priority": None,
        "headers": None,
        "unsubscribe_list": None,
        "read_receipt_requested": None,
        **(record or {}),
    }
    sources = Sources(
        configs=OneServer(**columns),  # type: ignore[arg-type]
        templates=OneTemplate(**(template or {})),
        renderer=Renderer(max_chars=1000, ticker=time.monotonic),
        max_body_chars=1000,
        public_base_url=base_url,
    )
    return prepare_mail(made, sources, now=NOW)


def refused(record: dict[str, Any] | None = None, **more: Any) -> PreparationError:
    with pytest.raises(PreparationError) as caught:
        prepared(record, **more)
    return caught.value


#: A template send without bodies of its own.
TEMPLATED: dict[str, Any] = {
    "template_code": "welcome",
    "template_variables": {"name": "Kim"},
    "body_mode": None,
    "body_text": None,
}

FILE = {"file_id": 5, "file_name": "a.pdf"}


def test_a_plain_mail_fills_only_what_it_needs() -> None:
    # Each column costs a little in every write-back.
    use_keys((Fernet.generate_key().decode(),))
    of_templates = {"subject", "body_html", "attachments", "priority", "headers", "missing_variables", "redact"}
    assert set(prepared()) == set(PREPARED_COLUMNS) - of_templates
    everything = {**TEMPLATED, "template_variables": None, "unsubscribe_list": "news"}
    template = {"default_priority": "HIGH", "attachments": [FILE], "redact": True}
    assert set(prepared(everything, template=template, base_url="https://x")) == set(PREPARED_COLUMNS)


def test_a_template_gives_what_the_request_leaves_out() -> None:
    template = {
        "default_priority": "HIGH",
        "reply_to": "a@x.com; b@x.com",
        "attachments": [FILE],
        "body_mode": "HTML_WITH_DERIVED_PLAIN",
    }
    made = prepared(TEMPLATED, template=template)
    assert (made["subject"], made["body_html"], made["body_text"]) == ("Hello Kim", "<p>Kim</p>", "Kim")
    assert (made["body_mode"], made["missing_variables"]) == ("HTML_WITH_DERIVED_PLAIN", None)
    assert (made["priority"], made["reply_to"]) == ("HIGH", "a@x.com, b@x.com")
    assert made["attachments"] == [{**FILE, "content_type": None, "content_id": None}]


def test_what_the_request_names_stands() -> None:
    template = {"default_priority": "HIGH", "reply_to": "a@x.com", "attachments": [FILE]}
    own = {"priority": "LOW", "reply_to": "own@x.com", "attachments": [{**FILE, "file_id": 9}], "subject": "Own"}
    made = prepared({**TEMPLATED, **own}, template=template)
    assert not {"priority", "reply_to", "attachments"} & made.keys()
    assert made["subject"] is None  # B10: the record's own stays
    assert made["body_html"] == "<p>Kim</p>"


def test_reply_to_is_the_requests_then_the_templates_then_the_servers() -> None:
    of_server = {"reply_to_address": "server@x.com"}
    assert prepared(TEMPLATED, template={"reply_to": "t@x.com"}, **of_server)["reply_to"] == "t@x.com"
    assert prepared(TEMPLATED, **of_server)["reply_to"] == "server@x.com"
    error = refused(TEMPLATED, template={"reply_to": "support@, broken"})
    assert error.marker is MarkerCode.CONFIG_NOT_RESOLVABLE
    assert "mail template 3" in str(error)


def test_an_unknown_stored_priority_reads_as_none() -> None:
    assert "priority" not in prepared(TEMPLATED, template={"default_priority": "URGENT"})


@pytest.mark.parametrize(
    "attachments", ["a.pdf", [5], [{"file_id": 5}], [{**FILE, "more": 1}], [{**FILE, "file_id": 0}]]
)
def test_attachments_of_a_template_that_are_none_fail_the_record(attachments: Any) -> None:
    assert refused(TEMPLATED, template={"attachments": attachments}).marker is MarkerCode.ATTACHMENT_NOT_FOUND


def test_s6_the_templates_preferred_server_is_used_and_the_requests_beats_it() -> None:
    assert prepared(TEMPLATED, template={"preferred_server_config_id": 5})["server_config_id"] == 5
    error = refused(TEMPLATED, template={"preferred_server_config_id": 6})
    assert error.marker is MarkerCode.CONFIG_NOT_RESOLVABLE
    pinned = {**TEMPLATED, "server_config_id": 5}
    assert prepared(pinned, template={"preferred_server_config_id": 6})["server_config_id"] == 5


def test_missing_variables_are_kept() -> None:
    made = prepared({**TEMPLATED, "template_variables": {}}, template={"body_html": "Hi {{ user.name }}{{ name }}"})
    assert made["missing_variables"] == ["name", "user.name"]


@pytest.mark.parametrize(
    "body",
    ["{{ '\\x00' }}", "{{ '\\ud800' }}", "{{ 1 / 0 }}", "{{ x.y() }}"],
)
def test_what_no_record_can_hold_fails_in_the_template(body: str) -> None:
    error = refused(TEMPLATED, template={"body_html": body})
    assert error.marker is MarkerCode.RENDER_FAILED
    assert "welcome" in str(error)
    assert "body_html" in str(error)


def test_a_template_is_looked_at_before_the_server() -> None:
    error = refused({**TEMPLATED, "template_code": "other", "server_config_id": 404})
    assert error.marker is MarkerCode.TEMPLATE_NOT_FOUND


def test_the_envelope_sender_is_marked_where_the_server_wants_it() -> None:
    use_keys((Fernet.generate_key().decode(),))
    made = prepared(envelope_sender="bounces@example.com", verp=True)["envelope_sender"]
    assert made.startswith("bounces+42-")
    assert verp.read(made) == 42
    assert verp.read(prepared(verp=True)["envelope_sender"]) == 42
    error = refused(envelope_sender=f"{'b' * 60}@example.com", verp=True)
    assert error.marker is MarkerCode.CONFIG_NOT_RESOLVABLE


def test_a_mail_of_a_list_gets_the_headers_of_rfc_8058() -> None:
    use_keys((Fernet.generate_key().decode(),))
    record = {"unsubscribe_list": "news", "headers": {"X-A": "1"}, "tenant_id": 0}
    headers = prepared(record, base_url="https://mail.example.com")["headers"]
    assert list(headers) == ["X-A", "List-Unsubscribe", "List-Unsubscribe-Post"]
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = headers["List-Unsubscribe"]
    assert link.startswith("<https://mail.example.com/hooks/unsubscribe/")
    token = unsubscribe.read(link.removesuffix(">").rpartition("/")[2])
    assert token is not None
    assert (token.record_id, token.tenant_id) == (42, 0)
    assert token.is_about(list_name="news", address="bob@example.net")


def test_without_a_base_url_a_mail_of_a_list_is_not_sent() -> None:
    error = refused({"unsubscribe_list": "news"})
    assert error.marker is MarkerCode.CONFIG_NOT_RESOLVABLE
    assert "PUBLIC_BASE_URL" in str(error)


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
    assert "reply_to" not in prepared({"reply_to": "own@example.com"}, reply_to_address="ops@example.com")


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
