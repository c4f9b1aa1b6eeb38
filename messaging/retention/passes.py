"""What each kind of pruning looks at and does: one pass over one table, by id, told as SQL.

A row is too young, or its time has not come (a record that is not final, a file that is named), or it goes. Ages count
by the database's clock. Usage rows and the audit log have no pass.
"""

from dataclasses import dataclass

from sqlalchemy import Table, TextClause, text

from messaging.delivery import redaction
from messaging.delivery.dead_letter import DEAD_LETTER_MESSAGE
from messaging.delivery.record import SEND_ATTEMPT
from messaging.files.models import STORED_FILE
from messaging.inbox.models import INBOX_NOTIFICATION
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.receive.models import MAIL_RECEIVE_RECORD
from messaging.retention.kinds import PruneKind
from messaging.sandbox.models import CAPTURED_MESSAGE
from messaging.sms.models import SMS_RECEIPT, SMS_SEND_RECORD
from messaging.sms.receipt_statements import WAIT_HOURS
from messaging.webhooks.models import WEBHOOK_SEND_RECORD


@dataclass(frozen=True, slots=True)
class Pass:
    """One walk over one table, called `r` in its SQL; parameter `days`."""

    kind: PruneKind
    #: Names its progress.
    name: str
    table: Table
    #: When a row was made; what the walk ends at is too young. Ids and it grow together.
    born: str
    #: Whether the time of a row that is old enough has not come.
    is_later: str = "false"
    #: Whether there is anything left to do for one whose time has come.
    is_due: str = "true"
    #: Takes locked rows `ids` away, or what they hold; answers `id`, and `file_ids` where they had files. None: the
    #: file store does.
    statement: TextClause | None = None
    #: Whether each run begins at the first row. Else a run goes on where the last one ended, and looks again at rows
    #: whose time had not come.
    starts_over: bool = False


CUTOFF = "now() - CAST(:days AS float8) * interval '1 day'"

_RECORDS = (MAIL_SEND_RECORD, SMS_SEND_RECORD, WEBHOOK_SEND_RECORD)

#: A record that is final, and has been for the days. When a receipt came does not count.
_UNFINISHED = (
    "NOT (r.status || '' IN ('SENT', 'FAILED', 'DEAD_LETTER')"
    f" AND CASE WHEN r.status = 'SENT' THEN coalesce(r.sent_at, r.updated_at) ELSE r.updated_at END < {CUTOFF})"
)


def _delete(table: Table, returning: str = "r.id") -> TextClause:
    return text(f"DELETE FROM {table.name} r WHERE r.id = ANY (CAST(:ids AS bigint[])) RETURNING {returning}")  # noqa: S608


def _bodies(table: Table) -> Pass:
    """Without content a record cannot be sent again, so it is redacted like one whose template asks for it."""
    emptied = redaction.assignments(table, "true") or ", payload = '{}', redacted_at = now()"
    statement = f"""
        UPDATE {table.name} r SET version = r.version + 1 {emptied}
        WHERE r.id = ANY (CAST(:ids AS bigint[])) RETURNING r.id"""  # noqa: S608 - names of our own metadata
    name = f"bodies/{_channel(table)}"
    is_due = "r.redacted_at IS NULL"
    return Pass(PruneKind.BODIES, name, table, "r.created_at", _UNFINISHED, is_due, text(statement))


def _records(table: Table) -> Pass:
    statement = f"""
        WITH gone AS (DELETE FROM {table.name} r WHERE r.id = ANY (CAST(:ids AS bigint[])) RETURNING r.id),
        unlogged AS (DELETE FROM send_attempt a WHERE a.record_id = ANY (CAST(:ids AS bigint[])))
        SELECT id FROM gone"""  # noqa: S608 - names of our own metadata
    name = f"records/{_channel(table)}"
    return Pass(PruneKind.RECORDS, name, table, "r.created_at", _UNFINISHED, statement=text(statement))


def _channel(table: Table) -> str:
    return table.name.removesuffix("_send_record")


#: `'' ||`: found by its id and by no partial index of a status. `OFFSET 0`: asked for each row, and never by reading
#: all records once, which a planner that does not see how few rows are looked at takes for cheaper.
_OF_OPEN_RECORD = " OR ".join(
    f"(r.channel = '{_channel(table)}' AND EXISTS (SELECT FROM {table.name} s WHERE s.id = r.record_id"
    " AND s.status || '' IN ('PENDING', 'RETRY', 'SENDING') OFFSET 0))"
    for table in _RECORDS
)

_FILES_OF_A_MAIL = """
    array_remove(ARRAY(SELECT CAST(f ->> 'file_id' AS bigint) FROM jsonb_array_elements(l.attachments) f)
        || l.eml_file_id, NULL)"""

#: A maildrop tells its mails apart by what is stored of them: of its mails the keys stay, or they would come again.
_RECEIVED = f"""
    WITH l AS MATERIALIZED (
        SELECT r.id, r.attachments, r.eml_file_id, c.protocol IS NOT DISTINCT FROM 'POP3' AS is_kept
        FROM mail_receive_record r LEFT JOIN mail_receive_server_config c ON c.id = r.server_config_id
        WHERE r.id = ANY (CAST(:ids AS bigint[]))),
    gone AS (DELETE FROM mail_receive_record r USING l WHERE r.id = l.id AND NOT l.is_kept),
    emptied AS (
        UPDATE mail_receive_record r SET status = 'DELETED', updated_at = now(), from_address = NULL, from_name = NULL,
            to_addresses = '[]', cc_addresses = '[]', subject = NULL, body_text = NULL, body_html = NULL,
            attachments = NULL, eml_file_id = NULL, date_header = NULL, diagnostic_message = NULL,
            original_message_id = NULL, reference_ids = NULL, failed_recipients = NULL, bounce_recipients = NULL
        FROM l WHERE r.id = l.id AND l.is_kept)
    SELECT l.id, {_FILES_OF_A_MAIL} AS file_ids FROM l"""  # noqa: S608 - constants of the code

#: Whether a template or a mail names the file. Planned as if all that name it were wanted (`MATERIALIZED`), which is by
#: the index, and read up to the first: what is looked for mostly is not there, and a scan in the hope of it reads all.
IS_NAMED = " OR ".join(
    (
        "EXISTS (SELECT FROM mail_receive_record n WHERE n.eml_file_id = r.id OFFSET 0)",
        *(
            f"EXISTS (WITH naming AS MATERIALIZED (SELECT FROM {table} n WHERE n.attachments IS NOT NULL"  # noqa: S608
            " AND n.attachments @> jsonb_build_array(jsonb_build_object('file_id', r.id))) SELECT FROM naming)"
            for table in ("mail_template", "mail_receive_record", "mail_send_record")
        ),
    )
)

PASSES: tuple[Pass, ...] = (
    Pass(PruneKind.CAPTURED, "captured", CAPTURED_MESSAGE, "r.captured_at", statement=_delete(CAPTURED_MESSAGE)),
    Pass(
        PruneKind.NOTIFICATIONS,
        "notifications",
        INBOX_NOTIFICATION,
        "r.created_at",
        statement=_delete(INBOX_NOTIFICATION),
    ),
    Pass(
        PruneKind.RECEIPTS,
        "receipts",
        SMS_RECEIPT,
        "r.received_at",
        f"r.applied_at IS NULL AND r.received_at > now() - interval '{WAIT_HOURS} hours'",
        statement=_delete(SMS_RECEIPT),
    ),
    Pass(
        PruneKind.DEAD_LETTERS,
        "dead_letters",
        DEAD_LETTER_MESSAGE,
        "r.created_at",
        f"r.status = 'PENDING' OR r.updated_at >= {CUTOFF}",
        statement=_delete(DEAD_LETTER_MESSAGE),
        starts_over=True,
    ),
    *map(_bodies, _RECORDS),
    Pass(
        PruneKind.ATTEMPTS,
        "attempts",
        SEND_ATTEMPT,
        "coalesce(r.ended_at, r.started_at)",
        _OF_OPEN_RECORD,
        statement=_delete(SEND_ATTEMPT),
    ),
    *map(_records, _RECORDS),
    Pass(
        PruneKind.RECEIVED,
        "received",
        MAIL_RECEIVE_RECORD,
        "r.fetched_at",
        "r.link_status = 'PENDING'",
        statement=text(_RECEIVED),
    ),
    Pass(PruneKind.FILES, "files", STORED_FILE, "r.created_at", IS_NAMED, starts_over=True),
)
