"""The servers that mail goes out by: how much of their windows is used, whether they answer."""

from messaging import api
from messaging.mail.server_admin import SERVERS
from messaging.web.api.mail_servers import MailServerChanged, MailServerGiven
from messaging.web.console.config import ACTIVE, ConfigPages, default_mark, named
from messaging.web.console.connecting import Tested, add_test
from messaging.web.console.pages import Pages
from messaging.web.console.tables import Cell, Column
from messaging.web.console.windows import WindowColumns

routes = Pages()

_PATH = "/send-servers"
_windows = WindowColumns("mail")

LABELS = {
    "ssl_enabled": "TLS from the first byte",
    "starttls_enabled": "STARTTLS, required",
    "username": "User name",
    "from_address": "From address",
    "from_name": "From name",
    "reply_to_address": "Reply-To address",
    "envelope_sender": "Envelope sender",
    "verp": "VERP: an envelope sender of its own for each recipient",
    "daily_send_limit": "Mails a day at most",
    "rate_limit_per_minute": "Mails a minute at most",
    "dkim_domain": "DKIM domain",
    "dkim_selector": "DKIM selector",
    "dkim_private_key": "DKIM private key",
    "read_receipt_enabled": "Asks for read receipts",
    "is_default": "Default",
    "active": "Active",
}
_HINTS = {
    "from_address": "Empty: the user name.",
    "envelope_sender": "Empty: the From address. Bounces come there.",
    "daily_send_limit": "Empty or 0: no limit.",
    "rate_limit_per_minute": "Empty or 0: no limit.",
    "dkim_private_key": "PEM, RSA or Ed25519.",
    "sequence": "Of several defaults the lowest is chosen.",
}

pages = ConfigPages(
    routes=routes,
    path=_PATH,
    title="Send servers",
    one="server",
    kind=SERVERS,
    given=MailServerGiven,
    changed=MailServerChanged,
    columns=(
        named(_PATH),
        Column(
            "Host", lambda row: Cell(f"{row.host}:{row.port}", title=f"{row.protocol} {row.host}:{row.port}"), "c-wide"
        ),
        Column("From", lambda row: row.from_address or row.username, "c-what"),
        Column("Today", _windows.today, "c-used"),
        Column("This minute", _windows.minute, "c-used"),
        default_mark(),
        ACTIVE,
    ),
    list_rows=api.list_mail_servers,
    get=api.get_mail_server,
    add=api.add_mail_server,
    change=api.change_mail_server,
    delete=api.delete_mail_server,
    copy=api.copy_mail_server,
    choose_default=api.set_default_mail_server,
    after_delete="What still has to go out by it fails. Disable it instead to let that go out.",
    labels=LABELS,
    hints=_HINTS,
    begins_with={"protocol": "SMTP", "port": "587", "starttls_enabled": "yes", "active": "yes", "sequence": "100"},
    further=(("Test connection…", "test", True),),
    facts=lambda _request, _session, row: _windows.facts(row),
    prepare=_windows.read,
)


def _test(server_id: int) -> Tested:
    found = api.test_connectivity(server_id)
    return Tested(found.success, found.latency_ms, found.server_greeting, found.error_message)


add_test(pages, "Connects, protects, authenticates and says goodbye; sends nothing.", _test)
pages.register()
