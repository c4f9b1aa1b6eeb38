"""Which texts are numbers, and which country each is of (sms.md section 3)."""

import subprocess
import sys

import phonenumbers
import pytest

from messaging.sms.numbers import NumberError, parse_number, region_of


@pytest.mark.parametrize(
    ("number", "region"),
    [
        ("+8613800138000", "CN"),
        ("+886912345678", "TW"),
        ("+85298765432", "HK"),
        ("+85366123456", "MO"),
        ("+33123456789", "FR"),
        ("+4915112345678", "DE"),
        ("+14155550100", "US"),
        ("+447911123456", "GG"),  # a calling code of several countries: +44 is not always GB
        ("+447400123456", "GB"),
        ("+447700900123", None),  # kept for drama
        ("+80012345678", "001"),
        ("+88213300655", "001"),
        ("+38344123456", "XK"),  # Kosovo
        ("+24740123", "SH"),  # Ascension: ISO 3166-1 has it with Saint Helena
    ],
)
def test_the_region_is_that_of_the_longest_prefix(number: str, region: str | None) -> None:
    assert parse_number(number) == number
    assert region_of(number) == region


@pytest.mark.parametrize(
    "text",
    [
        *("+111", "+222", "+1234567890", "13800138000", "not-a-phone", "", "   ", None, 4915112345678),  # R1
        *("+16502530000 x136", "+16502530000;ext=136", "+1 650-253-0000 ext. 136"),  # sms-04
        *("004915112345678", "+49 151 12345678", "+49-151-12345678", "+0915112345678", "++4915112345678"),
        *("+4915112345678\n+1", "+٤٩١٥١١٢٣٤٥٦٧٨", "+4915112345678\u200b", "+1234567890123456", "+99912345678"),
    ],
)
def test_what_is_no_number_of_e164_is_refused(text: object) -> None:
    with pytest.raises(NumberError):
        parse_number(text)


def test_spaces_around_a_number_are_no_part_of_it() -> None:
    assert parse_number(" +4915112345678\n") == "+4915112345678"


def test_the_national_prefix_is_no_part_of_e164() -> None:
    assert parse_number("+4407911123456") == "+447911123456"


def test_a_refusal_does_not_repeat_the_number() -> None:
    with pytest.raises(NumberError) as refused:
        parse_number("+1234567890")
    assert "1234567890" not in str(refused.value)


def test_what_is_no_number_has_no_region() -> None:
    assert region_of("nonsense") is None


def test_the_numbering_plans_are_loaded_by_the_first_number() -> None:
    code = "import sys, messaging.api, messaging.sms.numbers; sys.exit('phonenumbers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_every_country_has_the_region_that_its_numbering_plan_says() -> None:
    for region in sorted(phonenumbers.SUPPORTED_REGIONS):
        example = phonenumbers.example_number(region)
        if example is None:
            continue
        number = phonenumbers.format_number(example, phonenumbers.PhoneNumberFormat.E164)
        expected = phonenumbers.region_code_for_number(phonenumbers.parse(number))
        assert region_of(number) in (expected, "SH"), number  # Ascension and Tristan da Cunha are within Saint Helena
