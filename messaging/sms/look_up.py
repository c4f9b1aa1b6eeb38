"""What became of an attempt whose reply was lost: asked of the provider before anything is sent again.

Which providers can be asked, and by what:

| Provider | Asked | By what a message is known |
|---|---|---|
| Twilio | list of messages by `To` | number, text and time: it keeps no reference of ours |
| Infobip | logs of 48 hours by `destination` and `sentSince` | number, text and time: no `callbackData` there |
| Sinch | list of batches by `client_reference` and `start_date` | our reference, with number and text |
| Bird | list of messages by `recipient` | our reference, with text |
| Aliyun | `QuerySendDetails` by number and day | our `OutId`, with number and template; it names no `BizId` there |
| Tencent | `PullSmsSendStatusByPhoneNumber` by number and time | our `SessionContext`; listed once its fate is known |
| CM | cannot be asked | its gateway only takes messages; they are listed in its console alone |

A message that names our reference is nobody else's. Where only number, text and time tell, several records may have
said the same, and which of them a message is does not matter: but each must be one record's, and none may be taken for
two. So, under a lock for the ones that say the same: a message that a record names is that record's; of the others the
oldest is taken and written down at once; and none is taken while one of them may still be named by a record that is
being sent (for the first time, or again after it was asked about: `asked_at`), or that the sweep took from a worker
that may come back (T14). With nothing left to take, what was lost was never taken, and is sent again.
"""

from collections.abc import Sequence

from sqlalchemy import Engine, text

from messaging.category import MarkerCode
from messaging.delivery.channel import Claim
from messaging.delivery.gate import ClaimTooOld, SendDeferred
from messaging.sms.models import SmsSendRecord
from messaging.sms.providers.base import Accepted

#: Parameter `twins`: what records that say the same have in common.
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:twins, 0))")

_SAYS_THE_SAME = """
    r.provider_config_id = :config_id AND r.phone_number = :number AND r.content = :content AND r.id <> :id"""

#: Settles one look-up. Parameters: `id`, `version`, `token` of the claim; `config_id`, `number`, `content`; `found`,
#: the ids at the provider, oldest first. Answers `has_free`, `chosen` (null: none) and `is_mine`. Guard: mine. The
#: version stays: nothing of the record's state moves.
_SETTLE = text(f"""
    WITH free AS MATERIALIZED (
        SELECT f.id, f.position, o.id IS NOT NULL AS is_own
        FROM unnest(CAST(:found AS text[])) WITH ORDINALITY AS f(id, position)
        LEFT JOIN {SmsSendRecord.__tablename__} o ON o.id = :id AND o.provider_message_id = f.id
        WHERE NOT EXISTS (
            SELECT FROM {SmsSendRecord.__tablename__} r
            WHERE r.provider_config_id = :config_id AND r.provider_message_id = f.id AND r.id <> :id)),
    open AS MATERIALIZED (
        SELECT EXISTS (
            SELECT FROM {SmsSendRecord.__tablename__} r
            WHERE {_SAYS_THE_SAME} AND r.status = 'SENDING'
                AND (NOT r.uncertain OR r.asked_at >= r.claimed_at))
        OR EXISTS (
            SELECT FROM {SmsSendRecord.__tablename__} r
            WHERE {_SAYS_THE_SAME} AND r.status = 'RETRY' AND r.swept_at IS NOT NULL
                AND r.error_code = '{MarkerCode.ZOMBIE_RECOVERED}') AS is_held),
    chosen AS MATERIALIZED (
        SELECT id FROM free WHERE is_own OR NOT (SELECT is_held FROM open)
        ORDER BY NOT is_own, position LIMIT 1),
    settled AS (
        UPDATE {SmsSendRecord.__tablename__} r
        SET provider_message_id = coalesce((SELECT id FROM chosen), r.provider_message_id),
            asked_at = CASE WHEN EXISTS (SELECT FROM chosen) THEN r.asked_at ELSE clock_timestamp() END
        WHERE r.id = :id AND r.version = :version AND r.claim_token = :token AND r.status = 'SENDING'
            AND (EXISTS (SELECT FROM chosen) OR NOT EXISTS (SELECT FROM free))
        RETURNING r.id)
    SELECT EXISTS (SELECT FROM free) AS has_free, (SELECT id FROM chosen) AS chosen,
        EXISTS (SELECT FROM settled) AS is_mine
""")  # noqa: S608 - constants of the code


def take_found(engine: Engine, claim: Claim, config_id: int, found: Sequence[Accepted]) -> Accepted | None:
    """Which of the messages that the provider lists, oldest first, is this record's; None: none, so it may be sent.

    For a provider that lists by number, text and time. Commits a transaction of its own; at once for two records that
    say the same, one waits for the other.

    Raises:
        SendDeferred: One of them may be that of a record that is being sent.
        ClaimTooOld: The record is not this claim's any more.
    """
    by_id = {str(one.provider_message_id): one for one in found}
    record = claim.content
    number, content = record["phone_number"], record["content"]
    parameters = {
        "id": claim.record_id,
        "version": claim.version,
        "token": claim.token,
        "config_id": config_id,
        "number": number,
        "content": content,
        "found": list(by_id),
    }
    with engine.execution_options(isolation_level="READ COMMITTED").begin() as connection:
        connection.execute(_LOCK, {"twins": f"messaging.look_up {config_id} {number} {content}"})
        settled = connection.execute(_SETTLE, parameters).one()
    if settled.has_free and settled.chosen is None:
        raise SendDeferred
    if not settled.is_mine:
        raise ClaimTooOld
    return by_id.get(settled.chosen)
