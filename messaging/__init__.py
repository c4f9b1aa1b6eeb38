"""Mail that goes out because a business transaction said so: accepted in it, delivered by Celery workers, each once.

The public names come from `messaging.api`, `messaging.requests` and `messaging.errors`. They are loaded when first
used, as ticks and tools that import a part of this package need not pay for all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from messaging.api import (
        MailStatus,
        SmsStatus,
        add_mail_server,
        cancel,
        change_mail_server,
        configure,
        export_mail_templates,
        import_mail_templates,
        list_mail_servers,
        list_mail_templates,
        list_template_variables,
        mark_bounced,
        mark_read_receipt,
        preview_mail_template,
        provision_tenant,
        quota_history,
        quota_usage,
        retry,
        retry_batch,
        send_mail,
        send_mail_batch,
        send_sms,
        send_sms_batch,
        set_default_mail_server,
        set_mail_server_active,
        set_quota_limits,
        status,
        test_connectivity,
    )
    from messaging.delivery.cancel import CancelAnswer, Cancelled
    from messaging.delivery.status import SendStatus
    from messaging.errors import (
        ConfigRejected,
        ConfigurationError,
        FileRejected,
        IdempotencyKeyBusy,
        MessageRejected,
        MessagingError,
        PreparationError,
        RecordNotFound,
        StateError,
        TemplateRejected,
        TenantContextMissing,
        TenantMismatch,
    )
    from messaging.mail.connectivity import Connectivity
    from messaging.mail.server_admin import ServerLine
    from messaging.mail.template_files import TemplateChange
    from messaging.mail.template_tools import TemplateLine, TemplatePreview, switch_body_mode
    from messaging.provisioning import SeedResult
    from messaging.quota import MonthUsage, Usage
    from messaging.requests import Attachment, BodyMode, FileRef, MessageScope, Priority, SendMail, SendSms
    from messaging.templates.errors import RenderError
    from messaging.templates.variables import TemplateVariable, VariableKind
    from messaging.tenancy import PLATFORM_TENANT_ID, all_tenants, tenant

_HOME = {
    "messaging.api": (
        *("MailStatus", "SmsStatus", "cancel", "configure", "mark_bounced", "mark_read_receipt"),
        *("quota_history", "quota_usage", "set_quota_limits"),
        *("retry", "retry_batch", "send_mail", "send_mail_batch", "send_sms", "send_sms_batch", "status"),
        *("add_mail_server", "change_mail_server", "list_mail_servers", "set_default_mail_server"),
        *("set_mail_server_active", "test_connectivity"),
        *("export_mail_templates", "import_mail_templates", "list_mail_templates", "list_template_variables"),
        *("preview_mail_template", "provision_tenant"),
    ),
    "messaging.delivery.cancel": ("CancelAnswer", "Cancelled"),
    "messaging.delivery.status": ("SendStatus",),
    "messaging.errors": (
        *("FileRejected", "IdempotencyKeyBusy", "PreparationError", "TemplateRejected"),
        *("ConfigRejected", "ConfigurationError", "MessageRejected", "MessagingError", "RecordNotFound", "StateError"),
        *("TenantContextMissing", "TenantMismatch"),
    ),
    "messaging.mail.connectivity": ("Connectivity",),
    "messaging.mail.server_admin": ("ServerLine",),
    "messaging.quota": ("MonthUsage", "Usage"),
    "messaging.requests": ("Attachment", "BodyMode", "FileRef", "MessageScope", "Priority", "SendMail", "SendSms"),
    "messaging.mail.template_files": ("TemplateChange",),
    "messaging.mail.template_tools": ("TemplateLine", "TemplatePreview", "switch_body_mode"),
    "messaging.provisioning": ("SeedResult",),
    "messaging.templates.errors": ("RenderError",),
    "messaging.templates.variables": ("TemplateVariable", "VariableKind"),
    "messaging.tenancy": ("PLATFORM_TENANT_ID", "all_tenants", "tenant"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "PLATFORM_TENANT_ID",
    "Attachment",
    "BodyMode",
    "CancelAnswer",
    "Cancelled",
    "ConfigRejected",
    "ConfigurationError",
    "Connectivity",
    "FileRef",
    "FileRejected",
    "IdempotencyKeyBusy",
    "MailStatus",
    "MessageRejected",
    "MessageScope",
    "MessagingError",
    "MonthUsage",
    "PreparationError",
    "Priority",
    "RecordNotFound",
    "RenderError",
    "SeedResult",
    "SendMail",
    "SendSms",
    "SendStatus",
    "ServerLine",
    "SmsStatus",
    "StateError",
    "TemplateChange",
    "TemplateLine",
    "TemplatePreview",
    "TemplateRejected",
    "TemplateVariable",
    "TenantContextMissing",
    "TenantMismatch",
    "Usage",
    "VariableKind",
    "add_mail_server",
    "all_tenants",
    "cancel",
    "change_mail_server",
    "configure",
    "export_mail_templates",
    "import_mail_templates",
    "list_mail_servers",
    "list_mail_templates",
    "list_template_variables",
    "mark_bounced",
    "mark_read_receipt",
    "preview_mail_template",
    "provision_tenant",
    "quota_history",
    "quota_usage",
    "retry",
    "retry_batch",
    "send_mail",
    "send_mail_batch",
    "send_sms",
    "send_sms_batch",
    "set_default_mail_server",
    "set_mail_server_active",
    "set_quota_limits",
    "status",
    "switch_body_mode",
    "tenant",
    "test_connectivity",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'messaging' has no attribute {name!r}")
    return getattr(import_module(module), name)
