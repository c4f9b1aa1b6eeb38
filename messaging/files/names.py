"""File names as data: shown to people and offered to their mail programs, never used as a path of ours."""

import re

#: Characters of a name: what common file systems take, and `stored_file.file_name` holds.
MAX_NAME_CHARS = 255
#: Characters after the last dot that are kept when a name is cut.
_MAX_EXTENSION_CHARS = 20
#: What a name becomes of which nothing is left.
NAMELESS = "attachment"

#: Controls and the two other line ends of Unicode.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
#: `invoice<U+202E>fdp.exe` is shown as `invoiceexe.pdf` (Unicode TR36, 2.6): no name needs them to be read.
_BIDI_CONTROLS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: A program that saves under the name as given would leave its folder (CWE-22).
_SEPARATORS = re.compile(r"[/\\]")
#: All spaces of Unicode that are no controls.
_SPACES = " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
#: Windows drops some of them, so that `a.exe.` passes a filter and is saved as `a.exe`.
_DROPPED_AT_THE_END = _SPACES + "."


def clean_file_name(text: str) -> str:
    """A name of one line that names a file and no folder, at most 255 characters; cleaning it again changes nothing."""
    name = _SEPARATORS.sub("_", _BIDI_CONTROLS.sub("", _CONTROLS.sub(" ", text)))
    name = name.lstrip(_SPACES).rstrip(_DROPPED_AT_THE_END)
    if len(name) > MAX_NAME_CHARS:
        stem, dot, extension = name.rpartition(".")
        if not dot or len(extension) > _MAX_EXTENSION_CHARS:
            stem, dot, extension = name, "", ""
        name = stem[: MAX_NAME_CHARS - len(dot + extension)].rstrip(_DROPPED_AT_THE_END) + dot + extension
    return name or NAMELESS
