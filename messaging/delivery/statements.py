"""All SQL of the hot path, as functions of the channel's table, each named for its move (protocol, section 2).

Every statement is whole: it locks in id order, guards by `id` and `version` (and `claim_token` where a claim is
concerned), writes `version + 1`, and answers what moved. Zero rows is an answer. Several records travel as arrays, so
that a chunk costs one round trip. Times are the database's `now()`. Shapes and traps: the notes on the claim, sections
2 and 6. Rows are picked by `id = ANY (ARRAY(SELECT ... FOR UPDATE))`: it is evaluated once and never becomes a scan.
A statement that ends records takes an `announcement`: what it adds to tell of it, if anybody listens.
"""

from collections.abc import Mapping
from functools import lru_cache

from sqlalchemy import Table, TextClause, text
from sqlalchemy.dialects import postgresql

from messaging.category import MarkerCode
from messaging.delivery import redaction
from messaging.delivery.announcing import Announcement, EventType, announced, event, returned
from messaging.delivery.dead_letter import SEND_DEAD_LETTER
from messaging.delivery.dead_letter_kinds import DeadLetterSource
from messaging.quota import TENANT_MESSAGE_QUOTA, TENANT_MESSAGE_USAGE

#: Seconds after which rows whose message could not be published are due again (C18).
UNPUBLISHED_DUE_SECONDS = 5


_USAGE, _QUOTA = TENANT_MESSAGE_USAGE.name, TENANT_MESSAGE_QUOTA.name

#: The calendar month by the database's clock, e.g. `2026-11`.
_PERIOD = "CAST(to_char(now() AT TIME ZONE CAST(:zone AS text), 'YYYY-MM') AS char(7))"


def _accepted(table: Table, alias: str) -> str:
    """Whether a recipient of this record is recorded as accepted; a channel of one recipient has no such column."""
    if "recipient_results" not in table.c:
        return "false"
    return f"jsonb_path_exists({alias}.recipient_results, '$.* ? (@.result == \"accepted\")')"


def _has_status(alias: str, *statuses: str) -> str:
    """Whether a row that is found by its id has one of these statuses, as a condition that no partial index answers.

    The indexes of open and of claimed rows hold every row of those statuses. Statistics from a quiet hour say that
    there are none, and a claim of 20 would then read a whole backlog.
    """
    return f"{alias}.status || '' IN ({', '.join(repr(status) for status in statuses)})"


@lru_cache
def promote(table: Table) -> TextClause:
    """T2a: put in line what has become due. Parameter `limit`: rows from each end of what is overdue.

    Oldest and newest: a million rows due at nine must not hide another tenant's retry due a second later.
    """
    overdue = f"SELECT id FROM {table.name} WHERE NOT ready AND next_attempt_at <= now()"
    return text(f"""
        UPDATE {table.name} SET version = version + 1, updated_at = now()
        WHERE id = ANY (ARRAY(
            SELECT id FROM ({overdue} ORDER BY next_attempt_at LIMIT :limit FOR UPDATE SKIP LOCKED) oldest
            UNION ALL
            SELECT id FROM ({overdue} ORDER BY next_attempt_at DESC LIMIT :limit FOR UPDATE SKIP LOCKED) newest))
    """)


@lru_cache
def lease(table: Table) -> TextClause:
    """T2: hand out `n` rows, round-robin over the tenants in line from cursor `after` downwards, then from the top.

    Within a tenant by lane, then oldest first. Parameters: `n`, `lease` (seconds), `after` (a tenant id). A row that
    another tick leased meanwhile is left out, since `ready` is checked again where the row is locked (C14).

    Answers `id, version, tenant_id, alone, waited`: whether it travels alone, and how long it was due, in seconds.
    """
    hop = "ORDER BY r.tenant_id DESC, r.lane DESC, r.next_attempt_at DESC LIMIT 1"
    fair = "LIMIT :n / l.tenants + (l.pos <= :n % l.tenants)::int"
    extra = "LIMIT l.free / l.tenants + (l.pos <= l.free % l.tenants)::int"
    t = table.name
    return text(f"""
        WITH RECURSIVE below AS (  -- tenants in line under the cursor, one index probe each
            (SELECT r.tenant_id FROM {t} r WHERE r.ready AND r.tenant_id < :after {hop})
            UNION ALL
            SELECT n.tenant_id FROM below b CROSS JOIN LATERAL (
                SELECT r.tenant_id FROM {t} r WHERE r.ready AND r.tenant_id < b.tenant_id {hop}) n),
        above AS (  -- then from the top down to the cursor; not run when enough tenants were found below
            (SELECT r.tenant_id FROM {t} r WHERE r.ready AND r.tenant_id >= :after {hop})
            UNION ALL
            SELECT n.tenant_id FROM above a CROSS JOIN LATERAL (
                SELECT r.tenant_id FROM {t} r
                WHERE r.ready AND r.tenant_id < a.tenant_id AND r.tenant_id >= :after {hop}) n),
        line AS MATERIALIZED (
            SELECT tenant_id, row_number() OVER () AS pos, count(*) OVER () AS tenants
            FROM (SELECT tenant_id FROM below UNION ALL SELECT tenant_id FROM above LIMIT :n) found),
        share AS MATERIALIZED (  -- everybody's fair share, locked as it is read
            SELECT l.tenant_id, s.id, s.next_attempt_at FROM line l CROSS JOIN LATERAL (
                SELECT r.id, r.next_attempt_at FROM {t} r WHERE r.ready AND r.tenant_id = l.tenant_id
                ORDER BY r.lane, r.next_attempt_at {fair} FOR UPDATE SKIP LOCKED) s),
        spare AS MATERIALIZED (  -- tenants that filled theirs divide what the others left
            SELECT l.tenant_id, g.got, row_number() OVER () AS pos, count(*) OVER () AS tenants,
                :n - (SELECT count(*) FROM share) AS free
            FROM line l JOIN (SELECT tenant_id, count(*) AS got FROM share GROUP BY tenant_id) g USING (tenant_id)
            WHERE g.got = :n / l.tenants + (l.pos <= :n % l.tenants)::int
                AND (SELECT count(*) FROM share) < :n),  -- looked at once, before anything is grouped
        more AS MATERIALIZED (
            SELECT s.id, s.next_attempt_at FROM spare l CROSS JOIN LATERAL (
                SELECT r.id, r.next_attempt_at FROM {t} r WHERE r.ready AND r.tenant_id = l.tenant_id
                ORDER BY r.lane, r.next_attempt_at OFFSET l.got {extra} FOR UPDATE SKIP LOCKED) s
            WHERE l.free > 0),
        leased AS (
            UPDATE {t} SET next_attempt_at = now() + :lease * interval '1 second', version = version + 1,
                updated_at = now()
            WHERE id = ANY (ARRAY(SELECT id FROM share UNION ALL SELECT id FROM more))
            RETURNING id, version, tenant_id, lane, swept_at IS NOT NULL AS alone),
        due AS (SELECT id, next_attempt_at FROM share UNION ALL SELECT id, next_attempt_at FROM more)
        SELECT leased.id, leased.version, leased.tenant_id, leased.alone,
            extract(epoch FROM now() - due.next_attempt_at)::float8 AS waited
        FROM leased JOIN due USING (id) ORDER BY leased.lane, due.next_attempt_at, leased.id
    """)


@lru_cache
def unlease(table: Table) -> TextClause:
    """C18: leased rows whose message could not be published are due again in 5 s. Guard: open, version."""
    return text(f"""
        UPDATE {table.name} r SET next_attempt_at = now() + {UNPUBLISHED_DUE_SECONDS} * interval '1 second',
            version = r.version + 1, updated_at = now()
        WHERE r.id = ANY (ARRAY({_picked_by_version(table)}))
    """)


def _picked_by_version(table: Table) -> str:
    """Ids of open rows that still have the version named, locked in id order; rows that somebody holds are skipped."""
    return f"""
        SELECT s.id FROM {table.name} s
            JOIN unnest(CAST(:ids AS bigint[]), CAST(:versions AS bigint[])) AS p(id, version)
            ON s.id = p.id AND s.version = p.version
        WHERE {_has_status("s", "PENDING", "RETRY")} ORDER BY s.id FOR UPDATE OF s SKIP LOCKED"""


@lru_cache
def claim(table: Table, announcement: Announcement | None = None) -> TextClause:
    """T3: PENDING or RETRY -> SENDING by version, a whole chunk; what is past `expires_at` ends here instead (T5).

    Parameters: `ids`, `versions`, `token`. Answers every column of the rows that moved.
    """
    names = [c.name for c in table.columns]
    columns = ", ".join(f"r.{name}" for name in names)
    is_expired = "r.expires_at <= now()"
    accepted = _accepted(table, "r")
    update = f"""
        UPDATE {table.name} r SET version = r.version + 1, updated_at = now(), claim_token = :token,
            status = CASE WHEN {is_expired} THEN CASE WHEN {accepted} THEN 'SENT' ELSE 'FAILED' END ELSE 'SENDING' END,
            claimed_at = CASE WHEN {is_expired} THEN NULL ELSE now() END,
            sent_at = CASE WHEN {is_expired} AND {accepted} THEN now() ELSE r.sent_at END,
            error_code = CASE WHEN {is_expired} THEN '{MarkerCode.EXPIRED}' ELSE r.error_code END,
            error_message = CASE WHEN {is_expired} THEN 'past expires_at when it was claimed' ELSE r.error_message END
            {redaction.assignments(table, f"r.redact AND {is_expired} AND {accepted}")}
        WHERE r.id = ANY (ARRAY({_picked_by_version(table)}))
        RETURNING {columns}{returned(table, announcement)}"""
    if announcement is None:
        return text(update)
    return text(f"""
        WITH moved AS ({update}){announced(table, announcement, "moved")}
        SELECT {", ".join(names)} FROM moved
    """)


@lru_cache
def claimed_by(table: Table) -> TextClause:
    """What a claim statement whose reply was lost has claimed: every column of the rows with its `token`."""
    columns = ", ".join(f"r.{c.name}" for c in table.columns)
    return text(f"""
        SELECT {columns} FROM {table.name} r
        WHERE r.id = ANY (CAST(:ids AS bigint[])) AND r.claim_token = :token AND {_has_status("r", "SENDING")}
    """)


@lru_cache
def prepared(table: Table, names: tuple[str, ...], channel: str) -> TextClause:
    """T4: charge the monthly quota and write the prepared fields `names` back, all of it or nothing.

    Guard: mine, not prepared yet. A null leaves a field as it is. Records are locked first and usage rows last, both in
    one order; whoever waited for a usage row goes on from what the one before charged. Where not all records of a
    bucket fit under its limit, high priority goes first, then the oldest.

    Parameters: `rows`, a JSON array of objects with `id`, `version`, `bucket` and the names; `token`; `zone`, whose
    month it is; `default_limit` of buckets without one of their own, null: unlimited. Answers of each record that is
    mine `id`, `is_written`, `has_usage` (false: its bucket has no row of this month yet, see `open_month`),
    `monthly_limit` and `period`.
    """
    columns = {"id": "bigint", "version": "bigint", "bucket": "bigint"}
    columns |= {name: _sql_type(table, name) for name in names}
    sets = ", ".join(f"{name} = coalesce(p.{name}, r.{name})" for name in names)
    return text(f"""
        WITH p AS MATERIALIZED (
            {_records(columns, "p")}),
        mine AS MATERIALIZED (
            SELECT r.id, r.lane, p.bucket FROM {table.name} r JOIN p ON r.id = p.id AND r.version = p.version
            WHERE r.claim_token = :token AND {_has_status("r", "SENDING")} AND r.prepared_at IS NULL
            ORDER BY r.id FOR UPDATE OF r),
        month AS MATERIALIZED (SELECT {_PERIOD} AS period),
        usage AS MATERIALIZED (
            SELECT u.tenant_id AS bucket, u.{channel}_used AS used,
                coalesce(q.{channel}_monthly_limit, CAST(:default_limit AS bigint)) AS monthly_limit
            FROM {_USAGE} u LEFT JOIN {_QUOTA} q ON q.tenant_id = u.tenant_id
            WHERE u.tenant_id = ANY (ARRAY(SELECT bucket FROM mine)) AND u.period = (SELECT period FROM month)
            ORDER BY u.tenant_id FOR UPDATE OF u),
        judged AS MATERIALIZED (
            SELECT m.id, bucket, u.monthly_limit, u.monthly_limit IS NULL OR u.used
                + row_number() OVER (PARTITION BY bucket ORDER BY m.lane, m.id) <= u.monthly_limit AS fits
            FROM mine m JOIN usage u USING (bucket)),
        charged AS (
            UPDATE {_USAGE} u SET {channel}_used = u.{channel}_used + c.count, {channel}_limit = c.monthly_limit,
                version = u.version + 1, updated_at = now()
            FROM (SELECT bucket, monthly_limit, count(*) FROM judged WHERE fits GROUP BY bucket, monthly_limit) c
            WHERE u.tenant_id = c.bucket AND u.period = (SELECT period FROM month)),
        written AS (
            UPDATE {table.name} r SET {sets}, version = r.version + 1, updated_at = now()
            FROM p WHERE r.id = p.id AND r.id = ANY (ARRAY(SELECT id FROM judged WHERE fits))
            RETURNING r.id)
        SELECT m.id, w.id IS NOT NULL AS is_written, j.id IS NOT NULL AS has_usage, j.monthly_limit, month.period
        FROM mine m CROSS JOIN month LEFT JOIN judged j USING (id) LEFT JOIN written w USING (id)
    """)


@lru_cache
def open_month() -> TextClause:
    """A usage row of this month for each of `buckets` that has none. Parameters: `buckets`, `zone`."""
    return text(f"""
        INSERT INTO {_USAGE} (tenant_id, period)
        SELECT bucket, {_PERIOD} FROM unnest(CAST(:buckets AS bigint[])) bucket ORDER BY bucket
        ON CONFLICT (tenant_id, period) DO NOTHING
    """)


def _sql_type(table: Table, name: str) -> str:
    compiled: str = table.c[name].type.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
    return "text" if compiled.startswith("VARCHAR") else compiled


def _records(columns: Mapping[str, str], alias: str) -> str:
    """The JSON array `rows` as a table: one parameter costs a tenth of an array a column to write in Python."""
    names = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return f"SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS {alias}({names})"


#: What describes an outcome, with its SQL type; `outcome.py` fills it.
OUTCOME_COLUMNS = {
    "id": "bigint",
    "version": "bigint",
    "token": "bigint",
    "status": "text",
    "retry_count": "int",
    "delay": "float8",  #: seconds until due; null leaves it
    "error_code": "text",
    "error_message": "text",
    "results": "jsonb",  #: recipient results, whole; null leaves them
    "uncertain": "boolean",
    "attempt_no": "int",
    "outcome": "text",  #: for the attempt log
    "category": "text",
    "config_id": "bigint",
    "provider": "text",
    "provider_message_id": "text",  #: null leaves it
    "started_ago": "float8",  #: seconds
    "ended_ago": "float8",  #: seconds
}

_OUTCOMES = _records(OUTCOME_COLUMNS, "o")

#: A group may hold two claims of one record, an old one's outcome and the one that won it since: each meets its own.
_FROM_ITS_CLAIM = "r.id = o.id AND r.version = o.version AND r.claim_token = o.token"

_LOG_COLUMNS = (
    "tenant_id, channel, record_id, attempt_no, started_at, ended_at, outcome, category, error_code, error_message,"
    " provider, config_id, worker_name, trace_id, request_id"
)

#: An attempt has one row: what is known later (a late outcome, an outcome committed again) overwrites it.
_LOG_CONFLICT = """
    ON CONFLICT (record_id, attempt_no) DO UPDATE SET ended_at = excluded.ended_at, outcome = excluded.outcome,
        category = excluded.category, error_code = excluded.error_code, error_message = excluded.error_message,
        provider = excluded.provider, config_id = excluded.config_id, worker_name = excluded.worker_name"""

_DEAD_LETTER_COLUMNS = (
    "source_tenant_id, source, channel, original_queue, event_type, event_id, payload, last_error_msg"
)


def _log_from_outcomes(moved: str) -> str:
    return f"""
        INSERT INTO send_attempt ({_LOG_COLUMNS})
        SELECT m.tenant_id, :channel, m.id, o.attempt_no, now() - o.started_ago * interval '1 second',
            now() - o.ended_ago * interval '1 second', o.outcome, o.category, o.error_code, o.error_message,
            o.provider, o.config_id, :worker_name, m.trace_id, m.request_id
        FROM {moved} m JOIN o USING (id, token) {_LOG_CONFLICT}"""


def _dead_letters(moved: str, *, category: str) -> str:
    return f"""
        INSERT INTO dead_letter_message ({_DEAD_LETTER_COLUMNS})
        SELECT m.tenant_id, '{DeadLetterSource.SEND_EXHAUSTED}', :channel, :queue, '{SEND_DEAD_LETTER}', m.id,
            jsonb_build_object('channel', CAST(:channel AS text), 'provider', o.provider,
                'record_id', m.id, 'error_code', m.error_code, 'error_message', m.error_message,
                'category', {category}, 'retry_count', m.retry_count),
            left(m.error_message, 3000)
        FROM {moved} m LEFT JOIN o USING (id, token) WHERE m.status = 'DEAD_LETTER'"""


def _set_if_kept(table: Table, column: str, value: str) -> str:
    """The assignment of a column that not every channel's table has."""
    return f", {column} = {value}" if column in table.c else ""


def _set_message_id(table: Table) -> str:
    """The assignment of the name that the other side gave the message."""
    return _set_if_kept(table, "provider_message_id", "coalesce(o.provider_message_id, r.provider_message_id)")


def _redacted(table: Table, status: str) -> str:
    """The assignments that take its content off a record that is sent and whose template asks for that."""
    return redaction.assignments(table, f"r.redact AND {status} = 'SENT'")


def _provider(table: Table, alias: str) -> str:
    """The label of who takes a record, where no outcome says it; parameter `provider`: where the record does not."""
    return f"coalesce(lower({alias}.provider_type), :provider)" if "provider_type" in table.c else ":provider"


@lru_cache
def outcomes(table: Table, announcement: Announcement | None = None, *, redacts: bool = False) -> TextClause:
    """T5 to T9: SENDING -> SENT, RETRY, FAILED, DEAD_LETTER, with the attempt log and dead letters. Guard: mine.

    `redacts`: some of them may have to lose their content. Parameters: `rows`, a JSON array of objects with
    `OUTCOME_COLUMNS`; `channel`, `queue`, `worker_name`. Answers `id`, `token` and `due_to_sent` (seconds from when it
    was first due; null unless SENT) of the rows that moved.
    """
    return text(f"""
        WITH o AS MATERIALIZED ({_OUTCOMES}),
        mine AS MATERIALIZED (
            SELECT r.id FROM {table.name} r
            JOIN o ON r.id = o.id AND r.version = o.version AND r.claim_token = o.token
            WHERE {_has_status("r", "SENDING")} ORDER BY r.id FOR UPDATE OF r),
        moved AS (
            UPDATE {table.name} r SET status = o.status, version = r.version + 1, retry_count = o.retry_count,
                claimed_at = NULL, swept_at = NULL, updated_at = now(), uncertain = r.uncertain OR o.uncertain,
                next_attempt_at = coalesce(now() + o.delay * interval '1 second', r.next_attempt_at),
                error_code = o.error_code, error_message = o.error_message,
                sent_at = CASE WHEN o.status = 'SENT' THEN now() ELSE r.sent_at END
                {_set_if_kept(table, "recipient_results", "coalesce(o.results, r.recipient_results)")}
                {_set_message_id(table)}
                {_redacted(table, "o.status") if redacts else ""}
            FROM o WHERE {_FROM_ITS_CLAIM} AND r.id = ANY (ARRAY(SELECT id FROM mine))
            RETURNING r.id, r.claim_token AS token, r.tenant_id, r.status, r.error_code, r.error_message,
                r.retry_count, r.trace_id, r.request_id, greatest(r.created_at, r.send_at) AS due_at
                {returned(table, announcement)}),
        logged AS ({_log_from_outcomes("moved")}),
        buried AS ({_dead_letters("moved", category="o.category")})
        {announced(table, announcement, "moved")}
        SELECT id, token,
            CASE WHEN status = 'SENT' THEN extract(epoch FROM clock_timestamp() - due_at)::float8 END AS due_to_sent
        FROM moved
    """)


@lru_cache
def late_outcomes(table: Table, announcement: Announcement | None = None, *, redacts: bool = False) -> TextClause:
    """T14: an outcome whose record the sweep put back meanwhile. Guard: RETRY, swept, the claim's token; no version.

    The parameters are those of `outcomes`. Of `results` those are merged that are accepted; the others are what the
    claim knew to be closed. `status` is SENT when nobody is open by that, else RETRY; a recipient that an operator
    opened again meanwhile (T15) keeps the record in RETRY. The count and the due time stay. Never from another status.
    Answers `id`, `token`, `status`.
    """
    of_late = "jsonb_each(o.results) e WHERE e.value ->> 'result'"
    merged = (
        "r.recipient_results"
        f" || coalesce((SELECT jsonb_object_agg(e.key, e.value) FROM {of_late} = 'accepted'), '{{}}')"
    )
    results = _set_if_kept(table, "recipient_results", merged)
    status = "o.status"
    if "recipient_results" in table.c:
        opened_again = f"EXISTS (SELECT 1 FROM {of_late} <> 'accepted' AND NOT r.recipient_results ? e.key)"
        status = f"CASE WHEN {opened_again} THEN 'RETRY' ELSE o.status END"
    return text(f"""
        WITH o AS MATERIALIZED ({_OUTCOMES}),
        mine AS MATERIALIZED (
            SELECT r.id FROM {table.name} r JOIN o ON r.id = o.id AND r.claim_token = o.token
            WHERE {_has_status("r", "RETRY")} AND r.swept_at IS NOT NULL ORDER BY r.id FOR UPDATE OF r),
        moved AS (
            UPDATE {table.name} r SET status = {status}, version = r.version + 1, swept_at = NULL, updated_at = now(),
                error_code = CASE WHEN {status} = 'SENT' THEN o.error_code ELSE r.error_code END,
                error_message = CASE WHEN {status} = 'SENT' THEN o.error_message ELSE r.error_message END,
                sent_at = CASE WHEN {status} = 'SENT' THEN now() ELSE r.sent_at END
                {results}
                {_set_message_id(table)}
                {_redacted(table, status) if redacts else ""}
            FROM o WHERE r.id = o.id AND r.claim_token = o.token AND r.id = ANY (ARRAY(SELECT id FROM mine))
            RETURNING r.id, r.claim_token AS token, r.tenant_id, r.status, r.trace_id, r.request_id
                {returned(table, announcement)}),
        logged AS ({_log_from_outcomes("moved")})
        {announced(table, announcement, "moved")}
        SELECT id, token, status FROM moved
    """)


@lru_cache
def releases(table: Table) -> TextClause:
    """T10, T11: SENDING -> RETRY unsent, count unchanged, due after `delays` seconds. Guard: mine.

    Parameters: arrays `ids`, `versions`, `tokens`, `delays`, `codes`, `messages`. Answers `id`,
    `token`.
    """
    return text(f"""
        WITH o AS MATERIALIZED (
            SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:versions AS bigint[]), CAST(:tokens AS bigint[]),
                CAST(:delays AS float8[]), CAST(:codes AS text[]), CAST(:messages AS text[]))
            AS o(id, version, token, delay, code, message)),
        mine AS MATERIALIZED (
            SELECT r.id FROM {table.name} r
            JOIN o ON r.id = o.id AND r.version = o.version AND r.claim_token = o.token
            WHERE {_has_status("r", "SENDING")} ORDER BY r.id FOR UPDATE OF r)
        UPDATE {table.name} r SET status = 'RETRY', version = r.version + 1, claimed_at = NULL, updated_at = now(),
            next_attempt_at = now() + o.delay * interval '1 second', error_code = o.code, error_message = o.message
        FROM o WHERE {_FROM_ITS_CLAIM} AND r.id = ANY (ARRAY(SELECT id FROM mine))
        RETURNING r.id, r.claim_token AS token
    """)


@lru_cache
def release_unclear(table: Table) -> TextClause:
    """T11 for claims whose own reply, or whose write-back's, was lost. Guard: the claim's token; no version is known.

    Parameters: `ids`, `token`, `delay` (seconds), `code`, `message`. Answers `id`.
    """
    return text(f"""
        UPDATE {table.name} r SET status = 'RETRY', version = r.version + 1, claimed_at = NULL, updated_at = now(),
            next_attempt_at = now() + :delay * interval '1 second', error_code = :code, error_message = :message
        WHERE r.id = ANY (ARRAY(
            SELECT s.id FROM {table.name} s
            WHERE s.id = ANY (CAST(:ids AS bigint[])) AND s.claim_token = :token AND {_has_status("s", "SENDING")}
            ORDER BY s.id FOR UPDATE))
        RETURNING r.id
    """)


@lru_cache
def recorded(table: Table) -> TextClause:
    """Which of these claims' outcomes stand already, when the reply to their commit was lost: `id`, `token`.

    What came after an outcome (a receipt, a tick, a cancel) left the claim's token where it was.
    """
    return text(f"""
        SELECT r.id, r.claim_token AS token FROM {table.name} r
        JOIN unnest(CAST(:ids AS bigint[]), CAST(:versions AS bigint[]), CAST(:tokens AS bigint[]))
            AS o(id, version, token)
            ON r.id = o.id AND r.version > o.version AND r.claim_token = o.token
        WHERE r.status <> 'SENDING' AND r.swept_at IS NULL
    """)


@lru_cache
def sweep(table: Table, announcement: Announcement | None = None) -> TextClause:
    """T12, T13: claims older than `stale` seconds are taken back, oldest first; locked rows are somebody's outcome.

    RETRY after a cool-down that doubles with the count and is spread upwards by up to a half; at the end of the budget
    DEAD_LETTER, or SENT when a recipient is recorded as accepted (C8). Writes the log row of the attempt that vanished.
    Parameters: `stale`, `limit`, `max_retries`, `cooldown`, `max_cooldown`, `channel`, `provider`, `queue`.
    Answers `id, tenant_id, status`.
    """
    is_over = "r.retry_count >= :max_retries"
    message = f"taken back from a worker that vanished ({MarkerCode.ZOMBIE_RECOVERED})"
    return text(f"""
        WITH stuck AS MATERIALIZED (
            SELECT r.id, r.claim_token, r.retry_count, r.claimed_at, CAST({_provider(table, "r")} AS text) AS provider
            FROM {table.name} r
            WHERE r.status = 'SENDING' AND r.claimed_at < now() - :stale * interval '1 second'
            ORDER BY r.claimed_at LIMIT :limit FOR UPDATE SKIP LOCKED),
        moved AS (
            UPDATE {table.name} r SET version = r.version + 1, swept_at = now(), updated_at = now(), uncertain = true,
                claimed_at = NULL, retry_count = r.retry_count + (r.retry_count < :max_retries)::int,
                status = CASE WHEN r.retry_count < :max_retries THEN 'RETRY'
                    WHEN {_accepted(table, "r")} THEN 'SENT' ELSE 'DEAD_LETTER' END,
                sent_at = CASE WHEN {is_over} AND {_accepted(table, "r")} THEN now()
                    ELSE r.sent_at END,
                next_attempt_at = now() + least(:cooldown * power(2, least(r.retry_count, 30)), :max_cooldown)
                    * (1 + random() / 2) * interval '1 second',
                error_code = '{MarkerCode.ZOMBIE_RECOVERED}', error_message = '{message}'
                {redaction.assignments(table, f"r.redact AND {is_over} AND {_accepted(table, 'r')}")}
            WHERE r.id = ANY (ARRAY(SELECT id FROM stuck))
            RETURNING r.id, r.tenant_id, r.status, r.error_code, r.error_message, r.retry_count, r.trace_id,
                r.request_id, r.claim_token AS token{returned(table, announcement)}),
        o AS (SELECT id, claim_token AS token, retry_count + 1 AS attempt_no, claimed_at, provider FROM stuck),
        logged AS (
            INSERT INTO send_attempt ({_LOG_COLUMNS})
            SELECT m.tenant_id, :channel, m.id, o.attempt_no, o.claimed_at, now(), 'SWEPT', 'UNKNOWN', m.error_code,
                m.error_message, o.provider, NULL, NULL, m.trace_id, m.request_id
            FROM moved m JOIN o USING (id, token) {_LOG_CONFLICT}),
        buried AS ({_dead_letters("moved", category="'UNKNOWN'")})
        {announced(table, announcement, "moved")}
        SELECT id, tenant_id, status FROM moved
    """)


@lru_cache
def requeue(table: Table) -> TextClause:
    """T15, T16: an operator wants another attempt. Guard: version, not SENT, not SENDING, not cancelled, not redacted.

    From a final state: due now, count + 1, `results` as given (refused and bounced recipients open again), bounce marks
    cleared. From a waiting one: due now, count unchanged; a swept record keeps its cool-down.
    Parameters: arrays `ids`, `versions`, `results` (null leaves them). Answers `id`.
    """
    is_final = "r.status IN ('FAILED', 'DEAD_LETTER')"
    marks = _set_if_kept(table, "recipient_results", "coalesce(o.results, r.recipient_results)")
    if "bounced" in table.c:
        marks += ", bounced = false, bounce_code = NULL, bounced_recipients = NULL"
    return text(f"""
        WITH o AS MATERIALIZED (
            SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:versions AS bigint[]), CAST(:results AS jsonb[]))
            AS o(id, version, results)),
        mine AS MATERIALIZED (
            SELECT r.id FROM {table.name} r JOIN o ON r.id = o.id AND r.version = o.version
            WHERE {_has_status("r", "PENDING", "RETRY", "FAILED", "DEAD_LETTER")}
                AND (r.status <> 'FAILED' OR r.error_code IS DISTINCT FROM '{MarkerCode.CANCELLED}')
                AND r.redacted_at IS NULL
            ORDER BY r.id FOR UPDATE OF r)
        UPDATE {table.name} r SET status = 'RETRY', version = r.version + 1, updated_at = now(),
            retry_count = r.retry_count + ({is_final})::int,
            next_attempt_at = CASE WHEN {is_final} OR r.swept_at IS NULL THEN now() ELSE r.next_attempt_at END,
            error_code = '{MarkerCode.MANUAL_RETRY}', error_message = NULL
            {marks}
        FROM o WHERE r.id = o.id AND r.id = ANY (ARRAY(SELECT id FROM mine))
        RETURNING r.id
    """)


@lru_cache
def cancel(table: Table, announcement: Announcement | None = None) -> TextClause:
    """T17: PENDING or RETRY -> FAILED, `CANCELLED`. Guard: version. Answers `uncertain`, `accepted`, `sent_at`."""
    return text(f"""
        WITH moved AS (
            UPDATE {table.name} r SET status = 'FAILED', version = r.version + 1, updated_at = now(),
                error_code = '{MarkerCode.CANCELLED}', error_message = NULL
            WHERE r.id = :id AND r.version = :version AND r.status IN ('PENDING', 'RETRY')
            RETURNING r.id, r.tenant_id, r.uncertain, {_accepted(table, "r")} AS accepted, r.sent_at
                {returned(table, announcement)})
            {announced(table, announcement, "moved", event(EventType.CANCELLED))}
        SELECT uncertain, accepted, sent_at FROM moved
    """)


@lru_cache
def depth(table: Table) -> TextClause:
    """Rows in line and rows overdue but not in line yet, each counted up to `cap`, and the oldest overdue's age."""
    overdue = f"{table.name} WHERE NOT ready AND next_attempt_at <= now()"
    return text(f"""
        SELECT (SELECT count(*) FROM (SELECT 1 FROM {table.name} WHERE ready LIMIT :cap) x) AS due,
            (SELECT count(*) FROM (SELECT 1 FROM {overdue} LIMIT :cap) x) AS overdue,
            (SELECT extract(epoch FROM now() - min(next_attempt_at))::float8 FROM {overdue}) AS oldest_overdue
    """)


@lru_cache
def oldest_due(table: Table) -> TextClause:
    """Seconds for which the oldest row in line has been due, null when none is; a hop over tenants and lanes."""
    t = table.name
    return text(f"""
        WITH RECURSIVE heads AS (
            (SELECT tenant_id, lane, next_attempt_at FROM {t} WHERE ready
             ORDER BY tenant_id, lane, next_attempt_at LIMIT 1)
            UNION ALL
            SELECT n.tenant_id, n.lane, n.next_attempt_at FROM heads h CROSS JOIN LATERAL (
                SELECT r.tenant_id, r.lane, r.next_attempt_at FROM {t} r
                WHERE r.ready AND (r.tenant_id, r.lane) > (h.tenant_id, h.lane)
                ORDER BY r.tenant_id, r.lane, r.next_attempt_at LIMIT 1) n)
        SELECT extract(epoch FROM now() - min(next_attempt_at))::float8 FROM heads
    """)
