"""What acceptance writes of a mail, and the files that go ahead of it; inserted by `messaging.delivery.insertion`."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import JSON, BigInteger, Boolean, Connection, Text
from sqlalchemy.dialects.postgresql import JSONB

from messaging.delivery.insertion import Insertion
from messaging.mail.attachments import GivenFile, Store, stored_references
from messaging.mail.models import MAIL_SEND_RECORD


class AcceptedMail(NamedTuple):
    """One row to write. Texts are exact `str`."""

    scope: str
    server_config_id: int | None
    #: JSON texts.
    to_addresses: str
    cc_addresses: str
    bcc_addresses: str
    subject: str | None
    #: None: the template's, settled at preparation.
    body_mode: str | None
    body_html: str | None
    body_text: str | None
    reply_to: str | None
    priority: str | None
    lane: int
    read_receipt_requested: bool | None
    auto_submitted: bool
    #: JSON text, or None without further headers.
    headers: str | None
    idempotency_key: str | None
    request_hash: str | None
    send_at: datetime | None
    expires_at: datetime | None
    # From here on rare: left out of the statement when no mail of a call uses one of them.
    template_id: int | None = None
    template_code: str | None = None
    #: JSON text.
    template_variables: str | None = None
    #: JSON text, written once `files` are stored.
    attachments: str | None = None
    unsubscribe_list: str | None = None
    #: No column.
    files: Sequence[GivenFile] = ()


MAIL_INSERTION = Insertion[AcceptedMail](
    MAIL_SEND_RECORD,
    AcceptedMail._fields[:-1],
    {
        "server_config_id": (BigInteger(), None),
        "to_addresses": (Text(), JSONB()),
        "cc_addresses": (Text(), JSONB()),
        "bcc_addresses": (Text(), JSONB()),
        "headers": (Text(), JSON()),
        "read_receipt_requested": (Boolean(), None),
        "auto_submitted": (Boolean(), None),
        "template_id": (BigInteger(), None),
        "template_variables": (Text(), JSON()),
        "attachments": (Text(), JSONB()),
    },
    rare_from="template_id",
    chars=lambda mail: len(mail.body_html or "") + len(mail.body_text or "") + len(mail.template_variables or ""),
)


class FilesAhead:
    """The files that mails bring along, equal ones stored once; `store_of` makes the store of a connection."""

    def __init__(self, store_of: Callable[[Connection], Store]) -> None:
        self._store_of = store_of

    def is_needed(self, row: AcceptedMail) -> bool:
        return bool(row.files)

    def write(self, connection: Connection, rows: Sequence[AcceptedMail]) -> Sequence[AcceptedMail]:
        store = self._store_of(connection)
        stored: dict[str, int] = {}
        return [
            row._replace(attachments=json.dumps(stored_references(row.files, store, stored))) if row.files else row
            for row in rows
        ]
