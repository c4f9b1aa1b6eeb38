"""Text that is safe in a header line: no value opens a header of its own (`send.md` section 3.3)."""

import re

#: Controls, and the two other line ends of Unicode, at which some software breaks lines too.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def clean_text(text: str) -> str:
    """`text` on one line: each run of control characters is one space, the ends are trimmed."""
    return _CONTROLS.sub(" ", text).strip()
