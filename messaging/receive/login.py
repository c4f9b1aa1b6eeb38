"""How a mailbox is reached and logged in to: what its configuration says, its secrets decrypted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from messaging.db.encryption import CredentialUnreadable, decrypt
from messaging.errors import ReceiveError
from messaging.receive.mailbox_checks import is_tls


class LoginRefused(ReceiveError):
    """The server does not take the login."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What proves who logs in."""

    secret: str = field(repr=False)
    #: An access token of OAuth 2 (RFC 6750) instead of a password.
    is_token: bool = False

    def xoauth2(self, username: str) -> bytes:
        """The client's message of the SASL mechanism XOAUTH2, not yet in base64."""
        return f"user={username}\x01auth=Bearer {self.secret}\x01\x01".encode()


@dataclass(frozen=True, slots=True)
class Login:
    """Where a mailbox is, and who logs in to it."""

    config_id: int
    tenant_id: int
    #: A `messaging.receive.vocabulary.Protocol`.
    protocol: str
    host: str
    port: int
    is_tls: bool
    username: str
    #: A `messaging.receive.vocabulary.MailboxAuth`.
    auth: str
    #: For XOAUTH2 what the tokens' function may need, such as a refresh token.
    password: str | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """Host and port, for people."""
        return f"{self.host}:{self.port}"


def login_of(config: Mapping[str, Any]) -> Login:
    """The login of a mailbox; `config` are its columns, the password still encrypted.

    Raises: ReceiveError, where the password cannot be decrypted.
    """
    try:
        password = None if config["password"] is None else decrypt(config["password"])
    except CredentialUnreadable as exc:
        raise ReceiveError(f"{config['host']}:{config['port']}: the password of mailbox {config['id']}: {exc}") from exc
    return Login(
        config_id=config["id"],
        tenant_id=config["tenant_id"],
        protocol=config["protocol"],
        host=config["host"],
        port=config["port"],
        is_tls=is_tls(config["protocol"], ssl_enabled=config["ssl_enabled"]),
        username=config["username"] or "",
        auth=config["auth"],
        password=password,
    )
