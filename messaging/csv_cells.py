"""Cells of CSV files that people open in a spreadsheet, which takes some text for a formula and runs it.

Such a cell gets an apostrophe in front, by which spreadsheets know text, and loses it when it is read back. Quoting
(RFC 4180) does not help: a quoted formula is one too. Source: OWASP, "CSV Injection".
"""

import re

#: What a formula begins with; the last four are the wide forms of the first.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
#: A number in E.164, which is only shown as another number.
_NUMBER = re.compile(r"\+[0-9]+")
_APOSTROPHE = "'"


def guarded(cell: str) -> str:
    """A cell as it may stand in a file."""
    is_formula = cell.lstrip(" ").startswith(_FORMULA) and not _NUMBER.fullmatch(cell)
    return _APOSTROPHE + cell if is_formula or _looks_guarded(cell) else cell


def unguarded(cell: str) -> str:
    """The cell that `guarded` was given."""
    return cell[1:] if _looks_guarded(cell) else cell


def _looks_guarded(cell: str) -> bool:
    return cell.startswith(_APOSTROPHE) and cell[1:].lstrip(" ").startswith((_APOSTROPHE, *_FORMULA))
