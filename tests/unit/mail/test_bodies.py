"""Bodies of a direct send (send.md 4.2, B1)."""

import pytest

from messaging.mail.bodies import BodyModeError, resolve_direct
from messaging.requests import BodyMode

HTML, PLAIN = BodyMode.HTML, BodyMode.PLAIN
DERIVED, AUTHORED = BodyMode.HTML_WITH_DERIVED_PLAIN, BodyMode.HTML_WITH_AUTHORED_PLAIN
H, T = "<p>Hello <b>you</b></p>", "Hello"


@pytest.mark.parametrize(
    ("declared", "body_html", "body_text", "resolved"),
    [
        (None, H, T, (AUTHORED, H, T)),  # B1
        (None, H, None, (HTML, H, None)),  # B1
        (None, None, T, (PLAIN, None, T)),  # B1
        (None, H, " \n", (HTML, H, None)),
        (None, "", T, (PLAIN, None, T)),
        (HTML, H, None, (HTML, H, None)),
        (HTML, H, T, (HTML, H, None)),
        (PLAIN, None, T, (PLAIN, None, T)),
        (PLAIN, H, T, (PLAIN, None, T)),
        (DERIVED, H, T, (DERIVED, H, T)),
        (DERIVED, H, None, (DERIVED, H, None)),
        (DERIVED, H, "  ", (DERIVED, H, None)),
        (AUTHORED, H, T, (AUTHORED, H, T)),
        (AUTHORED, H, None, (DERIVED, H, None)),
        (PLAIN, None, " verbatim \r\n", (PLAIN, None, " verbatim \r\n")),
    ],
)
def test_the_mode_of_a_direct_send(
    declared: BodyMode | None, body_html: str | None, body_text: str | None, resolved: tuple[object, ...]
) -> None:
    assert resolve_direct(declared, body_html, body_text) == resolved


@pytest.mark.parametrize(
    ("declared", "body_html", "body_text", "field"),
    [
        (None, None, None, "text_body"),  # A11
        (None, " ", "\n", "text_body"),
        (HTML, None, None, "text_body"),
        (HTML, None, T, "body_mode"),
        (HTML, " ", T, "body_mode"),
        (DERIVED, None, T, "body_mode"),
        (AUTHORED, None, T, "body_mode"),
        (PLAIN, H, None, "body_mode"),
    ],
)
def test_a_mode_without_its_body_is_rejected(
    declared: BodyMode | None, body_html: str | None, body_text: str | None, field: str
) -> None:
    with pytest.raises(BodyModeError) as caught:
        resolve_direct(declared, body_html, body_text)
    assert caught.value.field == field
