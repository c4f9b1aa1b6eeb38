"""Encoding and segments of a text, against an independent codec and against what a handset must put together."""

import unicodedata
from collections.abc import Callable

import pytest
from gsm0338 import Codec
from hypothesis import given
from hypothesis import strategies as st

from messaging.sms.models import Encoding
from messaging.sms.segments import GSM_BASIC, GSM_EXTENSION, Segments, count, to_gsm

GSM, UCS = Encoding.GSM7, Encoding.UCS2

_oracle = Codec()


def gsm_octets(text: str) -> bytes | None:
    """The septets of a text, one an octet; None where the alphabet does not hold it."""
    if "\x1b" in text:  # the codec lets the escape itself pass, which stands for no character
        return None
    try:
        return _oracle.encode(text)[0]
    except UnicodeEncodeError:
        return None


def cut(data: bytes, room: int, is_split: Callable[[bytes], bool]) -> list[bytes]:
    """Parts of at most `room` octets, each one shorter where a pair would be split: what a sender must do."""
    parts = []
    while data:
        size = room
        if len(data) > room and is_split(data[:size]):
            size -= 1 if room == 153 else 2
        parts.append(data[:size])
        data = data[size:]
    return parts


def expected(text: str) -> Segments:
    """By the octets of real codecs, without our tables."""
    octets = gsm_octets(text)
    if octets is not None:
        if len(octets) <= 160:
            return Segments(GSM, 1, len(octets))
        return Segments(GSM, len(cut(octets, 153, lambda part: part[-1] == 0x1B)), len(octets))
    octets = text.encode("utf-16-be")
    if len(octets) <= 140:
        return Segments(UCS, 1, len(octets) // 2)
    high = range(0xD8, 0xDC)
    return Segments(UCS, len(cut(octets, 134, lambda part: part[-2] in high)), len(octets) // 2)


_plain = st.sampled_from("abc 1,é@\n")
_escaped = st.sampled_from("€[]{}^~|\\\f")
_wide = st.sampled_from("中я’\u0301\u200d\ufe0f")
_emoji = st.sampled_from("😀👍🏽🇩🇪𝒳")
_any = st.characters(exclude_categories=("Cs",))


def texts(*kinds: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts about as long as one, two or three segments."""
    return st.lists(st.one_of(*kinds), max_size=500).map("".join) | st.builds(
        lambda fill, size, rest: fill * size + "".join(rest),
        st.one_of(*kinds),
        st.integers(30, 320),
        st.lists(st.one_of(*kinds), max_size=12),
    )


@given(texts(_plain, _escaped) | texts(_plain, _escaped, _wide, _emoji) | texts(_plain, _emoji) | st.text(_any))
def test_encoding_and_segments_are_those_of_an_independent_codec(text: str) -> None:
    assert count(text) == expected(text)


def test_the_alphabet_is_that_of_the_codec() -> None:
    alphabet = {chr(point) for point in range(0x10000) if not 0xD800 <= point < 0xE000 and gsm_octets(chr(point))}
    by_width = {width: {char for char in alphabet if len(gsm_octets(char) or b"") == width} for width in (1, 2)}
    assert by_width[1] == GSM_BASIC
    assert by_width[2] == GSM_EXTENSION


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("]" * 64 + "😘", Segments(UCS, 1, 66)),  # sms-01: no escapes in UCS-2
        ("😎" * 70, Segments(UCS, 3, 140)),  # sms-02: 33 pairs a part
        ("", Segments(GSM, 1, 0)),
        ("a" * 160, Segments(GSM, 1, 160)),
        ("a" * 161, Segments(GSM, 2, 161)),
        ("a" * 306, Segments(GSM, 2, 306)),
        ("a" * 307, Segments(GSM, 3, 307)),
        ("€" * 80, Segments(GSM, 1, 160)),
        ("€" * 81, Segments(GSM, 2, 162)),
        (
            "a" * 152 + "€" + "a" * 151,
            Segments(GSM, 2, 305),
        ),  # the escape would end the first part, so it begins the next
        ("a" * 152 + "€" + "a" * 152, Segments(GSM, 3, 306)),
        ("a" * 151 + "€" + "a" * 153, Segments(GSM, 2, 306)),
        ("я" * 70, Segments(UCS, 1, 70)),
        ("я" * 71, Segments(UCS, 2, 71)),
        ("я" * 66 + "😀" + "я" * 65, Segments(UCS, 2, 133)),
        ("я" * 66 + "😀" + "я" * 66, Segments(UCS, 3, 134)),  # a pair at the border, too
        ("e\u0301", Segments(UCS, 1, 2)),  # a combining mark is a unit of its own
    ],
)
def test_segments_at_their_borders(text: str, counted: Segments) -> None:
    assert count(text) == counted


def test_typographic_characters_become_those_of_the_alphabet() -> None:
    text = "“Grüße” – ‘it’s’ … 5\u00a0€ • «ok» e\u0301\u200b"
    assert to_gsm(text) == '"Grüße" - \'it\'s\' ... 5 € * "ok" é'
    assert count(text).encoding is UCS
    assert count(to_gsm(text)).encoding is GSM


@pytest.mark.parametrize("text", ["您的验证码", "Привет", "😀👩\u200d👧", "ça va"])
def test_letters_and_emoji_are_left_as_they_are(text: str) -> None:
    assert to_gsm(text) == text


@given(st.text(_any))
def test_a_replacement_is_never_replaced_again_and_keeps_what_the_alphabet_holds(text: str) -> None:
    once = to_gsm(text)
    assert to_gsm(once) == once
    if gsm_octets(text) is not None:
        assert once == unicodedata.normalize("NFC", text) == text
