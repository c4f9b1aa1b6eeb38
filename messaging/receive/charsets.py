"""Octets to text that PostgreSQL stores, whatever charset they claim; never an error (`receive.md` 8)."""

import re
from encodings.aliases import aliases
from functools import lru_cache

#: Codecs of Python that are no charset of a mail; `punycode` takes quadratic time.
_NO_CHARSETS = frozenset(
    (
        *("base64_codec", "bz2_codec", "hex_codec", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"),
        *("idna", "mbcs", "oem", "palmos", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"),
    )
)
#: Names in use that Python does not have, as `codec_of` spells them.
_OTHER_NAMES = {
    "cp1006": "cp1006",
    "cp720": "cp720",
    "cp737": "cp737",
    "cp856": "cp856",
    "cp874": "cp874",
    "dos_874": "cp874",
    "eucjp_ms": "euc_jp",
    "iso_8859_6_e": "iso8859_6",
    "iso_8859_6_i": "iso8859_6",
    "iso_8859_8_e": "iso8859_8",
    "iso_8859_8_i": "iso8859_8",
    "koi8_ru": "koi8_u",
    "koi8_t": "koi8_t",
    "koi8_u": "koi8_u",
    "sjis_win": "cp932",
    "unicode_1_1_utf_7": "utf_7",
    "unicode_1_1_utf_8": "utf_8",
    "utf8mb4": "utf_8",
    "windows_874": "cp874",
    "windows_936": "gbk",
    "windows_949": "cp949",
    "windows_950": "cp950",
    "x_unicode_2_0_utf_7": "utf_7",
}
#: Codec by name. A fixed table: the registry of codecs remembers each unknown name that it is asked for, and these
#: names come from senders.
_CODECS = {
    name: codec
    for name, codec in {**dict.fromkeys(aliases.values()), **aliases, **_OTHER_NAMES}.items()
    if (codec or name) not in _NO_CHARSETS
}
#: What is labelled so is in practice written in the wider one.
_READ_AS = {
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859_11": "cp874",
    "iso8859_9": "cp1254",
    "latin_1": "cp1252",
    "shift_jis": "cp932",
    "tis_620": "cp874",
}
_SEPARATORS = re.compile(r"[^a-z0-9]+")
#: Of a charset name.
_MAX_NAME_CHARS = 100
#: HTML says that it stands in the first 1,024 octets.
_META = re.compile(rb"<meta[^>]{1,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)
_META_OCTETS = 1_024
#: Share of damaged characters, among those beyond ASCII, up to which a declared charset is believed.
_BELIEVED_DAMAGE = 0.2
#: Of a text that is encoded to see whether it can be: more would take memory.
_MAX_ENCODED_CHARS = 65_536
_SURROGATES = re.compile("[\ud800-\udfff]")


def decode(octets: bytes, charset: str | None) -> str:
    """Text by the declared charset, else by UTF-8, else by CP1252 with replacement.

    Where the declared one (UTF-8, if none is) fails at a few places only, those become U+FFFD. What is labelled
    US-ASCII and is not, is UTF-8 wherever it can be.
    """
    codec = codec_of(charset)
    # Text in UTF-16 has NULs or octets beyond ASCII; plain ASCII under that label would become Chinese.
    if codec is None or (codec.startswith(("utf_16", "utf_32")) and octets.isascii() and b"\x00" not in octets):
        codec = "utf_8"
    if codec in ("utf_8", "ascii", "cp1252") and octets.isascii():
        return octets.decode("ascii")
    for name in ("utf_8", "cp1252") if codec == "ascii" else (codec, "utf_8"):
        try:
            return octets.decode(name).removeprefix("\ufeff")
        except ValueError:
            continue
    text = octets.decode(codec, "replace").removeprefix("\ufeff")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") <= _BELIEVED_DAMAGE * beyond_ascii:
        return text
    return octets.decode("cp1252", "replace")


def codec_of(charset: str | None) -> str | None:
    """The codec that reads a charset as mails are written; None for a name that is no charset."""
    return _codec_of(charset) if charset and len(charset) <= _MAX_NAME_CHARS else None


@lru_cache(maxsize=128)
def _codec_of(charset: str) -> str | None:
    name = _SEPARATORS.sub("_", charset.lower()).strip("_")
    for spelled in (name, name.removeprefix("x_"), name.replace("_", "")):
        if spelled in _CODECS:
            codec = _CODECS[spelled] or spelled
            return _READ_AS.get(codec, codec)
    return None


def charset_of_html(octets: bytes) -> str | None:
    """The charset that html itself says it is in, for html whose header fields name none."""
    found = _META.search(octets[:_META_OCTETS])
    return found.group(1).decode("ascii") if found else None


def storable(text: str) -> str:
    """Without NUL, and with U+FFFD for lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    if len(text) <= _MAX_ENCODED_CHARS:
        try:
            text.encode()  # which tells that there is no surrogate, in a tenth of the time
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _SURROGATES.sub("\ufffd", text)
