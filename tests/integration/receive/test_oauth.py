"""Access tokens: asked for when none is kept, kept encrypted until shortly before they expire, replaced once."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select, text

from messaging.errors import ConfigurationError, ReceiveError
from messaging.receive import oauth
from messaging.receive.login import Credential, Login, LoginRefused
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG
from messaging.receive.oauth import Tokens, token_function, use_oauth_token


class Application:
    """Gives out tokens as they are lined up."""

    def __init__(self) -> None:
        self.asked: list[Login] = []
        self.answers: list[Any] = []

    def __call__(self, login: Login) -> Any:
        self.asked.append(login)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Server:
    """Takes the tokens it is told of."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)
        self.seen: list[str] = []

    def __call__(self, credential: Credential) -> str:
        assert credential.is_token
        self.seen.append(credential.secret)
        if credential.secret not in self.good:
            raise LoginRefused("127.0.0.1:993: no")
        return "session"


def soon(minutes: float = 60) -> datetime:
    return datetime.now(timezone(timedelta(hours=8))) + timedelta(minutes=minutes)


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def tokens(engine: Engine, application: Application) -> Tokens:
    return Tokens(engine, function=lambda: application)


@pytest.fixture
def login(engine: Engine) -> Login:
    row = {"name": "in", "protocol": "IMAPS", "host": "h", "port": 993, "username": "ann", "auth": "XOAUTH2"}
    statement = insert(MAIL_RECEIVE_SERVER_CONFIG).values(row).returning(MAIL_RECEIVE_SERVER_CONFIG.c.id)
    with engine.begin() as connection:
        config_id = connection.execute(statement).scalar_one()
    return Login(config_id, 0, "IMAPS", "h", 993, True, "ann", "XOAUTH2", password="refresh-token")


@pytest.fixture
def kept(engine: Engine, login: Login) -> Callable[[], str | None]:
    """The token on the mailbox's row."""

    def kept() -> str | None:
        t = MAIL_RECEIVE_SERVER_CONFIG.c
        with engine.connect() as connection:
            token: str | None = connection.execute(select(t.oauth_token).where(t.id == login.config_id)).scalar_one()
            return token

    return kept


def write(engine: Engine, assignments: str, **values: Any) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE mail_receive_server_config SET {assignments}"), values)


def test_a_token_is_asked_for_once_and_kept_encrypted(
    tokens: Tokens, application: Application, login: Login, engine: Engine, kept: Callable[[], str | None]
) -> None:
    application.answers = [("t0ken", soon())]
    server = Server("t0ken")
    for _ in range(3):
        assert tokens.log_in(login, server) == "session"
    assert application.asked == [login]
    assert application.asked[0].password == "refresh-token"
    assert server.seen == ["t0ken"] * 3
    assert kept() == "t0ken"
    with engine.connect() as connection:
        row = connection.execute(text("SELECT * FROM mail_receive_server_config")).one()
    assert "t0ken" not in repr(row)
    assert row.oauth_token_expires_at > datetime.now(UTC) + timedelta(minutes=50)


def test_shortly_before_it_expires_a_new_one_is_asked_for(
    tokens: Tokens, application: Application, login: Login, engine: Engine
) -> None:
    application.answers = [("first", soon()), ("second", soon())]
    server = Server("first", "second")
    tokens.log_in(login, server)
    write(engine, "oauth_token_expires_at = now() + interval '90 seconds'")
    tokens.log_in(login, server)
    write(engine, "oauth_token_expires_at = now() + interval '30 seconds'")
    tokens.log_in(login, server)
    assert server.seen == ["first", "first", "second"]


def test_without_an_expiry_a_token_is_used_once(
    tokens: Tokens, application: Application, login: Login, kept: Callable[[], str | None]
) -> None:
    application.answers = [("first", None), ("second", None)]
    server = Server("first", "second")
    tokens.log_in(login, server)
    assert kept() is None
    tokens.log_in(login, server)
    assert server.seen == ["first", "second"]


def test_a_kept_token_that_is_refused_is_replaced_once(
    tokens: Tokens, application: Application, login: Login, kept: Callable[[], str | None]
) -> None:
    application.answers = [("first", soon()), ("second", soon())]
    server = Server("first")
    tokens.log_in(login, server)
    server.good = {"second"}
    assert tokens.log_in(login, server) == "session"
    assert server.seen == ["first", "first", "second"]
    assert kept() == "second"


def test_a_new_token_that_is_refused_is_an_error_and_not_kept(
    tokens: Tokens, application: Application, login: Login, kept: Callable[[], str | None]
) -> None:
    application.answers = [("bad", soon())]
    server = Server()
    with pytest.raises(LoginRefused):
        tokens.log_in(login, server)
    assert (server.seen, kept(), len(application.asked)) == (["bad"], None, 1)


def test_a_kept_token_and_a_new_one_that_are_refused_are_an_error(
    tokens: Tokens, application: Application, login: Login, kept: Callable[[], str | None]
) -> None:
    application.answers = [("first", soon()), ("second", soon())]
    server = Server("first")
    tokens.log_in(login, server)
    server.good = set()
    with pytest.raises(LoginRefused):
        tokens.log_in(login, server)
    assert (server.seen, kept()) == (["first", "first", "second"], None)


def test_a_kept_token_that_nobody_can_decrypt_is_replaced(
    tokens: Tokens, application: Application, login: Login, engine: Engine, kept: Callable[[], str | None]
) -> None:
    write(engine, "oauth_token = 'no ciphertext', oauth_token_expires_at = now() + interval '1 hour'")
    application.answers = [("t0ken", soon())]
    tokens.log_in(login, Server("t0ken"))
    assert kept() == "t0ken"


def test_a_login_that_was_changed_meanwhile_gets_no_token_of_the_other(
    tokens: Tokens, application: Application, login: Login, engine: Engine, kept: Callable[[], str | None]
) -> None:
    write(engine, "username = 'ben'")
    application.answers = [("t0ken", soon())]
    tokens.log_in(login, Server("t0ken"))
    assert kept() is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (RuntimeError("client_secret=s3cret token=t0ken"), "the application's function raised RuntimeError"),
        (("t0ken\x01auth=", None), "token is none"),
        (("", None), "token is none"),
        ((b"t0ken", None), "token is none"),
        ("t0ken", "no token with its expiry"),
        (None, "no token with its expiry"),
        (("t0ken", datetime(2030, 1, 1)), "no time with a zone"),  # noqa: DTZ001
        (("t0ken", 3600), "no time with a zone"),
    ],
)
def test_what_is_no_token_is_told_without_any_secret(
    tokens: Tokens, application: Application, login: Login, answer: Any, said: str
) -> None:
    application.answers = [answer]
    server = Server("t0ken")
    with pytest.raises(ReceiveError, match=said) as caught:
        tokens.log_in(login, server)
    assert server.seen == []
    for secret in ("s3cret", "t0ken", "refresh-token"):
        assert secret not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert f"no token for mailbox {login.config_id}" in str(caught.value)


def test_a_password_needs_no_application(engine: Engine, login: Login) -> None:
    by_password = Login(login.config_id, 0, "IMAPS", "h", 993, True, "ann", "PASSWORD", password="pw")
    seen = []
    Tokens(engine).log_in(by_password, seen.append)
    assert seen == [Credential("pw")]
    assert "pw" not in repr(seen) + repr(by_password)


# -- the application's function


@pytest.fixture
def given() -> Iterator[Callable[[Login], tuple[str, None]]]:
    def function(login: Login) -> tuple[str, None]:
        return "t0ken", None

    use_oauth_token(function)
    yield function
    use_oauth_token(None)


def test_a_function_that_is_given_goes_before_entry_points(given: Callable[[Login], tuple[str, None]]) -> None:
    assert token_function() is given


def from_entry_point(login: Login) -> tuple[str, datetime | None]:
    """What an entry point of an installed application names."""
    return "t0ken", soon()


def install(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    found = [EntryPoint(f"e{n}", value, oauth.ENTRY_POINT_GROUP) for n, value in enumerate(values)]
    monkeypatch.setattr(oauth, "entry_points", lambda group: found if group == "messaging.oauth_token" else [])


def test_an_installed_entry_point_is_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, f"{__name__}:from_entry_point")
    assert token_function()(None) == ("t0ken", pytest.approx(soon(), abs=timedelta(minutes=1)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), "none; needed for XOAUTH2: one"),
        (("a:b", "c:d"), "a:b, c:d; needed"),
        (("messaging.nowhere:f",), "cannot be loaded"),
    ],
)
def test_none_and_two_and_a_broken_one_are_told(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, login: Login, values: tuple[str, ...], said: str
) -> None:
    install(monkeypatch, *values)
    with pytest.raises(ConfigurationError, match=said):
        token_function()
    with pytest.raises(ReceiveError, match=f"h:993: mailbox {login.config_id}: .*{said}"):
        Tokens(engine).log_in(login, Server())
