"""Configurations of every kind, by one set of steps: pages of lists, copies, changes, deletions, and who comes second.

operate.md sections 1, 2 and 9: O5, O6, O12, O15, O16, O60.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

import messaging
from messaging import ConfigRejected, MessageRejected, RecordNotFound, TemplateRejected, TenantMismatch, tenancy
from messaging.tenancy import PLATFORM_TENANT_ID, tenant
from tests.conftest import MakeSettings

SERVER: dict[str, Any] = {
    "name": "out",
    "host": "mail.example.com",
    "port": 587,
    "username": "shop@example.org",
    "password": "s3cret",
}
MAILBOX: dict[str, Any] = {
    "name": "in",
    "host": "mail.example.com",
    "port": 993,
    "username": "shop@example.org",
    "password": "s3cret",
}
PROVIDER: dict[str, Any] = {
    "name": "texts",
    "provider_type": "TWILIO",
    "account_id": "AC1",
    "api_key": "k",
    "api_secret": "s3cret",
    "sender_number": "+14155550100",
}
PAGE: dict[str, Any] = {"page": 1, "size": 2}


@dataclass(frozen=True)
class Kept:
    """How rows of one kind are kept by the public functions."""

    table: str
    add: Callable[..., int]
    change: Callable[..., None]
    get: Callable[..., Any]
    listed: Callable[..., Any]
    delete: Callable[..., None]
    #: A field that changes, and its value.
    changed: tuple[str, Any]


def _new_code() -> str:
    _new_code.count = getattr(_new_code, "count", 0) + 1  # type: ignore[attr-defined]
    return f"code-{_new_code.count}"  # type: ignore[attr-defined]


def add_route(**fields: Any) -> int:
    return messaging.add_sms_route(messaging.add_sms_provider(**PROVIDER), "DE", **fields)


def add_binding(**fields: Any) -> int:
    template_id = messaging.add_sms_template(code=_new_code(), name="otp")
    return messaging.add_sms_binding(template_id, messaging.add_sms_provider(**PROVIDER), **fields)


KINDS = {
    "mail server": Kept(
        "mail_send_server_config",
        lambda **fields: messaging.add_mail_server(**{**SERVER, **fields}),
        messaging.change_mail_server,
        messaging.get_mail_server,
        messaging.list_mail_servers,
        messaging.delete_mail_server,
        ("host", "other.example.com"),
    ),
    "mailbox": Kept(
        "mail_receive_server_config",
        lambda **fields: messaging.add_mailbox(**{**MAILBOX, **fields}),
        messaging.change_mailbox,
        messaging.get_mailbox,
        messaging.list_mailboxes,
        messaging.delete_mailbox,
        ("host", "other.example.com"),
    ),
    "mail template": Kept(
        "mail_template",
        lambda **fields: messaging.add_mail_template(**{"code": _new_code(), "name": "n", **fields}),
        messaging.change_mail_template,
        messaging.get_mail_template,
        messaging.list_mail_templates,
        messaging.delete_mail_template,
        ("subject", "Hello {{ name }}"),
    ),
    "SMS template": Kept(
        "sms_template",
        lambda **fields: messaging.add_sms_template(**{"code": _new_code(), "name": "n", **fields}),
        messaging.change_sms_template,
        messaging.get_sms_template,
        messaging.list_sms_templates,
        messaging.delete_sms_template,
        ("description", "ours"),
    ),
    "SMS provider": Kept(
        "sms_provider_config",
        lambda **fields: messaging.add_sms_provider(**{**PROVIDER, **fields}),
        messaging.change_sms_provider,
        messaging.get_sms_provider,
        messaging.list_sms_providers,
        messaging.delete_sms_provider,
        ("sender_number", "+14155550101"),
    ),
    "route": Kept(
        "sms_provider_region",
        add_route,
        messaging.change_sms_route,
        messaging.get_sms_route,
        messaging.list_sms_routes,
        messaging.remove_sms_route,
        ("region_code", "FR"),
    ),
    "binding": Kept(
        "sms_template_provider_binding",
        add_binding,
        messaging.change_sms_binding,
        messaging.get_sms_binding,
        messaging.list_sms_bindings,
        messaging.remove_sms_binding,
        ("sign_name", "Shop"),
    ),
}
each_kind = pytest.mark.parametrize("kept", KINDS.values(), ids=KINDS)


@pytest.fixture(autouse=True)
def in_tenant_7(make_settings: MakeSettings, engine: Engine) -> Iterator[None]:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    with tenant(7):
        yield
    tenancy.use_multi_tenancy(False)


@each_kind
def test_a_disabled_row_is_listed_where_it_is_asked_for_and_found_by_its_id(kept: Kept) -> None:  # O12
    on, off = kept.add(), kept.add(active=False)
    assert [line.id for line in kept.listed()] == [on]
    assert [line.id for line in kept.listed(active="false")] == [off]
    assert {line.id for line in kept.listed(active="all")} == {on, off}
    assert not kept.get(off).active
    kept.change(off, active=True)
    assert {line.id for line in kept.listed()} == {on, off}


@each_kind
def test_a_list_is_cut_into_pages_and_sorted(kept: Kept) -> None:
    ids = [kept.add() for _ in range(5)]
    pages = [kept.listed(page=page, size=2, sort="-id") for page in (1, 2, 3, 4)]
    assert [[line.id for line in page] for page in pages] == [ids[:2:-1], ids[2:0:-1], ids[:1], []]
    assert {page.total for page in pages} == {5}
    assert kept.listed().total == 5


@each_kind
def test_a_page_or_an_order_that_cannot_be_is_refused_before_anything_is_asked(kept: Kept) -> None:
    for wrong in ({"page": 0}, {"size": 0}, {"size": 201}, {"sort": "password"}, {"sort": ""}, {"active": "yes"}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} is .*; allowed: "):
            kept.listed(**wrong)
    for name, value in (("page", "1"), ("size", True), ("with_disabled", True)):
        with pytest.raises(TypeError, match=name):
            kept.listed(**{name: value})
    for search in ("\x00", "\ud800", "x" * 201):
        with pytest.raises(ValueError, match="search is"):
            kept.listed(search=search)


def test_a_list_is_searched_for_a_part_of_names_in_any_case() -> None:
    found = messaging.add_mail_server(**SERVER | {"name": "100%_Sure"})
    messaging.add_mail_server(**SERVER)
    assert [line.id for line in messaging.list_mail_servers(search="0%_s")] == [found]
    assert messaging.list_mail_servers(search="%") == messaging.list_mail_servers(search="SURE")
    assert len(messaging.list_mail_servers(search="MAIL.EXAMPLE", **PAGE)) == 2


@each_kind
def test_what_is_changed_is_changed_and_signed_and_nothing_else(kept: Kept, engine: Engine) -> None:
    row_id = kept.add()
    before = kept.get(row_id)
    name, value = kept.changed
    with tenancy.acting_as(tenancy.Context(tenant_id=7, user_id=5, user_name="ada")):
        kept.change(row_id, **{name: value})
    after = kept.get(row_id)
    assert getattr(after, name) == value
    signed = {"updated_at", "updated_by", "dial_code"}
    assert {n for n, v in asdict(after).items() if v != asdict(before)[n]} - signed == {name}
    with engine.connect() as connection:
        statement = text(f"SELECT updated_by_id, updated_by FROM {kept.table} WHERE id = :i")
        assert connection.execute(statement, {"i": row_id}).one() == (5, "ada")
    with pytest.raises(TypeError, match="has no field 'tenant_id'"):
        kept.change(row_id, tenant_id=8)


@each_kind
def test_a_deleted_row_is_gone_and_its_id_is_not_given_again(kept: Kept) -> None:
    row_id = kept.add()
    kept.delete(row_id)
    assert kept.listed(active="all") == []
    for act in (kept.get, kept.delete, lambda i: kept.change(i, **dict([kept.changed]))):
        with pytest.raises(RecordNotFound, match=f"{row_id}"):
            act(row_id)
    assert kept.add() > row_id


@each_kind
def test_rows_of_others_are_not_found_and_those_of_the_platform_not_touched(kept: Kept) -> None:
    with tenant(8):
        theirs = kept.add()  # O5
    with tenant(PLATFORM_TENANT_ID):
        platforms = kept.add()  # O6
    change = dict([kept.changed])
    for act in (kept.get, kept.delete, lambda i: kept.change(i, **change)):
        for row_id in (theirs, platforms + 1000, 0, 2**63):
            with pytest.raises((RecordNotFound, MessageRejected)):
                act(row_id)
    with pytest.raises(RecordNotFound):
        kept.get(platforms)
    for act in (kept.delete, lambda i: kept.change(i, **change)):
        with pytest.raises(TenantMismatch, match=f"{platforms} belongs to the platform"):
            act(platforms)
    assert kept.listed(active="all") == []
    for owner, row_id in ((8, theirs), (PLATFORM_TENANT_ID, platforms)):
        with tenant(owner):
            assert kept.get(row_id).tenant_id == owner


@each_kind
def test_a_change_that_meets_a_deletion_waits_for_it_and_finds_nothing(kept: Kept, engine: Engine) -> None:
    """A deletes and has not committed; B changes, waits for A's lock, and is told that there is no such row."""
    row_id = kept.add()
    context = tenancy.current()

    def change() -> None:
        with tenancy.acting_as(context):
            kept.change(row_id, **dict([kept.changed]))

    with ThreadPoolExecutor(1) as pool:
        with Session(engine) as a:
            kept.delete(row_id, session=a)
            waiting = pool.submit(change)
            _until_somebody_waits(engine)
            a.commit()
        with pytest.raises(RecordNotFound):
            waiting.result(timeout=60)


def _until_somebody_waits(engine: Engine) -> None:
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    deadline_looks = 2000
    for _ in range(deadline_looks):
        with engine.connect() as connection:
            if connection.execute(waits).scalar_one():
                return
    raise AssertionError("nobody waits for a lock")


def test_a_copy_has_neither_secrets_nor_what_needs_them_and_does_nothing_yet(engine: Engine) -> None:
    server = messaging.add_mail_server(**SERVER, is_default=True, from_name="Shop", sequence=3)
    copied = messaging.get_mail_server(messaging.copy_mail_server(server, name="second"))
    assert (copied.name, copied.from_name, copied.sequence) == ("second", "Shop", 3)
    assert (copied.has_password, copied.is_default, copied.active) == (False, False, False)  # O60
    assert messaging.get_mail_server(server).is_default
    mailbox = messaging.add_mailbox(**MAILBOX)
    with pytest.raises(ConfigRejected, match="password"):
        messaging.copy_mailbox(mailbox)
    copied_box = messaging.get_mailbox(messaging.copy_mailbox(mailbox, password="another", active=True))
    assert (copied_box.has_password, copied_box.active, copied_box.is_default) == (True, True, False)
    provider = messaging.add_sms_provider(**PROVIDER)
    with pytest.raises(ConfigRejected):
        messaging.copy_sms_provider(provider)
    second = messaging.get_sms_provider(messaging.copy_sms_provider(provider, api_key="k2", api_secret="s2"))
    assert (second.account_id, second.active) == ("AC1", False)
    assert second.receipt_path != messaging.get_sms_provider(provider).receipt_path


def test_the_copy_of_a_server_that_signs_does_not_sign(engine: Engine) -> None:
    server = messaging.add_mail_server(**SERVER)
    with engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE mail_send_server_config"
                " SET dkim_domain = 'example.org', dkim_selector = 's', dkim_private_key = password"
            )
        )
    copied = messaging.get_mail_server(messaging.copy_mail_server(server))
    assert (copied.dkim_domain, copied.dkim_selector, copied.signs_dkim) == (None, None, False)


def test_the_copy_of_a_template_needs_a_code_of_its_own() -> None:
    mail = messaging.add_mail_template(code="welcome", name="Welcome", subject="Hi {{ name }}", body_text="Hello")
    with pytest.raises(TemplateRejected, match="code is None"):
        messaging.copy_mail_template(mail)
    with pytest.raises(TemplateRejected, match=f"a template of this code, {mail}$"):
        messaging.copy_mail_template(mail, code="welcome")
    copied = messaging.get_mail_template(messaging.copy_mail_template(mail, code="second"))
    assert (copied.subject, copied.body_text, copied.active) == ("Hi {{ name }}", "Hello", False)
    texts = messaging.add_sms_template(code="otp", name="OTP", content="{{ code }}", max_segments=1)
    with pytest.raises(TemplateRejected, match="code is None"):
        messaging.copy_sms_template(texts)
    second = messaging.get_sms_template(messaging.copy_sms_template(texts, code="otp-2", active=True))
    assert (second.content, second.max_segments, second.active) == ("{{ code }}", 1, True)


def test_a_template_is_checked_when_it_is_changed_and_the_transaction_stays_usable(engine: Engine) -> None:
    template_id = messaging.add_mail_template(code="welcome", name="Welcome", subject="Hi")
    messaging.add_mail_template(code="other", name="Other")
    with Session(engine) as session:
        for wrong in ({"subject": "{{ a"}, {"body_mode": "RTF"}, {"code": None}, {"code": "other"}):
            with pytest.raises(TemplateRejected, match=next(iter(wrong))):
                messaging.change_mail_template(template_id, session=session, **wrong)
        for reference in ({"preferred_server_config_id": 99}, {"attachments": [{"file_id": 99, "file_name": "a"}]}):
            with pytest.raises(TemplateRejected, match="the tenant has no such"):
                messaging.change_mail_template(template_id, session=session, **reference)
        messaging.change_mail_template(template_id, subject=None, body_text="Hello", session=session)
        session.commit()
    stored = messaging.get_mail_template(template_id)
    assert (stored.code, stored.subject, stored.body_text) == ("welcome", None, "Hello")


def test_a_code_may_be_the_same_in_two_tenants_and_not_twice_in_one(engine: Engine) -> None:  # tenancy tenant-03
    ids = [messaging.add_mail_template(code="welcome", name="Welcome", subject="A")]
    with tenant(8):
        ids.append(messaging.add_mail_template(code="welcome", name="Welcome", subject="B"))
        assert messaging.get_mail_template(code="welcome").subject == "B"
    assert messaging.get_mail_template(code="welcome").id == ids[0]
    messaging.change_mail_template(ids[0], active=False)
    with Session(engine) as session:
        with pytest.raises(TemplateRejected, match=rf"{ids[0]} \(disabled\)"):
            messaging.add_mail_template(code="welcome", name="Again", session=session)
        messaging.add_mail_template(code="another", name="Another", session=session)
        session.commit()


def test_templates_are_offered_to_senders_while_they_are_enabled() -> None:
    messaging.add_mail_template(code="b", name="B", subject="Hi", default_priority="HIGH")
    messaging.add_mail_template(code="a", name="A")
    messaging.add_mail_template(code="off", name="Off", active=False)
    offered = messaging.list_mail_template_summaries()
    assert [(one.code, one.subject, one.default_priority) for one in offered] == [
        ("a", None, None),
        ("b", "Hi", "HIGH"),
    ]
    messaging.add_sms_template(code="long", name="Long", content="x" * 200)  # O53
    [text_summary] = messaging.list_sms_template_summaries()
    assert text_summary.content == "x" * 100


def test_senders_are_the_enabled_servers_in_their_order() -> None:
    messaging.add_mail_server(**SERVER, sequence=2)
    messaging.add_mail_server(**SERVER, active=False)
    first = messaging.add_mail_server(**SERVER, sequence=1, from_address="info@example.org", from_name="Info")
    with tenant(PLATFORM_TENANT_ID):
        messaging.add_mail_server(**SERVER)
    senders = messaging.list_senders()
    assert [(one.from_address, one.from_name) for one in senders] == [
        ("info@example.org", "Info"),
        ("shop@example.org", None),
    ]
    assert senders[0].id == first


def test_a_route_moves_to_another_country_and_its_dial_code_with_it() -> None:  # sms.md R22
    route_id = add_route()
    taken = messaging.get_sms_route(route_id)
    messaging.change_sms_route(route_id, region_code=" cn ", priority=1)
    moved = messaging.get_sms_route(route_id)
    assert (moved.region_code, moved.dial_code, moved.priority) == ("CN", "86", 1)
    second = messaging.add_sms_route(taken.provider_config_id, "DE")
    with pytest.raises(ConfigRejected, match=f"already, {route_id}"):
        messaging.change_sms_route(second, region_code="CN")
    assert [line.id for line in messaging.list_sms_routes("CN", taken.provider_config_id)] == [route_id]
    assert messaging.get_sms_route(second).region_code == "DE"


def test_bindings_are_listed_by_template_and_by_provider() -> None:
    binding_id = add_binding(region_code="DE")
    line = messaging.get_sms_binding(binding_id)
    add_binding()
    assert [one.id for one in messaging.list_sms_bindings(line.template_id)] == [binding_id]
    assert [one.id for one in messaging.list_sms_bindings(provider_config_id=line.provider_config_id)] == [binding_id]
    messaging.change_sms_binding(binding_id, region_code=None, external_template_id="HX1")
    changed = messaging.get_sms_binding(binding_id)
    assert (changed.region_code, changed.external_template_id) == ("", "HX1")
    with pytest.raises(ConfigRejected, match="template_id"):
        messaging.change_sms_binding(binding_id, template_id=99)


def test_regions_are_those_of_iso_3166_1_for_every_tenant() -> None:
    regions = messaging.list_regions()
    assert len(regions) == 249
    germany = next(one for one in regions if one.code == "DE")
    assert (germany.name, germany.alpha3, germany.dial_code, germany.currency) == ("Germany", "DEU", "49", "EUR")


def test_limits_of_tenants_are_kept_by_the_platform_alone() -> None:  # O44
    with pytest.raises(TenantMismatch, match="by the platform"):
        messaging.add_quota(7, mail_monthly_limit=5)
    with tenant(PLATFORM_TENANT_ID):
        quota_id = messaging.add_quota(7, mail_monthly_limit=5)
        own = messaging.add_quota(-1, sms_monthly_limit=0)
        with pytest.raises(ConfigRejected, match=f"it has a quota already, {quota_id}$"):
            messaging.add_quota(7)
        for nobody in (0, -2, 2**63):
            with pytest.raises(ConfigRejected, match="tenant_id"):
                messaging.add_quota(nobody)
        with pytest.raises(ConfigRejected, match="mail_monthly_limit"):
            messaging.add_quota(8, mail_monthly_limit=-1)
        messaging.change_quota(quota_id, sms_monthly_limit=2**63 - 1)
        line = messaging.get_quota(quota_id)
        assert (line.tenant_id, line.mail_monthly_limit, line.sms_monthly_limit) == (7, 5, 2**63 - 1)
        assert [one.id for one in messaging.list_quotas()] == [own, quota_id]
        assert [one.id for one in messaging.list_quotas(7)] == [quota_id]
    assert messaging.quota_usage().mail_limit == 5
    for act in (messaging.get_quota, messaging.delete_quota, lambda i: messaging.change_quota(i, mail_monthly_limit=9)):
        with pytest.raises(TenantMismatch):
            act(quota_id)
    with tenant(PLATFORM_TENANT_ID):
        messaging.delete_quota(quota_id)
    assert messaging.quota_usage().mail_limit is None


def test_with_multi_tenancy_off_there_is_one_quota(make_settings: MakeSettings, engine: Engine) -> None:  # O11
    messaging.configure(make_settings(), engine=engine)
    with pytest.raises(ConfigRejected, match="allowed: 0, as multi-tenancy is off"):
        messaging.add_quota(7)
    messaging.add_quota(0, mail_monthly_limit=5)
    assert messaging.quota_usage().mail_limit == 5
