"""A migrated, empty database for one test after another: emptied between them, as a new one takes five times as long.

What a test is handed cannot be told from a copy of the template: where rows, sequences, statistics, the schema or the
database's own settings differ after the emptying, a new copy takes its place. Each test's database has a name of its
own, so that a connection of an earlier test (a thread that it left behind) finds nothing to write to.
"""

import os
import time
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from messaging.embedded import Postgres

#: The migrated database that others are copies of.
TEMPLATE = "migrated"

#: The first OID that PostgreSQL gives to what a user makes.
FIRST_OID = 16384

#: Tables that hold rows or have held some since they were last made empty.
USED_TABLES: LiteralString = f"""
    SELECT oid::regclass::text FROM pg_class
    WHERE relkind = 'r' AND oid >= {FIRST_OID} AND relpersistence <> 't' AND pg_relation_size(oid) > 0
"""

#: No sequence of the template has given a number.
RESET_SEQUENCES: LiteralString = """
    SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
    FROM pg_sequences WHERE last_value IS NOT NULL
"""

#: What can be told about a database: by kind, rows that the same content makes the same in every copy.
TRAITS: dict[str, LiteralString] = {
    "attributes": f"SELECT a::text FROM pg_attribute a WHERE attrelid >= {FIRST_OID}",
    "relations": f"""SELECT (oid, relname, relnamespace, relkind, relowner, relacl, reloptions, relchecks,
                     relpersistence, relrowsecurity, relforcerowsecurity)::text
                     FROM pg_class WHERE oid >= {FIRST_OID}""",
    "indexes": f"SELECT i::text FROM pg_index i WHERE indrelid >= {FIRST_OID}",
    "constraints": f"SELECT c::text FROM pg_constraint c WHERE oid >= {FIRST_OID}",
    "defaults": "SELECT d::text FROM pg_attrdef d",
    "triggers": "SELECT t::text FROM pg_trigger t",
    "event triggers": "SELECT t::text FROM pg_event_trigger t",
    "functions": f"SELECT p::text FROM pg_proc p WHERE oid >= {FIRST_OID}",
    "types": f"SELECT t::text FROM pg_type t WHERE oid >= {FIRST_OID}",
    "policies": "SELECT p::text FROM pg_policy p",
    "rules": f"SELECT r::text FROM pg_rewrite r WHERE oid >= {FIRST_OID}",
    # Sessions leave the schemas of their temporary tables behind, which are empty.
    "schemas": "SELECT n::text FROM pg_namespace n WHERE nspname !~ '^pg_(toast_)?temp_'",
    "extensions": "SELECT e::text FROM pg_extension e",
    "statistics": f"SELECT starelid::text FROM pg_statistic WHERE starelid >= {FIRST_OID}",
    "large objects": "SELECT oid::text FROM pg_largeobject_metadata",
    "settings": """SELECT (setrole, setconfig)::text FROM pg_db_role_setting
                   WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))""",
    "database": """SELECT (datdba, datallowconn, datconnlimit, datacl)::text
                   FROM pg_database WHERE datname = current_database()""",
    "sequences": "SELECT (schemaname, sequencename, last_value, increment_by, cache_size)::text FROM pg_sequences",
    "tables with rows": USED_TABLES,
}

#: Answers a row for each session of a database that has not ended yet.
END_SESSIONS: LiteralString = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"

#: How long their end is waited for.
END_SECONDS = 5.0
POLL_SECONDS = 0.001


class Databases:
    """The databases of one server's tests, which run one after the other: one at a time."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        #: What the last test is done with; nobody is connected to it.
        self._kept: str | None = None
        self._admin: psycopg.Connection[Any] | None = None
        #: Of the template: its tables with rows and what else is told of it.
        self._filled: frozenset[str] = frozenset()
        self._traits: dict[str, Any] = {}

    def take(self) -> str:
        """The name of an empty database."""
        self._start()
        name, self._kept = self._kept, None
        if name is None or not self._empty(name):
            if name is not None:
                self._server.drop_database(name)
            name = _new_name()
            self._server.create_database(name, template=TEMPLATE)
            if not self._traits:
                with self._connect(name) as connection:
                    self._filled = frozenset(_used_tables(connection))
                    self._traits = self._tell(connection)
        return name

    def give_back(self, name: str) -> None:
        """The test is over: whoever is still connected is cut off, and finds nothing under that name any more."""
        new_name = _new_name()
        try:
            self._rename(name, new_name)
        except psycopg.Error:
            # Somebody has come back in the meantime, or the server went down.
            self._start()
            self._server.drop_database(name)
        else:
            self._kept = new_name

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()

    def _start(self) -> None:
        """A test may have left the server stopped."""
        if self._server.pid is None:
            self._server.start()

    def _rename(self, name: str, new_name: str) -> None:
        self._start()
        if self._admin is None or self._admin.closed:
            self._admin = self._connect("postgres")
        # PostgreSQL itself looks for their end ten times a second only.
        deadline = time.monotonic() + END_SECONDS
        while self._admin.execute(END_SESSIONS, (name,)).fetchall() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._admin.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(new_name))
        )

    def _empty(self, name: str) -> bool:
        """Make it as new; answers whether that has succeeded."""
        try:
            with self._connect(name) as connection:
                tables = [table for table in _used_tables(connection) if table not in self._filled]
                if tables:
                    # The audit log has a trigger that refuses this.
                    connection.execute("SET session_replication_role = replica")
                    connection.execute(f"TRUNCATE {', '.join(tables)} CASCADE".encode())
                connection.execute(RESET_SEQUENCES)
                return self.is_as_new(connection)
        except psycopg.Error:
            return False

    def is_as_new(self, connection: "psycopg.Connection[Any]") -> bool:
        """Whether nothing tells this database from a copy of the template."""
        return self._tell(connection) == self._traits

    def _tell(self, connection: "psycopg.Connection[Any]") -> dict[str, Any]:
        kinds = {**TRAITS, **{f"rows of {table}": f"SELECT r::text FROM {table} r" for table in self._filled}}
        each = (
            f"SELECT '{kind}', count(*), sum(hashtextextended(line, 0)) FROM ({query}) AS lines(line)"
            for kind, query in kinds.items()
        )
        told = connection.execute(" UNION ALL ".join(each).encode())
        return {kind: (count, digest) for kind, count, digest in told}

    def _connect(self, name: str) -> "psycopg.Connection[Any]":
        return psycopg.connect(self._server.url(name).replace("+psycopg", ""), autocommit=True)


def _new_name() -> str:
    return f"test_{os.urandom(6).hex()}"


def _used_tables(connection: "psycopg.Connection[Any]") -> list[str]:
    return [table for (table,) in connection.execute(USED_TABLES)]
