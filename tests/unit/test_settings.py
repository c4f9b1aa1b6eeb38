"""I1 to I9 of the protocol at start-up, and what a refusal says (operate.md O59). I10 needs a server: integration."""

import os
from typing import Any

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import ConfigurationError
from messaging.settings import Settings, default_ehlo_name, load_settings

REQUIRED: dict[str, Any] = {
    "database_url": "postgresql://shop:hidden@db/shop",
    "redis_url": "redis://cache",
    "secrets_keys": (Fernet.generate_key().decode(),),
}


def make(**areas: Any) -> Settings:
    return load_settings(**{**REQUIRED, **areas})


def test_the_defaults_hold_every_inequality() -> None:
    settings = make()
    assert (settings.delivery.send_budget_seconds, settings.sweeper.stale_seconds) == (240, 300)
    assert settings.database_url == "postgresql+psycopg://shop:hidden@db/shop"


#: Number, what breaks it, the closest that still holds, the name that must be told.
BROKEN: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("I1", {"sweeper": {"stale_seconds": 250}}, {"sweeper": {"stale_seconds": 250.05}}, "SEND_BUDGET_SECONDS"),
    ("I1", {"delivery": {"commit_timeout_seconds": 55}}, {}, "SWEEPER__STALE_SECONDS"),
    ("I1", {"delivery": {"clock_margin_seconds": 55}}, {"delivery": {"clock_margin_seconds": 54.9}}, "CLOCK_MARGIN"),
    ("I1", {"delivery": {"group_window_seconds": 51}}, {}, "GROUP_WINDOW"),
    ("I2", {"delivery": {"chunk_hold_seconds": 106}}, {"delivery": {"chunk_hold_seconds": 105}}, "CHUNK_HOLD"),
    ("I2", {"delivery": {"prepare_max_seconds": 111}}, {"delivery": {"prepare_max_seconds": 110}}, "PREPARE_MAX"),
    ("I2", {"delivery": {"send_max_seconds": 216}}, {"delivery": {"send_max_seconds": 215}}, "SEND_MAX"),
    ("I3", {"delivery": {"send_max_seconds": 94}}, {"delivery": {"send_max_seconds": 95}}, "SEND_MAX_SECONDS"),
    (
        "I3",
        {"mail": {"transport": {"read_timeout_seconds": 56}}},
        {"mail": {"transport": {"read_timeout_seconds": 55}}},
        "READ_TIMEOUT",
    ),
    (
        "I3",
        {"sms": {"transport": {"read_timeout_seconds": 56}}},
        {"sms": {"transport": {"read_timeout_seconds": 55}}},
        "SMS__TRANSPORT",
    ),
    (
        "I3",
        {"webhooks": {"transport": {"connection_timeout_seconds": 31, "read_timeout_seconds": 45}}},
        {"webhooks": {"transport": {"connection_timeout_seconds": 30, "read_timeout_seconds": 45}}},
        "WEBHOOKS__TRANSPORT",
    ),
    (
        "I3",
        {"mail": {"transport": {"connection_timeout_seconds": 31}}},
        {"mail": {"transport": {"connection_timeout_seconds": 30}}},
        "CONNECTION_TIMEOUT_SECONDS",
    ),
    ("I4", {"sweeper": {"cooldown_seconds": 11.9}}, {"sweeper": {"cooldown_seconds": 12}}, "COOLDOWN_SECONDS"),
    ("I5", {"dispatch": {"queue_seconds": 31}}, {"dispatch": {"queue_seconds": 30}}, "QUEUE_SECONDS"),
    ("I5", {"dispatch": {"lease_seconds": 29}}, {"dispatch": {"lease_seconds": 30}}, "LEASE_SECONDS"),
    ("I6", {"dispatch": {"interval_seconds": 1.6}}, {"dispatch": {"interval_seconds": 1.5}}, "TICK_EXPIRES_SECONDS"),
    (
        "I6",
        {"dispatch": {"tick_expires_seconds": 1, "interval_seconds": 0.1}},
        {"dispatch": {"tick_expires_seconds": 1.1, "interval_seconds": 0.1}},
        "clock skew",
    ),
    ("I7", {"delivery": {"stop_grace_seconds": 70}}, {"delivery": {"stop_grace_seconds": 70.1}}, "STOP_GRACE_SECONDS"),
    ("I8", {"database": {"lock_timeout_seconds": 5}}, {"database": {"lock_timeout_seconds": 4.9}}, "LOCK_TIMEOUT"),
    (
        "I8",
        {"database": {"statement_timeout_seconds": 10.1}},
        {"database": {"statement_timeout_seconds": 10}},
        "STATEMENT_TIMEOUT_SECONDS",
    ),
    ("I9", {"sweeper": {"interval_seconds": 151}}, {"sweeper": {"interval_seconds": 150}}, "INTERVAL_SECONDS"),
]


@pytest.mark.parametrize(("number", "broken", "closest", "named"), BROKEN)
def test_an_inequality_that_does_not_hold_stops_the_start(
    number: str, broken: dict[str, Any], closest: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make(**broken)
    said = str(refused.value)
    assert f"{number}: " in said
    assert named in said
    assert "allowed" in said
    make(**closest)


def test_every_inequality_that_does_not_hold_is_named() -> None:
    with pytest.raises(ConfigurationError) as refused:
        make(sweeper={"stale_seconds": 100, "interval_seconds": 100}, dispatch={"lease_seconds": 1})
    assert all(f"{number}: " in str(refused.value) for number in ("I1", "I5", "I9"))


@given(st.floats(1, 1000), st.floats(1, 1000), st.floats(0.001, 10), st.floats(0.1, 100))
def test_i1_is_the_sum_and_nothing_else(stale: float, budget: float, window: float, commit: float) -> None:
    holds = budget + window + commit + 5 <= stale
    said = ""
    try:
        make(
            sweeper={"stale_seconds": stale, "interval_seconds": 0.4},
            delivery={"send_budget_seconds": budget, "group_window_seconds": window, "commit_timeout_seconds": commit},
        )
    except ConfigurationError as refused:
        said = str(refused)
    assert ("I1: " in said) == (not holds)


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        ({"retry": {"jitter": 1.1}}, "RETRY__JITTER"),
        ({"retry": {"jitter": -0.1}}, "RETRY__JITTER"),
        ({"retry": {"max_retries": -1}}, "RETRY__MAX_RETRIES"),
        ({"retry": {"base_seconds": 4000}}, "RETRY__BASE_SECONDS"),
        ({"retry": {"multiplier": float("inf")}}, "RETRY__MULTIPLIER"),
        ({"dispatch": {"chunk_max": 51}}, "DISPATCH__CHUNK_MAX"),
        ({"dispatch": {"nudge": "not a function"}}, "DISPATCH__NUDGE"),
        ({"batch_max": 501}, "BATCH_MAX"),
        ({"config_cache_ttl_seconds": 2}, "CONFIG_CACHE_TTL_SECONDS"),
        ({"delivery": {"send_max_seconds": 0}}, "DELIVERY__SEND_MAX_SECONDS"),
        ({"sweeper": {"nonsense": 1}}, "SWEEPER__NONSENSE"),
        ({"env": "staging"}, "ENV"),
        ({"env": "production", "mail": {"debug": True}}, "MAIL__DEBUG"),
        ({"database_url": "mysql://root:hidden@db"}, "DATABASE_URL"),
        ({"database_url": "postgresql://ada@db/x?passwort=hidden"}, "DATABASE_URL has the option 'passwort'"),
        ({"redis_url": "http://hidden"}, "REDIS_URL"),
        ({"broker_url": "amqp://guest:hidden@mq//"}, "BROKER_URL has the scheme 'amqp'"),
        ({"broker_url": "redis://:hidden@mq:port/0"}, "BROKER_URL is no address"),
        ({"broker_url": "hidden"}, "BROKER_URL is no address"),
        ({"database_url": "hidden"}, "DATABASE_URL is no address"),
        ({"redis_url": "unix:///run/redis.sock"}, "BROKER_URL is not set"),
        ({"public_base_url": "mail.example.com"}, "PUBLIC_BASE_URL"),
        ({"public_base_url": "https://mail.example.com/?x=1"}, "PUBLIC_BASE_URL"),
        ({"public_base_url": "https://büro.example"}, "PUBLIC_BASE_URL"),
        ({"public_base_url": "https://mail.example>\r\nX: y"}, "PUBLIC_BASE_URL"),
        ({"queues": {"mail_send": "a,b"}}, "QUEUES__MAIL_SEND"),
        ({"queues": {"control": " "}}, "QUEUES__CONTROL"),
        ({"queues": {"mail_send": "control"}}, "QUEUES__MAIL_SEND and QUEUES__CONTROL"),
        ({"dispatch": {"lease_seconds": 1e300}}, "DISPATCH__LEASE_SECONDS"),
        ({"retry": {"max_retries": 10**20}}, "RETRY__MAX_RETRIES"),
        ({"sweeper": {"batch_limit": 10**20}}, "SWEEPER__BATCH_LIMIT"),
        ({"mail": {"ehlo_name": "[IPv6:fe80::1%x\r\nMAIL FROM:<a@b>]"}}, "MAIL__EHLO_NAME"),
        ({"mail": {"ehlo_name": "a" * 64}}, "MAIL__EHLO_NAME"),
        ({"sandbox": {"mode": "test"}}, "SANDBOX__MODE"),
        ({"sandbox": {"mode": "redirect"}}, "SANDBOX__REDIRECT_TO is empty"),
        ({"sandbox": {"mode": "allowlist"}}, "SANDBOX__ALLOW is empty"),
        ({"sandbox": {"redirect_to": ("example.com",)}}, "SANDBOX__REDIRECT_TO is 'example.com'"),
        ({"sandbox": {"redirect_to": ("a@b.example", "c@d.example")}}, "at most one of each"),
        ({"sandbox": {"redirect_to": ("015112345678",)}}, "SANDBOX__REDIRECT_TO"),
        ({"sandbox": {"allow": ("a@b@c",)}}, "SANDBOX__ALLOW has 'a@b@c'"),
        ({"sandbox": {"allow": ("*.example.com",)}}, "SANDBOX__ALLOW"),
        ({"sandbox": {"allow": ("4915112345678",)}}, "SANDBOX__ALLOW"),
        ({"retention": {"bodies_days": 0}}, "RETENTION__BODIES_DAYS"),
        ({"retention": {"hour": 24}}, "RETENTION__HOUR"),
        ({"quota": {"timezone": "Mars/Olympus"}}, "QUOTA__TIMEZONE"),
        ({"quota": {"timezone": "localtime"}}, "QUOTA__TIMEZONE"),
        ({"quota": {"timezone": "right/UTC"}}, "QUOTA__TIMEZONE"),
        ({"secrets_keys": ()}, "SECRETS_KEYS"),
        ({"secrets_keys": ("hidden",)}, "SECRETS_KEYS"),
    ],
)
def test_nonsense_is_refused_by_name_and_secrets_are_not_repeated(given_: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        make(**given_)
    assert named in str(refused.value)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("host_name", "said"),
    [
        ("mail.shop.example", "mail.shop.example"),
        ("desktop-4kj2l1", "[127.0.0.1]"),
        ("localhost.localdomain", "[127.0.0.1]"),
        ("shop_web_1.shop_internal", "[127.0.0.1]"),
        ("büro.example", "[127.0.0.1]"),
        ("mail.shop.example.", "[127.0.0.1]"),
        ("-a.example", "[127.0.0.1]"),
        ("a-.example", "[127.0.0.1]"),
        ("", "[127.0.0.1]"),
    ],
)
def test_ehlo_says_the_hosts_name_where_servers_take_it(host_name: str, said: str) -> None:
    assert default_ehlo_name(host_name) == said
    assert make(mail={"ehlo_name": said}).mail.resolved_ehlo_name == said


@pytest.mark.parametrize("value", ["hidden", '{"debug": 1'])
@pytest.mark.parametrize("name", ["MAIL", "MAIL__TRANSPORT"])
def test_a_variable_that_names_a_whole_area_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"MESSAGING_{name}", value)
    with pytest.raises(ConfigurationError, match="MESSAGING_MAIL is no JSON object") as refused:
        make()
    assert "hidden" not in str(refused.value)


def test_an_address_is_shown_without_its_passwords() -> None:
    settings = make(database_url="postgresql://ada:hidden@db/x?password=hidden&sslpassword=hidden&sslmode=require")
    assert settings.shown_database_url == "postgresql+psycopg://ada:***@db/x?sslmode=require"


def test_what_is_required_is_named_by_its_variable() -> None:  # O59
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    for name in ("DATABASE_URL", "REDIS_URL", "SECRETS_KEYS"):
        assert f"MESSAGING_{name} is not set" in str(refused.value)


def test_the_environment_is_read_by_area_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    for name, value in {
        "DATABASE_URL": REQUIRED["database_url"],
        "REDIS_URL": REQUIRED["redis_url"],
        "SECRETS_KEYS": f" {first} , ,{second}",
        "RETRY__MAX_RETRIES": "3",
        "MAIL__TRANSPORT__MAX_MESSAGES": "7",
    }.items():
        monkeypatch.setenv(f"MESSAGING_{name}", value)
    settings = load_settings()
    assert settings.secrets_keys == (first, second)
    assert (settings.retry.max_retries, settings.retry.base_seconds) == (3, 30)
    assert settings.mail.transport.max_messages == 7
    assert settings.resolved_broker_url == REQUIRED["redis_url"]
    assert "hidden" not in repr(settings)
    assert first not in repr(settings)
    assert os.environ["MESSAGING_RETRY__MAX_RETRIES"] == "3"


def test_what_sandbox_mode_knows_recipients_by_is_taken() -> None:
    redirected = make(sandbox={"mode": "redirect", "redirect_to": "dev@example.net, +15005550006"})
    assert redirected.sandbox.redirect_to == ("dev@example.net", "+15005550006")
    listed = ("example.com", "localhost", "bücher.example", "ann@example.org", "+4915112345678")
    assert make(sandbox={"mode": "allowlist", "allow": listed}).sandbox.allow == listed
