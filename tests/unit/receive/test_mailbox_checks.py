"""What a mailbox's configuration may hold: each refusal names field and value, and no secret."""

from typing import Any

import pytest

from messaging.errors import ConfigRejected
from messaging.receive.mailbox_checks import check_together, checked, drains, folders, is_tls

WHOLE: dict[str, Any] = {"username": "support@example.org", "password": True, "auth": "PASSWORD"}


@pytest.mark.parametrize(
    ("field", "given", "stored"),
    [
        ("name", " Support ", "Support"),
        ("protocol", "POP3S", "POP3S"),
        ("host", "IMAP.Example.COM.", "imap.example.com"),
        ("port", 993, 993),
        ("password", " p w ", " p w "),
        ("auth", "XOAUTH2", "XOAUTH2"),
        ("fetch_interval_seconds", 15, 15),
        ("fetch_interval_seconds", None, None),
        ("fetch_folders", " INBOX , Junk ", "INBOX,Junk"),
        ("fetch_folders", "inbox,Junk,,Junk", "INBOX,Junk"),
        ("fetch_folders", " ", None),
        ("fetch_folders", "Entwürfe", "Entwürfe"),
    ],
)
def test_a_field_is_stored_trimmed(field: str, given: Any, stored: Any) -> None:
    assert checked({field: given}) == {field: stored}


@pytest.mark.parametrize(
    ("field", "given", "reason"),
    [
        ("name", " ", "required"),
        ("protocol", "SMTP", "IMAP, IMAPS, POP3, POP3S"),
        ("host", "imaps://imap.example.com", "without scheme and port"),
        ("port", 65_536, "1 to 65535"),
        ("auth", "NTLM", "PASSWORD, XOAUTH2"),
        ("fetch_interval_seconds", 14, "15 to"),
        ("fetch_folders", "x" * 101, "allowed: 100"),
        ("fetch_folders", ",".join(f"folder-{n}" for n in range(40)), "allowed: 255"),
        ("ssl_enabled", "yes", "True or False"),
    ],
)
def test_what_cannot_be_saved_is_named(field: str, given: Any, reason: str) -> None:
    with pytest.raises(ConfigRejected, match=reason) as caught:
        checked({field: given})
    assert caught.value.field == field


def test_a_refused_password_is_not_repeated() -> None:  # O60
    with pytest.raises(ConfigRejected) as caught:
        checked({"password": "s3cret\0"})
    assert "s3cret" not in str(caught.value)
    assert caught.value.value is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"username": None}, "username"), ({"password": None}, "password")],
)
def test_a_login_needs_its_parts(changed: dict[str, Any], field: str) -> None:
    check_together(WHOLE)
    with pytest.raises(ConfigRejected, match="needed") as caught:
        check_together(WHOLE | changed)
    assert caught.value.field == field


def test_a_token_needs_no_password() -> None:
    check_together(WHOLE | {"auth": "XOAUTH2", "password": None})


@pytest.mark.parametrize(  # receive.md R4
    ("stored", "read"),
    [
        (None, ["INBOX"]),
        (" ", ["INBOX"]),
        (" INBOX , Junk ", ["INBOX", "Junk"]),
        ("INBOX,,Junk,", ["INBOX", "Junk"]),
        ("Inbox,INBOX", ["INBOX"]),
    ],
)
def test_folders_of_a_mailbox(stored: str | None, read: list[str]) -> None:
    assert folders(stored) == read


def test_pop3_drains_and_imap_does_not() -> None:
    assert [drains(protocol) for protocol in ("IMAP", "IMAPS", "POP3", "POP3S")] == [False, False, True, True]


def test_tls_is_never_switched_off_where_the_protocol_names_it() -> None:
    assert [is_tls(p, ssl_enabled=False) for p in ("IMAP", "IMAPS", "POP3", "POP3S")] == [False, True, False, True]
    assert all(is_tls(p, ssl_enabled=True) for p in ("IMAP", "IMAPS", "POP3", "POP3S"))
