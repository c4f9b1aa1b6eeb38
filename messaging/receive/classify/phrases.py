"""Tables of wordings and how a text is searched for them; the wordings themselves are data, in `wordings/`."""

import re
import tomllib
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

#: What ` * ` in a phrase stands for at most, in characters, of one sentence.
MAX_GAP_CHARS = 80

_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\xa0": " "})
#: Not the dots of `<address>... User unknown`.
_END_OF_SENTENCE = re.compile(r"(?<!\.)\. ")
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
        whole = sorted((phrase for phrase in spelled if " * " not in phrase), key=len)
        gapped = [tuple(phrase.split(" * ")) for phrase in spelled if " * " in phrase]
        # Most reports are ASCII and can hold none of the other half.
        self._ascii = tuple(phrase for phrase in whole if phrase.isascii())
        self._lengths = tuple(map(len, self._ascii))
        self._other = tuple(phrase for phrase in whole if not phrase.isascii())
        self._gapped_ascii = tuple(pieces for pieces in gapped if "".join(pieces).isascii())
        self._gapped_other = tuple(pieces for pieces in gapped if not "".join(pieces).isascii())

    def is_in(self, text: str) -> bool:
        """Whether a text, `comparable`, holds one."""
        # A subject can hold none that is longer than itself.
        if _has_one(text, self._ascii[: bisect_right(self._lengths, len(text))], self._gapped_ascii):
            return True
        return not text.isascii() and _has_one(text, self._other, self._gapped_other)


class Ranking:
    """Many phrases in ranks, of which the highest that a text holds counts.

    A phrase is looked for only where the text holds four of its letters, those that the fewest phrases share: of a
    thousand some twenty are left.
    """

    def __init__(self, ranks: Iterable[Iterable[str]]) -> None:
        phrases = [
            (rank, tuple(comparable(phrase).split(" * "))) for rank, names in enumerate(ranks) for phrase in names
        ]
        shared = Counter(four for _, pieces in phrases for four in _fours(pieces[0]))
        self._by_fours: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
        #: Such as 退信.
        self._short: list[tuple[int, tuple[str, ...]]] = []
        for rank, pieces in phrases:
            rarest = min(_fours(pieces[0]), key=lambda four: (shared[four], four), default=None)
            kept = self._short if rarest is None else self._by_fours.setdefault(rarest, [])
            kept.append((rank, pieces))

    def first(self, text: str) -> int | None:
        """The highest rank, the first being 0, with a phrase that a text, `comparable`, holds; None without one."""
        candidates = [one for four in _fours(text) & self._by_fours.keys() for one in self._by_fours[four]]
        if not text.isascii():
            candidates += self._short
        best: int | None = None
        for rank, pieces in candidates:
            if (best is None or rank < best) and _holds(text, pieces):
                best = rank
        return best


def _fours(text: str) -> set[str]:
    return {text[at : at + 4] for at in range(len(text) - 3)}


def _has_one(text: str, phrases: tuple[str, ...], gapped: tuple[tuple[str, ...], ...]) -> bool:
    for phrase in phrases:  # takes half of the time of `any` and its generator
        if phrase in text:
            return True
    return bool(gapped) and any(_holds(text, pieces) for pieces in gapped)


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
            if at < 0 or _END_OF_SENTENCE.search(text, end, at):
                break
            end = at + len(piece)
        else:
            return True
        start = text.find(pieces[0], start + 1)
    return False
