"""The audit log: who did what to which row, with what stood before and after. Rows are only ever added.

Rows of classes that are `Noted` are noted by the session's flush, so that no function can forget it; what is written by
a statement is noted by `note` beside it. An entry is part of the transaction of what it tells: both hold, or neither.
What is none of an operator's actions is not here: messages handed in, and what workers and ticks do.
"""

from messaging.audit.models import AUDIT_LOG, SECRET, AuditEntry
from messaging.audit.noted import Noted
from messaging.audit.noting import Entry, note, note_all

__all__ = ["AUDIT_LOG", "SECRET", "AuditEntry", "Entry", "Noted", "note", "note_all"]
