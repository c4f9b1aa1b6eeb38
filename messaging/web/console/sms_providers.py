"""Providers of text messages: their keys, their windows, where their receipts come to, whether they answer."""

from messaging import api
from messaging.sms.provider_admin import PROVIDERS
from messaging.sms.providers import registry
from messaging.web.api.sms_providers import SmsProviderChanged, SmsProviderGiven
from messaging.web.console.config import ACTIVE, ConfigPages, default_mark, named
from messaging.web.console.connecting import Tested, add_test
from messaging.web.console.pages import Pages
from messaging.web.console.tables import Column
from messaging.web.console.windows import WindowColumns

routes = Pages()

_PATH = "/sms-providers"
_windows = WindowColumns("sms")

pages = ConfigPages(
    routes=routes,
    path=_PATH,
    title="SMS providers",
    one="SMS provider",
    kind=PROVIDERS,
    given=SmsProviderGiven,
    changed=SmsProviderChanged,
    columns=(
        named(_PATH),
        Column("Type", lambda row: row.provider_type, "c-error"),
        Column("Sender", lambda row: row.sender_number or row.sender_id, "c-what"),
        Column("Priority", lambda row: row.priority, "c-short", is_number=True),
        Column("Today", _windows.today, "c-used"),
        Column("This minute", _windows.minute, "c-used"),
        default_mark(),
        ACTIVE,
    ),
    list_rows=api.list_sms_providers,
    get=api.get_sms_provider,
    add=api.add_sms_provider,
    change=api.change_sms_provider,
    delete=api.delete_sms_provider,
    copy=api.copy_sms_provider,
    after_delete="Its routes go with it, and what still has to go out by it fails. Disable it instead to let that go.",
    labels={
        "provider_type": "Type",
        "api_key": "API key",
        "api_secret": "API secret",
        "api_endpoint": "API endpoint",
        "account_id": "Account id",
        "ext_config": "Further settings",
        "sender_id": "Sender id",
        "daily_send_limit": "Messages a day at most",
        "rate_limit_per_minute": "Messages a minute at most",
        "is_default": "Serves countries without a route",
        "active": "Active",
    },
    hints={
        "api_endpoint": "Empty: the provider's own.",
        "ext_config": "A JSON object; replaced as a whole, and not shown again.",
        "priority": "Lower first.",
        "daily_send_limit": "Empty or 0: no limit.",
        "rate_limit_per_minute": "Empty or 0: no limit.",
    },
    options=lambda _session: {"provider_type": [(one, one.capitalize()) for one in registry.types()]},
    begins_with={"active": "yes", "priority": "100"},
    further=(("Test…", "test", True),),
    facts=lambda _request, _session, row: [
        *_windows.facts(row),
        ("Receipts come to", row.receipt_url or f"{row.receipt_path} (set PUBLIC_BASE_URL for the whole address)"),
        *([("Replies come to", row.inbound_url)] if row.inbound_url else []),
        *([("Further settings", f"set: {', '.join(row.ext_keys)}")] if row.ext_keys else []),
    ],
    prepare=_windows.read,
)


def _test(config_id: int) -> Tested:
    found = api.try_sms_provider(config_id)
    further = "" if found.was_called else "It was not called: there is nothing to read there."
    return Tested(found.success, found.latency_ms if found.was_called else None, None, found.error_message, further)


add_test(pages, "Asks the provider for something that costs nothing, where it has that; sends nothing.", _test)
pages.register()
