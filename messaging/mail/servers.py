"""Which server a mail uses, settled at its preparation: the named one, the tenant's default, the platform's."""

from collections.abc import Mapping
from typing import Any

from messaging import config_cache, tenancy
from messaging.category import MarkerCode
from messaging.config_cache import Config, ConfigCache
from messaging.db.encryption import CredentialUnreadable, decrypt
from messaging.errors import PreparationError
from messaging.mail.smtp import Security, SmtpServer
from messaging.requests import MessageScope
from messaging.tenancy import PLATFORM_TENANT_ID


def tiers(scope: str, tenant_id: int) -> tuple[int, ...]:
    """Tenants whose defaults are looked at, in order."""
    return tenancy.tiers(PLATFORM_TENANT_ID if scope == MessageScope.PLATFORM else tenant_id)


def resolve_server(record: Mapping[str, Any], configs: ConfigCache, *, preferred_id: int | None = None) -> Config:
    """The server for an unprepared record: the one the request pins, else the template's preferred one, else a default.

    Defaults are the tenant's, else the platform's; for scope PLATFORM the platform's alone. One that is named is used
    disabled, too, and when it does not resolve that is an error, never a fall-through: mail must not leave by a server
    that nobody chose. One pick, never a switch after a failure.

    Raises: PreparationError, `CONFIG_NOT_RESOLVABLE`.
    """
    looked_at = tiers(record["scope"], record["tenant_id"])
    pinned_id = record["server_config_id"]
    if pinned_id is not None:
        return _named(f"mail server {pinned_id}", configs.find(pinned_id), looked_at[0])
    if preferred_id is not None:
        return _named(
            f"mail server {preferred_id}, which the template prefers,", configs.find(preferred_id), looked_at[0]
        )
    for tenant_id in looked_at:
        for config in configs.defaults(tenant_id):
            return config
    raise PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, "no default mail server is configured")


def _named(what: str, config: Config | None, tier: int) -> Config:
    """The configuration if it belongs to this tier. Of another tenant's is said what is said of none."""
    if config is not None and config["tenant_id"] == tier:
        return config
    if config is not None and config["tenant_id"] == PLATFORM_TENANT_ID:
        reason = f"{what} belongs to the platform: a tenant's mail names none of its servers, only defaults to them"
    else:
        reason = f"{what} is none of this tenant and scope"
    raise PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, reason)


def find_visible_by_id(record: Mapping[str, Any], configs: ConfigCache) -> Config:
    """The server a prepared record was given: own or the platform's, disabled or not.

    Raises: PreparationError, `CONFIG_NOT_RESOLVABLE`, when it is gone.
    """
    return config_cache.find_visible_by_id(configs, record["server_config_id"], record["tenant_id"], what="mail server")


def smtp_server(config: Config) -> SmtpServer:
    """A configuration in the transport's terms, its secret decrypted.

    Raises: PreparationError, `CREDENTIAL_UNREADABLE`.
    """
    if config["protocol"] == "SMTPS" or config["ssl_enabled"]:
        security = Security.IMPLICIT_TLS
    else:
        security = Security.STARTTLS if config["starttls_enabled"] else Security.PLAIN
    try:
        password = None if config["password"] is None else decrypt(config["password"])
    except CredentialUnreadable as exc:
        raise PreparationError(
            MarkerCode.CREDENTIAL_UNREADABLE, f"password of mail server {config['id']}: {exc}"
        ) from exc
    return SmtpServer(
        config_id=config["id"],
        revision=_revision(config),
        host=config["host"],
        port=config["port"],
        security=security,
        username=config["username"] or None,
        password=password,
    )


#: What a connection depends on.
_CONNECTION_COLUMNS = ("protocol", "host", "port", "ssl_enabled", "starttls_enabled", "username", "password")


def _revision(config: Config) -> object:
    """The columns themselves, the password as ciphertext: who writes by plain SQL does not touch `updated_at`."""
    return tuple(config[name] for name in ("updated_at", *_CONNECTION_COLUMNS))
