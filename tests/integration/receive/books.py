"""Send records, and received mails as the store writes them, for the tests of what ties one to the other."""

from types import SimpleNamespace
from typing import Any

from sqlalchemy import Engine, func, insert, select, text, update

from messaging.mail.models import MAIL_SEND_RECORD, MAIL_SEND_SERVER_CONFIG
from messaging.receive.link import LinkCounts, Linker
from messaging.receive.models import MAIL_RECEIVE_RECORD
from messaging.settings import Settings
from messaging.suppression import SUPPRESSION

A, B, C = "a@example.org", "b@example.org", "c@example.org"

#: What one recipient's server said of a mail that it took.
ACCEPTED = {"result": "accepted", "code": "SMTP_250", "text": "ok", "at": "2026-01-02T03:04:05+00:00"}

#: The mailbox of most of these tests.
MAILBOX = 1


def failed(
    recipient: str | None = A,
    *,
    kind: str = "HARD",
    reason: str = "USER_UNKNOWN",
    reply_code: str | None = "550",
    status: str | None = "5.1.1",
    **more: Any,
) -> dict[str, Any]:
    """One recipient of a report, as `BounceRecipient.as_json` has it."""
    told = {
        "kind": kind,
        "reason": reason,
        "recipient": recipient,
        "action": {"DELAYED": "delayed", "SUCCESS": "delivered"}.get(kind, "failed"),
        "reply_code": reply_code,
        "status": status,
        "diagnostic": "smtp; 550 5.1.1 no such user" if kind == "HARD" else None,
        **more,
    }
    return {name: value for name, value in told.items() if value is not None}


class Books:
    """A database's send records and received mails, and a linker over them."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.linker = Linker(engine, settings)
        self._number = 0

    def sent(self, *to: str, status: str = "SENT", **columns: Any) -> int:
        """A send record, by default SENT to all of `to`; its Message-ID is `<id@example.org>`."""
        addresses = list(to or (A,))
        with self.engine.begin() as connection:
            record_id = connection.execute(text("SELECT nextval('send_record_id_seq')")).scalar_one()
            values = {
                "id": record_id,
                "scope": "TENANT",
                "status": status,
                "to_addresses": addresses,
                "body_mode": "PLAIN",
                "message_id": f"<{record_id}@example.org>",
                "sent_at": func.now() - text("interval '1 hour'") if status == "SENT" else None,
                "claimed_at": func.now() if status == "SENDING" else None,
                "recipient_results": dict.fromkeys(addresses, ACCEPTED) if status == "SENT" else {},
                **columns,
            }
            statement = insert(MAIL_SEND_RECORD).values(values).returning(MAIL_SEND_RECORD.c.id)
            return int(connection.execute(statement).scalar_one())

    def received(self, record_id: int | None, *, age: str = "0 hours", **columns: Any) -> int:
        """A mail that waits to be linked to a record, or (None) to what `reference_ids` says."""
        self._number += 1
        references = None if record_id is None else [f"<{record_id}@example.org>"]
        values = {
            "server_config_id": MAILBOX,
            "folder_name": "INBOX",
            "message_id": f"<received-{self._number}@mx.example.net>",
            "received_at": func.now(),
            "fetched_at": func.now() - text(f"interval '{age}'"),
            "reference_ids": references,
            "original_message_id": references and references[0],
            "link_status": "PENDING",
            **columns,
        }
        with self.engine.begin() as connection:
            statement = insert(MAIL_RECEIVE_RECORD).values(values).returning(MAIL_RECEIVE_RECORD.c.id)
            received_id: int = connection.execute(statement).scalar_one()
        return received_id

    def bounce(self, record_id: int | None, *recipients: dict[str, Any], **columns: Any) -> int:
        """A bounce; by default a hard one about A."""
        told = list(recipients or (failed(),))
        order = ("HARD", "SOFT", "DELAYED", "SUCCESS")
        worst = min(told, key=lambda one: order.index(one["kind"]))
        lost = [one["recipient"] for one in told if one["kind"] in order[:2] and "recipient" in one]
        values = {
            "mail_type": "BOUNCE",
            "bounce_kind": worst["kind"],
            "bounce_action": worst["action"],
            "bounce_reason": worst["reason"],
            "hard_bounce": worst["reason"] in ("USER_UNKNOWN", "HOST_UNKNOWN"),
            "smtp_reply_code": worst.get("reply_code"),
            "enhanced_status_code": worst.get("status"),
            "diagnostic_message": worst.get("diagnostic"),
            "failed_recipients": lost or None,
            "bounce_recipients": told,
        }
        return self.received(record_id, **values | columns)

    def receipt(self, record_id: int | None, **columns: Any) -> int:
        """A read receipt that says `displayed`."""
        return self.received(record_id, **{"mail_type": "READ_RECEIPT", "type_detail": "displayed", **columns})

    def complaint(self, record_id: int | None, *who: str, **columns: Any) -> int:
        """A feedback report, `abuse`."""
        told = [failed(one, kind="SUCCESS", reason="OTHER", reply_code=None, status=None) for one in who]
        values = {"mail_type": "FEEDBACK_REPORT", "type_detail": "abuse", "bounce_recipients": told or None}
        return self.received(record_id, **values | columns)

    def link(self, *, owner: int = 0, limit: int = 100, mailbox: int = MAILBOX) -> LinkCounts:
        """One look at what waits."""
        return self.linker.link_pending(mailbox, owner_tenant_id=owner, limit=limit)

    def record(self, record_id: int) -> SimpleNamespace:
        """A send record as it stands."""
        return self._row(MAIL_SEND_RECORD, record_id)

    def mail(self, received_id: int) -> SimpleNamespace:
        """A received mail as it stands."""
        return self._row(MAIL_RECEIVE_RECORD, received_id)

    def results(self, record_id: int) -> dict[str, str]:
        """What is known of each recipient."""
        return {address: found["result"] for address, found in self.record(record_id).recipient_results.items()}

    def suppressed(self) -> list[tuple[int, str, str, int | None]]:
        """Tenant, address, reason and record of each entry in force."""
        s = SUPPRESSION.c
        statement = select(s.tenant_id, s.address, s.reason, s.record_id).where(s.lifted_at.is_(None)).order_by(s.id)
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(statement)]

    def put(self, record_id: int, **columns: Any) -> None:
        """Write columns of a send record; its version goes up as with every write."""
        t = MAIL_SEND_RECORD
        with self.engine.begin() as connection:
            connection.execute(update(t).where(t.c.id == record_id).values(version=t.c.version + 1, **columns))

    def server(self, tenant_id: int) -> int:
        """A mail server's configuration."""
        values = {"tenant_id": tenant_id, "name": "out", "host": "smtp.example.org", "port": 25}
        statement = insert(MAIL_SEND_SERVER_CONFIG).values(values).returning(MAIL_SEND_SERVER_CONFIG.c.id)
        with self.engine.begin() as connection:
            config_id: int = connection.execute(statement).scalar_one()
        return config_id

    def _row(self, table: Any, row_id: int) -> SimpleNamespace:
        with self.engine.connect() as connection:
            return SimpleNamespace(**connection.execute(select(table).where(table.c.id == row_id)).one()._mapping)
