"""How a text goes over the air: its encoding and the number of segments that are charged (3GPP TS 23.038, 23.040).

A text is coded in the GSM 7-bit default alphabet where that holds all of its characters, else in UCS-2. Whatever does
not fit into one message is split, and each part gives up some of its room to the header that puts them together again.
"""

import unicodedata
from dataclasses import dataclass

from messaging.sms.models import Encoding

#: Characters of one septet each (TS 23.038 section 6.2.1), without the escape at 0x1B.
GSM_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
#: Characters of two septets, the escape and one more (section 6.2.1.1).
GSM_EXTENSION = frozenset("\f^{}\\[~]|€")
_GSM = GSM_BASIC | GSM_EXTENSION

#: Units (septets; UTF-16 code units) of a message alone, and of each part of several (TS 23.040 section 9.2.3.24.1).
ROOM = {Encoding.GSM7: (160, 153), Encoding.UCS2: (70, 67)}

#: Typographic characters and what stands for them in the GSM alphabet.
_GSM_FOR = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′‵‹›`´ʹʼ", "'"),  # quotes of one stroke, primes, apostrophes
        **dict.fromkeys("“”„‟″‶«»〝〞", '"'),
        **dict.fromkeys("‐‑‒–—―−⁃", "-"),  # hyphens, dashes, the minus
        **dict.fromkeys("•‣∙", "*"),
        **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\t", " "),
        **dict.fromkeys("\u2028\u2029\x85", "\n"),
        # A soft hyphen, a zero-width space, a word joiner, a byte order mark: seen by nobody.
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff", ""),
        "…": "...",
        "⁄": "/",
        "∕": "/",
        "∗": "*",
        "∶": ":",
        "‖": "||",
    }
)


@dataclass(frozen=True, slots=True)
class Segments:
    """What a text comes to."""

    encoding: Encoding
    #: Messages that are charged; one at least.
    segments: int
    #: Septets in GSM7, UTF-16 code units in UCS2.
    units: int


def count(text: str) -> Segments:
    """Encoding, segments and units of a text. Neither an escape with its character nor a surrogate pair is split."""
    if _GSM.issuperset(text):
        encoding = Encoding.GSM7
        widths = [2 if char in GSM_EXTENSION else 1 for char in text]
    else:
        encoding = Encoding.UCS2
        widths = [2 if ord(char) > 0xFFFF else 1 for char in text]
    alone, part = ROOM[encoding]
    units = sum(widths)
    if units <= alone:
        return Segments(encoding, 1, units)
    segments, room = 1, part
    for width in widths:
        if width > room:
            segments, room = segments + 1, part
        room -= width
    return Segments(encoding, segments, units)


def to_gsm(text: str) -> str:
    """The text with typographic characters in those of the GSM alphabet; letters and emoji stay as they are.

    A letter and its combining mark become one character first where there is one, as the alphabet has `é` and no marks.
    """
    return unicodedata.normalize("NFC", text).translate(_GSM_FOR)
