"""Mail that goes out because a business transaction said so: accepted in it, delivered by Celery workers, each once.

The public names come from `messaging.api`, `messaging.requests` and `messaging.errors`. They are loaded when first
used, as ticks and tools that import a part of this package need not pay for all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from messaging.api import (
        MailStatus,
        cancel,
        configure,
        mark_bounced,
        mark_read_receipt,
        quota_history,
        quota_usage,
        retry,
        retry_batch,
        send_mail,
        send_mail_batch,
        set_quota_limits,
        status,
    )
    from messaging.delivery.cancel import CancelAnswer, Cancelled
    from messaging.delivery.status import SendStatus
    from messaging.errors import (
        ConfigurationError,
        MessageRejected,
        MessagingError,
        RecordNotFound,
        StateError,
        TenantContextMissing,
        TenantMismatch,
    )
    from messaging.quota import MonthUsage, Usage
    from messaging.requests import BodyMode, MessageScope, Priority, SendMail
    from messaging.tenancy import PLATFORM_TENANT_ID, all_tenants, tenant

_HOME = {
    "messaging.api": (
        *("MailStatus", "cancel", "configure", "mark_bounced", "mark_read_receipt"),
        *("quota_history", "quota_usage", "set_quota_limits"),
        *("retry", "retry_batch", "send_mail", "send_mail_batch", "status"),
    ),
    "messaging.delivery.cancel": ("CancelAnswer", "Cancelled"),
    "messaging.delivery.status": ("SendStatus",),
    "messaging.errors": (
        *("ConfigurationError", "MessageRejected", "MessagingError", "RecordNotFound", "StateError"),
        *("TenantContextMissing", "TenantMismatch"),
    ),
    "messaging.quota": ("MonthUsage", "Usage"),
    "messaging.requests": ("BodyMode", "MessageScope", "Priority", "SendMail"),
    "messaging.tenancy": ("PLATFORM_TENANT_ID", "all_tenants", "tenant"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "PLATFORM_TENANT_ID",
    "BodyMode",
    "CancelAnswer",
    "Cancelled",
    "ConfigurationError",
    "MailStatus",
    "MessageRejected",
    "MessageScope",
    "MessagingError",
    "MonthUsage",
    "Priority",
    "RecordNotFound",
    "SendMail",
    "SendStatus",
    "StateError",
    "TenantContextMissing",
    "TenantMismatch",
    "Usage",
    "all_tenants",
    "cancel",
    "configure",
    "mark_bounced",
    "mark_read_receipt",
    "quota_history",
    "quota_usage",
    "retry",
    "retry_batch",
    "send_mail",
    "send_mail_batch",
    "set_quota_limits",
    "status",
    "tenant",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'messaging' has no attribute {name!r}")
    return getattr(import_module(module), name)
