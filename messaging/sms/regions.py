"""The countries that routes and bindings name: ISO 3166-1 alpha-2, and the calling code of each.

Calling codes come from the `phonenumbers` package, so that they are those by which numbers are read.
"""

from typing import Any

from sqlalchemy import Dialect, String
from sqlalchemy.types import TypeDecorator, TypeEngine

from messaging.errors import ConfigRejected

#: ISO 3166-1 alpha-2: first letters, and the second ones that go with each.
_LETTERS = {
    "A": "DEFGILMOQRSTUWXZ",
    "B": "ABDEFGHIJLMNOQRSTVWYZ",
    "C": "ACDFGHIKLMNORUVWXYZ",
    "D": "EJKMOZ",
    "E": "CEGHRST",
    "F": "IJKMOR",
    "G": "ABDEFGHILMNPQRSTUWY",
    "H": "KMNRTU",
    "I": "DELMNOQRST",
    "J": "EMOP",
    "K": "EGHIMNPRWYZ",
    "L": "ABCIKRSTUVY",
    "M": "ACDEFGHKLMNOPQRSTUVWXYZ",
    "N": "ACEFGILOPRUZ",
    "O": "M",
    "P": "AEFGHKLMNRSTWY",
    "Q": "A",
    "R": "EOSUW",
    "S": "ABCDEGHIJKLMNORSTVXYZ",
    "T": "CDFGHJKLMNORTVWZ",
    "U": "AGMSYZ",
    "V": "ACEGINU",
    "W": "FS",
    "Y": "ET",
    "Z": "AMW",
}
#: All 249 codes.
REGIONS = frozenset(first + second for first, seconds in _LETTERS.items() for second in seconds)


def region_code(value: object, *, is_required: bool) -> str:
    """A country as it is stored: trimmed, in upper case; blank is empty, and means any, where none is required.

    Raises: ConfigRejected, naming what was given.
    """
    text = "" if value is None else value
    if isinstance(text, str) and text.isascii():  # the upper case of `ß` would be South Sudan
        code = text.strip().upper()
        if code in REGIONS or (not code and not is_required):
            return code
    allowed = "an ISO 3166-1 alpha-2 code such as DE" + ("" if is_required else ", or nothing for any")
    raise ConfigRejected("region_code", value, f"allowed: {allowed}")


def dial_code(region: str) -> str:
    """The calling code of a country, digits without the plus; empty for a territory that has none, such as AQ."""
    from phonenumbers import country_code_for_region  # numbering plans cost a process 4 MB

    return str(country_code_for_region(region) or "")


class RegionCode(TypeDecorator[str]):
    """A column of `region_code` values: whoever writes it, what is no country is refused and the rest normalised.

    What a column is compared with is left alone: a number's region need not be a country.
    """

    impl = String(2)
    cache_ok = True

    def __init__(self, *, is_required: bool) -> None:
        super().__init__()
        self.is_required = is_required

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str:
        return region_code(value, is_required=self.is_required)

    def coerce_compared_value(self, op: Any, value: Any) -> TypeEngine[Any]:
        return self.impl_instance
