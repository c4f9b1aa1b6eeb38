"""The statements that bring receipts to their records: one each, whatever the number of receipts.

Guards: configuration and message id, SENT, and the order of what was told: a final value stays final, of two the later
stands. A record that another receipt holds is waited for, and its newest version is what the order is held against;
with `version + 1` the write is seen by whoever read the record before.
"""

from functools import lru_cache

from sqlalchemy import TextClause, text

from messaging.delivery.announcing import Announcement, EventType, announced, returned
from messaging.sms.models import SMS_SEND_RECORD, DeliveryStatus

#: A receipt whose record has not turned up by then is never applied; hours.
WAIT_HOURS = 24

#: From `heard` (receipt_id, config_id, message_id, status, at) to the records; `found` has the pairs that met. The
#: fence (OFFSET 0) has each pair looked up by index, however many are heard.
_TO_RECORDS = """
    found AS MATERIALIZED (
        SELECT t.*, s.id AS record_id FROM heard t CROSS JOIN LATERAL (
            SELECT r.id FROM sms_send_record r
            WHERE r.provider_config_id = t.config_id AND r.provider_message_id = t.message_id
                AND r.status = 'SENT' OFFSET 0) s),
    best AS MATERIALIZED (
        SELECT DISTINCT ON (record_id) record_id, status, at FROM found
        ORDER BY record_id, status = 'UNKNOWN', at DESC, receipt_id),
    mine AS MATERIALIZED (
        SELECT r.id, r.delivery_status FROM sms_send_record r WHERE r.id = ANY (ARRAY(SELECT record_id FROM best))
        ORDER BY r.id FOR UPDATE),
    moved AS (
        UPDATE sms_send_record r SET delivery_status = b.status, delivery_status_updated_at = b.at,
            version = r.version + 1, updated_at = now()
        FROM best b
        WHERE r.id = b.record_id AND r.id = ANY (ARRAY(SELECT id FROM mine)) AND r.status = 'SENT'
            AND CASE
                WHEN r.delivery_status = 'UNKNOWN' AND b.status <> 'UNKNOWN' THEN true
                WHEN r.delivery_status <> 'UNKNOWN' AND b.status = 'UNKNOWN' THEN false
                ELSE coalesce(b.at > r.delivery_status_updated_at, true) END
        RETURNING r.id, r.tenant_id"""

#: The records that changed, with what was known of them before.
_CHANGED = "(SELECT moved.*, mine.delivery_status AS before FROM moved JOIN mine USING (id))"

#: A later receipt that says the same is not told again.
_EVENT = f"""
    CASE WHEN m.told_delivery_status = m.before THEN NULL
        WHEN m.told_delivery_status = '{DeliveryStatus.DELIVERED}' THEN '{EventType.DELIVERED}'
        WHEN m.told_delivery_status IN ('{DeliveryStatus.UNDELIVERED}', '{DeliveryStatus.FAILED}')
            THEN '{EventType.UNDELIVERED}' END"""

#: What was told is known now, whether or not it changed its record.
_MARKED = """,
    marked AS (
        UPDATE sms_receipt q SET applied_at = now(), updated_at = now()
        WHERE q.id = ANY (ARRAY(SELECT receipt_id FROM found)) AND q.applied_at IS NULL)"""

_STORED = """
    q.id AS receipt_id, q.provider_config_id AS config_id, q.provider_message_id AS message_id, q.status,
    coalesce(q.at, q.received_at) AS at"""

_COUNTS = """
    (SELECT count(DISTINCT receipt_id) FROM found) AS applied, (SELECT count(*) FROM heard) AS looked_at"""


def _statement(heard: str, marked: str, announcement: Announcement | None, *, answer: str) -> TextClause:
    moved = f"{_TO_RECORDS}{returned(SMS_SEND_RECORD, announcement)})"
    told = announced(SMS_SEND_RECORD, announcement, _CHANGED, _EVENT)
    return text(f"WITH heard AS MATERIALIZED ({heard}), {moved} {marked} {told} SELECT {answer}")


@lru_cache
def record(announcement: Announcement | None = None) -> TextClause:
    """Parameters `config_id`, `message_id`, `status`, `at` (null is now). Answers `is_known`."""
    return _statement(
        """
        SELECT 0 AS receipt_id, CAST(:config_id AS bigint) AS config_id, CAST(:message_id AS text) AS message_id,
            CAST(:status AS text) AS status, coalesce(CAST(:at AS timestamptz), now()) AS at""",
        "",
        announcement,
        answer="EXISTS (SELECT FROM found) AS is_known",
    )


@lru_cache
def apply_stored(announcement: Announcement | None = None) -> TextClause:
    """Parameter `receipt_ids`. Answers `applied`, `looked_at`."""
    return _statement(
        f"""
        SELECT {_STORED} FROM sms_receipt q
        WHERE q.id = ANY (CAST(:receipt_ids AS bigint[])) AND q.applied_at IS NULL
            AND q.provider_message_id IS NOT NULL""",  # noqa: S608 - constants of this file
        _MARKED,
        announcement,
        answer=_COUNTS,
    )


@lru_cache
def apply_waiting(announcement: Announcement | None = None) -> TextClause:
    """Newest first. Parameters `rows`, and of the last row of the page before this one `before` and `before_id`.

    Those are null for the first page. Answers `applied`, `looked_at`, `last_received_at`, `last_id`.
    """
    return _statement(
        f"""
        SELECT {_STORED}, q.received_at FROM sms_receipt q
        WHERE q.applied_at IS NULL AND q.provider_message_id IS NOT NULL
            AND q.received_at > now() - interval '{WAIT_HOURS} hours'
            AND (q.received_at, q.id)
                < (coalesce(CAST(:before AS timestamptz), 'infinity'), coalesce(CAST(:before_id AS bigint), 0))
        ORDER BY q.received_at DESC, q.id DESC LIMIT :rows""",  # noqa: S608 - constants of this file
        _MARKED,
        announcement,
        answer=f"""{_COUNTS},
            (SELECT t.received_at FROM heard t ORDER BY t.received_at, t.receipt_id LIMIT 1) AS last_received_at,
            (SELECT t.receipt_id FROM heard t ORDER BY t.received_at, t.receipt_id LIMIT 1) AS last_id""",  # noqa: S608
    )
