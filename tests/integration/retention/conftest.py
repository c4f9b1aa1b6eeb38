"""Rows of every kind and of any age, and runs of pruning over them."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, Table, func, insert, select, text

from messaging.clock import boot_seconds
from messaging.embedded import Postgres
from messaging.files import FileStore
from messaging.retention import prune as pruning
from messaging.retention.prune import Pruned
from tests.conftest import TEMPLATE, MakeSettings

#: What a test may leave behind.
TABLES = (
    "mail_send_record, sms_send_record, webhook_send_record, send_attempt, stored_file, mail_template,"
    " captured_message, mail_receive_record, mail_receive_server_config, inbox_notification, dead_letter_message,"
    " sms_receipt, prune_progress, prune_leftover"
)


@pytest.fixture(scope="module")
def shared_database(postgres: Postgres) -> Iterator[str]:
    """One migrated database for these tests: making one takes longer than most of them."""
    name = f"retention_{os.urandom(6).hex()}"
    postgres.create_database(name, template=TEMPLATE)
    yield name
    postgres.start().drop_database(name)


@pytest.fixture
def database_url(postgres: Postgres, shared_database: str) -> str:
    url = postgres.start().url(shared_database)
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(f"TRUNCATE {TABLES}")
    return url


class Store:
    """The database as a test fills and looks at it."""

    def __init__(self, engine: Engine, make_settings: MakeSettings, file_store_url: str) -> None:
        self.engine = engine
        self._make_settings = make_settings
        self.file_store_url = file_store_url
        self.files = FileStore(engine, make_settings(file_store_url=file_store_url))

    def add(self, table: Table, *, age: float = 100, **columns: Any) -> int:
        """A row that is so many days old; its columns of time too."""
        at = text(f"now() - interval '{age} days'")
        times = {"created_at", "updated_at", "received_at", "fetched_at", "captured_at", "sent_at", "ended_at"}
        old = {name: at for name in times & set(table.c.keys()) if name not in columns}
        if table.c.get("status") is not None and columns.get("status", "SENT") != "SENT":
            old.pop("sent_at", None)
        with self.engine.begin() as connection:
            added: int = connection.execute(insert(table).values(**old, **columns).returning(table.c.id)).scalar_one()
        return added

    def ids(self, table: Table) -> list[int]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(table.c.id).order_by(table.c.id)).scalars())

    def row(self, table: Table, row_id: int) -> Any:
        with self.engine.connect() as connection:
            return connection.execute(select(table).where(table.c.id == row_id)).one()

    def run(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)

    def leftovers(self) -> list[tuple[str, int]]:
        with self.engine.connect() as connection:
            found = connection.execute(text("SELECT kind, row_id FROM prune_leftover ORDER BY 1, 2"))
            return [(row.kind, row.row_id) for row in found]

    def prune(self, *, batch: int = 500, batches: int | None = None, **days: float) -> dict[str, int]:
        """One run with these ages, such as `bodies_days=30`; ends after so many batches. What went, by pass."""
        told = self._prune(batch, batches, days)
        return {one.name: one.rows for one in told if one.rows}

    def _prune(self, batch: int, batches: int | None, days: dict[str, float]) -> list[Pruned]:
        settings = self._make_settings(file_store_url=self.file_store_url, retention={"batch_limit": batch, **days})
        done: list[str] = []
        return pruning.prune(
            self.engine,
            settings,
            self.files,
            is_stopping=lambda: batches is not None and len(done) >= batches,
            rest=lambda seconds: None,
            ticker=boot_seconds,
            on_batch=lambda name, rows: done.append(name),
        )

    def count(self, **days: float) -> dict[str, int]:
        settings = self._make_settings(file_store_url=self.file_store_url, retention={"batch_limit": 2, **days})
        told = pruning.count(self.engine, settings, self.files)
        return {one.name: one.rows for one in told if one.rows}

    def size(self, table: Table) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


MakeStore = Callable[..., Store]


@pytest.fixture
def make_store(engine: Engine, make_settings: MakeSettings) -> MakeStore:
    return lambda url="db:": Store(engine, make_settings, url)


@pytest.fixture
def store(make_store: MakeStore) -> Store:
    return make_store()
