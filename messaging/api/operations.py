"""What whoever runs this sets and looks at: suppression lists, a tenant's first rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy.orm import Session

from messaging import provisioning, suppression, suppression_admin, suppression_files
from messaging.api.calls import in_session, known_id, member_if_given, number, number_if_given
from messaging.api.process import environment
from messaging.db.newest import Page
from messaging.errors import shown_value
from messaging.mail import channel as mail_channel
from messaging.mail import unsubscribing
from messaging.mail.unsubscribing import Subscription
from messaging.provisioning import SeedResult
from messaging.receive.charsets import storable
from messaging.requests import SuppressionReason
from messaging.suppression_admin import SuppressionLine
from messaging.suppression_files import SuppressionsImported


def add_suppression(
    address: str,
    *,
    channel: str = mail_channel.NAME,
    reason: SuppressionReason | str = SuppressionReason.MANUAL,
    sender: str = "",
    list_name: str = "",
    note: str | None = None,
    session: Session | None = None,
) -> int:
    """Put an address, or with channel `sms` a number in E.164, on this tenant's suppression list; answers its id.

    It gets nothing by attempts that begin after the commit; with `list_name` no mail of that list, with `sender` no
    text message of that sender. What is on the list already stays as it is.

    Raises:
        EntryRejected: Names field and value; nothing was written.
    """
    environment()
    with in_session(session) as s:
        return suppression_admin.suppress(
            s, address, channel=channel, reason=reason, sender=sender, list_name=list_name, note=note
        )


def lift_suppression(entry_id: int, *, note: str, session: Session | None = None) -> bool:
    """Lift an entry of this tenant's suppression list, saying why; answers False when it was lifted before.

    Raises:
        EntryRejected: The note is blank or too long.
        RecordNotFound: No such entry in this tenant.
    """
    entry_id = known_id(entry_id, what="suppression entry")
    environment()
    with in_session(session) as s:
        return suppression.lift(s, entry_id, note=note)


def list_suppressions(
    *,
    channel: str | None = None,
    address: str | None = None,
    search: str | None = None,
    reason: SuppressionReason | None = None,
    with_lifted: bool = False,
    limit: int = 50,
    before: int | None = None,
    session: Session | None = None,
) -> Page[SuppressionLine]:
    """Entries of this tenant's suppression list, newest first, as a list that knows where the next page begins.

    `address` is an address or number, `search` a part of it. `before` is the `next_before` of the page before.

    Raises:
        EntryRejected: The address is none.
        TypeError: A value of another type.
        ValueError: One that cannot be. In both cases nothing was asked, and the transaction is still usable.
    """
    if channel not in (None, suppression.MAIL, suppression.SMS):
        raise ValueError(f"channel is {shown_value(channel)}; allowed: {suppression.MAIL}, {suppression.SMS}")
    for name, text in (("address", address), ("search", search)):
        if not isinstance(text, str | None):
            raise TypeError(f"{name} is {shown_value(text)}; it is of type str")
    if search is not None and storable(search) != search:
        raise ValueError(f"search is {shown_value(search)}; it has a character that no entry can have")
    checked: dict[str, Any] = {
        "channel": channel,
        "address": address,
        "search": search,
        "reason": member_if_given("reason", reason, SuppressionReason),
        "limit": number("limit", limit),
        "before": number_if_given("before", before),
    }
    environment()
    with in_session(session) as s:
        return suppression_admin.page(s, include_lifted=with_lifted, **checked)


def import_suppressions(
    source: TextIO,
    *,
    name: str = "-",
    channel: str = mail_channel.NAME,
    reason: SuppressionReason | str = SuppressionReason.MANUAL,
    dry_run: bool = False,
    session: Session | None = None,
) -> SuppressionsImported:
    """Put the entries of a CSV file on this tenant's suppression list, all or none.

    Raises:
        FileRejected: Names the bad lines by number; nothing was written.
    """
    environment()
    with in_session(session) as s:
        return suppression_files.import_entries(s, source, name=name, channel=channel, reason=reason, dry_run=dry_run)


def export_suppressions(target: TextIO, *, with_lifted: bool = False, session: Session | None = None) -> int:
    """Write this tenant's suppression list as a CSV file that `import_suppressions` reads; answers how many entries."""
    environment()
    with in_session(session) as s:
        return suppression_files.export_entries(s, target, include_lifted=with_lifted)


def find_subscription(token: str, *, session: Session | None = None) -> Subscription | None:
    """What the token of an unsubscribe link is about; changes nothing. None for a token that we did not sign."""
    environment()
    with in_session(session) as s:
        return unsubscribing.find_subscription(s, token)


def unsubscribe(token: str, *, session: Session | None = None) -> Subscription | None:
    """Leave the mailing list that an unsubscribe link is about (RFC 8058); None for a token that we did not sign.

    Needs no tenant: the token names it. Again, nothing changes.
    """
    environment()
    with in_session(session) as s:
        return unsubscribing.unsubscribe(s, token)


def provision_tenant(
    session: Session | None,
    tenant_id: int,
    folder: Path,
    *,
    rebuild: bool = False,
    environ: Mapping[str, str] | None = None,
) -> list[SeedResult]:
    """Apply a tenant's seeds once; see `messaging.provisioning.provision_tenant`. None: a transaction of its own.

    Raises:
        FileRejected: Names file, key, field and value; nothing was written.
        TenantMismatch: The current tenant is another, or such a tenant cannot be.
    """
    environment()
    with in_session(session) as s:
        return provisioning.provision_tenant(s, tenant_id, folder, rebuild=rebuild, environ=environ)
