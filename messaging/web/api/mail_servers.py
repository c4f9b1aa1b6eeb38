"""`/mail/send-servers`, `/mail/senders`: the servers that mail goes out by. Secrets go in and never come out."""

from typing import Literal

from messaging import api
from messaging.web.api.config_routes import ConfigRoutes
from messaging.web.api.configurations import (
    ADMINISTER,
    READ,
    SEND,
    ConfigQuery,
    Description,
    Items,
    Line255,
    Name,
    Port,
    Rank,
    RateLimit,
    Secret,
    Switch,
    WindowsShown,
    left_out,
    windows_shown,
)
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Time
from messaging.web.api.talking import talks

routes = Resource("mail servers")


class MailServerShown(Shown):
    """A server without its secrets."""

    id: Id
    name: str
    description: str | None
    protocol: Literal["SMTP", "SMTPS"]
    host: str
    port: int
    #: TLS from the first byte.
    ssl_enabled: bool
    #: STARTTLS, which is then required.
    starttls_enabled: bool
    username: str | None
    has_password: bool
    #: Null: the username.
    from_address: str | None
    from_name: str | None
    reply_to_address: str | None
    #: Null: the From address.
    envelope_sender: str | None
    verp: bool
    #: Mails a day and a minute; null or 0 is no limit.
    daily_send_limit: int | None
    rate_limit_per_minute: int | None
    dkim_domain: str | None
    dkim_selector: str | None
    signs_dkim: bool
    read_receipt_enabled: bool
    is_default: bool
    active: bool
    #: Of several defaults the lowest.
    sequence: int
    created_at: Time
    updated_at: Time
    updated_by: str | None


class MailServerChanged(Given):
    """What changes; what is left out stays, null takes a value away."""

    name: Name = left_out()
    description: Description | None = left_out()
    protocol: Literal["SMTP", "SMTPS"] = left_out()
    host: Line255 = left_out()
    port: Port = left_out()
    ssl_enabled: Switch = left_out()
    starttls_enabled: Switch = left_out()
    username: Line255 | None = left_out()
    password: Secret | None = left_out()
    from_address: Line255 | None = left_out()
    from_name: Name | None = left_out()
    reply_to_address: Line255 | None = left_out()
    envelope_sender: Line255 | None = left_out()
    verp: Switch = left_out()
    daily_send_limit: RateLimit | None = left_out()
    rate_limit_per_minute: RateLimit | None = left_out()
    dkim_domain: Line255 | None = left_out()
    dkim_selector: Line255 | None = left_out()
    #: PEM, RSA or Ed25519.
    dkim_private_key: Secret | None = left_out()
    read_receipt_enabled: Switch = left_out()
    is_default: Switch = left_out()
    active: Switch = left_out()
    sequence: Rank = left_out()


class MailServerGiven(MailServerChanged):
    """A server to add."""

    name: Name
    host: Line255
    port: Port


class MailServerQuery(ConfigQuery):
    """Which servers."""

    sort: Literal[
        "sequence",
        "-sequence",
        "name",
        "-name",
        "host",
        "-host",
        "updated_at",
        "-updated_at",
        "id",
        "-id",
    ] = "sequence"


class SenderShown(Shown):
    """Who mail may be from."""

    #: Of the server: `server_config_id` of a message.
    id: Id
    name: str
    from_address: str
    from_name: str | None
    is_default: bool


class ServerTestShown(Shown):
    """What came of a test."""

    success: bool
    latency_ms: int
    #: The server's first reply; null: there was none.
    server_greeting: str | None
    #: Null on success.
    error_message: str | None


@routes.get("/mail/senders", dependencies=SEND)
def list_senders(session: DbSession) -> Items[SenderShown]:
    """Who mail may be from: the tenant's enabled servers in the order in which they are chosen."""
    return Items(items=[SenderShown.model_validate(sender) for sender in api.list_senders(session=session)])


servers = ConfigRoutes(routes, "/mail/send-servers", "server_id", read=api.get_mail_server, shown=MailServerShown)
servers.get_page(api.list_mail_servers, MailServerQuery, "The tenant's servers.")
servers.get("One server, disabled or not.")
servers.post(
    api.add_mail_server,
    MailServerGiven,
    "Add a server; as the default it takes that from the others.",
)
servers.patch(
    api.change_mail_server,
    MailServerChanged,
    "Change a server; the next attempt of every mail that uses it goes by it within a second.",
)
servers.delete(
    api.delete_mail_server,
    "Delete a server; what still has to go out by it fails. Disable it instead to let that go out.",
)
servers.post_copy(
    api.copy_mail_server,
    MailServerChanged,
    "Add a server like this one but for what is given; without its secrets, disabled and no default unless given.",
)
servers.post_default(
    api.set_default_mail_server,
    "Make a server the default in the place of any other; 409 while it is disabled.",
    name="choose_default_mail_server",
)


@routes.post("/mail/send-servers/{server_id}/test", dependencies=[*ADMINISTER, talks()])
def test_mail_server(server_id: Id) -> ServerTestShown:
    """Connect, protect, authenticate and say goodbye, with a disabled one too; sends nothing and takes seconds."""
    return ServerTestShown.model_validate(api.test_connectivity(server_id))


@routes.get("/mail/send-servers/{server_id}/windows", dependencies=READ)
def get_mail_server_windows(server_id: Id) -> WindowsShown:
    """How much of the server's windows of this day and this minute is taken; 503 while the counters are away."""
    return windows_shown(api.mail_server_windows, server_id)
