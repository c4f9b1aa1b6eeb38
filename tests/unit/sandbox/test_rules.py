"""What sandbox mode makes of recipients."""

from typing import Any

import pytest

from messaging.sandbox.rules import Ruling, SandboxRules
from messaging.settings import SandboxSettings

A, B, NUMBER, URL = "ann@example.com", "bob@example.org", "+4915112345678", "https://hooks.example.com:8443/in?x=1"


def ruled(channel: str, *recipients: str, **settings: Any) -> Ruling:
    return SandboxRules(SandboxSettings(**settings)).rule(channel, recipients)


def test_off_sends_everything() -> None:
    assert ruled("mail", A, B) == Ruling(sent=(A, B))
    assert not SandboxRules(SandboxSettings()).is_on


@pytest.mark.parametrize(("channel", "recipient"), [("mail", A), ("sms", NUMBER), ("webhook", URL)])
def test_capture_sends_nothing_of_any_channel(channel: str, recipient: str) -> None:
    assert ruled(channel, recipient, mode="capture") == Ruling(captured=(recipient,))


def test_redirect_is_for_the_channels_that_have_a_recipient_to_go_to() -> None:
    both = {"mode": "redirect", "redirect_to": ("dev@example.net", "+15005550006")}
    assert ruled("mail", A, B, **both) == Ruling(redirected=(A, B), redirect_to="dev@example.net")
    assert ruled("sms", NUMBER, **both) == Ruling(redirected=(NUMBER,), redirect_to="+15005550006")
    assert ruled("webhook", URL, **both) == Ruling(captured=(URL,))
    assert ruled("sms", NUMBER, mode="redirect", redirect_to=("dev@example.net",)) == Ruling(captured=(NUMBER,))


@pytest.mark.parametrize(
    ("allowed", "recipient", "is_sent"),
    [
        ("example.com", "ann@example.com", True),
        ("Example.COM", "Ann@EXAMPLE.com", True),
        ("example.com", "ann@sub.example.com", False),  # a domain stands for itself
        ("example.com", "ann@notexample.com", False),
        ("example.com", "example.com@example.org", False),
        ("example.com", '"@example.com"@example.org', False),
        ("ann@example.com", "ANN@example.com", True),
        ("ann@example.com", "bob@example.com", False),
        ("ann@example.com", "ann@example.com.example.org", False),
        ("bücher.example", "ann@xn--bcher-kva.example", True),  # recipients come with A-labels
        ("ann@bücher.example", "ann@xn--bcher-kva.example", True),
        ("+4915112345678", "+4915112345678", True),
        ("+491511234567", "+4915112345678", False),
        ("hooks.example.com", "https://hooks.example.com:8443/in?x=1", True),
        ("example.com", "https://hooks.example.com/", False),
        ("hooks.example.com", "https://hooks.example.com@evil.example/", False),
    ],
)
def test_the_list_lets_through_addresses_numbers_and_whole_domains(allowed: str, recipient: str, is_sent: bool) -> None:
    ruling = ruled("mail", recipient, mode="allowlist", allow=(allowed,))
    assert ruling == (Ruling(sent=(recipient,)) if is_sent else Ruling(captured=(recipient,)))


def test_of_several_recipients_the_listed_ones_get_it() -> None:
    assert ruled("mail", A, B, mode="allowlist", allow=("example.org",)) == Ruling(sent=(B,), captured=(A,))
