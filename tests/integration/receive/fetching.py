"""What tests of a fetch share: mailboxes in the database, mails, and what was stored of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, insert, text

from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG

LOCALHOST = "127.0.0.1"


def add_mailbox(engine: Engine, port: int, **fields: Any) -> int:
    given = {
        "name": "in",
        "protocol": "IMAP",
        "host": LOCALHOST,
        "port": port,
        "tenant_id": 0,
        "username": "ann",
        "password": "dovecot",
        **fields,
    }
    with engine.begin() as connection:
        statement = insert(MAIL_RECEIVE_SERVER_CONFIG).values(given).returning(MAIL_RECEIVE_SERVER_CONFIG.c.id)
        return int(connection.execute(statement).scalar_one())


def mail(name: str, body: str = "Hello.", **fields: str) -> bytes:
    """A small mail with the Message-ID `<name@example.org>`."""
    headers = {
        "From": "Ann <ann@example.org>",
        "To": "shop@example.com",
        "Date": "Mon, 2 Mar 2026 10:00:00 +0100",
        "Subject": f"Mail {name}",
        "Message-ID": f"<{name}@example.org>",
        **{name.replace("_", "-"): value for name, value in fields.items()},
    }
    return "\r\n".join([*(f"{name}: {value}" for name, value in headers.items() if value), "", body, ""]).encode()


@dataclass(frozen=True)
class Stored:
    """Reads what a test's fetches have written."""

    engine: Engine

    def rows(self, table: str = "mail_receive_record") -> list[dict[str, Any]]:
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY id")).mappings()]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows()]

    def names(self) -> list[str]:
        """Of the mails, as `mail` was given them."""
        return [message_id.removeprefix("<").removesuffix("@example.org>") for message_id in self.column("message_id")]

    def watermark(self, folder_name: str = "INBOX") -> dict[str, Any]:
        return next(row for row in self.rows("mail_fetch_imap_watermark") if row["folder_name"] == folder_name)

    def run(self, statement: str, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(statement), values)

    def refuse(self, subjects: Sequence[str]) -> None:
        """Have the database fail at mails with these subjects, as if it were in trouble."""
        self.run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.subject = ANY(TG_ARGV) THEN"
            " RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$"
        )
        given = ", ".join(f"'{subject}'" for subject in subjects)
        self.run(
            f"CREATE TRIGGER refuse BEFORE INSERT ON mail_receive_record FOR EACH ROW EXECUTE FUNCTION refuse({given})"
        )
