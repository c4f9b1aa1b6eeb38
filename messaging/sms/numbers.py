"""Phone numbers: what is accepted as one (E.164), and which country it is of. Source: `sms.md` section 3.

The numbering plans are those of the `phonenumbers` package, loaded when the first number is looked at: they cost 70 ms
and 4 MB, which programs that send no text messages need not pay.
"""

import re

#: Written as E.164 has it: no separators, no `00`, no extension, ASCII digits.
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")

#: What the plans call regions although ISO 3166-1 has them under another code: Ascension and Tristan da Cunha.
_ISO_CODE = {"AC": "SH", "TA": "SH"}


class NumberError(ValueError):
    """The text is no number that a message could be sent to; says why, and does not repeat it."""


def parse_number(text: object) -> str:
    """The number in E.164, with the plus.

    Its length must be possible for its calling code; whether it is in use is not asked, as numbering plans change.

    Raises: NumberError.
    """
    if not isinstance(text, str) or not text.strip():
        raise NumberError("is blank")
    trimmed = text.strip()
    if not _E164.fullmatch(trimmed):
        raise NumberError("is not a number in E.164: a plus, the calling code and the number, 7 to 15 digits in all")
    from phonenumbers import (
        NumberParseException,
        PhoneNumberFormat,
        format_number,
        is_possible_number,
        parse,
    )

    try:
        number = parse(trimmed, None)
    except NumberParseException as exc:
        raise NumberError("is not a number of any numbering plan") from exc
    if not is_possible_number(number):
        raise NumberError("has not the length of a number of its calling code")
    return format_number(number, PhoneNumberFormat.E164)


def region_of(e164: str) -> str | None:
    """The ISO 3166-1 alpha-2 code of an accepted number, `001` of a non-geographic one, None where no plan has it.

    A calling code that countries share tells by the number's beginning: +44 7911 is Guernsey's. Kosovo is `XK`, for
    which ISO has no code: it is served as a country without a route.
    """
    from phonenumbers import NumberParseException, parse, region_code_for_number

    region = _only_region(e164)
    if region is None:
        try:
            region = region_code_for_number(parse(e164, None))
        except NumberParseException:
            return None
    return None if region is None else _ISO_CODE.get(region, region)


def _only_region(e164: str) -> str | None:
    """The region of a calling code that is one country's; None of one that countries share, and of none.

    Most are, and then the digits after it, which are slow to parse, say nothing more.
    """
    from phonenumbers import COUNTRY_CODE_TO_REGION_CODE

    for length in (1, 2, 3):  # no calling code is the beginning of another
        code = e164[1 : 1 + length]
        regions = COUNTRY_CODE_TO_REGION_CODE.get(int(code)) if code.isdecimal() else None
        if regions is not None:
            return regions[0] if len(regions) == 1 else None
    return None
