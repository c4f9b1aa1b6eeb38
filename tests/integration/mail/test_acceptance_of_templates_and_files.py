"""Acceptance of template sends, attachments and lists on a real database (send.md 2 and 3.1)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.errors import PreparationError
from messaging.files import STORED_FILE
from messaging.mail.acceptance import accept_mails
from messaging.requests import Attachment, BodyMode, FileRef, SendMail
from messaging.settings import Settings
from tests.integration.mail.test_acceptance import NOW, committed_once_waited_for, listening, mail, rejected, rows

MakeSettings = Callable[..., Settings]


@pytest.fixture(autouse=True)
def _one_tenant() -> None:
    tenancy.use_multi_tenancy(False)


@pytest.fixture
def taking(settings: Settings) -> Callable[..., list[int]]:
    """Accept requests in a session; one that is not a list is a single request."""

    def taking(session: Session, requests: Any, *, settings: Settings = settings) -> list[int]:
        single = not isinstance(requests, list)
        return accept_mails(session, [requests] if single else requests, settings=settings, now=NOW, single=single)

    return taking


Taking = Callable[..., list[int]]


@pytest.fixture
def caller(engine: Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session


def templated(**fields: Any) -> SendMail:
    return SendMail(**{"to": ["alice@example.com"], "template_code": "welcome", **fields})


def report(content: bytes = b"%PDF", **fields: Any) -> Attachment:
    return Attachment(**{"content": content, "file_name": "report.pdf", "content_type": "application/pdf", **fields})


def files(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(STORED_FILE).order_by(STORED_FILE.c.id)))


# Templates


def test_a_template_send_leaves_its_bodies_to_preparation(engine: Engine, caller: Session, taking: Taking) -> None:
    request = templated(
        template_id=5, template_variables={"b": 1, "a": "ü"}, body_mode=BodyMode.PLAIN, html_body=" ", subject="own"
    )
    taking(caller, request)
    caller.commit()
    (row,) = rows(engine)
    assert (row.template_id, row.template_code, row.subject) == (5, "welcome", "own")
    assert (row.body_mode, row.body_html, row.body_text) == (None, None, None)
    assert list(row.template_variables.items()) == [("b", 1), ("a", "ü")]  # B19
    assert (row.missing_variables, row.attachments, row.unsubscribe_list) == (None, None, None)
    assert request.template_variables == {"b": 1, "a": "ü"}  # A21


def test_own_bodies_beside_a_template_have_their_mode(engine: Engine, caller: Session, taking: Taking) -> None:
    taking(caller, templated(text_body="t"))  # B11
    caller.commit()
    (row,) = rows(engine)
    assert (row.template_code, row.body_mode, row.body_text) == ("welcome", "PLAIN", "t")


def test_a19_that_a_template_exists_is_not_asked_for(caller: Session, taking: Taking) -> None:
    taking(caller, templated(template_code="no such", server_config_id=404))
    taking(caller, SendMail(to=["a@example.com"], template_id=404))


def test_a_plain_mail_writes_no_column_of_templates_or_files(engine: Engine, caller: Session, taking: Taking) -> None:
    # Each costs a parameter, and most mails are plain.
    statements: list[str] = []
    caller.connection()
    with listening(engine, statements):
        taking(caller, mail())
        taking(caller, [mail(), mail()])
        taking(caller, [mail(template_variables={}, attachments=[]), templated()])
    assert ["template_code" in statement for statement in statements] == [False, False, True]


def test_a_batch_mixes_plain_mails_templates_and_files(engine: Engine, caller: Session, taking: Taking) -> None:
    ids = taking(
        caller,
        [
            mail(subject="0"),
            templated(subject="1", template_variables={"n": 1}),
            mail(subject="2", attachments=[report(), FileRef(file_id=7, file_name="a.txt")]),
            mail(subject="3", unsubscribe_list="news"),
            mail(subject="4", attachments=[report(file_name="again.pdf")]),
        ],
    )
    caller.commit()
    found = {row.id: row for row in rows(engine)}
    assert [found[i].subject for i in ids] == list("01234")
    assert [found[i].body_mode for i in ids] == ["PLAIN", None, "PLAIN", "PLAIN", "PLAIN"]
    assert [found[i].unsubscribe_list for i in ids] == [None, None, None, "news", None]
    (stored,) = files(engine)  # equal content within one call once
    described = {"file_id": stored.id, "file_name": "report.pdf", "content_type": "application/pdf", "content_id": None}
    assert found[ids[2]].attachments == [
        described,
        {"file_id": 7, "file_name": "a.txt", "content_type": None, "content_id": None},
    ]
    assert found[ids[4]].attachments == [{**described, "file_name": "again.pdf"}]


# Files


def test_s17_bytes_are_stored_in_the_callers_transaction(engine: Engine, caller: Session, taking: Taking) -> None:
    request = mail(attachments=[report(file_name="a\r\nb.pdf", content_id="logo@shop")])
    taking(caller, request)
    caller.rollback()
    assert (rows(engine), files(engine)) == ([], [])  # A16
    taking(caller, request)
    caller.commit()
    (stored,) = files(engine)
    assert (stored.content, stored.size, stored.tenant_id) == (b"%PDF", 4, 0)
    (row,) = rows(engine)
    (reference,) = row.attachments
    assert (reference["file_name"], reference["content_id"]) == ("a b.pdf", "logo@shop")


def test_files_belong_to_the_records_tenant(engine: Engine, caller: Session, make_settings: MakeSettings) -> None:
    tenancy.use_multi_tenancy(True)
    settings = make_settings(multi_tenancy=True)
    request = mail(attachments=[report()], scope="PLATFORM")
    with tenancy.tenant(7):
        accept_mails(caller, [request], settings=settings, now=NOW, single=True)
    accept_mails(caller, [request], settings=settings, now=NOW, single=True)
    caller.commit()
    assert [file.tenant_id for file in files(engine)] == [7, -1]


def test_a_store_that_fails_leaves_nothing_and_a_usable_transaction(
    engine: Engine, caller: Session, make_settings: MakeSettings, tmp_path: Any
) -> None:
    blocked = tmp_path / "store"
    blocked.write_text("a file, and no folder")
    settings = make_settings(file_store_url=f"file://{blocked}")
    with pytest.raises(PreparationError):
        accept_mails(caller, [mail(attachments=[report()])], settings=settings, now=NOW, single=True)
    accept_mails(caller, [mail()], settings=settings, now=NOW, single=True)
    caller.commit()
    assert (len(rows(engine)), files(engine)) == (1, [])


REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"template_code": None}, "text_body"),  # A11
    ({"template_code": "  "}, "text_body"),
    ({"template_code": "c" * 101}, "template_code"),
    ({"template_code": "a\x00b"}, "template_code"),
    ({"template_code": "\ud800"}, "template_code"),
    ({"template_code": 5}, "template_code"),
    ({"template_id": 0}, "template_id"),
    ({"template_id": 2**63}, "template_id"),
    ({"template_id": "5"}, "template_id"),
    ({"template_variables": {"a": float("nan")}}, "template_variables"),
    ({"template_variables": {"a": {5: 1}}}, "template_variables"),
    ({"template_variables": {"a": "\x00"}}, "template_variables"),
    ({"template_variables": [1]}, "template_variables"),
    ({"template_variables": 0}, "template_variables"),
    ({"html_body": "<p>", "body_mode": "PLAIN"}, "body_mode"),
    ({"attachments": "report.pdf"}, "attachments"),
    ({"attachments": report()}, "attachments"),
    ({"attachments": ["report.pdf"]}, "attachments"),
    ({"attachments": [report(file_name=" \n ")]}, "attachments"),
    ({"attachments": [report(file_name=None)]}, "attachments"),
    ({"attachments": [report(file_name="\ud800")]}, "attachments"),
    ({"attachments": [report(content="text")]}, "attachments"),
    ({"attachments": [report(content_type="a/b\r\nX: y")]}, "attachments"),
    ({"attachments": [report(content_type="a/" + "b" * 254)]}, "attachments"),
    ({"attachments": [report(content_id="<logo>")]}, "attachments"),
    ({"attachments": [report(content_id="")]}, "attachments"),
    ({"attachments": [report(content_id="a"), report(content_id="a")]}, "attachments"),
    ({"attachments": [report()] * 101}, "attachments"),
    ({"attachments": [FileRef(file_id=0, file_name="a")]}, "attachments"),
    ({"attachments": [FileRef(file_id=True, file_name="a")]}, "attachments"),
    ({"unsubscribe_list": "l" * 51}, "unsubscribe_list"),
    ({"unsubscribe_list": " "}, "unsubscribe_list"),
    ({"unsubscribe_list": "a\nb"}, "unsubscribe_list"),
    ({"unsubscribe_list": "news", "cc": ["b@example.com"]}, "unsubscribe_list"),
    ({"unsubscribe_list": "news", "to": ["a@example.com", "b@example.com"]}, "unsubscribe_list"),
    ({"unsubscribe_list": "news", "bcc": ["b@example.com"]}, "unsubscribe_list"),
]


def test_what_cannot_be_sent_is_rejected_before_anything_is_written(
    engine: Engine, caller: Session, taking: Taking, subtests: pytest.Subtests
) -> None:
    for number, (fields, field) in enumerate(REJECTED):
        with subtests.test(field, number=number):
            with rejected(caller, field, index=1):  # A14
                taking(caller, [mail(attachments=[report()]), templated(**fields)])
    caller.commit()
    assert (rows(engine), files(engine)) == ([], [])


def test_a_rejected_variable_is_named_by_its_path(caller: Session, taking: Taking) -> None:
    with rejected(caller, "template_variables") as caught:
        taking(caller, templated(template_variables={"order": {"lines": [{"price": float("inf")}]}}))
    assert caught.value.value == "order.lines[0].price"


def test_given_bytes_have_a_limit_together(
    engine: Engine, caller: Session, taking: Taking, make_settings: MakeSettings
) -> None:
    settings = make_settings(mail={"max_attachment_bytes": 10})
    taking(caller, mail(attachments=[report(b"12345"), report(b"67890")]), settings=settings)
    with rejected(caller, "attachments") as caught:
        taking(caller, mail(attachments=[report(b"12345"), report(b"678901")]), settings=settings)
    assert "11" in str(caught.value)


def test_more_than_postgresql_keeps_in_one_file_is_rejected(
    caller: Session, taking: Taking, make_settings: MakeSettings
) -> None:
    settings = make_settings(mail={"max_attachment_bytes": 2**30})
    with rejected(caller, "attachments") as caught:
        taking(caller, mail(attachments=[report(b"x" * (25 * 2**20 + 1))]), settings=settings)
    assert caught.value.value == "report.pdf"


def test_without_a_store_bytes_are_rejected_and_references_are_not(
    caller: Session, taking: Taking, make_settings: MakeSettings
) -> None:
    settings = make_settings(file_store_url="none:")
    with rejected(caller, "attachments"):
        taking(caller, mail(attachments=[report()]), settings=settings)
    taking(caller, mail(attachments=[FileRef(file_id=1, file_name="a")]), settings=settings)


# Idempotency keys (A22)


def test_the_hash_of_requests_without_the_new_fields_stays_what_it_was(
    engine: Engine, caller: Session, taking: Taking
) -> None:
    # Else a repeat after an upgrade would be another request.
    taking(caller, mail(idempotency_key="k", attachments=[], template_variables={}))
    caller.commit()
    (row,) = rows(engine)
    assert row.request_hash == "c369fbdd0047a6136712c62ab1d5eeb5ef9dc5419987b62d364437b219c2857d"


CHANGES: list[dict[str, Any]] = [
    {"template_code": "other"},
    {"template_id": 1},
    {"template_variables": {"a": 2}},
    {"template_variables": {}},
    {"attachments": [report(b"other")]},
    {"attachments": [report(file_name="other.pdf")]},
    {"attachments": [report(content_id="other")]},
    {"attachments": [FileRef(file_id=1, file_name="report.pdf")]},
    {"attachments": [report(), report()]},
    {"unsubscribe_list": "other"},
    {"body_mode": "HTML"},
]


def test_a22_another_content_under_a_key_is_rejected(
    engine: Engine, caller: Session, taking: Taking, subtests: pytest.Subtests
) -> None:
    fields = {"template_variables": {"a": 1}, "attachments": [report()], "unsubscribe_list": "news"}
    taking(caller, templated(idempotency_key="k", **fields))
    for change in CHANGES:
        with subtests.test(str(change)), rejected(caller, "idempotency_key"):
            taking(caller, templated(idempotency_key="k", **(fields | change)))
    caller.commit()
    assert (len(rows(engine)), len(files(engine))) == (1, 1)


def test_a22_the_same_files_under_a_key_are_stored_once(engine: Engine, caller: Session, taking: Taking) -> None:
    request = mail(
        idempotency_key="k",
        attachments=[report(), FileRef(file_id=1, file_name="a")],
        template_variables={"b": 1, "a": {"y": 1, "x": 2}},
    )
    again = mail(
        idempotency_key="k",
        attachments=(report(bytearray(b"%PDF")), FileRef(file_id=1, file_name="a")),
        template_variables={"a": {"x": 2, "y": 1}, "b": 1},
    )
    ids = taking(caller, [request, again, request])
    assert len(set(ids)) == 1
    assert taking(caller, again) == ids[:1]
    caller.commit()
    assert (len(rows(engine)), len(files(engine))) == (1, 1)


def test_a22_files_of_a_record_that_another_transaction_is_writing_are_not_left_behind(
    engine: Engine, caller: Session, taking: Taking
) -> None:
    request = mail(idempotency_key="k", attachments=[report()])
    first = taking(caller, request)
    with Session(engine) as other:
        other.connection()
        with committed_once_waited_for(engine, caller):
            ids = taking(other, [request, mail(subject="new", attachments=[report(b"new")])])
        other.commit()
    assert ids[0] == first[0]
    assert sorted(row.subject for row in rows(engine)) == ["new", "s"]
    assert [bytes(file.content) for file in files(engine)] == [b"%PDF", b"new"]
