"""Whether a server's configuration signs what it sends, and with what. How it is done: `messaging.mail.dkim`."""

from datetime import datetime

from messaging.category import MARKER_CATEGORY, MarkerCode
from messaging.config_cache import Config
from messaging.db.encryption import CredentialUnreadable, decrypt
from messaging.errors import DeliveryError, PreparationError
from messaging.mail.message import Message, SourceFailed


def is_signing(config: Config) -> bool:
    """Whether all that a DKIM signature needs is there."""
    return bool(config["dkim_domain"] and config["dkim_selector"] and config["dkim_private_key"])


def signed(message: Message, config: Config, *, signed_at: datetime) -> Message:
    """The message with its signature before it; the same octets for each attempt.

    Raises: PreparationError, `CREDENTIAL_UNREADABLE` or `CONFIG_NOT_RESOLVABLE`; DeliveryError, where an attachment
        cannot be read.
    """
    # Only those who sign pay for its import.
    from messaging.mail import dkim

    try:
        key = decrypt(config["dkim_private_key"])
    except CredentialUnreadable as exc:
        raise PreparationError(
            MarkerCode.CREDENTIAL_UNREADABLE, f"dkim_private_key of mail server {config['id']}: {exc}"
        ) from exc
    try:
        field = dkim.sign(
            message,
            domain=config["dkim_domain"],
            selector=config["dkim_selector"],
            private_key_pem=key,
            signed_at=signed_at,
        )
    except dkim.DkimConfigError as exc:
        raise PreparationError(MarkerCode.CONFIG_NOT_RESOLVABLE, f"mail server {config['id']}: {exc}") from exc
    except SourceFailed as exc:
        marker = MarkerCode.ATTACHMENT_UNAVAILABLE
        raise DeliveryError(MARKER_CATEGORY[marker], marker, f"sign: {exc}") from exc
    return message.after(field)
