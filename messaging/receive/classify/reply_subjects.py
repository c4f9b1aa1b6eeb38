"""Subjects by which automatic answers name themselves, in the languages of the world; the table is data."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cache, lru_cache
from typing import NamedTuple

from messaging.receive.classify.phrases import table

_STRAIGHT = str.maketrans({"’": "'", "‘": "'", "`": "'", "´": "'"})
#: What lists, ticket systems and gateways put first: `[EXTERNAL]`, `{Spam?}`, `***SPAM***`, `<ext>`, `【自動返信】`.
_TAG = re.compile(
    r"(?:\[([^\[\]]{0,80})\]|\(([^()]{0,80})\)|\{([^{}]{0,80})\}|<{1,3}([^<>]{0,80})>{1,3}|\*{2,5}([^*]{1,80})\*{2,5}"
    r"|【([^【】]{0,80})】|《([^《》]{0,80})》|「([^「」]{0,80})」)[ :-]*"
)
_OPENINGS = ("[", "(", "{", "<", "**", "【", "《", "「")
#: Behind a phrase: what separates it from the subject that it answers.
_SEPARATOR = re.compile(r"\s*(?:$|[:;,.!()\[\]{}<>\"'|/=*~«»„“”「」『』【】-]|[–—―…·•،。、])")


class Strength(IntEnum):
    """How much of a machine a subject shows by itself."""

    #: None: it is not of the table.
    NONE = 0
    #: People write so, too.
    COMMON = 1
    #: Only programs write so.
    PROGRAM = 2


class AutoSubject(NamedTuple):
    """What a subject says of who wrote it."""

    strength: Strength
    #: Whether `Re:`, `Fwd:` or the like stands in front: then a person answered, or passed on, such a mail.
    has_prefix: bool
    #: Whether the first of those is `Fwd:` or the like.
    is_forward: bool = False


@lru_cache(maxsize=4)  # one rule after the other asks for one subject
def read_subject(subject: str | None) -> AutoSubject:
    """How a subject begins, tags and reply prefixes left aside."""
    text = _comparable(subject or "")
    strength = _strength(text)
    prefixes: list[str] = []
    while strength is Strength.NONE:
        if text.startswith(_OPENINGS) and (tag := _TAG.match(text)):
            strength = _strength((tag[tag.lastindex or 0]).strip())
            text = text[tag.end() :].lstrip()
        elif ":" in text and (prefix := _prefix().match(text)):
            prefixes.append(prefix[1])
            text = text[prefix.end() :]
        else:
            break
        strength = strength or _strength(text)
    is_forward = bool(prefixes) and prefixes[0] in _tables().forwards
    return AutoSubject(max(strength, _strength_behind_a_name(text)), bool(prefixes), is_forward)


def _strength(text: str) -> Strength:
    tables = _tables()
    if _begins_with(text, tables.program):
        return Strength.PROGRAM
    return Strength.COMMON if _begins_with(text, tables.common) else Strength.NONE


def _strength_behind_a_name(text: str) -> Strength:
    for phrase in _tables().behind_a_name:
        if phrase in text:
            rest = text.partition(phrase)[2].lstrip()
            is_programs = rest.startswith(("(", ".", "。")) or text.startswith("auto")
            return Strength.PROGRAM if is_programs else Strength.COMMON
    return Strength.NONE


def _begins_with(text: str, by_letter: Mapping[str, tuple[str, ...]]) -> bool:
    # One call for the many subjects that begin with none.
    phrases = by_letter.get(text[:1], ())
    if not text.startswith(phrases):
        return False
    return any(_ends(text, phrase) for phrase in phrases if text.startswith(phrase))


def _ends(text: str, phrase: str) -> bool:
    """Whether a phrase at the beginning of a text is not the beginning of another sentence."""
    rest = text[len(phrase) :]
    return not phrase[-1].isalnum() or _SEPARATOR.match(rest) is not None or _prefix().match(rest.lstrip()) is not None


def _comparable(text: str) -> str:
    """Without case, accents and other marks: gateways and capitals of Greek and Turkish lose them."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text.translate(_STRAIGHT))
        text = "".join(char for char in decomposed if not unicodedata.combining(char)).casefold().replace("ı", "i")
    return " ".join(text.casefold().split())


class _Tables(NamedTuple):
    #: By their first letter.
    program: Mapping[str, tuple[str, ...]]
    common: Mapping[str, tuple[str, ...]]
    behind_a_name: tuple[str, ...]
    answers: tuple[str, ...]
    forwards: tuple[str, ...]


@cache
def _tables() -> _Tables:
    read = table("auto_replies")
    return _Tables(
        program=_by_letter(_spelled(read["program"])),
        common=_by_letter(_spelled(read["common"])),
        behind_a_name=_spelled(read["behind_a_name"]),
        answers=_spelled(read["prefix"]["answers"]),
        forwards=_spelled(read["prefix"]["forwards"]),
    )


@cache
def _prefix() -> re.Pattern[str]:
    words = _tables().answers + _tables().forwards
    choices = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    # `Re[2]:`, `RE^3:`, `Re (2):`
    return re.compile(rf"({choices})\s?(?:[\[(]\d{{1,3}}[\])]|\^\d{{1,3}})?\s?:\s*")


def _by_letter(phrases: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    return {letter: tuple(one for one in phrases if one[0] == letter) for letter in {one[0] for one in phrases}}


def _spelled(phrases: Iterable[str]) -> tuple[str, ...]:
    return tuple(_comparable(phrase) for phrase in phrases)
