"""Records in lists: narrowed by what they are, page by page, each once, at a cost that does not grow with history."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, text
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.db import newest
from messaging.delivery.lines import Line, LineSource, Position, RecordFilter, RecordPage
from messaging.delivery.status import SendStatus
from messaging.delivery.tallies import MAX_COUNTED, Tally, tally
from messaging.errors import RecordNotFound
from messaging.mail import records as mails
from messaging.records import page, position
from messaging.requests import MessageScope
from messaging.sms import records as texts
from tests.integration.delivery.records import A, B, C, Records
from tests.integration.rows_read import rows_read

HISTORY = 20_000


def ids(found: RecordPage) -> list[int]:
    return [line.id for line in found.lines]


def listed(records: Records, **asked: Any) -> list[int]:
    with Session(records.engine) as session:
        return ids(page(session, channel=records.kind.name, asked=RecordFilter(**asked)))


def all_pages(
    records: Records, *, limit: int, scan_rows: int = 10_000, channel: str | None = None, **asked: Any
) -> list[list[int]]:
    """Page by page, until there is no next one."""
    pages, before = [], None
    with Session(records.engine) as session:
        while True:
            found = page(
                session,
                channel=channel,
                asked=RecordFilter(**asked),
                limit=limit,
                before=before,
                scan_rows=scan_rows,
            )
            pages.append(ids(found))
            if found.next is None:
                return pages
            before = found.next


def test_a_mail_is_found_by_everybody_it_goes_to_and_by_nobody_else(records: Records) -> None:
    bare = records.one(to=[A])
    named = records.one(to=["Ada Lovelace <A@Example.org>"])
    copied = records.one(to=[B], cc_addresses=[A])
    blind = records.one(to=[B, C], bcc_addresses=['"Doe, J." <a@example.org>'])
    records.one(to=["aa@example.org", "A@example.org.example.com"])
    assert listed(records, recipient=mails.recipient("Somebody <a@EXAMPLE.org>")) == [blind, copied, named, bare]
    assert listed(records, recipient=mails.recipient(C)) == [blind]
    assert listed(records, recipient="nobody@example.org") == []
    with pytest.raises(ValueError, match="@"):
        mails.recipient("nobody")


def test_a_text_message_is_found_by_its_number(sms_records: Records) -> None:
    found = sms_records.one(to=[A])
    sms_records.one(to=[B])
    assert listed(sms_records, recipient=texts.recipient("+4915112345601")) == [found]
    with pytest.raises(ValueError, match="not a number in E"):
        texts.recipient("0151")


@pytest.mark.parametrize("kind", ["records", "sms_records"])
def test_a_list_is_narrowed_by_what_a_record_is(kind: str, request: pytest.FixtureRequest) -> None:
    records: Records = request.getfixturevalue(kind)
    config_column = "server_config_id" if records.kind.name == "mail" else "provider_config_id"
    plain = records.one()
    templated = records.one(template_code="welcome", scope="PLATFORM")
    failed = records.one(status="FAILED", error_code="SMTP_550", **{config_column: 5})
    dead = records.one(status="DEAD_LETTER", error_code="SMTP_550")
    sent = records.one(status="SENT", sent_at=func.now(), **{config_column: 5})
    waiting = records.one(status="RETRY", error_code="SMTP_421")
    being_sent = records.one()
    records.claim_now(being_sent)

    assert listed(records) == [being_sent, waiting, sent, dead, failed, templated, plain]
    for status, expected in (
        (SendStatus.PENDING, [templated, plain]),
        (SendStatus.SENDING, [being_sent]),
        (SendStatus.SENT, [sent]),
        (SendStatus.FAILED, [failed]),
        (SendStatus.RETRY, [waiting]),
        (SendStatus.DEAD_LETTER, [dead]),
    ):
        assert listed(records, status=status) == expected
    assert listed(records, template_code="welcome") == [templated]
    assert listed(records, scope=MessageScope.PLATFORM) == [templated]
    assert listed(records, config_id=5) == [sent, failed]
    assert listed(records, error_code="SMTP_550") == [dead, failed]
    assert listed(records, error_code="SMTP_550", status=SendStatus.DEAD_LETTER, config_id=5) == []
    assert listed(records, error_code="SMTP_550", status=SendStatus.FAILED, config_id=5) == [failed]
    assert listed(records, status=SendStatus.SENDING, template_code="welcome") == []


def test_only_mails_ask_for_a_template_by_its_id(records: Records, sms_records: Records) -> None:
    by_id = records.one(template_id=7)
    records.one(template_id=8)
    sms_records.one(template_code="7")
    with Session(records.engine) as session:
        assert ids(page(session, asked=RecordFilter(template_id=7))) == [by_id]


def test_a_list_is_narrowed_by_time_from_the_first_moment_on_and_up_to_the_last(records: Records) -> None:
    noon = datetime(2026, 3, 4, 12, tzinfo=UTC)
    at = {hour: records.one(created_at=noon + timedelta(hours=hour), error_code="X") for hour in (-1, 0, 1, 2)}
    assert listed(records, created_after=noon) == [at[2], at[1], at[0]]
    assert listed(records, created_before=noon) == [at[-1]]
    between = {"created_after": noon, "created_before": noon + timedelta(hours=2)}
    assert listed(records, **between) == [at[1], at[0]]
    assert listed(records, **between, error_code="X") == [at[1], at[0]]
    assert listed(records, **between, status=SendStatus.PENDING) == [at[1], at[0]]


@pytest.mark.parametrize("channel", ["mail", None])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20])
def test_pages_hold_each_record_once_in_one_order(
    records: Records, sms_records: Records, channel: str | None, limit: int
) -> None:
    # Records of one transaction have one time.
    expected = [*records.accept(count=4), *records.accept(count=3)]
    if channel is None:
        expected += [*sms_records.accept(count=3), *records.accept(count=2)]
    pages = all_pages(records, channel=channel, limit=limit)
    assert [i for one in pages for i in one] == expected[::-1]
    assert all(len(one) == limit for one in pages[:-1])
    assert pages[-1]


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("scan_rows", [1, 3, 4, 50])
@pytest.mark.parametrize("is_cross_tenant", [False, True])
def test_pages_of_a_rare_filter_look_at_so_many_rows_each_and_miss_none(
    records: Records, sms_records: Records, limit: int, scan_rows: int, is_cross_tenant: bool
) -> None:
    expected = []
    for number in range(20):
        rare = {"scope": "PLATFORM"} if number in (0, 3, 4, 11, 12, 13, 19) else {}
        of = records if number % 3 else sms_records
        record_id = of.one(**rare)
        expected += [record_id] if rare else []
    tenancy.use_multi_tenancy(is_cross_tenant)
    with tenancy.all_tenants():
        pages = all_pages(records, limit=limit, scan_rows=scan_rows, scope=MessageScope.PLATFORM)
    assert [i for one in pages for i in one] == expected[::-1]
    assert max(map(len, pages)) <= limit
    assert len(pages) <= 20 / scan_rows * 2 + 7 / limit + 3


def test_a_page_goes_on_where_the_last_one_ended_whatever_came_meanwhile(records: Records) -> None:
    first, second, third = (records.one() for _ in range(3))
    with Session(records.engine) as session:
        top = page(session, limit=1)
        records.accept(count=3)
        records.run(text(f"DELETE FROM mail_send_record WHERE id = {third}"))
        assert ids(top) == [third]
        assert ids(page(session, limit=5, before=top.next)) == [second, first]


def test_a_record_of_another_tenant_is_in_no_list_and_no_place_to_go_on_from(records: Records) -> None:  # operate.md O5
    own, other = records.one(tenant_id=7, error_code="X"), records.one(tenant_id=8, error_code="X")
    tenancy.use_multi_tenancy(True)
    with tenancy.tenant(7), Session(records.engine) as session:
        for asked in (
            RecordFilter(),
            RecordFilter(error_code="X"),
            RecordFilter(recipient=A),
            RecordFilter(config_id=1),
        ):
            assert ids(page(session, asked=asked)) in ([own], [])
        assert position(session, own).id == own
        with pytest.raises(RecordNotFound):
            position(session, other)


def test_a_line_tells_what_a_list_shows(records: Records) -> None:
    record_id = records.one(
        to=["Ada <a@example.org>"], template_id=5, server_config_id=3, status="FAILED", error_code="X"
    )
    with Session(records.engine) as session:
        [line] = page(session).lines
    assert line == Line(
        id=record_id,
        channel="mail",
        tenant_id=0,
        created_at=line.created_at,
        status=SendStatus.FAILED,
        scope=MessageScope.TENANT,
        retry_count=0,
        error_code="X",
        subject="Order 17",
        template="id 5",
        to=["Ada <a@example.org>"],
        config_id=3,
        next_attempt_at=None,
        sent_at=None,
    )


# -- plans


@pytest.fixture
def history(records: Records, sms_records: Records) -> Iterator[Engine]:
    """Two tenants' sent records; of each some that failed, wait, or are rare, the oldest of all."""
    for table, to, whom in (
        ("mail_send_record", "to_addresses", """jsonb_build_array('u' || n % 1000 || '@example.org')"""),
        ("sms_send_record", "phone_number", """'+49151' || 1000000 + n % 1000"""),
    ):
        records.run(
            text(f"""
            INSERT INTO {table} (tenant_id, scope, {to}, status, error_code, created_at, claimed_at, next_attempt_at)
            SELECT n % 2, CASE WHEN n <= 40 THEN 'PLATFORM' ELSE 'TENANT' END, {whom}, status,
                CASE status WHEN 'FAILED' THEN 'SMTP_550' END, now() - {HISTORY} * interval '1 s' + n * interval '1 s',
                CASE status WHEN 'SENDING' THEN now() END, now() + interval '1 day'
            FROM generate_series(1, {HISTORY}) n,
                LATERAL (SELECT CASE
                    WHEN n <= 40 THEN (ARRAY['FAILED', 'SENDING', 'DEAD_LETTER', 'RETRY'])[1 + n / 2 % 4]
                    WHEN n % 10 = 1 THEN 'PENDING' ELSE 'SENT' END) s(status)""")
        )
        with records.engine.connect() as connection:
            connection.exec_driver_sql(f"ANALYZE {table}")
    yield records.engine
    records.run(text("TRUNCATE mail_send_record, sms_send_record"))
    with records.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE mail_send_record")
        connection.exec_driver_sql("ANALYZE sms_send_record")


def scans(
    engine: Engine, source: LineSource, asked: RecordFilter, *, scan_rows: int, before: Position | None = None
) -> list[dict[str, Any]]:
    """The nodes of the plan that read the table, as EXPLAIN ANALYZE tells them."""
    question = source.question(asked, owner=1)
    start = None if before is None else (before.created_at, before.id)
    statement = newest.page_of(question, size=50, before=start, scan_rows=scan_rows)
    sql = str(statement.compile(dialect=engine.dialect, compile_kwargs={"literal_binds": True}))
    with engine.connect() as connection:
        found = connection.exec_driver_sql("EXPLAIN (ANALYZE, FORMAT JSON) " + sql).scalar_one()
    plan = found if isinstance(found, list) else json.loads(found)

    def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield node
        for child in node.get("Plans", ()):
            yield from walk(child)

    nodes = list(walk(plan[0]["Plan"]))
    assert "Sort" not in {node["Node Type"] for node in nodes} or question.is_gathered, json.dumps(plan, indent=1)
    return [node for node in nodes if node.get("Relation Name") == source.table.name]


def read_rows(nodes: Sequence[dict[str, Any]]) -> int:
    return sum(
        int(node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in nodes
    )


FAR_BACK = datetime(2000, 1, 1, tzinfo=UTC)


#: What is asked, the index that answers it, and how many rows are read at most.
PLANS: list[tuple[dict[str, Any], str, int]] = [
    ({}, "created", 51),
    ({"created_after": FAR_BACK}, "created", 51),
    ({"created_before": FAR_BACK}, "created", 0),
    ({"status": SendStatus.PENDING}, "unsent", 51),
    ({"status": SendStatus.FAILED}, "unsent", 5),
    ({"status": SendStatus.FAILED, "created_before": FAR_BACK}, "unsent", 0),
    ({"status": SendStatus.SENDING}, "sending", 5),
    ({"error_code": "SMTP_550"}, "error", 5),
    ({"error_code": "SMTP_550", "status": SendStatus.FAILED}, "error", 5),
    ({"error_code": "NEVER"}, "error", 0),
    ({"status": SendStatus.SENT}, "created", 70),
    # What no index answers looks at as many rows as it may, and no more.
    ({"scope": MessageScope.PLATFORM}, "created", 500),
    ({"template_code": "welcome"}, "created", 500),
    ({"config_id": 7}, "created", 500),
    ({"config_id": 7, "created_after": FAR_BACK}, "created", 500),
    ({"config_id": 7, "status": SendStatus.PENDING}, "unsent", 500),
]


@pytest.mark.postgres16
def test_a_page_reads_by_an_index_no_more_than_it_may(history: Engine) -> None:
    for source in (mails.LINES, texts.LINES):
        for asked, index, rows in PLANS:
            nodes = scans(history, source, RecordFilter(**asked), scan_rows=500)
            told = f"{source.channel}, {asked}: {nodes}"
            used = {node["Index Name"] for node in nodes if "Index Name" in node}
            assert used == {f"ix_{source.channel}_send_{index}"}, told
            # What is being sent is read whole, of whomever: there is as much as workers have in hand.
            assert min(rows, 5) <= read_rows(nodes) <= max(rows, 10), told


@pytest.mark.postgres16
def test_a_page_far_back_reads_as_much_as_the_first_one(history: Engine) -> None:
    with Session(history) as session, tenancy.all_tenants():
        found = session.execute(
            text(f"SELECT created_at, id FROM mail_send_record WHERE tenant_id = 1 ORDER BY id OFFSET {HISTORY // 4}")
        ).first()
    assert found is not None
    for asked, rows in (
        (RecordFilter(), 51),
        (RecordFilter(config_id=7), 500),
        (RecordFilter(recipient="u1@example.com"), 500),
    ):
        nodes = scans(history, mails.LINES, asked, scan_rows=500, before=Position(found.created_at, found.id))
        assert {node["Index Name"] for node in nodes} == {"ix_mail_send_created"}
        assert read_rows(nodes) == rows


@pytest.mark.postgres16
def test_a_number_is_found_by_its_index(history: Engine) -> None:
    nodes = scans(history, texts.LINES, RecordFilter(recipient="+491511000001"), scan_rows=500)
    assert {node["Index Name"] for node in nodes} == {"ix_sms_send_number"}
    assert read_rows(nodes) == 20


def test_pages_upwards_are_those_downwards_whatever_was_looked_at_between(records: Records) -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    made = {
        records.one(created_at=noon + timedelta(minutes=number % 5), error_code="X" if number % 2 else None): number % 2
        for number in range(9)
    }
    down = all_pages(records, limit=50)[0]
    with Session(records.engine) as session:
        for scan_rows in (2, 100):
            for error_code, expected in ((None, down), ("X", [row for row in down if made[row]])):
                after: Position | None
                after, found = Position(noon - timedelta(minutes=1), 1), list[int]()
                while after is not None:
                    asked = RecordFilter(error_code=error_code)
                    part = page(
                        session, channel=records.kind.name, asked=asked, limit=2, after=after, scan_rows=scan_rows
                    )
                    found, after = ids(part) + found, part.newer
                assert found == expected


def test_statuses_are_counted_exactly_while_few_and_told_to_be_more_where_they_are(records: Records) -> None:
    source = mails.LINES if records.kind.name == "mail" else texts.LINES
    for status, count in ((SendStatus.FAILED, 3), (SendStatus.RETRY, 2), (SendStatus.PENDING, 4)):
        for _ in range(count):
            records.one(status=status, error_code="X" if status is SendStatus.RETRY else None)
    with Session(records.engine) as session:
        all_seen = tally(session, source, RecordFilter(), owner=0)
        assert all_seen.newest is None
        assert all_seen.by_status[SendStatus.FAILED] == Tally(3, is_at_least=False)
        assert all_seen.by_status[SendStatus.SENT] == Tally(0, is_at_least=False)
        # Beyond the newest rows an index counts what is not sent; what is sent is only known to be at least so many.
        part = tally(session, source, RecordFilter(status=SendStatus.SENT), scan_rows=2, owner=0)
        assert part.by_status[SendStatus.FAILED] == Tally(3, is_at_least=False)
        assert part.by_status[SendStatus.SENT] == Tally(0, is_at_least=True)
        narrowed = tally(session, source, RecordFilter(error_code="X"), scan_rows=1, owner=0)
        assert narrowed.by_status[SendStatus.RETRY] == Tally(1, is_at_least=True)
        assert narrowed.newest == 1


@pytest.mark.postgres16
def test_a_record_is_found_by_a_key_and_statuses_are_counted_without_reading_history(history: Engine) -> None:
    with history.begin() as connection:
        connection.execute(
            text("UPDATE mail_send_record SET message_id = '<' || id || '@x>', idempotency_key = 'k' || id")
        )
        connection.exec_driver_sql("UPDATE sms_send_record SET provider_message_id = 'p' || id, provider_config_id = 3")
        connection.exec_driver_sql("ANALYZE mail_send_record, sms_send_record")
    for source in (mails.LINES, texts.LINES):
        table = source.table.name
        with Session(history) as session:
            some = session.execute(text(f"SELECT max(id) FROM {table} WHERE tenant_id = 1")).scalar_one()
        for named in (f"{some}", f"<{some}@x>", f"k{some}", f"p{some}", "nothing"):
            with Session(history) as session, at_most(10, session, table):
                source.find(session, named, RecordFilter(), owner=1, limit=20)
        with Session(history) as session, at_most(500 + 2 * MAX_COUNTED, session, table):
            found = tally(session, source, RecordFilter(), owner=1, scan_rows=500)
            assert found.by_status[SendStatus.PENDING] == Tally(MAX_COUNTED, is_at_least=True)
        with Session(history) as session, at_most(500, session, table):
            tally(session, source, RecordFilter(template_code="welcome"), owner=1, scan_rows=500)


@contextmanager
def at_most(rows: int, session: Session, table: str) -> Iterator[None]:
    """Not much of a table is read; what PostgreSQL still counts for the transaction before is not of this one."""
    before = rows_read(session, table)
    yield
    assert rows_read(session, table) - before <= rows
