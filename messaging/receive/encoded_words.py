"""Encoded words of header fields, decoded leniently and in linear time (RFC 2047)."""

import binascii
import re

from messaging.receive.charsets import decode, storable
from messaging.receive.transfer import decode_base64

_START = re.compile(r"=\?([^?\s]{1,100})\?([bBqQ])\?")


def decode_words(value: str) -> str:
    """An unfolded value with its encoded words decoded; what cannot be decoded stays as it is.

    Words may touch each other or plain text, hold spaces, lack padding and split a character between two of them.
    Octets beyond ASCII (as surrogates, `surrogateescape`) are UTF-8, else CP1252.
    """
    if "=?" not in value:
        if value.isascii() and "\x00" not in value:
            return value.strip()
        return storable(_plain(value).strip())
    text: list[str] = []
    run = _Run()
    position = 0
    while (word := _START.search(value, position)) is not None:
        end = value.find("?=", word.end())
        if end < 0:
            break
        between = value[position : word.start()]
        # White space between two encoded words is not shown (RFC 2047, 6.2).
        if run.is_empty or between.strip(" \t\r\n"):
            text += run.take(), _plain(between)
        charset, encoding = word.group(1).partition("*")[0].lower(), word.group(2).lower()
        if not run.takes(charset):
            text.append(run.take())
        run.add(charset, encoding, value[word.end() : end])
        position = end + 2
    text += run.take(), _plain(value[position:])
    return storable("".join(text).strip())


class _Run:
    """Encoded words side by side in one charset, decoded together: a character may begin in one and end in the next."""

    def __init__(self) -> None:
        self._charset = ""
        self._octets: list[bytes] = []
        #: Base64 of a word that does not end at a boundary of four: the next word goes on with it.
        self._open: list[str] = []

    @property
    def is_empty(self) -> bool:
        return not self._octets and not self._open

    def takes(self, charset: str) -> bool:
        return self.is_empty or charset == self._charset

    def add(self, charset: str, encoding: str, word: str) -> None:
        self._charset = charset
        if encoding == "q":
            self._close()
            octets = word.replace("_", " ").encode("utf-8", "surrogateescape")
            self._octets.append(binascii.a2b_qp(octets))
            return
        self._open.append(word)
        if word.endswith("=") or not len(word) % 4:
            self._close()

    def take(self) -> str:
        """The text so far; the run begins anew."""
        self._close()
        octets, self._octets = b"".join(self._octets), []
        return decode(octets, self._charset) if octets else ""

    def _close(self) -> None:
        if self._open:
            self._octets.append(decode_base64("".join(self._open).encode("utf-8", "surrogateescape")))
            self._open = []


def _plain(text: str) -> str:
    return text if text.isascii() else decode(text.encode("utf-8", "surrogateescape"), None)
