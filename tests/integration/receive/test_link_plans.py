"""What the linker asks is answered by an index, however much was sent and received."""

from typing import Any

import pytest
from sqlalchemy import Engine, text

from messaging.receive import link_statements as statements
from messaging.settings import Settings

pytestmark = pytest.mark.postgres16


@pytest.fixture
def full(engine: Engine, settings: Settings) -> Engine:
    """30,000 mails sent, 30,000 received in three mailboxes, of which one in ten waits."""
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO mail_send_record (scope, to_addresses, body_mode, status, message_id, tenant_id)
                SELECT 'TENANT', '["a@example.org"]', 'PLAIN', 'SENT', '<' || n || '@example.org>', n % 3
                FROM generate_series(1, 30000) n""")
        )
        connection.execute(
            text("""
                INSERT INTO mail_receive_record (server_config_id, folder_name, message_id, received_at, link_status,
                    link_checked_at, tenant_id)
                SELECT n % 3, 'INBOX', '<r' || n || '@example.org>', now(),
                    CASE WHEN n % 10 = 0 THEN 'PENDING' ELSE 'LINKED' END,
                    CASE WHEN n % 20 = 0 THEN now() - n * interval '1 second' END, n % 3
                FROM generate_series(1, 30000) n""")
        )
        connection.execute(text("ANALYZE mail_send_record, mail_receive_record"))
    return engine


def scans(engine: Engine, statement: Any, **parameters: Any) -> dict[str, set[str]]:
    """By which index each table is read; `Seq Scan` for none, `Sort` where the plan sorts."""
    with engine.connect() as connection:
        found = connection.execute(text(f"EXPLAIN (FORMAT JSON) {statement.text}"), parameters).scalar_one()
        connection.rollback()
    seen: dict[str, set[str]] = {"sorts": set()}
    waiting = [found[0]["Plan"]]
    while waiting:
        node = waiting.pop()
        waiting += [{**child, "Of": node.get("Relation Name", "")} for child in node.get("Plans", ())]
        if node["Node Type"] == "Sort":
            seen["sorts"].add(node["Node Type"])
        elif node["Node Type"].endswith("Scan") and node["Node Type"] not in ("Function Scan", "Bitmap Heap Scan"):
            relation = node.get("Relation Name") or node.get("Of") or "?"
            seen.setdefault(relation, set()).add(node.get("Index Name", node["Node Type"]))
    return seen


def test_what_waits_is_read_in_its_order(full: Engine) -> None:
    found = scans(full, statements.WAITING, config_id=1, limit=100)
    assert found == {"mail_receive_record": {"ix_mail_receive_record_unlinked"}, "sorts": set()}


@pytest.mark.parametrize(
    ("is_multi_tenancy", "is_platform"),
    [(False, False), (True, False), (True, True)],
    ids=["one", "tenant", "platform"],
)
def test_records_are_found_by_their_keys(full: Engine, is_multi_tenancy: bool, is_platform: bool) -> None:
    statement = statements.look_up(is_multi_tenancy, is_platform)
    owner = {"owner": 1} if "owner" in statement._bindparams else {}
    ids = [f"<{n}@example.org>" for n in range(100)]
    found = scans(full, statement, message_ids=ids, record_ids=[1, 2, 3], **owner)
    assert found["mail_send_record"] == {"ix_mail_send_message_id", "pk_mail_send_record"}


@pytest.mark.parametrize("name", ["CHECKED", "ENDED", "LINKED"])
def test_rows_are_written_by_their_keys(full: Engine, name: str) -> None:
    statement = getattr(statements, name)
    parameters = {
        "ids": [1, 2],
        "status": "UNMATCHED",
        "record_ids": [1, 2],
        "message_ids": ["<1@example.org>", None],
        "recipients": [None, "[]"],
        "failed": [None, None],
    }
    used = {key: value for key, value in parameters.items() if key in statement._bindparams}
    assert scans(full, statement, **used)["mail_receive_record"] == {"pk_mail_receive_record"}
