"""One database of the stand, and the quick ways to fill it: accepted in one transaction, or rows by the million."""

import time
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks.harness.mail import HTML, SENDER, SUBJECT, TEXT, recipient
from benchmarks.harness.sms import API_KEY, number
from benchmarks.harness.sms import SENDER as SMS_SENDER
from benchmarks.harness.sms import TEXT as SMS_TEXT
from messaging import api
from messaging.db import encryption
from messaging.db.engine import autocommitting, create_engine
from messaging.mail.models import MAIL_SEND_RECORD, MAIL_SEND_SERVER_CONFIG
from messaging.requests import BodyMode, SendMail, SendSms
from messaging.settings import Settings
from messaging.sms.models import SMS_SEND_RECORD

_BATCH = 500
#: How many kinds of unfinished records there are; looks into partial indexes that are empty at the end.
_UNFINISHED = "SELECT " + " + ".join(
    f"EXISTS (SELECT 1 FROM {{table}} WHERE {condition})::int"
    for condition in ("ready", "NOT ready", "status = 'SENDING'")
)


class Database:
    """One migrated database and an engine on it."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.engine = create_engine(settings, application_name="benchmarks")
        #: Each statement its own transaction, as on the product's hot path.
        self.autocommit = autocommitting(self.engine)
        # Loading millions of rows takes longer than any statement of the product may.
        self.loader = sa.create_engine(settings.database_url, isolation_level="AUTOCOMMIT")
        encryption.use_keys(settings.secrets_keys)

    def stop(self) -> None:
        self.engine.dispose()
        self.loader.dispose()

    def use(self) -> None:
        """Let this process's `messaging.api` work here."""
        api.configure(settings=self.settings, engine=self.engine)

    def add_server(self, port: int) -> None:
        """The server all mail goes out by."""
        with self.engine.begin() as connection:
            connection.execute(
                sa.insert(MAIL_SEND_SERVER_CONFIG).values(
                    name="sink", host="127.0.0.1", port=port, from_address=SENDER, is_default=True
                )
            )

    def add_sms_provider(self, url: str) -> None:
        """The provider all text messages go out by."""
        self.use()
        api.add_sms_provider(
            name="far end",
            provider_type="INFOBIP",
            api_key=API_KEY,
            api_endpoint=url,
            sender_number=SMS_SENDER,
            is_default=True,
        )

    def accept(self, count: int, table: sa.Table = MAIL_SEND_RECORD) -> Session:
        """Accept so many messages in one transaction that is still open: they become due when it is committed."""
        self.use()
        session = Session(self.engine)
        for start in range(0, count, _BATCH):
            numbers = range(start, min(count, start + _BATCH))
            if table is SMS_SEND_RECORD:
                api.send_sms_batch([sms_request(n) for n in numbers], session=session)
            else:
                api.send_mail_batch([mail_request(n) for n in numbers], session=session)
        return session

    def wait_until_sent(self, table: sa.Table = MAIL_SEND_RECORD, *, timeout: float) -> None:
        """Wait until no record is open or being sent, and check that none ended otherwise."""
        deadline = time.monotonic() + timeout
        while self.scalar(_UNFINISHED.format(table=table.name)):
            if time.monotonic() > deadline:
                raise TimeoutError("there are records that are not finished")
            time.sleep(0.01)
        lost = self.scalar(f"SELECT count(*) FROM {table.name} WHERE status IN ('FAILED', 'DEAD_LETTER')")
        assert not lost, f"{lost:g} records were not sent"

    def insert(self, count: int, values: Mapping[str, str]) -> None:
        """`count` rows in one statement; `values` are SQL expressions by column, in which `n` counts from 1."""
        self.run(self._insertion(count, values))

    def pending(self, count: int, values: Mapping[str, str]) -> Session:
        """As `insert`, in a transaction that is still open: the rows become due when it is committed."""
        session = Session(self.loader.execution_options(isolation_level="READ COMMITTED"))
        session.connection().exec_driver_sql(self._insertion(count, values).replace("%", "%%"))
        return session

    def _insertion(self, count: int, values: Mapping[str, str]) -> str:
        row = {
            "scope": "'TENANT'",
            "to_addresses": "jsonb_build_array('customer' || n || '@customers.example')",
            "subject": f"'{SUBJECT}'",
            "body_mode": f"'{BodyMode.HTML_WITH_AUTHORED_PLAIN}'",
            "body_html": f"'{HTML}'",
            "body_text": f"'{TEXT}'",
            **values,
        }
        return (
            f"INSERT INTO mail_send_record ({', '.join(row)}) SELECT {', '.join(row.values())}"
            f" FROM generate_series(1, {count}) n"
        )

    def insert_history(self, count: int) -> None:
        """`count` mails sent in the last months, by 200 tenants, with bodies of 500 characters to save the disk."""
        times = ("next_attempt_at", "created_at", "updated_at", "prepared_at", "sent_at")
        self.insert(
            count,
            {
                "tenant_id": "n % 200",
                "status": "'SENT'",
                "version": "4",
                "server_config_id": "1",
                "from_address": f"'{SENDER}'",
                "message_id": "'<' || n || '.' || gen_random_uuid() || '@shop.example>'",
                "body_html": f"left('{HTML}', 350)",
                "body_text": f"left('{TEXT}', 150)",
                "recipient_results": "jsonb_build_object('customer' || n || '@customers.example', "
                """'{"result": "accepted", "code": "SMTP_250", "text": "2.0.0 Ok", "at": "2026-11-01T08:00:00Z"}'"""
                "::jsonb)",
                **dict.fromkeys(times, f"now() - ({count} - n) * interval '2 seconds'"),
            },
        )

    def run(self, *statements: str) -> None:
        """Run statements, each in its own transaction and with no time-out."""
        with self.loader.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement.replace("%", "%%"))

    def scalar(self, statement: str) -> float:
        """The one number a query answers."""
        with self.loader.connect() as connection:
            return float(connection.exec_driver_sql(statement).scalar_one())


def mail_request(number: int) -> SendMail:
    """The benchmark's mail, to the recipient with this number."""
    return SendMail(to=[recipient(number)], subject=SUBJECT, text_body=TEXT, html_body=HTML)


def sms_request(n: int) -> SendSms:
    """The benchmark's text message, to this number."""
    return SendSms(phone_number=number(n), content=SMS_TEXT)


def chunks(pairs: Sequence[tuple[int, int]], size: int) -> list[list[list[int]]]:
    """Pairs of id and version as tasks carry them."""
    return [[list(pair) for pair in pairs[start : start + size]] for start in range(0, len(pairs), size)]
