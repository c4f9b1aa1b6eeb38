"""Seeds of a tenant are applied once and are then the tenant's own (operate.md section 1)."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.audit import trail
from messaging.db.active import with_disabled
from messaging.db.encryption import decrypt
from messaging.db.session import transaction
from messaging.errors import FileRejected, TenantMismatch
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG, MailSendServerConfig, MailTemplate
from messaging.provisioning import Outcome, SeedLedger, SeedResult, provision_tenant
from messaging.quota import TenantMessageQuota
from messaging.settings import Settings
from messaging.sms.ext_config import unseal
from messaging.sms.models import SmsProviderConfig, SmsProviderRegion, SmsTemplate, SmsTemplateProviderBinding
from messaging.tenancy import PLATFORM_TENANT_ID, all_tenants, tenant
from tests.conftest import MakeSettings

WELCOME = """\
model: mail_template
key: welcome
code: welcome
name: Welcome
subject: Welcome, {{ name }}!
body_mode: HTML_WITH_DERIVED_PLAIN
body_html: |
  <p>Hello {{ name }},</p>
  <p>good to have you.</p>
"""
SERVER = """\
model: mail_send_server_config
key: main
name: main
host: mail.example.com
port: 465
protocol: SMTPS
username: shop@example.com
password: {env: SHOP_SMTP_PASSWORD}
is_default: true
"""
QUOTA = """\
model: tenant_message_quota
key: start
mail_monthly_limit: 1000
"""
ENVIRON = {"SHOP_SMTP_PASSWORD": "secret"}


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings(multi_tenancy=True)


@pytest.fixture
def configured(settings: Settings, engine: Engine) -> Iterator[Engine]:
    messaging.configure(settings, engine=engine)
    yield engine
    tenancy.use_multi_tenancy(False)


@pytest.fixture
def session(configured: Engine) -> Iterator[Session]:
    with Session(configured) as opened:
        yield opened


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    folder = tmp_path / "seeds"
    folder.mkdir()
    for name, text in (("welcome.yaml", WELCOME), ("server.yaml", SERVER), ("quota.yml", QUOTA)):
        (folder / name).write_text(text)
    (folder / "README.md").write_text("The seeds of a new tenant.")
    return folder


def provision(session: Session, tenant_id: int, folder: Path, **options: Any) -> list[SeedResult]:
    return provision_tenant(session, tenant_id, folder, environ=ENVIRON, **options)


def outcomes(results: list[SeedResult]) -> dict[str, Outcome]:
    return {result.key: result.outcome for result in results}


def the_template(session: Session, tenant_id: int) -> MailTemplate:
    with tenant(tenant_id):
        return session.scalars(with_disabled(select(MailTemplate))).one()


def test_a_tenant_gets_its_own_rows_and_a_repeated_run_writes_nothing(session: Session, seeds: Path) -> None:
    first = provision(session, 7, seeds)
    session.commit()
    assert outcomes(first) == dict.fromkeys(("start", "main", "welcome"), Outcome.CREATED)
    with tenant(7):
        server = session.scalars(select(MailSendServerConfig)).one()
        template = session.scalars(select(MailTemplate)).one()
        assert (server.tenant_id, server.is_default, server.protocol) == (7, True, "SMTPS")
        assert (template.tenant_id, template.subject) == (7, "Welcome, {{ name }}!")
        assert template.body_html == "<p>Hello {{ name }},</p>\n<p>good to have you.</p>\n"
    ciphertext = session.execute(select(func.concat(MAIL_SEND_SERVER_CONFIG.c.password))).scalar_one()
    assert decrypt(ciphertext) == "secret"
    assert session.scalars(select(TenantMessageQuota.mail_monthly_limit).filter_by(tenant_id=7)).one() == 1000
    again = provision(session, 7, seeds)
    assert outcomes(again) == dict.fromkeys(("start", "main", "welcome"), Outcome.APPLIED_BEFORE)
    assert [result.row_id for result in again] == [result.row_id for result in first]
    provision(session, 8, seeds)
    with all_tenants():
        owners = session.scalars(select(MailTemplate.tenant_id).order_by(MailTemplate.tenant_id)).all()
        assert owners == [7, 8]


def test_an_edited_and_a_deleted_row_are_left_alone_and_a_changed_seed_reaches_nobody(
    session: Session, seeds: Path
) -> None:
    provision(session, 7, seeds)
    with tenant(7):
        session.execute(update(MailTemplate).values(subject="Mine"))
        session.execute(delete(MailSendServerConfig))
    (seeds / "welcome.yaml").write_text(WELCOME.replace("name: Welcome", "name: Changed"))
    (seeds / "new.yaml").write_text(WELCOME.replace("welcome", "new"))
    results = outcomes(provision(session, 7, seeds))
    assert results == {
        "new": Outcome.CREATED,
        **dict.fromkeys(("start", "main", "welcome"), Outcome.APPLIED_BEFORE),
    }
    with tenant(7):
        template = session.scalars(select(MailTemplate).where(MailTemplate.code == "welcome")).one()
        assert (template.subject, template.name) == ("Mine", "Welcome")
        assert session.scalars(select(MailSendServerConfig)).all() == []


def test_a_rebuild_makes_anew_what_the_seeds_made_under_the_same_ids_and_nothing_else(
    session: Session, seeds: Path
) -> None:
    first = provision(session, 7, seeds)
    with tenant(7):
        session.execute(update(MailTemplate).values(subject="Mine", active=False))
        session.execute(delete(MailSendServerConfig))
        session.add(MailTemplate(code="own", name="Own"))
        session.flush()
    provision(session, 8, seeds)
    (seeds / "welcome.yaml").write_text(WELCOME.replace("name: Welcome", "name: Changed"))
    rebuilt = provision(session, 7, seeds, rebuild=True)
    session.commit()
    assert outcomes(rebuilt) == dict.fromkeys(("start", "main", "welcome"), Outcome.REBUILT)
    assert [result.row_id for result in rebuilt] == [result.row_id for result in first]
    with tenant(7):
        rows = {row.code: (row.subject, row.name, row.active) for row in session.scalars(select(MailTemplate))}
        assert rows == {"own": (None, "Own", True), "welcome": ("Welcome, {{ name }}!", "Changed", True)}
        assert len(session.scalars(select(MailSendServerConfig)).all()) == 1
        assert len(session.scalars(select(SeedLedger)).all()) == 3
    assert the_template(session, 8).name == "Welcome"


def test_what_a_run_makes_and_a_rebuild_deletes_is_in_the_audit_log(session: Session, seeds: Path) -> None:
    def noted(tenant_id: int) -> list[tuple[str, str]]:
        with tenant(tenant_id):
            return [(line.action, line.target_type) for line in trail.page(session)[::-1]]

    provision(session, 7, seeds)
    made = [*noted(7), *noted(PLATFORM_TENANT_ID)]
    assert {action for action, _ in made} == {"create"}
    assert ("create", "tenant_message_quota") in noted(PLATFORM_TENANT_ID)
    provision(session, 7, seeds)
    assert [*noted(7), *noted(PLATFORM_TENANT_ID)] == made
    provision(session, 7, seeds, rebuild=True)
    again = [*noted(7), *noted(PLATFORM_TENANT_ID)]
    assert sorted(again) == sorted([*made, *made, *(("delete", table) for _, table in made)])


def test_a_row_of_the_tenants_own_is_kept_and_is_not_the_seeds_to_rebuild(session: Session, seeds: Path) -> None:
    with tenant(7):
        session.add(MailTemplate(code="welcome", name="Own", active=False))
        session.flush()
    for rebuild in (False, True):
        results = outcomes(provision(session, 7, seeds, rebuild=rebuild))
        assert results["welcome"] is Outcome.OWN_ROW
        assert the_template(session, 7).name == "Own"


def test_the_platform_has_seeds_of_its_own(session: Session, seeds: Path) -> None:
    provision(session, PLATFORM_TENANT_ID, seeds)
    assert the_template(session, PLATFORM_TENANT_ID).tenant_id == PLATFORM_TENANT_ID
    assert session.scalars(select(TenantMessageQuota.tenant_id)).all() == [PLATFORM_TENANT_ID]
    with tenant(7):
        assert session.scalars(select(MailTemplate)).all() == []


def test_two_runs_at_once_apply_each_seed_once(configured: Engine, seeds: Path) -> None:
    results: list[dict[str, Outcome]] = []

    def run() -> None:
        with transaction(configured) as session:
            results.append(outcomes(provision(session, 7, seeds)))

    with transaction(configured) as session:
        first = outcomes(provision(session, 7, seeds))
        second = threading.Thread(target=run)
        second.start()
        assert not results
    second.join(30)
    assert set(first.values()) == {Outcome.CREATED}
    assert [set(outcome.values()) for outcome in results] == [{Outcome.APPLIED_BEFORE}]
    with Session(configured) as session:
        assert the_template(session, 7).code == "welcome"


@pytest.mark.parametrize(
    ("text", "key", "field", "message"),
    [
        ("model: mail_template\ncode: x", None, "key", "bad.yaml: key is None: it is text"),
        ("model: mail_template\nkey: 7", None, "key", "bad.yaml: key is 7: it is text"),
        ('model: mail_template\nkey: "k\\ud800"', None, "key", "bad.yaml: key is 'k\\ud800': it is text"),
        ("model: inbox\nkey: k", "k", "model", "bad.yaml (k): model is 'inbox': it is none of mail_template"),
        ("key: k", "k", "model", "bad.yaml (k): model is None"),
        (WELCOME.replace("key: welcome", "key: k") + "tenant_id: 8", "k", "tenant_id", "no field 'tenant_id'"),
        (WELCOME.replace("key: welcome", "key: k") + "id: 8", "k", "id", "no field 'id'"),
        (WELCOME.replace("key: welcome", "key: k") + "attachments: []", "k", "attachments", "no field 'attachments'"),
        (
            WELCOME.replace("key: welcome", "key: k").replace("HTML_WITH_DERIVED_PLAIN", "HTLM"),
            *("k", "body_mode", "bad.yaml (k): body_mode is 'HTLM': is none of HTML, PLAIN"),
        ),
        (
            WELCOME.replace("key: welcome", "key: k").replace("<p>good", "{{ x<p>good"),
            *("k", "body_html", "bad.yaml (k): body_html, line 2: "),
        ),
        (SERVER.replace("key: main", "key: k").replace("465", "none"), "k", "port", "bad.yaml (k): port is 'none'"),
        (SERVER.replace("key: main", "key: k") + "starttls_enabled: true", "k", "starttls_enabled", "one kind"),
        (SERVER.replace("key: main", "key: k").replace("host: mail.example.com\n", ""), "k", "host", "it is required"),
        (QUOTA.replace("key: start", "key: k").replace("1000", "-1"), "k", "mail_monthly_limit", "mail_monthly_limit"),
        (WELCOME, "welcome", "key", "bad.yaml (welcome): key is 'welcome', as in welcome.yaml"),
        ("model: mail_template\nkey: &a k\ncode: *a", None, None, "bad.yaml: line 2: anchors and aliases"),
        ("a: !!python/name:os.system", None, None, "bad.yaml: line 1: tags"),
        ("model: mail_template\nkey: k\nkey: l", None, None, "bad.yaml: line 3: the key 'key' stands there twice"),
    ],
)
def test_a_bad_seed_is_named_with_file_key_field_and_value_and_nothing_is_written(
    session: Session, seeds: Path, text: str, key: str | None, field: str | None, message: str
) -> None:
    (seeds / "bad.yaml").write_text(text)
    if "as in welcome" in message:
        (seeds / "bad.yaml").rename(seeds / "zzz.yaml")
        message = message.replace("bad.yaml", "zzz.yaml")
    with pytest.raises(FileRejected) as refused:
        provision(session, 7, seeds)
    assert (refused.value.key, refused.value.field) == (key, field)
    assert message in str(refused.value)
    with all_tenants():
        assert session.scalars(select(SeedLedger)).all() == []
        assert session.scalars(with_disabled(select(MailTemplate))).all() == []


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("hunter2", "password is a secret and stands in no file; write {env: VARIABLE}"),
        ("[hunter2]", "password is a secret and stands in no file"),
        ("{env: hunter2, b: c}", "password is a secret and stands in no file"),
        ("{env: [hunter2]}", "password is a secret and stands in no file"),
        ("{env: MISSING}", "password: the environment variable 'MISSING' is not set"),
    ],
)
def test_a_secret_stands_in_no_seed_and_is_not_repeated(
    session: Session, seeds: Path, password: str, message: str
) -> None:
    (seeds / "server.yaml").write_text(SERVER.replace("{env: SHOP_SMTP_PASSWORD}", password))
    with pytest.raises(FileRejected) as refused:
        provision(session, 7, seeds)
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_two_seeds_of_what_a_tenant_has_one_of_are_refused(session: Session, seeds: Path) -> None:
    (seeds / "zz.yaml").write_text(WELCOME.replace("key: welcome", "key: other"))
    with pytest.raises(FileRejected, match=r"zz.yaml \(other\): code is 'welcome', as in welcome.yaml"):
        provision(session, 7, seeds)
    (seeds / "zz.yaml").write_text(QUOTA.replace("key: start", "key: other"))
    with pytest.raises(FileRejected, match=r"zz.yaml \(other\): model is 'tenant_message_quota', as in quota.yml"):
        provision(session, 7, seeds)


def test_no_tenant_provisions_another_or_sets_its_quota(session: Session, seeds: Path) -> None:
    with tenant(8), pytest.raises(TenantMismatch, match="tenant 8 cannot provision tenant 7"):
        provision(session, 7, seeds)
    with tenant(7), pytest.raises(FileRejected, match="only the platform sets quotas"):
        provision(session, 7, seeds)
    (seeds / "quota.yml").unlink()
    with tenant(7):
        assert set(outcomes(provision(session, 7, seeds)).values()) == {Outcome.CREATED}


@pytest.mark.parametrize("tenant_id", [0, -2, 2**63, True, "7"])
def test_what_is_no_tenant_is_refused(session: Session, seeds: Path, tenant_id: Any) -> None:
    with pytest.raises(TenantMismatch):
        provision(session, tenant_id, seeds)


def test_without_multi_tenancy_all_is_in_tenant_0(session: Session, seeds: Path) -> None:
    tenancy.use_multi_tenancy(False)
    with pytest.raises(TenantMismatch, match="multi-tenancy is off"):
        provision(session, 7, seeds)
    provision(session, 0, seeds)
    assert session.scalars(select(MailTemplate.tenant_id)).all() == [0]
    assert session.scalars(select(TenantMessageQuota.tenant_id)).all() == [0]


def test_a_folder_holds_seeds_and_nothing_that_leads_elsewhere(session: Session, seeds: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text(WELCOME)
    for name, make in {
        "link.yaml": lambda path: path.symlink_to(tmp_path / "outside.yaml"),
        "folder": lambda path: path.mkdir(),
        "seed.json": lambda path: path.write_text("{}"),
        "big.yaml": lambda path: path.write_bytes(b"#" * (2 * 1024 * 1024 + 1)),
        "latin.yaml": lambda path: path.write_bytes(b"key: caf\xe9"),
    }.items():
        make(seeds / name)
        with pytest.raises(FileRejected, match=name):
            provision(session, 7, seeds)
        (seeds / name).rmdir() if name == "folder" else (seeds / name).unlink()
    with pytest.raises(FileRejected, match="is not a folder"):
        provision(session, 7, tmp_path / "missing")


def test_the_documentations_seed_is_one(session: Session, tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "tenants.md"
    seed = page.read_text().partition('title="seeds/main.yaml"\n')[2].partition("```")[0]
    (tmp_path / "main.yaml").write_text(seed)
    (result,) = provision(session, 7, tmp_path)
    assert (result.model, result.outcome) == ("mail_send_server_config", Outcome.CREATED)


# Text messages

ACCOUNT = """\
model: sms_provider_config
key: aliyun
name: out
provider_type: ALIYUN
api_key: {env: SMS_KEY}
api_secret: {env: SMS_SECRET}
ext_config: {regionId: cn-hangzhou, extra: {env: SMS_EXTRA}}
"""
OTP = """\
model: sms_template
key: otp
code: otp
name: One-time code
content: Your code is {{ code }}.
max_segments: 1
"""
ROUTE = """\
model: sms_provider_region
key: china
provider_config_id: {seed: aliyun}
region_code: cn
priority: 10
"""
BINDING = """\
model: sms_template_provider_binding
key: otp in china
template_id: {seed: otp}
provider_config_id: {seed: aliyun}
region_code: CN
external_template_id: SMS_1
sign_name: Shop
"""
SMS_ENVIRON = {"SMS_KEY": "k3y", "SMS_SECRET": "s3cret", "SMS_EXTRA": "t0ken"}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    # A binding and a route come first by name and are made last.
    for name, seed in {"a-binding": BINDING, "b-route": ROUTE, "c-account": ACCOUNT, "d-otp": OTP}.items():
        (folder / f"{name}.yaml").write_text(seed)
    return folder


def provision_texts(session: Session, tenant_id: int, folder: Path, **options: Any) -> list[SeedResult]:
    return provision_tenant(session, tenant_id, folder, environ=SMS_ENVIRON, **options)


def test_a_tenant_gets_what_its_text_messages_go_by(session: Session, texts: Path) -> None:
    results = provision_texts(session, 7, texts)
    assert [result.outcome for result in results] == [Outcome.CREATED] * 4
    with tenant(7):
        account = session.scalars(select(SmsProviderConfig)).one()
        route = session.scalars(select(SmsProviderRegion)).one()
        binding = session.scalars(select(SmsTemplateProviderBinding)).one()
        template = session.scalars(select(SmsTemplate)).one()
        assert (account.api_key, account.api_secret) == ("k3y", "s3cret")
        assert unseal(account.ext_config) == {"regionId": "cn-hangzhou", "extra": "t0ken"}
        assert (route.provider_config_id, route.region_code, route.dial_code, route.priority) == (
            account.id,
            "CN",
            "86",
            10,
        )
        assert (binding.template_id, binding.provider_config_id) == (template.id, account.id)
        assert (binding.external_template_id, binding.sign_name, binding.priority) == ("SMS_1", "Shop", 100)
    again = provision_texts(session, 7, texts)
    assert {result.outcome for result in again} == {Outcome.APPLIED_BEFORE}
    rebuilt = provision_texts(session, 7, texts, rebuild=True)
    assert [(result.outcome, result.row_id) for result in rebuilt] == [
        (Outcome.REBUILT, result.row_id) for result in results
    ]


def test_a_seed_names_a_provider_of_the_platforms_by_the_key_of_its_seed(
    session: Session, texts: Path, tmp_path: Path
) -> None:
    platform = tmp_path / "platform"
    platform.mkdir()
    (platform / "account.yaml").write_text(ACCOUNT)
    (made,) = provision_texts(session, PLATFORM_TENANT_ID, platform)
    (texts / "a-binding.yaml").write_text(BINDING.replace("{seed: aliyun}", "{platform: aliyun}"))
    (texts / "b-route.yaml").unlink()
    (texts / "c-account.yaml").unlink()
    provision_texts(session, 7, texts)
    with tenant(7):
        assert session.scalars(select(SmsTemplateProviderBinding.provider_config_id)).one() == made.row_id


def test_a_binding_is_to_the_tenants_own_template_where_it_has_one(session: Session, texts: Path) -> None:
    with tenant(7):
        own = SmsTemplate(code="otp", name="Own", content="Own {{ code }}")
        session.add(own)
        session.flush()
        results = provision_texts(session, 7, texts)
        assert results[3].outcome is Outcome.OWN_ROW
        assert session.scalars(select(SmsTemplateProviderBinding.template_id)).one() == own.id


@pytest.mark.parametrize(
    ("name", "seed", "words"),
    [
        ("b-route", ROUTE.replace("region_code: cn", "region_code: ZZ"), "ISO 3166-1"),
        ("b-route", ROUTE.replace("{seed: aliyun}", "7"), r"write \{seed: KEY\}, with the key"),
        ("b-route", ROUTE.replace("{seed: aliyun}", "{platform: aliyun}"), r"write \{seed: KEY\}, with the key"),
        ("b-route", ROUTE.replace("{seed: aliyun}", "{seed: nosuch}"), "no row of a sms_provider_config seed 'nosuch'"),
        ("a-binding", BINDING.replace("{seed: otp}", "{seed: nosuch}"), "no row of a sms_template seed 'nosuch'"),
        ("a-binding", BINDING.replace("template_id: {seed: otp}\n", ""), "template_id is None"),
        ("c-account", ACCOUNT.replace("{env: SMS_SECRET}", "s3cret"), "api_secret is a secret and stands in no file"),
        ("c-account", ACCOUNT.replace("{env: SMS_EXTRA}", "t0ken"), "ext_config.extra is a secret"),
        ("c-account", ACCOUNT.replace("ALIYUN", "NOSUCH"), "there is no adapter"),
        ("d-otp", OTP.replace("{{ code }}", "{{ code"), "line 1"),
        ("d-otp", OTP.replace("max_segments: 1", "max_segments: 0"), "max_segments"),
    ],
)
def test_a_bad_seed_of_text_messages_is_named_and_nothing_is_written(
    session: Session, texts: Path, name: str, seed: str, words: str
) -> None:
    (texts / f"{name}.yaml").write_text(seed)
    with pytest.raises(FileRejected, match=words) as refused:
        provision_texts(session, 7, texts)
    assert f"{name}.yaml" in str(refused.value)
    assert not any(secret in str(refused.value) for secret in SMS_ENVIRON.values())
    with all_tenants():
        assert session.scalar(select(func.count()).select_from(SmsProviderConfig)) == 0
