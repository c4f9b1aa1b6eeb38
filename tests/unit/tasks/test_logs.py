"""Log lines are JSON, say whom they are about, and hold nothing of a record's content (operate.md O60)."""

import json
import logging
import sys
from typing import Any

import psycopg
from sqlalchemy.exc import IntegrityError

from messaging import tenancy
from tasks import logs


def line(message: str, *args: object, exc: BaseException | None = None, **extra: Any) -> dict[str, Any]:
    record = logging.LogRecord("a.logger", logging.WARNING, __file__, 1, message, args, None)
    if exc is not None:
        try:
            raise exc
        except type(exc):
            record.exc_info = sys.exc_info()
    record.__dict__.update(extra)
    shown = logs.formatter().format(record)
    assert "\n" not in shown
    found: dict[str, Any] = json.loads(shown)
    return found


def test_a_line_has_its_event_level_and_fields() -> None:
    found = line("retried %s times", 2, record_id=7, category="TRANSIENT")
    assert found.pop("timestamp").endswith("Z")
    assert found == {
        "event": "retried 2 times",
        "level": "warning",
        "logger": "a.logger",
        "record_id": 7,
        "category": "TRANSIENT",
    }


def test_tenant_and_trace_come_from_the_context_unless_named() -> None:
    with tenancy.tenant(7), tenancy.trace("0af7651916cd43dd8448eb211c80319c"):
        found = line("sent")
        assert (found["tenant_id"], found["trace_id"]) == (7, "0af7651916cd43dd8448eb211c80319c")
        assert line("sent", tenant_id=8)["tenant_id"] == 8
    assert "tenant_id" not in line("sent")


def test_the_row_in_a_drivers_error_is_left_out() -> None:
    driver = psycopg.errors.CheckViolation(
        'new row violates check constraint "lane"\nDETAIL:  Failing row contains (1, alice@example.org,\nHello Alice).'
    )
    error = IntegrityError("INSERT INTO t VALUES (%s)", {"to": "alice@example.org"}, driver)
    found = line("task raised: %s", error, exc=error)
    shown = json.dumps(found)
    assert "lane" in shown
    assert "INSERT INTO t" in shown
    assert "alice" not in shown.lower()


def test_arguments_that_celery_reports_are_left_out() -> None:
    assert "data" not in line("Task received", data={"args": "('alice@example.org',)"})


def test_whole_messages_are_in_no_log_at_whatever_level() -> None:
    root, pool = logging.getLogger(), logging.getLogger("celery.pool")
    handlers, level = root.handlers[:], root.level
    try:
        logs.configure("DEBUG")
        assert not pool.isEnabledFor(logging.DEBUG)
    finally:
        root.handlers[:], root.level = handlers, level
        pool.setLevel(logging.NOTSET)
