"""Access tokens for mailboxes that log in by XOAUTH2: asked of the application, kept encrypted until they expire.

The application's function is the entry point of the group `messaging.oauth_token`, or given to `use_oauth_token`. How a
token is got (refresh token, client credentials, a service of the company) is its matter.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from typing import TypeAlias, TypeVar

from sqlalchemy import Engine, Text, func, select, type_coerce, update
from sqlalchemy.exc import SQLAlchemyError

from messaging.db.encryption import CredentialUnreadable, decrypt
from messaging.db.engine import autocommitting
from messaging.errors import ConfigurationError, ReceiveError
from messaging.receive.login import Credential, Login, LoginRefused
from messaging.receive.models import MAIL_RECEIVE_SERVER_CONFIG
from messaging.receive.vocabulary import MailboxAuth

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "messaging.oauth_token"

#: A token that expires sooner is used no more: the login itself takes a while, and clocks differ.
MARGIN = timedelta(seconds=60)

#: Called with the mailbox's login (its stored password may be a refresh token or an API key); answers an access token
#: and when it expires, with a zone, None where that is not known: then it is used once. May raise anything.
TokenFunction: TypeAlias = Callable[[Login], tuple[str, datetime | None]]

_Opened = TypeVar("_Opened")

_t = MAIL_RECEIVE_SERVER_CONFIG.c
_given: TokenFunction | None = None


def use_oauth_token(function: TokenFunction | None) -> None:
    """Name the function that gets access tokens in this process, before any entry point; None takes it back.

    A fetch worker is another process: it finds the function by its entry point.
    """
    global _given
    _given = function


def token_function() -> TokenFunction:
    """The application's function. Raises: ConfigurationError, when there is none, or more than one."""
    if _given is not None:
        return _given
    found = entry_points(group=ENTRY_POINT_GROUP)
    if len(found) != 1:
        named = ", ".join(sorted(one.value for one in found)) or "none"
        raise ConfigurationError(f"entry points of the group {ENTRY_POINT_GROUP}: {named}; needed for XOAUTH2: one")
    try:
        function: TokenFunction = next(iter(found)).load()
    except Exception as exc:
        raise ConfigurationError(f"the entry point of {ENTRY_POINT_GROUP} cannot be loaded: {exc}") from exc
    return function


@dataclass(frozen=True, slots=True)
class _Token:
    credential: Credential
    is_cached: bool


class Tokens:
    """The credentials of mailboxes; one per process, any thread."""

    def __init__(self, engine: Engine, *, function: Callable[[], TokenFunction] = token_function) -> None:
        self._engine = autocommitting(engine)
        self._function = function

    def log_in(self, login: Login, attempt: Callable[[Credential], _Opened]) -> _Opened:
        """What `attempt` opens, which connects and logs in with the credential it is given.

        A token that was kept and is refused is replaced by a new one, once: it may have been revoked.

        Raises: what `attempt` raises; ReceiveError where no token is to be had.
        """
        if login.auth != MailboxAuth.XOAUTH2:
            return attempt(Credential(login.password or ""))
        token = self._token(login)
        try:
            return attempt(token.credential)
        except LoginRefused:
            self._forget(login)
            if not token.is_cached:
                raise
            logger.info("a kept token was refused, a new one is asked for", extra={"config_id": login.config_id})
        try:
            return attempt(self._new(login))
        except LoginRefused:
            self._forget(login)
            raise

    def _token(self, login: Login) -> _Token:
        statement = select(
            func.now(), _t.oauth_token_expires_at, type_coerce(_t.oauth_token, Text).label("oauth_token")
        ).where(_t.id == login.config_id)
        with self._engine.connect() as connection:
            row = connection.execute(statement).one_or_none()
        if row is not None and row.oauth_token is not None and row.oauth_token_expires_at is not None:
            now: datetime = row[0]
            if now + MARGIN < row.oauth_token_expires_at:
                try:
                    return _Token(Credential(decrypt(row.oauth_token), is_token=True), is_cached=True)
                except CredentialUnreadable:
                    # Written with a key that is no more: a new one is as good.
                    pass
        return _Token(self._new(login), is_cached=False)

    def _new(self, login: Login) -> Credential:
        """Raises: ReceiveError, without the secrets that the function's own error may hold."""
        try:
            answer: object = self._function()(login)
            token, expires_at = _checked(answer)
        except ConfigurationError as exc:
            raise ReceiveError(f"{login.where}: mailbox {login.config_id}: {exc}") from exc
        except Exception as exc:  # noqa: BLE001 - whatever the application's function may raise
            # Its kind and not its text: an HTTP client's error repeats the request, client secret and all.
            reason = (
                str(exc) if isinstance(exc, _NoToken) else f"the application's function raised {type(exc).__name__}"
            )
            raise ReceiveError(f"{login.where}: no token for mailbox {login.config_id}: {reason}") from None
        self._keep(login, token, expires_at)
        return Credential(token, is_token=True)

    def _keep(self, login: Login, token: str | None, expires_at: datetime | None) -> None:
        # Without an expiry it is not kept: nobody could tell when to ask anew.
        kept = (token, expires_at) if expires_at is not None else (None, None)
        statement = update(MAIL_RECEIVE_SERVER_CONFIG).where(_t.id == login.config_id, _t.username == login.username)
        with self._engine.connect() as connection:
            connection.execute(
                statement.values(oauth_token=kept[0], oauth_token_expires_at=kept[1], updated_at=_t.updated_at)
            )

    def _forget(self, login: Login) -> None:
        try:
            self._keep(login, None, None)
        except SQLAlchemyError as exc:
            # What comes next says what the login said; the token is tried once more at worst.
            logger.warning("a refused token is still kept", extra={"error": type(exc).__name__})


class _NoToken(ValueError):
    """What the application's function answered is of no use. Says nothing of it."""


def _checked(answer: object) -> tuple[str, datetime | None]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise _NoToken("what was answered is no token with its expiry")
    token, expires_at = answer
    # Visible ASCII, as RFC 6750, 2.1 has it: anything else would break the message of the mechanism.
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        raise _NoToken("what was answered as token is none")
    if expires_at is not None and (not isinstance(expires_at, datetime) or expires_at.utcoffset() is None):
        raise _NoToken("what was answered as its expiry is no time with a zone")
    return token, expires_at
