"""Every resource of the API, in the order in which paths are looked for: what is called most comes first."""

from messaging.web.api import (
    audit,
    dead_letters,
    inbox,
    mail_messages,
    mail_servers,
    mail_templates,
    mailboxes,
    me,
    operators,
    quotas,
    received,
    session,
    sms_bindings,
    sms_messages,
    sms_providers,
    sms_routes,
    sms_templates,
    suppressions,
    tokens,
    webhooks,
)
from messaging.web.api.resource import Resource

#: A new resource is one line above and one here.
RESOURCES: tuple[Resource, ...] = (
    mail_messages.routes,
    sms_messages.routes,
    inbox.routes,
    me.routes,
    mail_templates.routes,
    sms_templates.routes,
    mail_servers.routes,
    mailboxes.routes,
    sms_providers.routes,
    sms_routes.routes,
    sms_bindings.routes,
    received.routes,
    suppressions.routes,
    quotas.routes,
    tokens.routes,
    session.routes,
    operators.routes,
    dead_letters.routes,
    audit.routes,
    webhooks.routes,
)
