"""Template sends, attachments, lists and signatures, from send_mail to what the server was sent."""

import logging
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import event, insert

from messaging import api, tenancy
from messaging.delivery.status import SendStatus
from messaging.files import STORED_FILE
from messaging.mail import unsubscribe, verp
from messaging.mail.models import MAIL_TEMPLATE
from messaging.requests import Attachment, FileRef, MessageScope, Priority
from messaging.tenancy import use_multi_tenancy
from tests.integration.delivery.desk import Desk, sessions
from tests.integration.delivery.records import seconds_ahead

pytestmark = pytest.mark.postgres16

PENDING, SENDING, SENT, RETRY, FAILED, DEAD_LETTER = SendStatus

MakeDesk = Callable[..., Desk]


@pytest.fixture
def opened(make_desk: MakeDesk) -> MakeDesk:
    """A desk with a mail server, on which the public functions work."""

    def opened(*, server: dict[str, Any] | None = None, **overrides: Any) -> Desk:
        desk = make_desk(**overrides)
        api.configure(desk.settings, engine=desk.engine)
        use_multi_tenancy(desk.settings.multi_tenancy)
        desk.add_server(**server or {})
        return desk

    return opened


def add_template(desk: Desk, **columns: Any) -> int:
    values = {"code": "welcome", "name": "Welcome", "subject": "Hello {{ name }}", "body_html": "<p>{{ name }}</p>"}
    with desk.own.begin() as connection:
        statement = insert(MAIL_TEMPLATE).values(**(values | columns)).returning(MAIL_TEMPLATE.c.id)
        added: int = connection.execute(statement).scalar_one()
    return added


def templated(**fields: Any) -> int:
    return api.send_mail(**{"to": ["a@example.com"], "template_code": "welcome", **fields})


def plain(**fields: Any) -> int:
    return api.send_mail(**{"to": ["a@example.com"], "subject": "s", "text_body": "t", **fields})


def last(desk: Desk) -> EmailMessage:
    message = message_from_bytes(desk.server.transactions[-1].content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def body(desk: Desk, kind: str) -> str:
    part = last(desk).get_body((kind,))
    assert part is not None
    return str(part.get_content()).strip()


# Templates


def test_a_template_is_rendered_written_back_and_sent(opened: MakeDesk) -> None:  # send.md B2, B19
    desk = opened()
    add_template(desk, body_html="<p>Welcome <b>{{ name }}</b>{{ rest.b }}</p>", default_priority="HIGH")
    record_id = templated(template_variables={"name": "Kim", "rest": {"b": 1}})
    assert desk.deliver(record_id) == {"sent": 1}
    row = desk.records.row(record_id)
    assert (row.subject, row.body_mode) == ("Hello Kim", "HTML_WITH_DERIVED_PLAIN")
    assert (row.body_html, row.body_text) == ("<p>Welcome <b>Kim</b>1</p>", "Welcome Kim1")
    assert (row.priority, row.lane, row.missing_variables) == ("HIGH", 2, None)
    message = last(desk)
    assert (message["Subject"], message["X-Priority"], message["Importance"]) == ("Hello Kim", "1", "High")  # S14
    assert message.get_content_type() == "multipart/alternative"
    assert body(desk, "html") == row.body_html


def test_b18_o37_a_retry_replays_what_was_rendered(opened: MakeDesk) -> None:
    desk = opened()
    add_template(desk)
    desk.server.on("EOD", "451 4.3.0 later", times=1)
    record_id = templated(template_variables={"name": "Kim"})
    assert desk.deliver(record_id) == {"retry": 1}
    desk.run("DELETE FROM mail_template")
    assert desk.deliver(record_id) == {"sent": 1}
    first, second = desk.server.transactions
    assert first.raw == second.raw


def test_b5_b6_a_disabled_template_is_found_by_its_id_and_not_by_its_code(
    opened: MakeDesk, caplog: pytest.LogCaptureFixture
) -> None:
    desk = opened()
    template_id = add_template(desk, active=False)
    by_id, by_code = templated(template_code=None, template_id=template_id), templated()
    with caplog.at_level(logging.ERROR, "messaging"):
        assert desk.deliver(by_id, by_code) == {"sent": 1, "failed": 1}
    row = desk.records.row(by_code)
    assert (row.error_code, row.prepared_at) == ("TEMPLATE_NOT_FOUND", None)
    [logged] = caplog.records
    assert (logged.__dict__["record_id"], "welcome" in logged.__dict__["reason"]) == (by_code, True)


def test_b9_an_id_wins_over_a_code_that_is_not_looked_up(opened: MakeDesk) -> None:
    desk = opened()
    template_id = add_template(desk, code="other", subject="by id")
    assert desk.deliver(templated(template_code="no such", template_id=template_id)) == {"sent": 1}
    assert last(desk)["Subject"] == "by id"
    assert desk.deliver(templated(template_code="other", template_id=404)) == {"failed": 1}


def test_b7_b8_tenant_03_each_tier_has_its_own_templates(opened: MakeDesk) -> None:
    desk = opened(multi_tenancy=True, server={"tenant_id": -1})
    for tenant, subject in ((7, "A"), (8, "B"), (-1, "platform")):
        add_template(desk, tenant_id=tenant, subject=subject)
    add_template(desk, tenant_id=-1, code="only there")
    ids = []
    for tenant in (7, 8):
        with tenancy.tenant(tenant):
            ids.append(templated())
    with tenancy.tenant(7):
        ids.append(templated(scope=MessageScope.PLATFORM))
        missing = templated(template_code="only there")
    assert desk.deliver(*ids, missing) == {"sent": 3, "failed": 1}
    rows = desk.records.rows()
    assert [rows[i].subject for i in ids] == ["A", "B", "platform"]
    assert rows[missing].error_code == "TEMPLATE_NOT_FOUND"


def test_the_id_of_another_tenants_template_finds_nothing(opened: MakeDesk) -> None:
    desk = opened(multi_tenancy=True, server={"tenant_id": -1})
    foreign = [add_template(desk, tenant_id=tenant, code=f"c{tenant}") for tenant in (8, -1)]
    with tenancy.tenant(7):
        ids = [templated(template_id=template_id, template_code=None) for template_id in foreign]
    assert desk.deliver(*ids) == {"failed": 2}
    assert {row.error_code for row in desk.records.rows().values()} == {"TEMPLATE_NOT_FOUND"}


def test_b10_b11_what_the_caller_wrote_goes_before_the_template(opened: MakeDesk) -> None:
    desk = opened()
    add_template(desk)
    assert desk.deliver(templated(subject="Own", template_variables={"name": "Kim"})) == {"sent": 1}
    assert (last(desk)["Subject"], body(desk, "html")) == ("Own", "<p>Kim</p>")
    assert desk.deliver(templated(text_body="only this")) == {"sent": 1}
    assert last(desk).get_content_type() == "text/plain"
    assert body(desk, "plain") == "only this"


def test_b13_tmpl_04_a_missing_variable_is_noted_and_a_strict_template_fails(
    opened: MakeDesk, caplog: pytest.LogCaptureFixture
) -> None:
    desk = opened()
    html = '<a href="{{ reset_url }}">reset</a> {{ user.name }}'
    add_template(desk, subject="s", body_html=html)
    strict = add_template(desk, code="strict", subject="s", body_html=html, strict=True)
    lenient_id = templated()
    strict_id = templated(template_code="strict", template_variables={"name": "Kim"})
    with caplog.at_level(logging.ERROR, "messaging"):
        assert desk.deliver(lenient_id, strict_id) == {"sent": 1, "failed": 1}
    assert desk.records.row(lenient_id).missing_variables == ["reset_url", "user.name"]
    row = desk.records.row(strict_id)
    assert (row.error_code, row.body_html, row.prepared_at) == ("RENDER_FAILED", None, None)
    assert "reset_url" in row.error_message
    assert f"template {strict}" in caplog.records[0].__dict__["reason"]
    # After the context is corrected, a retry renders afresh.
    desk.run("UPDATE mail_template SET strict = false")
    api.retry(strict_id)
    assert desk.deliver(strict_id) == {"sent": 1}


def test_tmpl_01_b16_a_template_that_reaches_for_internals_fails(opened: MakeDesk) -> None:
    desk = opened()
    hostile = (
        "{% for c in ''.__class__.__mro__[1].__subclasses__() %}{% if c.__name__=='Popen' %}"
        "{{ c(['id'],stdout=-1).communicate() }}{% endif %}{% endfor %}"
    )
    add_template(desk, body_html=hostile)
    record_id = templated()
    result = desk.deliver(record_id)
    row = desk.records.row(record_id)
    assert (result, row.error_code) in (({"failed": 1}, "RENDER_FAILED"), ({"failed": 1}, "RENDER_EMPTY"))
    assert desk.server.connections == 0


def test_tmpl_02_tmpl_03_b12_html_is_escaped_and_headers_and_text_are_not(opened: MakeDesk) -> None:
    desk = opened()
    add_template(
        desk,
        subject="Offer for {{ n }}",
        body_html="<p>Hello {{ n }} {{ n | safe }}</p>",
        body_text="1 < 2 & {{ n }}",
        body_mode="HTML_WITH_AUTHORED_PLAIN",
    )
    name = 'O\'Leary & "Sons" <x>'
    assert desk.deliver(templated(template_variables={"n": name})) == {"sent": 1}
    assert last(desk)["Subject"] == f"Offer for {name}"
    assert body(desk, "plain") == f"1 < 2 & {name}"
    assert body(desk, "html").startswith("<p>Hello O&#39;Leary &amp; &#34;Sons&#34; &lt;x&gt; O'Leary")


def test_b17_o36_an_empty_rendering_fails_and_is_sent_once_the_template_is_fixed(opened: MakeDesk) -> None:
    desk = opened()
    add_template(desk, body_html=" {{ nothing }} ")
    record_id = templated()
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.error_code, row.body_mode, row.subject, row.prepared_at) == ("RENDER_EMPTY", None, None, None)
    desk.run("UPDATE mail_template SET body_html = '<p>there</p>'")
    api.retry(record_id)
    assert desk.deliver(record_id) == {"sent": 1}


def test_a_failing_template_is_logged_with_record_template_column_and_line(
    opened: MakeDesk, caplog: pytest.LogCaptureFixture
) -> None:
    desk = opened()
    add_template(desk, body_html="<p>\n{{ secret + 1 }}</p>")
    record_id = templated(template_variables={"secret": "hunter2"})
    with caplog.at_level(logging.ERROR, "messaging"):
        assert desk.deliver(record_id) == {"failed": 1}
    [logged] = caplog.records
    reason = logged.__dict__["reason"]
    assert logged.__dict__["record_id"] == record_id
    assert all(part in reason for part in ("welcome", "body_html", "2"))
    assert "hunter2" not in reason + str(desk.records.row(record_id).error_message)


def test_one_template_that_fails_holds_up_no_other(opened: MakeDesk) -> None:
    desk = opened()
    add_template(desk, code="bad", body_html="{{ 1 // 0 }}")
    add_template(desk)
    ids = [templated(template_code=code) for code in ("welcome", "bad", "welcome", "missing")] + [plain()]
    assert desk.deliver(*ids) == {"sent": 3, "failed": 2}


def test_f16a_templates_that_never_end_take_no_more_than_the_hold_of_their_chunk(opened: MakeDesk) -> None:
    desk = opened()
    add_template(desk, code="endless", body_html="{% for a in range(100000) %}{{ a }}{% endfor %}" * 9)
    ids = [templated(template_code="endless") for _ in range(9)] + [plain()]
    desk.ticker.at_each_look = 0.01  # the 2 s of a rendering are over within 200 turns
    result = desk.deliver(*ids)
    desk.ticker.at_each_look = 0.0
    assert sum(result.values()) == len(ids)
    assert 1 <= result["failed"] <= 5, result  # 10 s
    assert {row.error_code for row in desk.records.rows().values()} == {"RENDER_FAILED", "CLAIM_RELEASED"}
    assert desk.deliver(ids[-1]) == {"sent": 1}


def test_s6_the_servers_that_templates_prefer_are_read_with_the_others(opened: MakeDesk) -> None:
    desk = opened(config_cache_ttl_seconds=1)
    preferred = desk.add_server(is_default=False, active=False, from_address="preferred@example.org")
    add_template(desk, preferred_server_config_id=preferred)
    ids = [templated(), plain(), templated()]
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(desk.engine, "before_cursor_execute", note)
    try:
        assert desk.deliver(*ids) == {"sent": 3}
    finally:
        event.remove(desk.engine, "before_cursor_execute", note)
    assert len([s for s in seen if "FROM mail_template" in s]) == 1
    assert len([s for s in seen if "FROM mail_send_server_config" in s]) == 1
    preferring = "preferred@example.org"
    assert [m.sender for m in desk.server.messages] == [preferring, "shop@example.org", preferring]


# Attachments


def test_s17_an_attachment_arrives_as_it_was(opened: MakeDesk) -> None:
    desk = opened()
    content = bytes(range(256)) * 5000
    record_id = plain(
        attachments=[
            Attachment(content=content, file_name="report.pdf", content_type="application/pdf"),
            Attachment(content=b"second", file_name="Übersicht.txt"),
        ]
    )
    desk.server.on("EOD", "451 4.3.0 later", times=1)
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    first, second = desk.server.transactions
    assert first.raw == second.raw
    message = last(desk)
    assert message.get_content_type() == "multipart/mixed"
    files = list(message.iter_attachments())
    assert [f.get_filename() for f in files] == ["report.pdf", "Übersicht.txt"]
    assert [f.get_content_type() for f in files] == ["application/pdf", "application/octet-stream"]
    assert files[0].get_content() == content


def test_an_inline_image_goes_with_the_html(opened: MakeDesk) -> None:
    desk = opened()
    image = Attachment(content=b"\x89PNG", file_name="logo.png", content_type="image/png", content_id="logo")
    assert desk.deliver(plain(html_body='<img src="cid:logo">', text_body=None, attachments=[image])) == {"sent": 1}
    related = last(desk).get_body(("related",))
    assert related is not None
    assert [part["Content-ID"] for part in related.walk() if part["Content-ID"]] == ["<logo>"]


def test_a_templates_attachments_are_used_where_the_request_has_none(opened: MakeDesk) -> None:
    desk = opened(multi_tenancy=True, server={"tenant_id": -1})
    with desk.own.begin() as connection:
        platforms = connection.execute(_stored(b"terms", tenant_id=-1)).scalar_one()
    reference = {"file_id": platforms, "file_name": "terms.txt"}
    add_template(desk, tenant_id=-1, attachments=[reference])
    with tenancy.tenant(7):
        own = Attachment(content=b"own", file_name="own.txt")
        ids = [templated(scope="PLATFORM"), templated(scope="PLATFORM", attachments=[own])]
    assert desk.deliver(*ids) == {"sent": 2}
    rows = desk.records.rows()
    assert rows[ids[0]].attachments == [{**reference, "content_type": None, "content_id": None}]
    sent = [message_from_bytes(t.content, policy=policy.default) for t in desk.server.transactions]
    assert [[f.get_content() for f in m.iter_attachments()] for m in sent] == [[b"terms"], [b"own"]]  # type: ignore[attr-defined]


def _stored(content: bytes, *, tenant_id: int) -> Any:
    from hashlib import sha256

    return (
        insert(STORED_FILE)
        .values(
            tenant_id=tenant_id,
            sha256=sha256(content).hexdigest(),
            file_name="a",
            content_type="text/plain",
            size=len(content),
            content=content,
        )
        .returning(STORED_FILE.c.id)
    )


def test_a_file_that_is_not_there_or_anothers_fails_the_record(opened: MakeDesk) -> None:
    desk = opened(multi_tenancy=True, server={"tenant_id": -1})
    with desk.own.begin() as connection:
        foreign = [connection.execute(_stored(b"x", tenant_id=tenant)).scalar_one() for tenant in (8, -1)]
    with tenancy.tenant(7):
        ids = [plain(attachments=[FileRef(file_id=i, file_name="a")]) for i in (*foreign, 404)]
    assert desk.deliver(*ids) == {"failed": 3}
    assert {row.error_code for row in desk.records.rows().values()} == {"ATTACHMENT_NOT_FOUND"}
    assert desk.server.connections == 0


def test_files_together_over_the_limit_fail_the_record(opened: MakeDesk) -> None:
    desk = opened(mail={"max_attachment_bytes": 10})
    with desk.own.begin() as connection:
        stored = connection.execute(_stored(b"123456", tenant_id=0)).scalar_one()
    reference = FileRef(file_id=stored, file_name="a")
    ids = [plain(attachments=[reference]), plain(attachments=[reference, reference])]
    assert desk.deliver(*ids) == {"sent": 1, "failed": 1}
    row = desk.records.row(ids[1])
    assert (row.error_code, "12 bytes" in row.error_message) == ("ATTACHMENT_TOO_LARGE", True)


def test_without_a_file_store_a_reference_fails_the_record(opened: MakeDesk) -> None:
    desk = opened(file_store_url="none:")
    record_id = plain(attachments=[FileRef(file_id=1, file_name="a")])
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.error_code, desk.records.attempts(record_id)[0].category) == ("ATTACHMENT_STORE_MISSING", "AUTH")


def test_a_store_that_fails_is_tried_again(opened: MakeDesk, tmp_path: Path) -> None:
    desk = opened(file_store_url=f"file://{tmp_path}/store")
    record_id = plain(attachments=[Attachment(content=b"content", file_name="a.txt")])
    [stored] = [path for path in tmp_path.rglob("*") if path.is_file()]
    stored.write_bytes(b"changed")
    assert desk.deliver(record_id) == {"retry": 1}
    row = desk.records.row(record_id)
    assert (row.error_code, row.retry_count) == ("ATTACHMENT_UNAVAILABLE", 1)
    assert desk.records.attempts(record_id)[0].category == "TRANSIENT"
    assert seconds_ahead(desk.records, record_id) == 30
    stored.write_bytes(b"content")
    assert desk.deliver(record_id) == {"sent": 1}
    assert desk.server.connections == 1


def test_s20_with_attachments_too_no_connection_to_the_database_is_in_use(opened: MakeDesk) -> None:
    desk = opened()
    ids = [plain(attachments=[Attachment(content=b"x" * 3_000_000, file_name="a.bin")]) for _ in range(2)]
    desk.server.on("EOD", hang=True)
    sending = [desk.begin(i) for i in ids]
    desk.server.wait_for_command("EOD", 10, count=2)
    assert desk.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert {state for _, state, _ in sessions(desk.own)} <= {"idle"}
    desk.server.release()
    assert [s.result(10) for s in sending] == [{"sent": 1}] * 2


# Envelope senders, lists and signatures


def test_an_envelope_sender_names_its_record(opened: MakeDesk) -> None:
    desk = opened(server={"envelope_sender": "bounces@example.org", "verp": True})
    record_id = plain()
    assert desk.deliver(record_id) == {"sent": 1}
    [message] = desk.server.messages
    assert message.sender == desk.records.row(record_id).envelope_sender
    assert verp.read(message.sender) == record_id
    assert last(desk)["From"] == "shop@example.org"


def test_a_mail_of_a_list_can_be_unsubscribed_with_one_click(opened: MakeDesk) -> None:
    desk = opened(public_base_url="https://mail.example.com")
    record_id = plain(to=["Bob <bob@example.com>"], unsubscribe_list="news", headers={"List-Id": "<news.example.com>"})
    assert desk.deliver(record_id) == {"sent": 1}
    message = last(desk)
    assert message["List-Id"] == "<news.example.com>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    token = unsubscribe.read(message["List-Unsubscribe"].removesuffix(">").rpartition("/")[2])
    assert token is not None
    assert token.record_id == record_id
    assert token.is_about(list_name="news", address="bob@example.com")


def test_without_a_base_url_a_mail_of_a_list_waits_for_an_operator(opened: MakeDesk) -> None:
    desk = opened()
    record_id = plain(unsubscribe_list="news")
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.error_code, row.headers) == ("CONFIG_NOT_RESOLVABLE", None)


def _key() -> str:
    private = Ed25519PrivateKey.generate()
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def signing(**columns: Any) -> dict[str, Any]:
    named = {"dkim_domain": "example.org", "dkim_selector": "s1"}
    return {**named, **columns}


def test_a_signature_stands_first_and_is_the_same_each_time(opened: MakeDesk) -> None:
    desk = opened(public_base_url="https://mail.example.com")
    with_key = desk.add_server(is_default=False, **signing(dkim_private_key=_key()))
    desk.server.on("EOD", "451 4.3.0 later", times=1)
    file = Attachment(content=b"content", file_name="a.txt")
    record_id = plain(server_config_id=with_key, unsubscribe_list="news", attachments=[file])
    assert desk.deliver(record_id) == {"retry": 1}
    assert desk.deliver(record_id) == {"sent": 1}
    first, second = desk.server.transactions
    assert first.raw == second.raw
    message = last(desk)
    assert message.keys()[0] == "DKIM-Signature"
    signature = message["DKIM-Signature"]
    prepared_at = desk.records.row(record_id).prepared_at
    assert f"t={int(prepared_at.timestamp())};" in signature
    assert "list-unsubscribe: list-unsubscribe-post" in signature
    assert b"content" in [f.get_content() for f in message.iter_attachments()]


@pytest.mark.parametrize("missing", ["dkim_domain", "dkim_selector", "dkim_private_key"])
def test_without_all_three_columns_nothing_is_signed(opened: MakeDesk, missing: str) -> None:
    desk = opened()
    columns = {**signing(dkim_private_key=_key()), missing: None}
    record_id = plain(server_config_id=desk.add_server(is_default=False, **columns))
    assert desk.deliver(record_id) == {"sent": 1}
    assert "DKIM-Signature" not in last(desk)


@pytest.mark.parametrize(
    ("key", "code"),
    [("not a ciphertext", "CREDENTIAL_UNREADABLE"), (None, "CONFIG_NOT_RESOLVABLE")],
)
def test_a_key_that_cannot_sign_fails_the_record(opened: MakeDesk, key: str | None, code: str) -> None:
    desk = opened()
    config_id = desk.add_server(is_default=False, **signing(dkim_private_key="no key"))
    if key is not None:
        desk.run(f"UPDATE mail_send_server_config SET dkim_private_key = '{key}' WHERE id = {config_id}")
    record_id = plain(server_config_id=config_id)
    assert desk.deliver(record_id) == {"failed": 1}
    assert desk.records.row(record_id).error_code == code
    assert desk.server.connections == 0


@pytest.mark.parametrize(
    ("priority", "headers"),
    [
        (Priority.HIGH, ("1", "High", "High")),
        (Priority.NORMAL, ("3", "Normal", "Normal")),
        (Priority.LOW, ("5", "Low", "Low")),
        (None, (None, None, None)),
    ],
)
def test_s14_priority_is_three_headers(
    opened: MakeDesk, priority: Priority | None, headers: tuple[str | None, ...]
) -> None:
    desk = opened()
    assert desk.deliver(plain(priority=priority)) == {"sent": 1}
    message = last(desk)
    assert tuple(message[name] for name in ("X-Priority", "Importance", "X-MSMail-Priority")) == headers
