"""Media types of attached files, and the parameters of MIME fields (RFC 2045 section 5, RFC 2183, RFC 2231).

A type is given by callers and templates: one that would change how a reader takes the mail apart is not passed on.
"""

import re

from messaging.mail.header_fields import LINE_CHARS, encoded_words

#: What a file is when nobody said, or said something that cannot be.
OCTET_STREAM = "application/octet-stream"
#: A mail of its own: the one type that no encoding may stand around (RFC 2046, 5.2.1).
MESSAGE = "message/rfc822"

#: RFC 6838, 4.2.
_NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
#: RFC 2045, 5.1.
_VALUE = r"""[!#-'*+.0-9A-Z^-~-]+|"(?:[ !#-\[\]-~]|\\[ -~])*\""""
_PARAMETER = re.compile(rf"; *([!#-'*+.0-9A-Z^-~-]+)=({_VALUE}) *")
_MEDIA_TYPE = re.compile(rf" *({_NAME})/({_NAME}) *((?:{_PARAMETER.pattern})*)")
#: Characters of a type that is looked at, with its parameters.
_MAX_CHARS = 255
#: Parameters that are ours to write, and those in the forms of RFC 2231.
_OURS = re.compile(r"name|filename|boundary|.*\*.*", re.IGNORECASE)
_MAX_PARAMETER_CHARS = 70

#: Quoted as it is, and read the same by everybody: some take a semicolon in quotes for the end, or two spaces for one.
_PLAIN = re.compile(r"[!#-:<-\[\]-~]+(?: [!#-:<-\[\]-~]+)*")
#: Left alone in an extended value; less than RFC 2231 allows, as some readers stumble over the rest.
_UNESCAPED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._")
_CHARSET = "utf-8''"
#: Characters of an encoded-word that stands in `name`, so that its line has at most 76.
_WORD_CHARS = 66


def media_type(given: str | None) -> str:
    """`type/subtype` and its parameters, each on a line of its own; `application/octet-stream` where it cannot be.

    That is: what is no media type, a multipart, which the file's content would break, and any message but a whole one
    (`message/external-body` makes a reader fetch what it names, `message/partial` waits for more).
    """
    found = _MEDIA_TYPE.fullmatch(given or "") if len(given or "") <= _MAX_CHARS else None
    if found is None:
        return OCTET_STREAM
    kind, subtype = found[1].lower(), found[2].lower()
    name = f"{kind}/{subtype}"
    if name == MESSAGE:
        return MESSAGE
    if kind in ("multipart", "message"):
        return OCTET_STREAM
    parameters = {key.lower(): value for key, value in _PARAMETER.findall(found[3]) if not _OURS.fullmatch(key)}
    return ";\r\n ".join([name, *(f"{k}={v}" for k, v in parameters.items() if len(k + v) < _MAX_PARAMETER_CHARS)])


def parameter(name: str, value: str) -> str:
    """A parameter, with the semicolons before and within it, of folded lines: plain, or extended by RFC 2231."""
    if _fits_plain(name, value):
        return f';\r\n {name}="{value}"'
    octets = [_escaped(char) for char in value]
    whole = f"{name}*={_CHARSET}{''.join(octets)}"
    if len(whole) + 2 <= LINE_CHARS:
        return f";\r\n {whole}"
    # Every section is an extended one, and ends with a character: a web mail loses `filename*1=p` after `filename*0*`.
    sections = [f"{name}*0*={_CHARSET}"]
    for char in octets:
        if len(sections[-1]) + len(char) + 2 > LINE_CHARS:
            sections.append(f"{name}*{len(sections)}*=")
        sections[-1] += char
    return "".join(f";\r\n {section}" for section in sections)


def parameter_of_old(name: str, value: str) -> str:
    """The same for readers that know no RFC 2231: encoded-words in quotes where the value is not plain.

    RFC 2047 (5 rule 3) does not want them there, and a strict reader takes them literally: only beside a `parameter`
    that goes before. It is what mail programs themselves send, and without it some Outlooks show `ATT00001.dat`.
    """
    if _fits_plain(name, value):
        return f';\r\n {name}="{value}"'
    words = "\r\n ".join(encoded_words(value, _WORD_CHARS))
    return f';\r\n {name}="{words}"'


def _fits_plain(name: str, value: str) -> bool:
    # What looks like an encoded-word would be decoded by many.
    return len(name) + len(value) + 5 <= LINE_CHARS and "=?" not in value and _PLAIN.fullmatch(value) is not None


def _escaped(char: str) -> str:
    return "".join(chr(octet) if octet in _UNESCAPED else f"%{octet:02X}" for octet in char.encode())
