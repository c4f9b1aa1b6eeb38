"""The suppression list's rows: put on once, lifted with a reason, looked up by index, moved as files."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import suppression, suppression_admin, suppression_files, tenancy
from messaging.errors import EntryRejected, FileRejected, RecordNotFound, TenantContextMissing
from messaging.requests import SuppressionReason
from messaging.settings import Settings
from messaging.suppression import FIND, Suppression, Wanted
from messaging.suppression_files import SuppressionsImported
from tests.integration.rows_read import rows_read

ANN, BEN, NUMBER = "ann@example.org", "ben@example.org", "+4915112345678"


@pytest.fixture
def session(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """Of tenant 7."""
    monkeypatch.setattr(tenancy, "_multi_tenancy", True)
    with tenancy.tenant(7), Session(engine) as session:
        yield session


def imported(session: Session, *lines: str, **options: str | bool) -> SuppressionsImported:
    return suppression_files.import_entries(session, io.StringIO("\n".join(lines) + "\n"), **options)  # type: ignore[arg-type]


def exported(session: Session, *, include_lifted: bool = False) -> str:
    target = io.StringIO()
    suppression_files.export_entries(session, target, include_lifted=include_lifted)
    return target.getvalue()


def addresses(session: Session) -> list[str]:
    return [line.address for line in suppression_admin.page(session)]


# Putting on and lifting


def test_again_for_the_same_entry_nothing_changes(session: Session) -> None:
    first = suppression_admin.suppress(session, "Ann <Ann@EXAMPLE.org>", reason="COMPLAINT", note="first")
    assert suppression_admin.suppress(session, ANN, note="second") == first
    assert suppression_admin.suppress(session, ANN, list_name="news") != first
    lines = suppression_admin.page(session)
    assert [(line.address, line.list, line.reason, line.note) for line in lines] == [
        (ANN, "news", "MANUAL", None),
        (ANN, "", "COMPLAINT", "first"),
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"address": None}, "address is None: is of type str"),
        ({"note": ["a"]}, r"note is \['a'\]: is of type str"),
        ({"list_name": {}}, r"list is \{\}: is of type str"),
        ({"reason": ["MANUAL"]}, r"reason is \['MANUAL'\]: allowed: "),
    ],
)
def test_a_value_of_another_type_is_named(session: Session, given: dict[str, Any], told: str) -> None:
    with pytest.raises(EntryRejected, match=told):
        suppression_admin.suppress(session, **{"address": ANN, **given})
    assert addresses(session) == []


def test_a_note_of_another_type_lifts_nothing(session: Session) -> None:
    entry_id = suppression_admin.suppress(session, ANN)
    with pytest.raises(EntryRejected, match="note is None: is of type str"):
        suppression.lift(session, entry_id, note=None)  # type: ignore[arg-type]
    assert addresses(session) == [ANN]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"limit": -1}, "limit is -1; allowed: 1 to"),
        ({"before": True}, "before is True; it is of type int"),
        ({"reason": "BORED"}, "reason is 'BORED'; allowed: HARD_BOUNCE"),
        ({"channel": "fax"}, "channel is 'fax'; allowed: mail, sms"),
        ({"search": b"a"}, "search is b'a'; it is of type str"),
        ({"search": "\x00"}, "search is .*; it has a character that no entry can have"),
    ],
)
def test_what_cannot_narrow_the_list_is_named(
    session: Session, settings: Settings, engine: Engine, given: dict[str, Any], told: str
) -> None:
    messaging.configure(settings, engine=engine)
    with pytest.raises((TypeError, ValueError), match=told):
        messaging.list_suppressions(**given, session=session)
    assert addresses(session) == []


def test_a_lifted_entry_stays_as_a_row_and_a_new_one_may_follow(session: Session) -> None:
    first = suppression_admin.suppress(session, ANN)
    with tenancy.acting_as(tenancy.Context(tenant_id=7, user_id=5, user_name="kim")):
        assert suppression.lift(session, first, note=" asked for it ")
    assert not suppression.lift(session, first, note="again")
    second = suppression_admin.suppress(session, ANN)
    assert second != first
    lines = suppression_admin.page(session, include_lifted=True)
    assert [(line.id, line.lifted_note, line.updated_by) for line in lines] == [
        (second, None, None),
        (first, "asked for it", "kim"),
    ]
    assert lines[1].lifted_at is not None
    assert [line.id for line in suppression_admin.page(session)] == [second]


def test_why_it_is_lifted_must_be_said(session: Session) -> None:
    entry = suppression_admin.suppress(session, ANN)
    for note in ("", "  \n", "x" * 501):
        with pytest.raises(EntryRejected, match=r"^note is "):
            suppression.lift(session, entry, note=note)
    assert addresses(session) == [ANN]


def test_no_tenant_sees_or_lifts_anothers(session: Session) -> None:
    entry = suppression_admin.suppress(session, ANN)
    for other in (8, tenancy.PLATFORM_TENANT_ID):
        with tenancy.tenant(other):
            assert suppression_admin.page(session) == []
            with pytest.raises(RecordNotFound):
                suppression.lift(session, entry, note="not mine")
            assert suppression_admin.suppress(session, ANN) != entry
    with tenancy.all_tenants():
        assert {line.tenant_id for line in suppression_admin.page(session)} == {7, 8, -1}
        with pytest.raises(TenantContextMissing):
            suppression_admin.suppress(session, BEN)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("address", {"address": "no address"}),
        ("address", {"address": "a@b@c"}),
        ("address", {"address": "+49 151", "channel": "sms"}),
        ("address", {"address": ANN, "channel": "sms"}),
        ("channel", {"address": ANN, "channel": "fax"}),
        ("reason", {"address": ANN, "reason": "WHY"}),
        ("sender", {"address": ANN, "sender": "shop"}),
        ("list", {"address": NUMBER, "channel": "sms", "list_name": "news"}),
        ("list", {"address": ANN, "list_name": "n" * 51}),
        ("note", {"address": ANN, "note": "n" * 501}),
        ("note", {"address": ANN, "note": "a\x00b"}),
        ("note", {"address": ANN, "note": "\ud800"}),
    ],
)
def test_what_cannot_be_an_entry_is_refused_and_the_transaction_goes_on(
    session: Session, field: str, fields: dict[str, str]
) -> None:
    with pytest.raises(EntryRejected) as refused:
        suppression_admin.suppress(session, **fields)
    assert refused.value.field == field
    assert addresses(session) == []


def test_pages_go_from_the_newest_and_can_be_searched(session: Session) -> None:
    ids = [suppression_admin.suppress(session, f"user_{n}@example.org") for n in range(5)]
    suppression_admin.suppress(session, NUMBER, channel="sms", reason=SuppressionReason.OPT_OUT)
    assert [line.id for line in suppression_admin.page(session, channel="mail", limit=2)] == ids[:2:-1]
    assert [line.id for line in suppression_admin.page(session, channel="mail", before=ids[3])] == ids[2::-1]
    assert [line.address for line in suppression_admin.page(session, search="R_3@EXAMPLE")] == ["user_3@example.org"]
    assert suppression_admin.page(session, search="user%") == []
    assert [line.address for line in suppression_admin.page(session, search="151123")] == [NUMBER]
    assert [line.address for line in suppression_admin.page(session, reason=SuppressionReason.OPT_OUT)] == [NUMBER]


def test_an_address_is_found_as_a_whole(session: Session) -> None:
    ann = suppression_admin.suppress(session, ANN)
    newsletter = suppression_admin.suppress(session, ANN, list_name="news")
    number = suppression_admin.suppress(session, NUMBER, channel="sms")
    suppression_admin.suppress(session, "joann@example.org")

    def found(address: str, **asked: Any) -> list[int]:
        return [line.id for line in suppression_admin.page(session, address=address, **asked)]

    assert found("Ann <ANN@example.org>") == [newsletter, ann]
    assert found(NUMBER) == [number]
    assert found(ANN, reason=SuppressionReason.OPT_OUT) == []
    suppression.lift(session, ann, note="asked by phone")
    assert found(ANN) == [newsletter]
    assert found(ANN, include_lifted=True) == [newsletter, ann]
    with pytest.raises(EntryRejected, match="address"):
        found("ann")


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({}, 102),
        ({"before": 4000}, 102),
        ({"address": ANN}, 5),
        ({"address": "r9@example.org"}, 5),
        ({"address": "r9@example.org", "include_lifted": True}, 500),
        ({"search": "nobody"}, 500),
        ({"reason": SuppressionReason.COMPLAINT, "before": 4000}, 500),
    ],
)
def test_a_page_reads_by_an_index_no_more_than_it_may(
    session: Session, engine: Engine, asked: dict[str, Any], most: int
) -> None:
    with engine.begin() as connection:
        connection.execute(
            text("""
                INSERT INTO suppression (tenant_id, channel, address, reason, lifted_at)
                SELECT 6 + n % 3, 'mail', 'r' || n || '@example.org', 'MANUAL', CASE WHEN n % 2 = 0 THEN now() END
                FROM generate_series(1, 20000) n""")
        )
        connection.execute(text("ANALYZE suppression"))
    suppression_admin.page(session, **asked, scan_rows=500)
    assert rows_read(session, "suppression") <= most


# Looking up


def test_a_look_up_finds_what_is_in_force_and_of_the_tenant(session: Session) -> None:
    general = suppression_admin.suppress(session, ANN)
    of_list = suppression_admin.suppress(session, ANN, list_name="news")
    suppression.lift(session, suppression_admin.suppress(session, BEN), note="asked for it")
    suppression_admin.suppress(session, NUMBER, channel="sms")
    wanted = [Wanted(tenant, address) for tenant in (7, 8) for address in (ANN, BEN, NUMBER, "x" * 400)]
    found = suppression.find(session.connection(), "mail", wanted)
    assert {key: [e.id for e in entries] for key, entries in found.items()} == {Wanted(7, ANN): [general, of_list]}
    assert suppression.find(session.connection(), "mail", []) == {}


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_a_look_up_of_a_chunk_reads_the_index_and_nothing_else(session: Session, mode: str) -> None:
    session.execute(
        text("""
        INSERT INTO suppression (tenant_id, channel, address, reason, lifted_at)
        SELECT n % 20, 'mail', 'user' || n || '@example.org', 'MANUAL', CASE WHEN n % 3 = 0 THEN now() END
        FROM generate_series(1, 60000) n""")
    )
    connection = session.connection()
    connection.exec_driver_sql("ANALYZE suppression")
    connection.exec_driver_sql(f"SET LOCAL plan_cache_mode = {mode}")
    types = {":tenants": "$1", ":addresses": "$2", ":channel": "$3"}
    prepared = FIND.text
    for name, number in types.items():
        prepared = prepared.replace(name, number)
    connection.exec_driver_sql(f"PREPARE look_up (bigint[], text[], text) AS {prepared}")
    chunk = [(n % 20, f"user{n}@example.org") for n in range(1, 151)]
    tenants = "{" + ",".join(str(tenant) for tenant, _ in chunk) + "}"
    names = "{" + ",".join(address for _, address in chunk) + "}"
    plan = connection.exec_driver_sql(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE look_up ('{tenants}', '{names}', 'mail')"
    ).scalar_one()
    shown = json.dumps(plan)
    assert "uq_suppression_entry" in shown
    assert "Seq Scan" not in shown
    root = plan[0]["Plan"]
    assert root["Actual Rows"] == 100
    assert root["Shared Hit Blocks"] + root["Shared Read Blocks"] < 150 * 5


# Files


def test_what_is_exported_can_be_imported_by_another_tenant(session: Session) -> None:
    suppression_admin.suppress(session, ANN, reason="COMPLAINT", note='said "no", twice\nand again')
    suppression_admin.suppress(session, ANN, reason="UNSUBSCRIBED", list_name="news")
    suppression_admin.suppress(session, NUMBER, channel="sms", reason="OPT_OUT", sender="+1 555 010 9999")
    suppression.lift(session, suppression_admin.suppress(session, BEN), note="asked for it")
    whole = exported(session, include_lifted=True)
    assert whole.splitlines()[0] == "channel,address,reason,sender,list,record_id,note,created_at,lifted_at"
    with tenancy.tenant(8):
        assert imported(session, *whole.splitlines()) == SuppressionsImported(added=3, known=0, lifted=1)
        told = [(x.channel, x.address, x.reason, x.sender, x.list, x.note) for x in suppression_admin.page(session)]
        assert imported(session, *whole.splitlines()) == SuppressionsImported(added=0, known=3, lifted=1)
    assert sorted(told) == sorted(
        [
            ("sms", NUMBER, "OPT_OUT", "+15550109999", "", None),
            ("mail", ANN, "UNSUBSCRIBED", "", "news", None),
            ("mail", ANN, "COMPLAINT", "", "", 'said "no", twice\nand again'),
        ]
    )


def test_a_file_of_addresses_alone_takes_channel_and_reason_from_the_call(session: Session) -> None:
    done = imported(session, "\ufeffAddress", NUMBER, "", f" {NUMBER} ", channel="sms", reason="OPT_OUT")
    assert done == SuppressionsImported(added=1, known=1, lifted=0)
    [line] = suppression_admin.page(session)
    assert (line.channel, line.address, line.reason) == ("sms", NUMBER, "OPT_OUT")


def test_bad_lines_are_named_and_nothing_of_the_file_stays(session: Session) -> None:
    suppression_admin.suppress(session, BEN)
    good = [f"user{n}@example.org,," for n in range(1500)]
    lines = ["address,list,record_id", *good, "nobody,,", f"{ANN},,x7", "a,b", f"{ANN},{'n' * 51},"]
    with pytest.raises(FileRejected) as refused:
        imported(session, *lines, name="old.csv")
    assert str(refused.value).startswith("old.csv: line 1502: address is 'nobody': ")
    assert "; line 1503: record_id is 'x7'" in str(refused.value)
    assert "; line 1504: has 2 cells, and the first line 3" in str(refused.value)
    assert "; line 1505: list is " in str(refused.value)
    assert addresses(session) == [BEN]  # and the caller's transaction goes on


def test_of_many_bad_lines_the_first_are_named_and_the_others_counted(session: Session) -> None:
    with pytest.raises(FileRejected, match=r"line 21: .*; and 5 more bad lines$"):
        imported(session, "address", *["nobody"] * 25)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([""], "line 1: names no columns"),
        ([ANN], f"line 1: names '{ANN}', which is no column"),
        (["channel", "mail"], "line 1: does not name the column `address`"),
        (["address,address", f"{ANN},{ANN}"], "line 1: names a column twice"),
        (["address", f'"{ANN}"x'], "line 2: "),
        (["address", "a" * 20_000], "is longer than 16384 characters"),
    ],
)
def test_what_is_no_such_file_is_refused(session: Session, lines: list[str], reason: str) -> None:
    with pytest.raises(FileRejected) as refused:
        imported(session, *lines)
    assert reason in str(refused.value)


def test_a_dry_run_counts_and_writes_nothing(session: Session) -> None:
    suppression_admin.suppress(session, BEN)
    done = imported(session, "address", ANN, BEN, dry_run=True)
    assert done == SuppressionsImported(added=1, known=1, lifted=0)
    assert addresses(session) == [BEN]
    assert imported(session, "address", ANN, BEN) == SuppressionsImported(added=1, known=1, lifted=0)


def test_an_import_is_the_callers_transaction(session: Session, engine: Engine) -> None:
    imported(session, "address", ANN)
    session.rollback()
    assert addresses(session) == []
    imported(session, "address", ANN)
    session.commit()
    with Session(engine) as other:
        assert other.query(Suppression).count() == 1
