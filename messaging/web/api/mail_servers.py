"""`/mail/send-servers`, `/mail/senders`: the servers that mail goes out by. Secrets go in and never come out."""

from typing import Annotated, Literal

from fastapi import Query

from messaging import api
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
    asked,
    left_out,
    paged,
    windows_shown,
)
from messaging.web.api.lists import Page
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Time

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


@routes.get("/mail/send-servers", dependencies=READ)
def list_mail_servers(session: DbSession, query: Annotated[MailServerQuery, Query()]) -> Page[MailServerShown]:
    """The tenant's servers."""
    return paged(api.list_mail_servers(session=session, **asked(query)), query, MailServerShown.model_validate)


@routes.get("/mail/send-servers/{server_id}", dependencies=READ)
def get_mail_server(session: DbSession, server_id: Id) -> MailServerShown:
    """One server, disabled or not."""
    return MailServerShown.model_validate(api.get_mail_server(server_id, session=session))


@routes.post("/mail/send-servers", status_code=201, dependencies=ADMINISTER)
def add_mail_server(session: DbSession, given: MailServerGiven) -> MailServerShown:
    """Add a server; as the default it takes that from the others."""
    return get_mail_server(session, api.add_mail_server(session=session, **given.sent()))


@routes.patch("/mail/send-servers/{server_id}", dependencies=ADMINISTER)
def change_mail_server(session: DbSession, server_id: Id, given: MailServerChanged) -> MailServerShown:
    """Change a server; the next attempt of every mail that uses it goes by it within a second."""
    api.change_mail_server(server_id, session=session, **given.sent())
    return get_mail_server(session, server_id)


@routes.delete("/mail/send-servers/{server_id}", status_code=204, dependencies=ADMINISTER)
def delete_mail_server(session: DbSession, server_id: Id) -> None:
    """Delete a server; what still has to go out by it fails. Disable it instead to let that go out."""
    api.delete_mail_server(server_id, session=session)


@routes.post("/mail/send-servers/{server_id}/copy", status_code=201, dependencies=ADMINISTER)
def copy_mail_server(session: DbSession, server_id: Id, given: MailServerChanged) -> MailServerShown:
    """Add a server like this one but for what is given; without its secrets, disabled and no default unless given."""
    return get_mail_server(session, api.copy_mail_server(server_id, session=session, **given.sent()))


@routes.post("/mail/send-servers/{server_id}/default", dependencies=ADMINISTER)
def choose_default_mail_server(session: DbSession, server_id: Id) -> MailServerShown:
    """Make a server the default in the place of any other; 409 while it is disabled."""
    api.set_default_mail_server(server_id, session=session)
    return get_mail_server(session, server_id)


@routes.post("/mail/send-servers/{server_id}/test", dependencies=ADMINISTER)
def test_mail_server(server_id: Id) -> ServerTestShown:
    """Connect, protect, authenticate and say goodbye, with a disabled one too; sends nothing and takes seconds."""
    return ServerTestShown.model_validate(api.test_connectivity(server_id))


@routes.get("/mail/send-servers/{server_id}/windows", dependencies=READ)
def get_mail_server_windows(server_id: Id) -> WindowsShown:
    """How much of the server's windows of this day and this minute is taken; 503 while the counters are away."""
    return windows_shown(api.mail_server_windows, server_id)
