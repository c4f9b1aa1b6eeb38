"""The Date field as a moment, or nothing: never an error, never a time without a zone (RFC 5322, 3.3 and 4.3)."""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Hours of the names that RFC 5322, 4.3 gives a meaning; any other may be anywhere.
_ZONES = {"ut": 0, "utc": 0, "gmt": 0, "z": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6}
_ZONES |= {"pst": -8, "pdt": -7}
_WEEKDAY = r"(?:[a-z]{2,9}\.?\s?,?\s?)?"
_MONTH = r"(?P<month>[a-z]{3})[a-z]{0,6}\.?"
_TIME = r"(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?(?:[.,]\d{1,9})?(?:\s?(?P<half>[ap])m\b)?"
_ZONE = r"(?:(?:gmt|utc?)?(?P<sign>[+-])(?P<zone_hours>\d{2}):?(?P<zone_minutes>\d{2})|(?P<zone>[a-z]{1,5})\b)"
_FORMS = (
    # Tue, 24 Jul 2007 18:55:07 +0200
    re.compile(rf"{_WEEKDAY}(?P<day>\d{{1,2}})[ -]{_MONTH},?[ -](?P<year>\d{{2,4}}),?\s{_TIME}\s?{_ZONE}", re.ASCII),
    # Tue Jul 24 18:55:07 2007 +0200
    re.compile(rf"(?:[a-z]{{3}},?\s)?{_MONTH}\s(?P<day>\d{{1,2}})\s{_TIME}\s(?P<year>\d{{4}})\s{_ZONE}", re.ASCII),
    # Tue Jul 24 18:55:07 GMT 2007
    re.compile(rf"(?:[a-z]{{3}},?\s)?{_MONTH}\s(?P<day>\d{{1,2}})\s{_TIME}\s{_ZONE}\s(?P<year>\d{{4}})", re.ASCII),
    # 2007-07-24T18:55:07+02:00
    re.compile(rf"(?P<year>\d{{4}})-(?P<number>\d{{2}})-(?P<day>\d{{2}})[t ]{_TIME}\s?{_ZONE}", re.ASCII),
)
#: How nearly every program writes it.
_EVERYDAY = re.compile(
    r"(?:[A-Z][a-z]{2}, )?(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d)"
    r" ([+-])(\d\d)(\d\d)(?: \([A-Z]{1,5}\))?",
    re.ASCII,
)
_MONTH_NUMBERS = {name.title(): number for number, name in enumerate(_MONTHS, start=1)}
_DAY = timedelta(days=1)
#: Characters of a field that are looked at.
_MAX_CHARS = 200


def parse_date(value: str | None) -> datetime | None:
    """The moment in UTC that a Date field names; None when it cannot be read or has no zone.

    A year of two or three digits is what RFC 5322, 4.3 says; `-0000` is UTC from a sender that tells no zone.
    """
    everyday = _EVERYDAY.fullmatch(value or "")
    if everyday is not None and everyday[2] in _MONTH_NUMBERS:
        return _everyday_moment(*everyday.groups())
    text = " ".join((value or "")[:_MAX_CHARS].lower().split())
    found = next((match for form in _FORMS if (match := form.match(text)) is not None), None)
    if found is None:
        return None
    try:
        return _moment(found.groupdict())
    except (KeyError, OverflowError, ValueError):  # no such month or zone, a day or an hour that does not exist
        return None


def _everyday_moment(
    day: str, month: str, year: str, hour: str, minute: str, second: str, sign: str, zone_hours: str, zone_minutes: str
) -> datetime | None:
    offset = _offset(zone_hours, zone_minutes)
    if offset >= _DAY:
        return None
    try:
        local = datetime(
            int(year), _MONTH_NUMBERS[month], int(day), int(hour), int(minute), min(int(second), 59), tzinfo=UTC
        )
        return local + offset if sign == "-" else local - offset
    except (OverflowError, ValueError):
        return None


@lru_cache(maxsize=64)
def _offset(hours: str, minutes: str) -> timedelta:
    return timedelta(hours=int(hours), minutes=int(minutes))


def _moment(field: dict[str, str | None]) -> datetime:
    number = {name: int(text) for name, text in field.items() if text is not None and text.isdigit()}
    month = number["number"] if "number" in number else _MONTHS.index(field["month"] or "") + 1
    year = number["year"]
    if len(field["year"] or "") < 4:
        year += 2000 if year < 50 else 1900
    hour = number["hour"] % 12 + 12 * (field["half"] == "p") if field["half"] else number["hour"]
    if field["zone"] is not None:
        offset = timedelta(hours=_ZONES[field["zone"]])
    else:
        offset = timedelta(hours=number["zone_hours"], minutes=number["zone_minutes"])
        offset = -offset if field["sign"] == "-" else offset
    # A leap second, which Python does not know, is the second before it.
    second = min(number.get("second", 0), 59)
    local = datetime(year, month, number["day"], hour, number["minute"], second, tzinfo=timezone(offset))
    return local.astimezone(UTC)
