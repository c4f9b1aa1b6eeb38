"""The countries of ISO 3166-1 and their calling codes."""

import re

import phonenumbers
import pytest

from messaging.errors import ConfigRejected
from messaging.sms.regions import countries, dial_code, region_code


def test_the_regions_are_those_of_iso_3166_1() -> None:
    # What numbering plans have: no codes of ISO 3166-1 for Ascension, Tristan da Cunha, Kosovo; none of the territories
    # where nobody lives or that dial as their mother country does.
    assert len(countries()) == 249
    others = countries().keys() ^ phonenumbers.SUPPORTED_REGIONS
    assert others == {"AC", "TA", "XK", "AQ", "BV", "GS", "HM", "PN", "TF", "UM"}


def test_calling_codes_are_those_by_which_numbers_are_read() -> None:
    read = {code: str(phonenumbers.country_code_for_region(code) or "") for code in countries()}
    assert {code: country.dial_code for code, country in countries().items()} == read


def test_a_country_has_a_name_and_codes_of_the_usual_shapes() -> None:
    found = countries().values()
    assert [country.code for country in found] == sorted(country.code for country in found)
    assert all(re.fullmatch("[A-Z]{2}", c.code) and re.fullmatch("[A-Z]{3}", c.alpha3) for c in found)
    assert len({c.alpha3 for c in found}) == len({c.name for c in found}) == 249
    assert {c.code for c in found if not re.fullmatch("[A-Z]{3}", c.currency or "")} == {"AQ"}
    assert {c.continent for c in found} == {"AF", "AN", "AS", "EU", "NA", "OC", "SA"}
    china = countries()["CN"]
    assert (china.name, china.alpha3, china.dial_code, china.currency) == ("China", "CHN", "86", "CNY")


@pytest.mark.parametrize(
    ("region", "code"),
    [("ZZ", ""), ("CN", "86"), ("TW", "886"), ("HK", "852"), ("MO", "853"), ("US", "1"), ("GG", "44"), ("AQ", "")],
)
def test_the_dial_code_follows_from_the_region(region: str, code: str) -> None:
    assert dial_code(region) == code


@pytest.mark.parametrize("given", [" cn ", "CN", "cn\n", "Cn"])
def test_a_region_is_trimmed_and_in_upper_case(given: str) -> None:  # R22
    assert region_code(given, is_required=True) == region_code(given, is_required=False) == "CN"


@pytest.mark.parametrize("given", ["ZZ", "*", "XK", "001", "CHN", "C", 86, "ß", "c n"])
def test_what_is_no_country_is_named(given: object) -> None:  # R22
    for is_required in (True, False):
        with pytest.raises(ConfigRejected) as refused:
            region_code(given, is_required=is_required)
        assert repr(str(given)) in str(refused.value)


@pytest.mark.parametrize("blank", ["", "  ", None])
def test_a_blank_region_is_any_where_none_is_required(blank: str | None) -> None:
    assert region_code(blank, is_required=False) == ""
    with pytest.raises(ConfigRejected, match="region_code"):
        region_code(blank, is_required=True)
