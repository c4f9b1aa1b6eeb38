"""Received mails are stored once, with their files or without: receive.md sections 6, 9 and 10."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError

from messaging.files import FileStore
from messaging.receive import store as store_module
from messaging.receive.arrival import Arrival, Incoming, Origin, Reader
from messaging.receive.classification import BounceRecipient, Classification
from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import ParsedAttachment, ParsedMail
from messaging.receive.store import Kept, Store
from messaging.receive.vocabulary import BounceKind, BounceReason, MailType, TruncationReason
from tests.conftest import MakeSettings

INBOX = Origin(config_id=3, tenant_id=5, folder_name="INBOX", uid_validity=77)
JUNK = replace(INBOX, folder_name="Junk")


def mail(message_id: str | None = "<one@example.org>", body: str = "Hello.", trace: str = "", **fields: str) -> bytes:
    headers = {"From": "Ann <ann@example.org>", "Date": "Mon, 2 Mar 2026 10:00:00 +0100", "Subject": "Hi", **fields}
    if message_id is not None:
        headers["Message-ID"] = message_id
    lines = [*([trace] if trace else []), *(f"{name}: {value}" for name, value in headers.items()), "", body, ""]
    return "\r\n".join(lines).encode()


def envelope(header: bytes, _limits: ParseLimits) -> ParsedMail:
    return replace(parse(header, ParseLimits()), body_text=None, body_mode=None, root=None)


def normal(_mail: ParsedMail) -> Classification:
    return Classification(MailType.NORMAL)


def read(
    octets: bytes,
    uid: int = 1,
    origin: Origin = INBOX,
    classify: Callable[[ParsedMail], Classification] = normal,
    **incoming: Any,
) -> Arrival:
    reader = Reader(ParseLimits(), parse=parse, parse_envelope=envelope, classify=classify)
    return reader.read(origin, Incoming(str(uid), incoming.pop("size", len(octets)), octets, **incoming))


def attached(arrival: Arrival, *contents: bytes) -> Arrival:
    files = tuple(ParsedAttachment(f"{n}.txt", "text/plain", None, content) for n, content in enumerate(contents))
    return replace(arrival, mail=replace(arrival.mail, attachments=files))


@pytest.fixture
def store(engine: Engine, make_settings: MakeSettings) -> Store:
    return Store(engine, FileStore(engine, make_settings()))


@pytest.fixture
def rows(engine: Engine) -> Callable[..., list[dict[str, Any]]]:
    def select(table: str = "mail_receive_record") -> list[dict[str, Any]]:
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY id")).mappings()]

    return select


Rows = Callable[..., list[dict[str, Any]]]


def test_a_mail_is_stored_once(store: Store, rows: Rows) -> None:  # receive.md R1 R33
    [first] = store.keep([read(mail())])
    [second] = store.keep([read(mail())])
    assert (first.is_new, second.is_new) == (True, False)
    assert first.record_id == second.record_id
    [row] = rows()
    assert (row["tenant_id"], row["server_config_id"], row["folder_name"]) == (5, 3, "INBOX")
    assert (row["message_id"], row["from_address"], row["from_name"]) == ("<one@example.org>", "ann@example.org", "Ann")
    assert (row["server_uid"], row["uid_validity"], row["size"]) == ("1", 77, len(mail()))
    assert (row["status"], row["link_status"], row["attachments"]) == ("UNREAD", "NONE", None)


def test_the_same_mail_in_two_folders_is_one_whatever_its_trace_says(store: Store, rows: Rows) -> None:
    kept = [
        *store.keep([read(mail(trace="Received: by a; Mon, 2 Mar 2026 10:00:01 +0100"))]),
        *store.keep([read(mail(trace="Received: by b; Mon, 2 Mar 2026 10:00:02 +0100"), 9, JUNK)]),
    ]
    assert [one.is_new for one in kept] == [True, False]
    assert len(rows()) == 1


@pytest.mark.parametrize("is_one_group", [True, False])
def test_another_mail_with_a_stored_message_id_is_stored_beside_it(
    store: Store, rows: Rows, is_one_group: bool
) -> None:
    arrivals = [read(mail(body="one"), 1), read(mail(body="two"), 2), read(mail(body="two"), 3)]
    for group in [arrivals] if is_one_group else [[one] for one in arrivals]:
        list(store.keep(group))
    first, second = rows()
    assert second["message_id"] == f"<one@example.org>#{second['content_sha256'][:8]}"
    assert (first["duplicate_of"], second["duplicate_of"]) == (None, first["id"])


def test_a_key_that_somebody_took_on_purpose_hides_no_mail(store: Store, rows: Rows) -> None:
    second = read(mail(body="two"))
    list(store.keep([read(mail(body="one"))]))
    list(store.keep([read(mail(f"one@example.org#{second.content_sha256 and second.content_sha256[:8]}"))]))
    list(store.keep([replace(read(mail(second.keys[1])), key=second.keys[1])]))
    list(store.keep([second]))
    assert len({row["message_id"] for row in rows()}) == 4


def test_mails_without_an_id_are_told_apart_by_their_content(store: Store, rows: Rows) -> None:  # receive.md R13 R14
    list(store.keep([read(mail(None, "one")), read(mail(" ", "two")), read(mail(None, "one"))]))
    keys = [row["message_id"] for row in rows()]
    assert len(keys) == 2
    assert all(key.startswith("synthetic:") and len(key) == 42 for key in keys)


def test_a_long_message_id_is_hashed_and_stored_once(store: Store, rows: Rows) -> None:  # receive.md R15
    long = f"<{'x' * 400}@example.org>"
    for body in ("one", "one", "two"):
        list(store.keep([read(mail(long, body))]))
    first, second = rows()
    assert first["message_id"].startswith("hashed:")
    assert second["message_id"].startswith(f"{first['message_id']}#")


def test_a_bounce_waits_for_the_linker_from_the_first_moment(store: Store, rows: Rows) -> None:  # receive.md R60
    def bounce(_mail: ParsedMail) -> Classification:
        who = BounceRecipient(BounceKind.HARD, BounceReason.USER_UNKNOWN, "a@example.org", reply_code="550")
        return Classification(MailType.BOUNCE, recipients=(who,), reference_ids=("<sent@example.com>",))

    list(store.keep([read(mail(), classify=bounce)]))
    [row] = rows()
    assert (row["link_status"], row["original_message_id"]) == ("PENDING", "<sent@example.com>")
    assert (row["bounce_kind"], row["hard_bounce"], row["smtp_reply_code"]) == ("HARD", True, "550")
    assert row["failed_recipients"] == ["a@example.org"]
    assert row["bounce_recipients"][0]["reason"] == "USER_UNKNOWN"


@pytest.mark.parametrize(
    ("mail_type", "failed"), [(MailType.FEEDBACK_REPORT, ["a@example.org"]), (MailType.READ_RECEIPT, None)]
)
def test_receipts_and_complaints_name_somebody_and_are_no_bounces(
    store: Store, rows: Rows, mail_type: MailType, failed: list[str] | None
) -> None:
    def told(_mail: ParsedMail) -> Classification:
        return Classification(mail_type, recipients=(BounceRecipient(BounceKind.SUCCESS, recipient="a@example.org"),))

    list(store.keep([read(mail(), classify=told)]))
    [row] = rows()
    assert (row["bounce_kind"], row["bounce_reason"], row["hard_bounce"]) == (None, None, None)
    assert row["failed_recipients"] == failed
    assert row["bounce_recipients"][0]["recipient"] == "a@example.org"


@pytest.mark.parametrize("url", ["db:", "file"])
def test_files_go_with_their_mail_and_not_without(
    engine: Engine, make_settings: MakeSettings, rows: Rows, tmp_path: Path, url: str
) -> None:
    files = FileStore(engine, make_settings(file_store_url=url if url == "db:" else f"file://{tmp_path}"))
    store = Store(engine, files, archive_eml=True)
    arrival = attached(read(mail()), b"first", b"second")
    [kept] = store.keep([arrival])
    assert kept.is_archived
    [row] = rows()
    assert [file["file_name"] for file in row["attachments"]] == ["0.txt", "1.txt"]
    with files.open(row["attachments"][1]["file_id"], [5]) as second, files.open(row["eml_file_id"], [5]) as eml:
        assert (second.read(), eml.read()) == (b"second", mail())
    assert files.describe([row["eml_file_id"]], [5])[row["eml_file_id"]].file_name == "one@example.org.eml"
    before = rows("stored_file"), sorted(tmp_path.rglob("*"))
    assert not next(store.keep([arrival])).is_new
    assert (rows("stored_file"), sorted(tmp_path.rglob("*"))) == before


@pytest.mark.parametrize("url", ["db:", "file"])
def test_an_insert_that_fails_leaves_no_file(
    engine: Engine, make_settings: MakeSettings, rows: Rows, tmp_path: Path, url: str
) -> None:
    files = FileStore(engine, make_settings(file_store_url=url if url == "db:" else f"file://{tmp_path}"))
    refuse(engine, "Hi")
    with pytest.raises(DBAPIError, match="refused"):
        list(Store(engine, files).keep([attached(read(mail()), b"first")]))
    assert not rows()
    assert not rows("stored_file")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_store_that_fails_costs_the_file_and_not_the_mail(
    engine: Engine, make_settings: MakeSettings, rows: Rows, tmp_path: Path
) -> None:
    (tmp_path / "in the way").write_text("no folder")
    files = FileStore(engine, make_settings(file_store_url=f"file://{tmp_path}/in the way"))
    [kept] = Store(engine, files, archive_eml=True).keep([attached(read(mail()), b"first")])
    assert (kept.is_new, kept.is_archived) == (True, False)
    assert (rows()[0]["attachments"], rows()[0]["body_text"].strip()) == (None, "Hello.")


def test_without_a_store_a_mail_has_no_files(
    engine: Engine, make_settings: MakeSettings, rows: Rows
) -> None:  # receive.md R12
    store = Store(engine, FileStore(engine, make_settings(file_store_url="none:")), archive_eml=True)
    assert not next(store.keep([attached(read(mail()), b"first")])).is_archived
    assert (rows()[0]["attachments"], rows()[0]["eml_file_id"]) == (None, None)


def refuse(engine: Engine, subject: str, sqlstate: str = "P0001") -> None:
    """Have the database raise at each mail with this subject, unless it is the envelope alone."""
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF NEW.subject = '{subject}' AND NEW.truncation_reason IS NULL THEN"
                f" RAISE EXCEPTION 'refused' USING ERRCODE = '{sqlstate}'; END IF; RETURN NEW; END $$"
            )
        )
        connection.execute(
            text("CREATE TRIGGER refuse BEFORE INSERT ON mail_receive_record FOR EACH ROW EXECUTE FUNCTION refuse()")
        )


def test_those_before_a_failure_are_stored(store: Store, engine: Engine, rows: Rows) -> None:  # receive.md R18
    refuse(engine, "Bad")
    arrivals = [read(mail("<1@x>")), read(mail("<2@x>", Subject="Bad"), 2), read(mail("<3@x>"), 3)]
    kept: list[Kept] = []
    with pytest.raises(DBAPIError, match="refused"):
        kept.extend(store.keep(arrivals))
    assert [row["message_id"] for row in rows()] == ["<1@x>"]


def test_a_mail_that_the_database_refuses_for_its_values_is_stored_as_an_envelope(
    store: Store, engine: Engine, rows: Rows
) -> None:
    refuse(engine, "Bad", sqlstate="22001")
    list(store.keep([read(mail("<1@x>")), read(mail("<2@x>", Subject="Bad"), 2), read(mail("<3@x>"), 3)]))
    assert [(row["truncation_reason"], row["body_text"] is None) for row in rows()] == [
        (None, False),
        ("PARSE_FAILED", True),
        (None, False),
    ]


@pytest.mark.parametrize(
    ("configured", "octets", "given"),
    [
        ("2s", store_module.QUICK_OCTETS * 2, "8s"),
        ("2s", 1_000, "2s"),
        ("2min", store_module.QUICK_OCTETS * 2, "2min"),
        ("0", store_module.QUICK_OCTETS * 2, "0"),
    ],
    ids=["large", "small", "patient", "endless"],
)
def test_a_large_mail_gets_the_time_that_it_takes(
    store: Store, engine: Engine, rows: Rows, configured: str, octets: int, given: str
) -> None:
    with engine.begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " NEW.from_name = current_setting('statement_timeout'); RETURN NEW; END $$"
            )
        )
        connection.execute(
            text("CREATE TRIGGER note BEFORE INSERT ON mail_receive_record FOR EACH ROW EXECUTE FUNCTION note()")
        )
    event.listen(
        engine, "begin", lambda connection: connection.exec_driver_sql(f"SET statement_timeout = '{configured}'")
    )
    head = mail("<large@x>", "")
    list(store.keep([read(head + b"x" * (octets - len(head)))]))
    assert [row["from_name"] for row in rows()] == [given]


def test_what_the_database_cannot_be_sent_at_once_is_stored_as_an_envelope(
    store: Store, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_ROWS_CHARS", 5_000)
    control_characters = mail("<2@x>", "\x01" * 1_000)
    list(store.keep([read(mail("<1@x>")), read(control_characters, 2), read(mail("<3@x>"), 3)]))
    assert [(row["truncation_reason"], row["body_text"] is None, row["eml_file_id"] is None) for row in rows()] == [
        (None, False, True),
        ("PARSE_FAILED", True, False),
        (None, False, True),
    ]


def test_what_no_column_holds_is_made_storable(store: Store, rows: Rows) -> None:  # receive.md R16
    octets = mail("<nul\x00@example.org>", "a\x00b", Subject="x\x00y")
    list(store.keep([read(octets)]))
    [row] = rows()
    assert (row["message_id"], row["subject"], "\x00" in row["body_text"]) == ("<nul@example.org>", "xy", False)


@pytest.mark.parametrize(
    ("given", "date", "stored"),
    [
        (datetime(2026, 3, 1, 8, tzinfo=UTC), "Mon, 2 Mar 2026 10:00:00 +0100", datetime(2026, 3, 1, 8, tzinfo=UTC)),
        (datetime(1970, 1, 1, tzinfo=UTC), "Mon, 2 Mar 2026 10:00:00 +0100", datetime(2026, 3, 2, 9, tzinfo=UTC)),
    ],
    ids=["the server's time", "the Date field where that cannot be"],
)
def test_when_a_mail_was_received(store: Store, rows: Rows, given: datetime, date: str, stored: datetime) -> None:
    arrival = read(mail(Date=date), internal_date=given)
    arrival = replace(arrival, received_at=arrival.received_at or datetime(2026, 3, 2, 9, tzinfo=UTC))
    list(store.keep([arrival]))
    assert rows()[0]["received_at"] == stored


def test_a_mail_of_no_possible_time_was_received_when_it_was_fetched(store: Store, rows: Rows) -> None:
    list(store.keep([replace(read(mail()), received_at=None)]))
    assert rows()[0]["received_at"] == rows()[0]["fetched_at"]


def test_what_is_known_is_asked_by_one_query_and_not_at_all_without_keys(store: Store) -> None:
    list(store.keep([read(mail("<1@x>")), read(mail("<2@x>"), 2)]))
    assert set(store.known(3, ["<1@x>", "<2@x>", "<3@x>"])) == {"<1@x>", "<2@x>"}
    assert store.known(4, ["<1@x>"]) == {}
    assert store.known(3, []) == {}


def test_a_too_large_mail_is_its_envelope(store: Store, rows: Rows) -> None:  # receive.md R9
    header = mail().partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    list(store.keep([read(header, size=900_000_000, is_whole=False)]))
    [row] = rows()
    assert (row["truncation_reason"], row["size"], row["content_sha256"]) == ("BODY_TOO_LARGE", 900_000_000, None)
    assert (row["from_address"], row["subject"], row["body_mode"], row["eml_file_id"]) == (
        "ann@example.org",
        "Hi",
        None,
        None,
    )


def test_a_parser_that_fails_costs_no_mail(store: Store, rows: Rows, engine: Engine) -> None:  # receive.md R17
    def failing(octets: bytes, limits: ParseLimits) -> ParsedMail:
        if b"poison" in octets:
            raise RuntimeError("boom")
        return parse(octets, limits)

    reader = Reader(ParseLimits(), parse=failing, parse_envelope=envelope, classify=normal)
    mails = [mail("<1@x>"), mail("<2@x>", "poison"), mail(None, Subject="poison")]
    list(store.keep([reader.read(INBOX, Incoming(str(n), len(octets), octets)) for n, octets in enumerate(mails)]))
    assert [(row["truncation_reason"], row["mail_type"], row["subject"]) for row in rows()] == [
        (None, "NORMAL", "Hi"),
        (TruncationReason.PARSE_FAILED, "UNKNOWN", "Hi"),
        (TruncationReason.PARSE_FAILED, "UNKNOWN", "poison"),
    ]
    assert all(row["eml_file_id"] for row in rows()[1:])


def test_a_header_that_cannot_be_read_costs_no_mail(store: Store, rows: Rows) -> None:
    def failing(octets: bytes, limits: ParseLimits) -> ParsedMail:
        raise RuntimeError("boom")

    reader = Reader(ParseLimits(), parse=failing, parse_envelope=failing, classify=normal)
    list(store.keep([reader.read(INBOX, Incoming("1", None, b"\xff\x00"))]))
    [row] = rows()
    assert row["message_id"].startswith("synthetic:")
    assert (row["from_address"], row["subject"], row["truncation_reason"]) == (None, None, "PARSE_FAILED")
