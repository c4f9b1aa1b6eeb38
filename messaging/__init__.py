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
        add_sms_binding,
        add_sms_provider,
        add_sms_route,
        add_suppression,
        cancel,
        change_mail_server,
        change_sms_provider,
        check_sms_provider,
        configure,
        export_mail_templates,
        export_suppressions,
        find_subscription,
        import_mail_templates,
        import_suppressions,
        lift_suppression,
        list_mail_servers,
        list_mail_templates,
        list_sms_bindings,
        list_sms_providers,
        list_sms_routes,
        list_suppressions,
        list_template_variables,
        mark_bounced,
        mark_read_receipt,
        preview_mail_template,
        provision_tenant,
        quota_history,
        quota_usage,
        remove_sms_binding,
        remove_sms_route,
        retry,
        retry_batch,
        send_mail,
        send_mail_batch,
        send_sms,
        send_sms_batch,
        set_default_mail_server,
        set_mail_server_active,
        set_quota_limits,
        set_sms_binding_active,
        set_sms_provider_active,
        set_sms_route_active,
        status,
        test_connectivity,
        unsubscribe,
        which_provider,
    )
    from messaging.delivery.cancel import CancelAnswer, Cancelled
    from messaging.delivery.status import SendStatus
    from messaging.errors import (
        ConfigRejected,
        ConfigurationError,
        EntryRejected,
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
    from messaging.mail.unsubscribing import Subscription
    from messaging.provisioning import SeedResult
    from messaging.quota import MonthUsage, Usage
    from messaging.requests import (
        Attachment,
        BodyMode,
        FileRef,
        MessageScope,
        Priority,
        SendMail,
        SendSms,
        SuppressionReason,
    )
    from messaging.sms.explaining import RouteExplanation
    from messaging.sms.provider_admin import ProviderCheck, ProviderLine
    from messaging.sms.route_admin import BindingLine, RouteLine
    from messaging.suppression_admin import SuppressionLine
    from messaging.suppression_files import SuppressionsImported
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
        *("add_suppression", "export_suppressions", "import_suppressions", "lift_suppression", "list_suppressions"),
        *("find_subscription", "unsubscribe"),
        *("add_sms_provider", "change_sms_provider", "check_sms_provider", "list_sms_providers"),
        *("set_sms_provider_active", "which_provider"),
        *("add_sms_route", "list_sms_routes", "remove_sms_route", "set_sms_route_active"),
        *("add_sms_binding", "list_sms_bindings", "remove_sms_binding", "set_sms_binding_active"),
    ),
    "messaging.delivery.cancel": ("CancelAnswer", "Cancelled"),
    "messaging.delivery.status": ("SendStatus",),
    "messaging.errors": (
        *("EntryRejected", "FileRejected", "IdempotencyKeyBusy", "PreparationError", "TemplateRejected"),
        *("ConfigRejected", "ConfigurationError", "MessageRejected", "MessagingError", "RecordNotFound", "StateError"),
        *("TenantContextMissing", "TenantMismatch"),
    ),
    "messaging.mail.connectivity": ("Connectivity",),
    "messaging.mail.server_admin": ("ServerLine",),
    "messaging.quota": ("MonthUsage", "Usage"),
    "messaging.requests": (
        *("Attachment", "BodyMode", "FileRef", "MessageScope", "Priority", "SendMail", "SendSms"),
        *("SuppressionReason",),
    ),
    "messaging.mail.template_files": ("TemplateChange",),
    "messaging.mail.template_tools": ("TemplateLine", "TemplatePreview", "switch_body_mode"),
    "messaging.mail.unsubscribing": ("Subscription",),
    "messaging.provisioning": ("SeedResult",),
    "messaging.suppression_admin": ("SuppressionLine",),
    "messaging.suppression_files": ("SuppressionsImported",),
    "messaging.sms.explaining": ("RouteExplanation",),
    "messaging.sms.provider_admin": ("ProviderCheck", "ProviderLine"),
    "messaging.sms.route_admin": ("BindingLine", "RouteLine"),
    "messaging.templates.errors": ("RenderError",),
    "messaging.templates.variables": ("TemplateVariable", "VariableKind"),
    "messaging.tenancy": ("PLATFORM_TENANT_ID", "all_tenants", "tenant"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "PLATFORM_TENANT_ID",
    "Attachment",
    "BindingLine",
    "BodyMode",
    "CancelAnswer",
    "Cancelled",
    "ConfigRejected",
    "ConfigurationError",
    "Connectivity",
    "EntryRejected",
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
    "ProviderCheck",
    "ProviderLine",
    "RecordNotFound",
    "RenderError",
    "RouteExplanation",
    "RouteLine",
    "SeedResult",
    "SendMail",
    "SendSms",
    "SendStatus",
    "ServerLine",
    "SmsStatus",
    "StateError",
    "Subscription",
    "SuppressionLine",
    "SuppressionReason",
    "SuppressionsImported",
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
    "add_sms_binding",
    "add_sms_provider",
    "add_sms_route",
    "add_suppression",
    "all_tenants",
    "cancel",
    "change_mail_server",
    "change_sms_provider",
    "check_sms_provider",
    "configure",
    "export_mail_templates",
    "export_suppressions",
    "find_subscription",
    "import_mail_templates",
    "import_suppressions",
    "lift_suppression",
    "list_mail_servers",
    "list_mail_templates",
    "list_sms_bindings",
    "list_sms_providers",
    "list_sms_routes",
    "list_suppressions",
    "list_template_variables",
    "mark_bounced",
    "mark_read_receipt",
    "preview_mail_template",
    "provision_tenant",
    "quota_history",
    "quota_usage",
    "remove_sms_binding",
    "remove_sms_route",
    "retry",
    "retry_batch",
    "send_mail",
    "send_mail_batch",
    "send_sms",
    "send_sms_batch",
    "set_default_mail_server",
    "set_mail_server_active",
    "set_quota_limits",
    "set_sms_binding_active",
    "set_sms_provider_active",
    "set_sms_route_active",
    "status",
    "switch_body_mode",
    "tenant",
    "test_connectivity",
    "unsubscribe",
    "which_provider",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'messaging' has no attribute {name!r}")
    return getattr(import_module(module), name)
