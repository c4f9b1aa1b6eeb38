"""Arrivals as rows of `mail_receive_record` (`receive.md` 10), and the statement that writes them."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.dialects import postgresql

from messaging.receive.arrival import Arrival
from messaging.receive.charsets import storable
from messaging.receive.classification import Classification
from messaging.receive.models import MAIL_RECEIVE_RECORD
from messaging.receive.vocabulary import LinkStatus, MailType

#: What may be about a mail that was sent.
_ABOUT_A_MAIL = frozenset({MailType.BOUNCE, MailType.READ_RECEIPT, MailType.FEEDBACK_REPORT})


#: What the fetch writes; the rest is the database's, or comes later.
COLUMNS = (
    *("tenant_id", "server_config_id", "folder_name", "message_id", "server_uid", "uid_validity", "duplicate_of"),
    *("content_sha256", "size", "from_address", "from_name", "to_addresses", "cc_addresses", "subject", "body_text"),
    *("body_html", "body_mode", "attachments", "eml_file_id", "received_at", "date_header", "truncation_reason"),
    *("mail_type", "type_detail", "is_mailing_list", "is_bulk", "is_encrypted", "is_signed", "is_spam"),
    *("original_message_id", "reference_ids", "verp_record_id", "smtp_reply_code", "enhanced_status_code"),
    *("diagnostic_message", "failed_recipients", "bounce_kind", "bounce_action", "bounce_reason", "hard_bounce"),
    *("bounce_recipients", "link_status"),
)


def insertion(rows: Iterable[Mapping[str, Any]]) -> tuple[TextClause, str]:
    """What inserts those of these rows that are not there yet and answers ids and keys, and its parameter `rows`.

    One parameter, a JSON list of objects by column, whatever the number of rows: a list of 900 costs more to bind than
    PostgreSQL needs for the rows. Its time goes by the columns named, of which most mails, as no bounces, leave half
    empty: what no row has is left out. A column that may be left out has no default.
    """
    given = [{name: value for name, value in row.items() if value is not None} for row in rows]
    used = {"received_at"}.union(*given)
    return _insertion(tuple(name for name in COLUMNS if name in used)), json.dumps(given, ensure_ascii=False)


@lru_cache(maxsize=64)
def _insertion(columns: tuple[str, ...]) -> TextClause:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    typed = ", ".join(f"{name} {MAIL_RECEIVE_RECORD.c[name].type.compile(dialect)}" for name in columns)
    values = ", ".join("coalesce(received_at, now())" if name == "received_at" else name for name in columns)
    return text(
        f"INSERT INTO mail_receive_record ({', '.join(columns)}) SELECT {values}"  # noqa: S608 - our own names
        f" FROM json_to_recordset(CAST(:rows AS json)) AS given({typed})"
        " ON CONFLICT (server_config_id, message_id) DO NOTHING RETURNING id, message_id"
    )


def row_of(arrival: Arrival, key: str) -> dict[str, Any]:
    """As JSON by column, all but `duplicate_of` and the files; texts cut to their columns, safe to store.

    A column that is not there is empty.
    """
    mail, classification, incoming, origin = arrival.mail, arrival.classification, arrival.incoming, arrival.origin
    return {
        "tenant_id": origin.tenant_id,
        "server_config_id": origin.config_id,
        "folder_name": origin.folder_name,
        "message_id": storable(key),
        "server_uid": cut(incoming.server_uid, 255),
        "uid_validity": origin.uid_validity,
        "content_sha256": arrival.content_sha256,
        "size": len(incoming.octets) if incoming.size is None and incoming.is_whole else incoming.size,
        "from_address": cut(mail.from_address, 255),
        "from_name": cut(mail.from_name, 255),
        "to_addresses": _texts(mail.to_addresses),
        "cc_addresses": _texts(mail.cc_addresses),
        "subject": cut(mail.subject, 500),
        "body_text": _text(mail.body_text),
        "body_html": _text(mail.body_html),
        "body_mode": mail.body_mode,
        "received_at": arrival.received_at and arrival.received_at.isoformat(),
        "date_header": cut(mail.date_header, 255),
        "truncation_reason": arrival.truncation_reason,
        **_classified(classification),
    }


def _classified(classification: Classification) -> dict[str, Any]:
    flags = classification.flags
    told = {
        "mail_type": classification.type,
        "type_detail": cut(classification.detail, 50),
        "is_mailing_list": flags.mailing_list,
        "is_bulk": flags.bulk,
        "is_encrypted": flags.encrypted,
        "is_signed": flags.signed,
        "is_spam": flags.spam,
        "original_message_id": cut(classification.original_message_id, 255),
        "reference_ids": _texts(classification.reference_ids) or None,
        "verp_record_id": classification.verp_record_id,
        "link_status": LinkStatus.NONE,
    }
    # Nearly all mail is about no other.
    is_report = classification.type in _ABOUT_A_MAIL or classification.recipients
    return told | _reported(classification) if is_report else told


def _reported(classification: Classification) -> dict[str, Any]:
    """What a mail about another one says."""
    worst = classification.worst if classification.type is MailType.BOUNCE else None
    is_linkable = classification.type in _ABOUT_A_MAIL and (
        classification.reference_ids or classification.verp_record_id is not None
    )
    # Of a complaint those who complain.
    is_complaint = classification.type is MailType.FEEDBACK_REPORT
    told = classification.recipients if is_complaint else classification.failed
    failed = _texts(one.recipient for one in told if one.recipient)
    return {
        "smtp_reply_code": worst and cut(worst.reply_code, 10),
        "enhanced_status_code": worst and cut(worst.status, 20),
        "diagnostic_message": worst and cut(worst.diagnostic, 2000),
        "failed_recipients": failed or None,
        "bounce_kind": worst and worst.kind,
        "bounce_action": worst and cut(worst.action, 10),
        "bounce_reason": worst and worst.reason,
        "hard_bounce": worst and worst.is_hard_bounce,
        "bounce_recipients": [_object(one.as_json()) for one in classification.recipients] or None,
        # In the same insert as the mail: a crash before the linking loses nothing.
        "link_status": LinkStatus.PENDING if is_linkable else LinkStatus.NONE,
    }


def _text(value: str | None) -> str | None:
    return None if value is None else storable(value)


def cut(value: str | None, max_chars: int) -> str | None:
    """A text as its column holds it."""
    if value is None or (len(value) <= max_chars and value.isascii() and "\x00" not in value):
        return value
    return storable(value)[:max_chars]


def _texts(values: Iterable[str]) -> list[str]:
    return [storable(value) for value in values]


def _object(values: dict[str, Any]) -> dict[str, Any]:
    return {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}
