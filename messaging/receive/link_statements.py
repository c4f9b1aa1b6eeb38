"""The statements of the linker: what waits, the records it may be about, and how it ends. One each for a batch."""

from functools import lru_cache

from sqlalchemy import TextClause, text

from messaging.receive.reports import COLUMNS

#: Hours after which a mail whose record was not found is given up.
WAIT_HOURS = 24

#: Mails of one mailbox that wait, those never looked at first, then the longest not looked at: a mailbox that gets
#: many reports about mails of others keeps none of ours waiting. Parameters `config_id`, `limit`.
WAITING = text(f"""
    SELECT id, reference_ids, verp_record_id, {", ".join(COLUMNS)},
        fetched_at <= now() - interval '{WAIT_HOURS} hours' AS is_old
    FROM mail_receive_record WHERE server_config_id = :config_id AND link_status = 'PENDING'
    ORDER BY link_checked_at NULLS FIRST, id LIMIT :limit
""")  # noqa: S608 - constants of this file

_PLATFORM_SENT = """(r.tenant_id = -1 OR EXISTS (
        SELECT FROM mail_send_server_config c WHERE c.id = r.server_config_id AND c.tenant_id = -1))"""


@lru_cache
def look_up(is_multi_tenancy: bool, is_platform: bool) -> TextClause:
    """The records with one of `message_ids` or `record_ids` that a mailbox of `owner` may speak of.

    A tenant's mailbox speaks of that tenant's records. The platform's speaks of what went out by a server of the
    platform, whosever it is: a bounce comes back to the server's envelope sender.
    """
    visible = "true" if not is_multi_tenancy else _PLATFORM_SENT if is_platform else "r.tenant_id = :owner"
    columns = "r.id, r.tenant_id, r.status, r.message_id, r.to_addresses, r.cc_addresses, r.bcc_addresses"
    return text(f"""
        SELECT {columns} FROM mail_send_record r
            WHERE r.message_id = ANY (CAST(:message_ids AS text[])) AND {visible}
        UNION ALL
        SELECT {columns} FROM mail_send_record r
            WHERE r.id = ANY (CAST(:record_ids AS bigint[])) AND {visible}
    """)  # noqa: S608 - constants of this file


#: Rows still waiting, locked in one order; who holds one decides about it. Parameter `ids`.
_STILL_WAITING = """
    SELECT id FROM mail_receive_record WHERE id = ANY (CAST(:ids AS bigint[])) AND link_status || '' = 'PENDING'
    ORDER BY id FOR UPDATE SKIP LOCKED"""

#: Their records were not found, or are in the middle of an attempt.
CHECKED = text(f"""
    UPDATE mail_receive_record SET link_checked_at = now() WHERE id = ANY (ARRAY({_STILL_WAITING})) RETURNING id
""")  # noqa: S608

#: Nothing to link, or nothing found in time. Parameters `ids`, `status`; answers `mail_type`.
ENDED = text(f"""
    UPDATE mail_receive_record SET link_status = :status, updated_at = now()
    WHERE id = ANY (ARRAY({_STILL_WAITING})) RETURNING mail_type
""")  # noqa: S608

#: Known. Parameters: arrays `ids`, `record_ids`, and what null leaves as it is: the records' `message_ids`,
#: `recipients` and `failed`, those of a text that were written to. Answers `mail_type`.
LINKED = text(f"""
    UPDATE mail_receive_record r SET link_status = 'LINKED', linked_send_record_id = l.record_id,
        original_message_id = coalesce(l.message_id, r.original_message_id),
        bounce_recipients = coalesce(l.recipients, r.bounce_recipients),
        failed_recipients = coalesce(l.failed, r.failed_recipients), updated_at = now()
    FROM unnest(CAST(:ids AS bigint[]), CAST(:record_ids AS bigint[]), CAST(:message_ids AS text[]),
            CAST(:recipients AS jsonb[]), CAST(:failed AS jsonb[]))
        AS l(id, record_id, message_id, recipients, failed)
    WHERE r.id = l.id AND r.id = ANY (ARRAY({_STILL_WAITING})) RETURNING r.mail_type
""")  # noqa: S608
