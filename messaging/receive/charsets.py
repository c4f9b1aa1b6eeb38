"""Octets to text, whatever charset they claim: never an error, and always text that PostgreSQL stores."""

#: What is labelled so is in practice written in the wider one.
_READ_AS = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x-gbk": "gb18030",
    "ks_c_5601-1987": "cp949",
    "ks_c_5601": "cp949",
    "euc-kr": "cp949",
    "iso-8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
}


def decode(octets: bytes, charset: str | None) -> str:
    """Text by the declared charset, else by UTF-8, else by CP1252 with replacement."""
    for name in (charset and _READ_AS.get(charset.strip().lower(), charset), "utf-8"):
        if name:
            try:
                return octets.decode(name)
            except (LookupError, ValueError):
                continue
    return octets.decode("cp1252", "replace")


def storable(text: str) -> str:
    """Without NUL, and with U+FFFD for lone surrogates."""
    text = text.replace("\x00", "")
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not text.isascii() else text
