"""SMTP reply codes (RFC 5321, 4.2) and enhanced status codes (RFC 3463) in free text (`receive.md` 12.3)."""

import re

#: Codes that count wherever they stand alone, and those of the table in `receive.md` 12.3.
_ANYWHERE = "421|450|451|452|550|551|552|553|554"
#: No number of bytes, seconds or recipients, and nothing longer: `550 bytes`, `555-1234`.
_NO_AMOUNT = r"(?![\w.@/%])(?!-\d)(?! ?(?:bytes|[kmg]i?b|octets|seconds|minutes|hours|days|messages|users)\b)"
_ENHANCED = r"[245]\.\d{1,3}\.\d{1,3}(?!\d|\.\d)"

_CODE_THEN_ENHANCED = re.compile(rf"(?<![\w.@/])([45]\d\d)(?:[ ,:/-]{{1,3}}|[ -]?)[#\[(<]?(?={_ENHANCED})")
_CODE_AT_A_START = re.compile(
    r"(?:^[ \t]*|[:;(>#=\[\"'][ \t]{0,4}|\b(?:said|error|code|reply|response|status)[ \t:]{1,4})([45]\d\d)"
    + _NO_AMOUNT,
    re.MULTILINE | re.IGNORECASE,
)
_CODE_ANYWHERE = re.compile(rf"(?<![\w.@/-])({_ANYWHERE}){_NO_AMOUNT}")
#: Not in addresses, names of hosts and numbers of versions.
_STATUS = re.compile(rf"(?<![\w.@/-])({_ENHANCED})(?![\w@])")
_STATUS_BEHIND_A_CODE = re.compile(r"(?<!\d)([45])\d\d(?:[ ,:/-]{1,3}|[ -]?)[#\[(<]?(\1\.\d{1,3}\.\d{1,3})(?!\d|\.\d)")
_STATUS_NUMBERED = re.compile(rf"#[ ]?(?:[45]\d\d )?{_ENHANCED}")
_STATUS_MARKED = re.compile(
    rf"(?:#|\[|\(|status[: =]{{1,3}}|code[: =]{{1,3}}|error[: =]{{1,3}})({_ENHANCED})", re.IGNORECASE
)
_COMMAND = re.compile(
    r"rcpt to|mail from|data command|<<< ?[45]|smtp error|remote (?:host|server)|\bsaid: ?[45]|"
    r"mailbox|recipient|user unknown|undeliver|\bsmtp\b",
    re.IGNORECASE,
)
_END_OF_PARAGRAPH = re.compile(r"\n[ \t]*\r?\n")
#: Of a reply that a text quotes.
MAX_REPLY_CHARS = 1000
_VERSION = re.compile(
    r"(?:version|ver\.?|v\.?|release|exim|postfix|sendmail|mdaemon|server)[ /-]{0,2}\Z", re.IGNORECASE
)


def reply_code(text: str) -> str | None:
    """The SMTP reply code of a text, e.g. `550`: one before an enhanced code, else at a start, else a usual one."""
    found = _reply(text)
    return found[1] if found else None


def quoted_reply(text: str) -> str:
    """What a text quotes of a server: from its reply code to the end of the paragraph, else the paragraph with an
    enhanced code; empty without either.
    """
    if found := _reply(text):
        return _END_OF_PARAGRAPH.split(text[found.start(1) : found.start(1) + MAX_REPLY_CHARS], maxsplit=1)[0]
    if "." not in text or (coded := _STATUS.search(text) or _STATUS_MARKED.search(text)) is None:
        return ""
    before = text[max(0, coded.start() - MAX_REPLY_CHARS) : coded.start()]
    after = text[coded.start() : coded.start() + MAX_REPLY_CHARS]
    return _END_OF_PARAGRAPH.split(before)[-1] + _END_OF_PARAGRAPH.split(after, maxsplit=1)[0]


def _reply(text: str) -> re.Match[str] | None:
    return next(
        (found for one in (_CODE_THEN_ENHANCED, _CODE_AT_A_START, _CODE_ANYWHERE) if (found := one.search(text))), None
    )


def enhanced_code(text: str, klass: str | None = None) -> str | None:
    """The enhanced status code of a text, e.g. `5.1.1`, the most telling of those that stand behind a reply code, else
    in marks, else anywhere; `klass` (`4` or `5`) looks for those alone.
    """
    if "." not in text:
        return None
    for codes in (_behind_reply_codes, _marked, _anywhere):
        if wanted := [code for code in codes(text) if klass is None or code[0] == klass]:
            return max(wanted, key=_telling)  # the first of equals
    return None


def _behind_reply_codes(text: str) -> list[str]:
    return [found[2] for found in _STATUS_BEHIND_A_CODE.finditer(text)]


def _marked(text: str) -> list[str]:
    return _STATUS_MARKED.findall(text)


def _anywhere(text: str) -> list[str]:
    found = _STATUS.finditer(text)
    return [one[1] for one in found if not _VERSION.search(text, max(0, one.start() - 12), one.start())]


def is_dialogue(text: str) -> bool:
    """Whether a text quotes a mail server: both codes together, one behind a `#`, or one and a word of SMTP."""
    if _CODE_THEN_ENHANCED.search(text) or _STATUS_NUMBERED.search(text):
        return True
    return _COMMAND.search(text) is not None and (reply_code(text) is not None or enhanced_code(text) is not None)


def is_generic(status: str) -> bool:
    """Whether it tells no more than its class: x.0.0."""
    return status.endswith(".0.0")


def finer(stated: str | None, others: tuple[str | None, ...]) -> str | None:
    """`stated`, or the first of the others, of its class, that says more than it does."""
    best = stated
    for other in others:
        if other is None or (stated is not None and other[0] != stated[0]):
            continue
        if best is None or _telling(other) > _telling(best):
            best = other
    return best


def _telling(status: str) -> int:
    """0 for x.0.0, 1 for x.y.0, 2 for the others; x.0.z, of which some servers make their own, counts as those."""
    _, subject, detail = status.split(".")
    return 2 if int(detail) else int(bool(int(subject)))
