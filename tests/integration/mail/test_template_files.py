"""Templates as files: exported, edited, kept in git, imported by code."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, select, text
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.errors import FileRejected, TenantMismatch
from messaging.files import STORED_FILE
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.mail.template_checks import FIELDS
from messaging.mail.template_files import MAIL_TEMPLATES
from messaging.templates import folders
from messaging.templates.folders import Action, TemplateChange
from messaging.tenancy import all_tenants, tenant, use_multi_tenancy
from tests.polling import eventually

SETTINGS = "code: welcome\nname: Welcome\nsubject: 'Welcome, {{ name }}!'\n"


def import_templates(session: Session, folder: Path, *, dry_run: bool = False) -> list[TemplateChange]:
    return folders.import_templates(session, MAIL_TEMPLATES, folder, dry_run=dry_run)


def export_templates(session: Session, folder: Path, codes: list[str] | None = None) -> list[Path]:
    return folders.export_templates(session, MAIL_TEMPLATES, folder, codes)


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    use_multi_tenancy(False)
    with Session(engine) as opened:
        yield opened
    use_multi_tenancy(False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    welcome = tmp_path / "templates" / "welcome"
    welcome.mkdir(parents=True)
    (welcome / "template.yaml").write_text(SETTINGS)
    (welcome / "body.html").write_text("<p>Hello {{ name }}</p>\n")
    return welcome.parent


def stored(session: Session) -> dict[str, dict[str, Any]]:
    session.expire_all()
    rows = session.scalars(with_disabled(select(MailTemplate)))
    return {row.code: {field: getattr(row, field) for field in FIELDS} for row in rows}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_import_creates_then_changes_nothing_then_updates_and_says_so(session: Session, folder: Path) -> None:
    assert import_templates(session, folder) == [TemplateChange("welcome", Action.CREATED)]
    row = stored(session)["welcome"]
    assert (row["subject"], row["body_html"], row["body_text"]) == (
        *("Welcome, {{ name }}!", "<p>Hello {{ name }}</p>\n"),
        None,
    )
    assert (row["body_mode"], row["active"], row["strict"]) == ("HTML_WITH_DERIVED_PLAIN", True, False)
    assert import_templates(session, folder) == [TemplateChange("welcome", Action.UNCHANGED)]
    (folder / "welcome" / "template.yaml").write_text(SETTINGS + "active: false\nstrict: true\n")
    (folder / "welcome" / "body.html").unlink()
    changed = TemplateChange("welcome", Action.UPDATED, ("active", "strict", "body_html"))
    assert import_templates(session, folder) == [changed]
    assert stored(session)["welcome"]["body_html"] is None
    session.commit()


def test_a_dry_run_says_the_same_and_writes_nothing(session: Session, folder: Path) -> None:
    session.add(MailTemplate(code="welcome", name="Old"))
    session.commit()
    before = stored(session)
    said = import_templates(session, folder, dry_run=True)
    assert not session.dirty
    assert stored(session) == before
    assert import_templates(session, folder) == said
    assert said == [TemplateChange("welcome", Action.UPDATED, ("name", "subject", "body_html"))]


def test_an_export_makes_the_same_files_each_time_and_an_import_of_them_changes_nothing(
    session: Session, tmp_path: Path
) -> None:
    server = MailSendServerConfig(name="s", host="h", port=25)
    session.add(server)
    session.flush()
    file_id = session.execute(
        STORED_FILE.insert()
        .values(tenant_id=0, sha256="0" * 64, file_name="a.pdf", content_type="x/y", size=1, content=b"x")
        .returning(STORED_FILE.c.id)
    ).scalar_one()
    session.add_all(
        [
            MailTemplate(code="plain", name="No: 1", body_mode="PLAIN", body_text="a\r\n\ttrailing \n\n", active=False),
            MailTemplate(
                code="Order/Bestätigung ",
                name="  spaces  ",
                description="two\nlines",
                subject='"{{ a }}": {{ b }} # no comment',
                body_html="",
                default_priority="HIGH",
                reply_to="a@example.com",
                preferred_server_config_id=server.id,
                attachments=[{"file_id": file_id, "file_name": "AGB – neu.pdf"}],
            ),
        ]
    )
    for row in session.new:
        row.code = row.code.strip()
    session.commit()
    before = stored(session)
    export_templates(session, tmp_path / "one")
    export_templates(session, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert files(tmp_path / "one")["plain/template.yaml"] == (
        b"code: plain\nname: 'No: 1'\nbody_mode: PLAIN\nactive: false\nstrict: false\nredact: false\n"
        b"inline_css: false\n"
    )
    assert {change.action for change in import_templates(session, tmp_path / "one")} == {Action.UNCHANGED}
    session.execute(delete(MailTemplate))
    import_templates(session, tmp_path / "one")
    normalised = {"content_type": None, "content_id": None}
    before["Order/Bestätigung"]["attachments"][0] |= normalised
    assert stored(session) == before
    export_templates(session, tmp_path / "three")
    assert files(tmp_path / "three") == files(tmp_path / "one")


def test_a_body_that_became_null_leaves_no_file_behind(session: Session, folder: Path) -> None:
    import_templates(session, folder)
    session.scalars(select(MailTemplate)).one().body_html = None
    session.flush()
    export_templates(session, folder)
    assert sorted(files(folder)) == ["welcome/template.yaml"]


def test_codes_that_no_file_can_be_called_by_have_folders_all_the_same(session: Session, tmp_path: Path) -> None:
    codes = ["../up", "a/b", "a-b", ".hidden", "Case", "case", "x" * 100, "..", "签名", "con trol"]
    session.add_all([MailTemplate(code=code, name="n") for code in codes])
    session.flush()
    folder = tmp_path / "out" / "templates"
    names = [path.name for path in export_templates(session, folder)]
    assert len({name.casefold() for name in names}) == len(codes)
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert [path.name for path in folder.parent.iterdir()] == ["templates"]
    assert {change.action for change in import_templates(session, folder)} == {Action.UNCHANGED}


_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00{%")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(_CHARACTERS, min_size=1, max_size=20).filter(str.strip),
    description=st.none() | st.text(_CHARACTERS, max_size=30),
    body=st.none() | st.text(_CHARACTERS, max_size=60),
)
def test_any_text_survives_an_export_and_an_import(
    session: Session, tmp_path: Path, name: str, description: str | None, body: str | None
) -> None:
    session.execute(delete(MailTemplate))
    session.add(MailTemplate(code="c", name=name, description=description, body_html=body, body_text=body))
    session.flush()
    before = stored(session)
    export_templates(session, tmp_path)
    session.execute(delete(MailTemplate))
    import_templates(session, tmp_path)
    assert stored(session) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "template.yaml",
            "code: w\nname: W\nbody_mdoe: HTML\n",
            "welcome/template.yaml: there is no field 'body_mdoe'",
        ),
        ("template.yaml", "code: w\nname: W\nid: 3\n", "there is no field 'id'"),
        ("template.yaml", "code: w\nname: W\nbody_html: x\n", "there is no field 'body_html'"),
        (
            "template.yaml",
            "code: w\nname: W\nbody_mode: HTLM\n",
            "welcome/template.yaml (w): body_mode is 'HTLM': is none",
        ),
        ("template.yaml", "code: w\nname: W\nactive: yes\n", "active is 'yes': is neither true nor false"),
        ("template.yaml", "code: 2024\nname: W\n", "code is 2024: is not text"),
        ("template.yaml", "name: W\n", "code is None: is required"),
        ("template.yaml", "code: w\nname: ' '\n", "name is ' ': is blank"),
        ("template.yaml", "code: w\nname: W\nsubject: '{{ a'\n", "welcome/template.yaml (w): subject, line 1: "),
        ("template.yaml", "code: w\nname: W\npreferred_server_config_id: 99\n", "the tenant has no such server"),
        ("template.yaml", "code: w\nname: W\nattachments: [{file_id: 9, file_name: a}]\n", "file_id is 9: the tenant"),
        ("template.yaml", "code: w\nname: W\nattachments: [{file_id: 9, name: a}]\n", "an entry that is not a mapping"),
        ("template.yaml", "code: &a w\nname: *a\n", "welcome/template.yaml: line 1: anchors and aliases are not read"),
        ("template.yaml", "code: !!python/name:os.system\n", "line 1: tags are not read"),
        ("template.yaml", "code: w\ncode: v\n", "line 2: the key 'code' stands there twice"),
        ("template.yaml", "#" * 70_000, "welcome/template.yaml: is larger than"),
        ("body.html", "<p>\n{% if %}</p>", "welcome/body.html (welcome): body_html, line 2: "),
        ("body.html", "a\0", "welcome/body.html (welcome): body_html is 'a\\x00': has a character"),
        ("body.htm", "x", "welcome/body.htm: is no part of a template"),
        ("../loose.yaml", "x", "loose.yaml: is not a folder"),
        (
            "../copy/template.yaml",
            SETTINGS,
            "welcome/template.yaml (welcome): code is 'welcome', as in copy/template.yaml",
        ),
        ("../empty/body.html", "x", "empty/template.yaml: is missing"),
    ],
)
def test_a_bad_file_is_named_with_field_and_value_and_nothing_is_written(
    session: Session, folder: Path, name: str, content: str, message: str
) -> None:
    path = (folder / "welcome" / name).resolve()
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(FileRejected) as refused:
        import_templates(session, folder)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 500
    assert stored(session) == {}


def test_no_link_is_followed(session: Session, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "welcome" / "body.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(FileRejected, match="links are not followed"):
        import_templates(session, folder)
    (folder / "welcome" / "body.txt").unlink()
    (folder / "other").symlink_to(folder / "welcome")
    with pytest.raises(FileRejected, match="links are not followed"):
        import_templates(session, folder)


def test_what_is_hidden_and_a_readme_are_left_out(session: Session, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "README.md").write_text("Our templates")
    (folder / "welcome" / ".body.html.swp").write_text("x")
    assert [change.code for change in import_templates(session, folder)] == ["welcome"]


def test_an_import_is_one_tenants(session: Session, folder: Path) -> None:
    use_multi_tenancy(True)
    for tenant_id in (7, 8):
        with tenant(tenant_id):
            assert import_templates(session, folder)[0].action is Action.CREATED
    with tenant(7):
        session.scalars(select(MailTemplate)).one().name = "Changed"
        session.flush()
        assert import_templates(session, folder)[0].fields == ("name",)
        assert [path.name for path in export_templates(session, folder)] == ["welcome"]
    with all_tenants(), pytest.raises(TenantMismatch, match="say which"):
        import_templates(session, folder)
    with all_tenants(), pytest.raises(TenantMismatch, match="say which"):
        export_templates(session, folder)


def test_chosen_templates_are_exported_and_one_that_is_not_there_is_refused(session: Session, folder: Path) -> None:
    import_templates(session, folder)
    assert export_templates(session, folder, ["welcome"]) == [folder / "welcome"]
    with pytest.raises(FileRejected, match="there is no mail template 'nosuch'"):
        export_templates(session, folder, ["welcome", "nosuch"])
    with pytest.raises(FileRejected, match=r"there is no mail template '\\udcff'"):
        export_templates(session, folder, ["welcome", "\udcff"])


def test_a_template_that_another_transaction_creates_meanwhile_is_told(
    session: Session, engine: Engine, folder: Path
) -> None:
    refusals: list[str] = []

    def run() -> None:
        with Session(engine) as own, pytest.raises(FileRejected) as refused:
            import_templates(own, folder)
        refusals.append(str(refused.value))

    session.add(MailTemplate(code="welcome", name="Theirs"))
    session.flush()
    second = threading.Thread(target=run)
    second.start()
    eventually(lambda: waiting_for_a_lock(engine))
    session.commit()
    second.join(30)
    assert refusals == [".: a template with one of these codes was created meanwhile; import again"]
    assert stored(session)["welcome"]["name"] == "Theirs"


def waiting_for_a_lock(engine: Engine) -> bool:
    with engine.connect() as connection:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return connection.execute(text(waiting)).first() is not None
