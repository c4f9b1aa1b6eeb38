"""`messaging template ...` and `messaging tenant provision`: what they print, exit codes, one line for bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from tests.integration.command_line import Run

Refused = Callable[..., str]

SETTINGS = """\
code: welcome
name: Welcome
subject: Welcome, {{ user.name }}!
body_mode: HTML
active: true
strict: false
redact: false
inline_css: false
"""
HTML = "<ul>{% for item in items %}<li>{{ item }}</li>{% endfor %}</ul>\n"


@pytest.fixture
def run(run_command: Run) -> Run:
    """`messaging ...`."""
    return run_command


@pytest.fixture
def refused(run: Run) -> Refused:
    """Runs a command that is refused: exit 2, nothing on standard output; answers the one line it says."""

    def refused(*arguments: object) -> str:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("messaging: ")
        assert err.count("\n") == 1
        return err

    return refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    welcome = tmp_path / "templates" / "welcome"
    welcome.mkdir(parents=True)
    (welcome / "template.yaml").write_text(SETTINGS)
    (welcome / "body.html").write_text(HTML)
    return welcome.parent


def test_templates_go_in_are_listed_shown_and_come_out_again(run: Run, folder: Path, tmp_path: Path) -> None:
    assert run("template", "import", folder, "--dry-run") == (0, "created    welcome\nnothing was written\n", "")
    assert run("template", "list") == (0, "no templates\n", "")
    assert run("template", "import", folder) == (0, "created    welcome\n", "")
    assert json.loads(run("template", "import", folder, "--json")[1]) == [
        {"code": "welcome", "action": "unchanged", "fields": []}
    ]
    (folder / "welcome" / "template.yaml").write_text(SETTINGS.replace("active: true", "active: false"))
    assert run("template", "import", folder) == (0, "updated    welcome (active)\n", "")
    assert run("template", "list")[1] == "no templates\n"
    assert "disabled" in run("template", "list", "--all")[1]
    (line,) = json.loads(run("template", "list", "--all", "--json")[1])
    assert (line["code"], line["active"], line["body_mode"]) == ("welcome", False, "HTML")
    shown = SETTINGS.replace("active: true", "active: false") + "--- body.html\n" + HTML
    assert run("template", "show", "welcome") == (0, shown, "")
    assert run("template", "show", "--id", line["id"])[1] == shown
    assert json.loads(run("template", "show", "welcome", "--json")[1])["body_html"] == HTML
    out = tmp_path / "out"
    assert run("template", "export", out, "--code", "welcome") == (0, f"{out / 'welcome'}\n", "")
    assert (out / "welcome" / "body.html").read_text() == HTML
    assert run("template", "export", out)[1] == f"{out / 'welcome'}\n"


def test_a_template_is_previewed_and_tells_its_variables(run: Run, folder: Path, tmp_path: Path) -> None:
    run("template", "import", folder)
    variables = tmp_path / "variables.json"
    variables.write_text('{"items": [1, 2], "user": {"mail": "x"}}')
    code, out, err = run("template", "preview", "welcome", "--variables", variables, "--var", "user.name=Kim & Co")
    assert (code, err) == (0, "")
    assert out == "--- subject\nWelcome, Kim & Co!\n--- html\n<ul><li>1</li><li>2</li></ul>\n"
    code, out, err = run("template", "preview", "welcome")
    assert (code, err) == (0, "missing: user.name, items\n")
    assert json.loads(run("template", "preview", "welcome", "--json")[1])["rendered_body_text"] is None
    assert run("template", "variables", "welcome")[1] == "VARIABLE    user.name\nCOLLECTION  items\n"
    assert json.loads(run("template", "variables", "welcome", "--json")[1])[1] == {
        "name": "items",
        "kind": "COLLECTION",
    }


def test_bad_input_is_one_line(run: Run, refused: Refused, folder: Path, tmp_path: Path) -> None:
    run("template", "import", folder)
    assert "code is missing, and so is id" in refused("template", "preview")
    assert "no mail template 'nosuch'" in refused("template", "show", "nosuch")
    assert "no mail template 99" in refused("template", "variables", "--id", 99)
    assert "--id" in refused("template", "preview", "--id", 0)
    assert "--variables is 'nosuch.json'" in refused("template", "preview", "welcome", "--variables", "nosuch.json")
    (tmp_path / "list.json").write_text("[]")
    assert "no JSON object" in refused("template", "preview", "welcome", "--variables", tmp_path / "list.json")
    assert "--var is 'name'" in refused("template", "preview", "welcome", "--var", "name")
    assert "--var is 'a.b=1'" in refused("template", "preview", "welcome", "--var", "a=1", "--var", "a.b=1")
    assert "is not a folder" in refused("template", "import", tmp_path / "nosuch")
    assert "there is no mail template 'nosuch'" in refused("template", "export", tmp_path / "out", "--code", "nosuch")
    (folder / "welcome" / "body.html").write_text("{% if %}")
    assert "welcome/body.html (welcome): body_html, line 1: " in refused("template", "import", folder)


def test_a_failing_template_is_told_with_its_line(run: Run, refused: Refused, folder: Path) -> None:
    (folder / "welcome" / "body.html").write_text("\n{{ 1 / n }}")
    run("template", "import", folder)
    assert "body_html, line 2: " in refused("template", "preview", "welcome", "--var", "n=x")


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    folder = tmp_path / "seeds"
    folder.mkdir()
    (folder / "welcome.yaml").write_text("model: mail_template\nkey: welcome\ncode: welcome\nname: Welcome\n")
    (folder / "main.yaml").write_text(
        "model: mail_send_server_config\nkey: main\nname: main\nhost: mail.example.com\nport: 25\n"
        "username: shop@example.com\npassword: {env: SHOP_PASSWORD}\n"
    )
    (folder / "quota.yaml").write_text("model: tenant_message_quota\nkey: start\nmail_monthly_limit: 9\n")
    return folder


def test_a_tenant_is_provisioned_once(
    run: Run, refused: Refused, seeds: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")
    assert "'SHOP_PASSWORD' is not set" in refused("tenant", "provision", 7, "--seeds", seeds)
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    code, out, err = run("tenant", "provision", 7, "--seeds", seeds)
    assert (code, err) == (0, "")
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["created", "main"],
        ["created", "start"],
        ["created", "welcome"],
    ]
    again = json.loads(run("tenant", "provision", 7, "--seeds", seeds, "--json")[1])
    assert {result["outcome"] for result in again} == {"applied before"}
    assert run("tenant", "provision", 7, "--seeds", seeds, "--rebuild")[1].count("rebuilt") == 3
    assert run("tenant", "provision", "--platform", "--seeds", seeds)[1].count("created") == 3
    with engine.connect() as connection:
        owners = connection.execute(text("SELECT tenant_id FROM mail_template ORDER BY 1")).scalars().all()
        assert owners == [-1, 7]
        assert connection.execute(text("SELECT tenant_id FROM tenant_message_quota ORDER BY 1")).scalars().all() == [
            -1,
            7,
        ]
    assert "welcome" in run("template", "list", "--tenant", 7)[1]


def test_a_bad_seed_and_a_wrong_tenant_are_one_line(
    refused: Refused, seeds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    assert "multi-tenancy is off" in refused("tenant", "provision", 7, "--seeds", seeds)
    monkeypatch.setenv("MESSAGING_MULTI_TENANCY", "true")
    assert "0 is no tenant" in refused("tenant", "provision", 0, "--seeds", seeds)
    assert "neither is given" in refused("tenant", "provision", "--seeds", seeds)
    assert "both are given" in refused("tenant", "provision", 7, "--platform", "--seeds", seeds)
    assert "--seeds" in refused("tenant", "provision", 7)
    assert "is not a folder" in refused("tenant", "provision", 7, "--seeds", seeds / "nosuch")
    (seeds / "main.yaml").write_text("model: mail_send_server_config\nkey: main\npassword: hunter2\n")
    said = refused("tenant", "provision", 7, "--seeds", seeds)
    assert "main.yaml (main): password is a secret and stands in no file" in said
    assert "hunter2" not in said


SMS_SETTINGS = """\
code: shipped
name: Shipped
active: true
strict: false
redact: false
to_gsm: true
max_segments: 1
"""


def test_templates_of_text_messages_go_in_are_listed_shown_and_come_out_again(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "texts" / "shipped"
    folder.mkdir(parents=True)
    (folder / "template.yaml").write_text(SMS_SETTINGS)
    (folder / "content.txt").write_text("Your parcel “{{ what }}” is on its way.\n")
    sms = ("--channel", "sms")
    assert run("template", "import", folder.parent, "--dry-run", *sms)[1] == "created    shipped\nnothing was written\n"
    assert run("template", "list", *sms) == (0, "no templates\n", "")
    assert run("template", "import", folder.parent, *sms) == (0, "created    shipped\n", "")
    assert run("template", "import", folder.parent, *sms) == (0, "unchanged  shipped\n", "")
    assert run("template", "list") == (0, "no templates\n", "")
    [line] = json.loads(run("template", "list", "--json", *sms)[1])
    assert (line["code"], line["to_gsm"], line["max_segments"]) == ("shipped", True, 1)
    assert "at most 1" in run("template", "list", *sms)[1]
    shown = run("template", "show", "shipped", *sms)[1]
    assert shown == SMS_SETTINGS + "--- content.txt\nYour parcel “{{ what }}” is on its way.\n"
    assert run("template", "variables", "shipped", *sms)[1] == "VARIABLE    what\n"
    assert run("template", "export", tmp_path / "out", *sms)[1] == f"{tmp_path / 'out' / 'shipped'}\n"
    assert (tmp_path / "out" / "shipped" / "content.txt").read_bytes() == (folder / "content.txt").read_bytes()
    assert (tmp_path / "out" / "shipped" / "template.yaml").read_text() == SMS_SETTINGS


def test_a_preview_of_a_text_message_counts_its_segments(run: Run) -> None:
    assert run("template", "add", "otp", "--content", "Code {{ code }} – “valid” for 5 minutes", "--to-gsm")[0] == 0
    code, out, err = run("template", "preview", "otp", "--channel", "sms", "--var", "code=123456")
    assert (code, out, err) == (0, '--- GSM7, 1 segment, 35 units\nCode 123456 - "valid" for 5 minutes\n', "")
    assert run("template", "add", "long", "--content", "测" * 71, "--max-segments", 1)[0] == 0
    out = run("template", "preview", "long", "--channel", "sms")[1]
    assert out.startswith("--- UCS2, 2 segments, 71 units; not sent: it comes to 2 segments, and max_segments is 1\n")
    found = json.loads(run("template", "preview", "otp", "--channel", "sms", "--json")[1])
    assert (found["encoding"], found["segments"], found["missing_variables"]) == ("GSM7", 1, ["code"])
    assert run("template", "preview", "otp", "--channel", "sms")[2] == "missing: code\n"


def test_a_template_of_text_messages_that_cannot_be_is_refused_in_a_line(
    run: Run, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("Hi {{ name }}")
    assert run("template", "add", "hi", "--content-file", tmp_path / "text.txt", "--name", "Hi", "--redact")[0] == 0
    assert "redact: true" in run("template", "show", "hi", "--channel", "sms")[1]
    assert "this tenant has a template of this code" in refused("template", "add", "hi", "--content", "x")
    assert "line 1" in refused("template", "add", "bad", "--content", "{{ name")
    assert "one of the two" in refused("template", "add", "none")
    assert "no SMS template 'nosuch'" in refused("template", "show", "nosuch", "--channel", "sms")
    folder = tmp_path / "texts" / "bad"
    folder.mkdir(parents=True)
    (folder / "template.yaml").write_text("code: bad\nname: Bad\nto_gsm: 7\n")
    assert "bad/template.yaml" in refused("template", "import", folder.parent, "--channel", "sms")


def test_a_deleted_template_is_gone(run: Run, refused: Refused, folder: Path) -> None:
    run("template", "import", folder)
    [line] = json.loads(run("template", "list", "--json")[1])
    assert run("template", "delete", line["id"]) == (0, f"mail template {line['id']} is deleted\n", "")
    assert run("template", "list", "--all") == (0, "no templates\n", "")
    assert f"no mail template {line['id']}" in refused("template", "delete", line["id"])
    assert "no SMS template 5" in refused("template", "delete", 5, "--channel", "sms")
