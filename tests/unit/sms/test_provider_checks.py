"""What an SMS provider's configuration may hold: each refusal names field and value, and no secret."""

from typing import Any

import pytest

from messaging.errors import ConfigRejected
from messaging.sms.provider_checks import check_together, checked

WHOLE: dict[str, Any] = {
    "provider_type": "TWILIO",
    "api_key": "AC0123456789",
    "api_secret": "s3cret",
    "api_endpoint": None,
    "account_id": None,
    "ext_config": None,
    "sender_number": "+14155550100",
    "sender_id": None,
}


@pytest.mark.parametrize(
    ("field", "given", "stored"),
    [
        ("name", "  Out ", "Out"),
        ("provider_type", " twilio ", "TWILIO"),
        ("provider_type", "Cm", "CM"),
        ("api_key", " k ", " k "),
        ("api_secret", "", None),
        ("api_endpoint", " https://sms.example.com/ ", "https://sms.example.com/"),
        ("ext_config", {"region": "eu", "n": [1]}, {"region": "eu", "n": [1]}),
        ("ext_config", {}, None),
        ("rate_limit_per_minute", 0, 0),
        ("priority", -1, -1),
        ("is_default", True, True),
    ],
)
def test_a_field_is_stored(field: str, given: Any, stored: Any) -> None:
    assert checked({field: given}) == {field: stored}


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("name", " "),
        ("provider_type", "vonage"),
        ("provider_type", None),
        ("account_id", "a\nb"),
        ("sender_id", "x" * 51),
        ("sender_id", "\ud800"),
        ("priority", None),
        ("priority", True),
        ("daily_send_limit", -1),
        ("is_default", "yes"),
        ("active", None),
    ],
)
def test_a_field_is_refused_by_its_name_and_value(field: str, given: Any) -> None:
    with pytest.raises(ConfigRejected) as refused:
        checked({field: given})
    assert refused.value.field == field
    assert "allowed" in str(refused.value) or "required" in str(refused.value)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("api_key", "s3cret" * 50),
        ("api_secret", "s3cret\0"),
        ("ext_config", ["s3cret"]),
        ("ext_config", {"authToken": {"s3cret"}}),
        ("ext_config", {"authToken": "s3cret\0"}),
    ],
)
def test_a_refused_secret_is_not_repeated(field: str, given: Any) -> None:
    with pytest.raises(ConfigRejected, match=field) as refused:
        checked({field: given})
    assert "s3cret" not in str(refused.value)
    assert refused.value.value is None


def test_a_field_that_there_is_none_of_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="receipt_token"):
        checked({"receipt_token": "mine"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"api_key": None}, "api_key is missing"),
        ({"api_secret": None}, "api_secret is missing"),
        ({"sender_number": None}, "sender"),
        ({"api_endpoint": "ftp://x"}, "api_endpoint"),
        ({"provider_type": "INFOBIP"}, "api_endpoint"),  # P10
        ({"provider_type": "TENCENT"}, "sdkAppId"),
    ],
)
def test_what_the_adapter_could_not_send_with_is_refused(changes: dict[str, Any], words: str) -> None:
    check_together(WHOLE)
    with pytest.raises(ConfigRejected, match=words) as refused:
        check_together(WHOLE | changes)
    assert "s3cret" not in str(refused.value)
