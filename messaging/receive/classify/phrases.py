"""Tables of wordings and how a text is searched for them; the wordings themselves are data, in `wordings/`."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

#: What ` * ` in a phrase stands for at most, in characters.
MAX_GAP_CHARS = 80

_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\xa0": " "})
#: The codes before each line of a reply of several lines (RFC 5321, 4.2.1), once its lines are one.
_CONTINUED = re.compile(r" [245]\d\d[ -](?:#?[245]\.\d{1,3}\.\d{1,3}[ :-] ?)?")


def table(name: str) -> dict[str, Any]:
    """One file of `wordings/`, as TOML has it."""
    return tomllib.loads((files(__package__) / "wordings" / f"{name}.toml").read_text("utf-8"))


@lru_cache(maxsize=8)  # the text of one report is asked for by one table after the other
def comparable(text: str) -> str:
    """Text as phrases are compared with: one line, lower case, straight quotes, replies without their codes."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).translate(_STRAIGHT)
    return _CONTINUED.sub(" ", " ".join(text.lower().split()))


class Phrases:
    """Phrases of which a text may hold one.

    Each is looked for as a plain string, which beats an alternation of some hundred by an order of magnitude and is
    linear in the text whatever that holds.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        spelled = [comparable(phrase) for phrase in phrases]
        whole = [phrase for phrase in spelled if " * " not in phrase]
        gapped = [tuple(phrase.split(" * ")) for phrase in spelled if " * " in phrase]
        # Most reports are ASCII and can hold none of the other half.
        self._ascii = tuple(phrase for phrase in whole if phrase.isascii())
        self._other = tuple(phrase for phrase in whole if not phrase.isascii())
        self._gapped_ascii = tuple(pieces for pieces in gapped if "".join(pieces).isascii())
        self._gapped_other = tuple(pieces for pieces in gapped if not "".join(pieces).isascii())

    def is_in(self, text: str) -> bool:
        """Whether a text, `comparable`, holds one."""
        if _has_one(text, self._ascii, self._gapped_ascii):
            return True
        return not text.isascii() and _has_one(text, self._other, self._gapped_other)


def _has_one(text: str, phrases: tuple[str, ...], gapped: tuple[tuple[str, ...], ...]) -> bool:
    for phrase in phrases:
        if phrase in text:
            return True
    for pieces in gapped:
        if pieces[0] in text and _holds(text, pieces):
            return True
    return False


@cache
def outcome(name: str) -> Phrases:
    """`failed`, `delayed`, `delivered` or `relayed`."""
    return Phrases(table("outcomes")[name])


def _holds(text: str, pieces: tuple[str, ...]) -> bool:
    start = text.find(pieces[0])
    while start >= 0:
        end = start + len(pieces[0])
        for piece in pieces[1:]:
            at = text.find(piece, end, end + MAX_GAP_CHARS + len(piece))
            if at < 0:
                break
            end = at + len(piece)
        else:
            return True
        start = text.find(pieces[0], start + 1)
    return False
