"""The countries that routes and bindings name: ISO 3166-1 alpha-2, and the calling code of each.

`country_region.csv` says which there are; the table of that name holds the same rows, for lists and for SQL. Calling
codes are those of the `phonenumbers` package (ITU-T E.164), by which numbers are read.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from sqlalchemy import Dialect, String
from sqlalchemy.types import TypeDecorator, TypeEngine

from messaging.errors import ConfigRejected


@dataclass(frozen=True, slots=True)
class Country:
    """A country or territory of ISO 3166-1."""

    #: Alpha-2.
    code: str
    #: In English.
    name: str
    alpha3: str
    #: Digits without the plus; empty for a territory that has none of its own, such as AQ.
    dial_code: str
    #: ISO 4217; None where there is none.
    currency: str | None
    #: `AF`, `AN`, `AS`, `EU`, `NA`, `OC` or `SA`.
    continent: str


@cache
def countries() -> Mapping[str, Country]:
    """All 249 by code, in the order of their codes."""
    text = files("messaging.sms").joinpath("country_region.csv").read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines()[1:])
    found = {row[0]: Country(row[0], row[1], row[2], row[3], row[4] or None, row[5]) for row in rows}
    return MappingProxyType(found)


def region_code(value: object, *, is_required: bool) -> str:
    """A country as it is stored: trimmed, in upper case; blank is empty, and means any, where none is required.

    Raises: ConfigRejected, naming what was given.
    """
    text = "" if value is None else value
    if isinstance(text, str) and text.isascii():  # the upper case of `ß` would be South Sudan
        code = text.strip().upper()
        if code in countries() or (not code and not is_required):
            return code
    allowed = "an ISO 3166-1 alpha-2 code such as DE" + ("" if is_required else ", or nothing for any")
    raise ConfigRejected("region_code", value, f"allowed: {allowed}")


def dial_code(region: str) -> str:
    """The calling code of a country, digits without the plus; empty for a territory that has none, and for others."""
    country = countries().get(region)
    return "" if country is None else country.dial_code


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
