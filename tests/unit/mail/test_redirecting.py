"""A mail that sandbox mode sends elsewhere tells whom it is for."""

from typing import Any

from messaging.mail.headers import MAX_HEADERS, check_headers
from messaging.mail.redirecting import redirected

CONTENT: dict[str, Any] = {
    "to_addresses": ["Ann Lee <ann@example.com>"],
    "cc_addresses": ["bob@example.com"],
    "bcc_addresses": ["cy@example.com"],
    "subject": "Your order",
    "headers": {"X-Campaign": "spring"},
}
RECIPIENTS = ("ann@example.com", "bob@example.com", "cy@example.com")


def test_nobody_but_the_one_address_is_in_the_mail_s_own_fields() -> None:
    changed = redirected(CONTENT, RECIPIENTS, "dev@example.net")
    assert (changed["to_addresses"], changed["cc_addresses"], changed["bcc_addresses"]) == (["dev@example.net"], [], [])
    assert changed["subject"] == "[to ann@example.com and 2 more] Your order"
    assert changed["headers"] == {
        "X-Sandbox-To": "Ann Lee <ann@example.com>",
        "X-Sandbox-Cc": "bob@example.com",
        "X-Sandbox-Recipients": "ann@example.com, bob@example.com, cy@example.com",
        "X-Campaign": "spring",
    }


def test_nobody_is_unsubscribed_by_whoever_reads_it() -> None:
    links = {"List-Unsubscribe": "<https://example.com/u>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}
    changed = redirected({**CONTENT, "headers": links}, RECIPIENTS, "dev@example.net")
    assert list(changed["headers"]) == ["X-Sandbox-To", "X-Sandbox-Cc", "X-Sandbox-Recipients"]


def test_a_mail_without_subject_or_headers_still_tells() -> None:
    changed = redirected(
        {**CONTENT, "subject": None, "headers": None, "cc_addresses": []}, RECIPIENTS[:1], "dev@example.net"
    )
    assert changed["subject"] == "[to ann@example.com]"
    assert list(changed["headers"]) == ["X-Sandbox-To", "X-Sandbox-Recipients"]


def test_what_is_told_fits_into_a_mail_however_much_there_is() -> None:
    many = [f"{n}{'x' * 40}@example.com" for n in range(100)]
    content = {**CONTENT, "to_addresses": many, "headers": {f"X-{n}": "v" for n in range(MAX_HEADERS)}}
    changed = redirected({**content, "subject": "s" * 500}, many, "dev@example.net")
    assert len(check_headers(changed["headers"])) == MAX_HEADERS
    assert changed["headers"]["X-Sandbox-To"].endswith(" more")
    assert len(changed["subject"]) == 500
    long = [f"{'x' * 1000}@example.com"]
    told = redirected({**CONTENT, "to_addresses": long}, long, "a@b.example")["headers"]
    assert told["X-Sandbox-To"] == "too long to be told here"
