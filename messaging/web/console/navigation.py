"""The pages that the frame leads to, by what they are for, and who sees which."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from messaging.access.roles import Permission
from messaging.web.auth import Identity
from messaging.web.console.audience import sees_platform


@dataclass(frozen=True, slots=True)
class Entry:
    """One page of the frame."""

    #: The first part of its path.
    path: str
    text: str
    #: Who is led there.
    is_for: Callable[[Identity], bool]


def _reader(caller: Identity) -> bool:
    return caller.may(Permission.READ)


def _administrator(caller: Identity) -> bool:
    return caller.may(Permission.ADMINISTER)


#: Groups in their order, with their pages.
GROUPS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    (
        "Sending",
        (
            Entry("", "Dashboard", _reader),
            Entry("mail", "Mail", _reader),
            Entry("sms", "Text messages", _reader),
            Entry("webhooks", "Webhook deliveries", _reader),
            Entry("batches", "Batch jobs", _reader),
            Entry("captured", "Captured", _reader),
        ),
    ),
    (
        "Receiving",
        (
            Entry("received", "Received mail", _reader),
            Entry("watermarks", "Watermarks", _reader),
        ),
    ),
    (
        "Configuration",
        (
            Entry("mail-templates", "Mail templates", _reader),
            Entry("sms-templates", "SMS templates", _reader),
            Entry("send-servers", "Send servers", _reader),
            Entry("receive-servers", "Receive servers", _reader),
            Entry("sms-providers", "SMS providers", _reader),
            Entry("routes", "Routes", _reader),
            Entry("bindings", "Bindings", _reader),
            Entry("webhook-endpoints", "Webhook endpoints", _reader),
            Entry("quotas", "Quotas and usage", _reader),
        ),
    ),
    (
        "Operations",
        (
            Entry("suppressions", "Suppression list", _reader),
            Entry("dead-letters", "Dead letters", sees_platform),
            Entry("audit", "Audit log", _reader),
            Entry("operators", "Operators", _administrator),
            Entry("tokens", "API tokens", _administrator),
        ),
    ),
)


def seen_groups(caller: Identity | None) -> Iterator[tuple[str, list[Entry]]]:
    """The groups and entries that a caller is led to; nobody known is led nowhere."""
    for title, entries in GROUPS:
        seen = [] if caller is None else [entry for entry in entries if entry.is_for(caller)]
        if seen:
            yield title, seen
