"""What a provider tells us by a request: whose it is, whether the provider made it, and what is done with it.

An HTTP endpoint is a few of these calls; `messaging.web` has one, and an application may have its own. Source:
`sms.md` section 8.
"""

import hmac
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Engine, Text, select, type_coerce

from messaging.db.encryption import Encrypted
from messaging.db.session import transaction
from messaging.delivery.announcing import NOBODY, Announcer
from messaging.errors import EntryRejected, PreparationError, ReceiptUnreadable
from messaging.sms.models import SMS_PROVIDER_CONFIG
from messaging.sms.opt_outs import opt_out
from messaging.sms.providers.base import ProviderConfig, SmsProvider
from messaging.sms.receipts import Applied, take_receipts
from messaging.sms.routing import provider_config

logger = logging.getLogger(__name__)

_Told = TypeVar("_Told")

#: What may be a token. One is as long as the column takes, and too long to be guessed.
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")


class CallbackUncheckable(Exception):
    """Whether the provider made a request cannot be said until an operator has seen to a setting or a secret."""


@dataclass(frozen=True, slots=True)
class Callback:
    """One request of a provider to us."""

    #: The address it was made to, as the provider wrote it: base, path and query; None while the base is not known.
    url: str | None
    headers: Mapping[str, str]
    #: As it was written, without its `?`.
    raw_query: str
    query: Mapping[str, str]
    body: bytes

    @property
    def raw(self) -> bytes:
        """What is kept of it: the body, or the query of a request that has none."""
        return self.body or self.raw_query.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Account:
    """Whose request it is."""

    provider: SmsProvider
    config: ProviderConfig


def find_account(engine: Engine, provider: SmsProvider, token: str) -> Account | None:
    """The configuration of this provider with this token, of whatever tenant; a disabled one too.

    None for every other token, and for another provider's; each costs the same one query.

    Raises: CallbackUncheckable, when its secrets cannot be read.
    """
    if not _TOKEN.fullmatch(token):
        return None
    t = SMS_PROVIDER_CONFIG
    columns = [type_coerce(c, Text).label(c.name) if isinstance(c.type, Encrypted) else c for c in t.c]
    with engine.connect() as connection:
        row = connection.execute(select(*columns).where(t.c.receipt_token == token)).one_or_none()
    is_its = row is not None and row.provider_type.strip().upper() == provider.type
    if row is None or not is_its or not hmac.compare_digest(row.receipt_token, token):
        return None
    try:
        return Account(provider, provider_config(dict(row._mapping)))
    except PreparationError as exc:
        raise CallbackUncheckable(str(exc)) from exc


def is_forged(account: Account, callback: Callback) -> bool:
    """Whether it lacks the signature that it must have; False where the provider signs nothing or no key is set.

    Raises: CallbackUncheckable, when the signature may cover the address and that is not known.
    """
    is_signed = account.provider.check_receipt(
        account.config, callback.url or "", callback.headers, callback.body, callback.query
    )
    if is_signed is False and callback.url is None:
        raise CallbackUncheckable("a signature covers the address that was called: set MESSAGING_PUBLIC_BASE_URL")
    return is_signed is False


def take_receipt(engine: Engine, account: Account, callback: Callback, announcer: Announcer = NOBODY) -> Applied:
    """Keep a request to the receipt address as it came, then apply what it says. Commits its own.

    What cannot be read is kept all the same, and waits for nothing.

    Raises: what the driver raises when it cannot be stored: the provider should send it again.
    """
    receipts = _read(account, callback, account.provider.parse_receipts)
    config = account.config
    return take_receipts(
        engine,
        provider_config_id=config.id,
        tenant_id=config.tenant_id,
        raw=callback.raw,
        receipts=receipts,
        announcer=announcer,
    )


def take_inbound(engine: Engine, account: Account, callback: Callback) -> int:
    """Do what the messages of a request to the inbound address ask for; answers how many asked for something.

    One transaction of its own; the same again changes nothing. Their texts are not kept.

    Raises: what the driver raises when it cannot be stored: the provider should send it again.
    """
    asked = 0
    messages = _read(account, callback, account.provider.parse_inbound)
    with transaction(engine) as session:
        for message in messages:
            try:
                asked += opt_out(session, account.config, message.from_number, message.text) is not None
            except EntryRejected:
                # A short code, say, which nothing is sent to.
                logger.warning("opt-out of what is no number", extra={"provider_config_id": account.config.id})
    return asked


def _read(
    account: Account,
    callback: Callback,
    parse: Callable[[Mapping[str, str], bytes, Mapping[str, str]], list[_Told]],
) -> list[_Told]:
    try:
        return parse(callback.headers, callback.body, callback.query)
    except ReceiptUnreadable as exc:
        logger.warning(
            "request of a provider cannot be read",
            extra={"provider_config_id": account.config.id, "reason": str(exc)},
        )
        return []
