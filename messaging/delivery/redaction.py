"""Redaction: what a send record says is taken off it, and a hash of it stays; whom, when and what became of it too.

Used where a record ends as SENT whose template asks for it (`redact`), and by retention. Without its content a record
cannot be sent again: `redacted_at` refuses a manual retry. The hash is SHA-256 over subject, HTML body and plain body
of a mail, or over the text of a text message, in UTF-8, joined by NUL octets, with nothing for what is missing: whoever
has the content can show that it is this. So can who guesses it, such as a code of six digits.
"""

from sqlalchemy import Table

#: Columns that hold what a record says, files it carries among them.
CONTENT_COLUMNS = (
    *("subject", "body_html", "body_text", "attachments", "headers"),  # a mail's
    *("content", "template_params"),  # a text message's
    "template_variables",
)

#: Those that the hash is over, in their order.
HASHED_COLUMNS = ("subject", "body_html", "body_text", "content")


def has_content(table: Table) -> bool:
    """Whether records of this table have anything that is taken off."""
    return any(name in table.c for name in CONTENT_COLUMNS)


def assignments(table: Table, condition: str, alias: str = "r") -> str:
    """Assignments, each after a comma, that take the content off where `condition` holds; none without content."""
    if not has_content(table):
        return ""
    values = dict.fromkeys((name for name in CONTENT_COLUMNS if name in table.c), "NULL")
    values |= {"redacted_at": "now()", "content_sha256": _sha256(table, alias)}
    return "".join(
        f", {name} = CASE WHEN {condition} THEN {value} ELSE {alias}.{name} END" for name, value in values.items()
    )


def _sha256(table: Table, alias: str) -> str:
    parts = [f"convert_to(coalesce({alias}.{name}, ''), 'UTF8')" for name in HASHED_COLUMNS if name in table.c]
    octets = " || decode('00', 'hex') || ".join(parts)
    return f"encode(sha256({octets}), 'hex')"
