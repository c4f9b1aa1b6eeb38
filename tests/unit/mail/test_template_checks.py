"""What a template may hold when it is saved: each field by itself, and whether its source compiles."""

from typing import Any

import pytest

from messaging.errors import ConfigRejected, TemplateRejected
from messaging.mail.template_checks import MAX_SOURCE_CHARS, check_template

FITS: dict[str, Any] = {
    "code": "order.confirmed",
    "name": "Order confirmed",
    "description": None,
    "subject": "Your order {{ id }}",
    "body_mode": "HTML_WITH_AUTHORED_PLAIN",
    "active": True,
    "strict": False,
    "inline_css": True,
    "default_priority": "HIGH",
    "reply_to": "not looked at here",
    "preferred_server_config_id": 7,
    "attachments": [{"file_id": 1, "file_name": "terms.pdf", "content_type": None, "content_id": None}],
    "body_html": "<p>{{ id }}</p>",
    "body_text": "{{ id }}",
}


def test_a_template_that_fits_is_accepted_whole_and_in_part() -> None:
    check_template(FITS)
    check_template({"subject": "x"})
    check_template({})
    check_template(FITS | dict.fromkeys(("default_priority", "attachments", "subject", "body_html", "reply_to")))


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("code", None, "is required"),
        ("code", " ", "is blank"),
        ("code", " a", "is not one line without spaces at its ends"),
        ("code", "a\nb", "is not one line"),
        ("code", "a" * 101, "has 101 characters; at most 100"),
        ("code", 7, "is not text"),
        ("name", "", "is blank"),
        ("name", "a" * 101, "at most 100"),
        ("description", "a" * 501, "at most 500"),
        ("subject", "a" * 501, "at most 500"),
        ("subject", "a\0", "cannot be stored"),
        ("body_html", "a\ud800", "cannot be stored"),
        ("body_text", "a" * (MAX_SOURCE_CHARS + 1), "at most 1048576"),
        ("body_mode", None, "is none of HTML, PLAIN"),
        ("body_mode", "html", "is none of HTML, PLAIN"),
        ("body_mode", ["HTML"], "is none of HTML, PLAIN"),
        ("default_priority", "URGENT", "is none of HIGH, NORMAL, LOW"),
        ("active", 1, "is neither true nor false"),
        ("strict", None, "is neither true nor false"),
        ("reply_to", "a" * 256, "at most 255"),
        ("preferred_server_config_id", 0, "is not an id"),
        ("preferred_server_config_id", True, "is not an id"),
        ("attachments", {}, "is not a list"),
        ("attachments", [{"file_id": 1, "file_name": "a", "size": 3}], "is not a mapping of file_id"),
        ("attachments", [{"file_name": "a"}], "without the id of a stored file"),
        ("attachments", [{"file_id": 1, "file_name": " "}], "without a file_name"),
        ("attachments", [{"file_id": 1, "file_name": "a", "content_id": 4}], "content_type or content_id"),
        ("attachments", [{"file_id": 1, "file_name": "a", "content_id": "<logo>"}], "no mail can carry: '<logo>' is"),
        ("attachments", [{"file_id": 1, "file_name": "a", "content_type": "a\r\nb"}], r"no mail can carry: 'a\r\nb'"),
        ("attachments", [{"file_id": n, "file_name": "a", "content_id": "x"} for n in (1, 2)], "of two attachments"),
    ],
)
def test_a_field_that_does_not_fit_is_named_with_its_value_and_why(field: str, value: Any, reason: str) -> None:
    with pytest.raises(TemplateRejected) as refused:
        check_template(FITS | {field: value})
    assert (refused.value.field, refused.value.value) == (field, value)
    assert reason in str(refused.value)
    assert str(refused.value).startswith(f"{field} is ")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("column", ["subject", "body_html", "body_text"])
@pytest.mark.parametrize(
    "source", ["\n{{ a", "\n{% if a %}", "\n{% for %}", "\n{{ a b }}", "\n{% include 'x' %}", "\n{{ a | nosuch }}"]
)
def test_a_source_that_does_not_compile_is_named_with_column_and_line(column: str, source: str) -> None:
    with pytest.raises(ConfigRejected) as refused:
        check_template({column: source})
    assert isinstance(refused.value, TemplateRejected)
    assert (refused.value.field, refused.value.line) == (column, 2)
    assert str(refused.value).startswith(f"{column}, line 2: ")
