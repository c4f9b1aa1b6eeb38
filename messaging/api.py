"""The public face: accept, retry, cancel, look. Forwards, decides nothing.

Every call takes `session`, the caller's SQLAlchemy session, and then runs in its transaction; without one it runs and
commits a transaction of its own. An `AsyncSession` calls by `await s.run_sync(lambda s: send_mail(..., session=s))`.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar, Unpack, overload

from sqlalchemy import Connection, Engine, select
from sqlalchemy.orm import Session

from messaging import metrics, provisioning, quota, suppression, suppression_admin, suppression_files, tenancy
from messaging.channels import CHANNELS, channel_of
from messaging.clock import utc_now
from messaging.db.encryption import use_keys
from messaging.db.engine import create_engine
from messaging.db.session import transaction
from messaging.delivery import requeue
from messaging.delivery.cancel import Cancelled
from messaging.delivery.cancel import cancel as cancel_record
from messaging.delivery.request_fields import MAX_ID
from messaging.delivery.status import SendStatus
from messaging.errors import MessageRejected, RecordNotFound
from messaging.files import FileStore
from messaging.mail import channel as mail
from messaging.mail import connectivity, receipts, server_admin, template_files, template_tools, unsubscribing
from messaging.mail.acceptance import accept_mails
from messaging.mail.connectivity import Connectivity
from messaging.mail.models import MAIL_SEND_RECORD, MailSendRecord
from messaging.mail.server_admin import ServerLine
from messaging.mail.server_checks import ServerFields
from messaging.mail.template_files import TemplateChange
from messaging.mail.template_tools import TemplateLine, TemplatePreview
from messaging.mail.unsubscribing import Subscription
from messaging.provisioning import SeedResult
from messaging.quota import UNCHANGED, MonthUsage, Unchanged, Usage
from messaging.requests import MessageScope, SendMail, SendSms, SuppressionReason
from messaging.settings import Settings, load_settings
from messaging.sms import channel as sms
from messaging.sms import explaining, provider_admin, route_admin
from messaging.sms.acceptance import accept_sms
from messaging.sms.explaining import RouteExplanation
from messaging.sms.models import SMS_SEND_RECORD, DeliveryStatus, Encoding
from messaging.sms.provider_admin import ProviderCheck, ProviderLine
from messaging.sms.provider_checks import ProviderFields
from messaging.sms.route_admin import BindingLine, RouteLine
from messaging.suppression_admin import SuppressionLine
from messaging.suppression_files import SuppressionsImported
from messaging.templates.render import Renderer
from messaging.templates.variables import TemplateVariable


@dataclass(frozen=True, slots=True)
class Environment:
    """What the calls of this process share."""

    settings: Settings
    engine: Engine
    files: FileStore


_environment: Environment | None = None
_configuring = threading.Lock()


def configure(settings: Settings | None = None, *, engine: Engine | None = None) -> Environment:
    """Set the process up: settings (None reads the environment) and the engine for calls without a session.

    The first call of any function here does it by itself. May be called again.

    Raises: ConfigurationError.
    """
    global _environment
    chosen = settings or load_settings()
    use_keys(chosen.secrets_keys)
    tenancy.use_multi_tenancy(chosen.multi_tenancy)
    if chosen.metrics.directory:
        metrics.use_directory(chosen.metrics.directory, database_url=chosen.database_url)
    used = engine or create_engine(chosen)
    _environment = Environment(chosen, used, FileStore(used, chosen))
    return _environment


def environment() -> Environment:
    """The process's set-up, made from the environment when nobody configured it. Raises: ConfigurationError."""
    with _configuring:
        return _environment or configure()


@contextmanager
def _session(session: Session | None) -> Iterator[Session]:
    """The caller's session, or a transaction of its own."""
    if session is not None:
        yield session
        return
    with transaction(environment().engine) as own:
        yield own


@contextmanager
def _connection(session: Session | None) -> Iterator[Connection]:
    """The same session's connection to our tables, also where the session is bound to several databases."""
    with _session(session) as s:
        yield s.connection(bind_arguments={"mapper": MailSendRecord})


def _id(value: object) -> int:
    """A record's id. What is none is told before the database sees it: an error there ends the caller's transaction.

    Raises: TypeError; RecordNotFound for a number that no id can be.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a record id is an int, not {value!r}")
    if not 1 <= value <= MAX_ID:
        raise RecordNotFound(f"no record {value}")
    return int(value)


@overload
def send_mail(request: SendMail, *, session: Session | None = None) -> int: ...
@overload
def send_mail(*, session: Session | None = None, **fields: Any) -> int: ...
def send_mail(request: SendMail | None = None, *, session: Session | None = None, **fields: Any) -> int:
    """Accept one mail; answers its record's id. It goes out once the transaction has committed.

    Takes a `SendMail`, or its fields as keywords. Checks everything before it writes anything (RFC 5322 addresses,
    sizes, times); templates, servers and quotas are looked at when it is delivered.

    Raises:
        MessageRejected: The input cannot be accepted; names field and value. Nothing was written, and the transaction
            is still usable.
        PreparationError: The file store did not take an attachment; nothing was written either.
    """
    chosen = _given("send_mail", SendMail, mail.NAME, request, fields)
    shared = environment()
    with _session(session) as s:
        return accept_mails(s, [chosen], settings=shared.settings, now=utc_now(), single=True, files=shared.files)[0]


def send_mail_batch(requests: Sequence[SendMail], *, session: Session | None = None) -> list[int]:
    """Accept 1 to 500 mails, all or none, in one insert; answers ids in the order of the requests.

    Raises:
        MessageRejected: As `send_mail`, with the index of the item.
    """
    shared = environment()
    with _session(session) as s:
        return accept_mails(s, requests, settings=shared.settings, now=utc_now(), single=False, files=shared.files)


@overload
def send_sms(request: SendSms, *, session: Session | None = None) -> int: ...
@overload
def send_sms(*, session: Session | None = None, **fields: Any) -> int: ...
def send_sms(request: SendSms | None = None, *, session: Session | None = None, **fields: Any) -> int:
    """Accept one text message; answers its record's id. It goes out once the transaction has committed.

    Takes a `SendSms`, or its fields as keywords. The number is E.164 (`+4915112345678`), the text at most 2,000
    characters; template, country, provider and quota are looked at when it is delivered.

    Raises:
        MessageRejected: The input cannot be accepted; names field and value. Nothing was written, and the transaction
            is still usable.
    """
    chosen = _given("send_sms", SendSms, sms.NAME, request, fields)
    shared = environment()
    with _session(session) as s:
        return accept_sms(s, [chosen], settings=shared.settings, now=utc_now(), single=True)[0]


def send_sms_batch(requests: Sequence[SendSms], *, session: Session | None = None) -> list[int]:
    """Accept 1 to 500 text messages, all or none, in one insert; answers ids in the order of the requests.

    Raises:
        MessageRejected: As `send_sms`, with the index of the item.
    """
    shared = environment()
    with _session(session) as s:
        return accept_sms(s, requests, settings=shared.settings, now=utc_now(), single=False)


RequestT = TypeVar("RequestT", SendMail, SendSms)


def _given(
    function: str, kind: type[RequestT], channel: str, request: RequestT | None, fields: Mapping[str, Any]
) -> RequestT | None:
    """The request, or the one that the fields make.

    Raises: TypeError for a mix of both and for a field there is none of; MessageRejected where a required one is
    missing.
    """
    if not fields:
        return request
    if request is not None:
        raise TypeError(f"{function} takes a {kind.__name__} or its fields, not both")
    known = kind.__dataclass_fields__
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise TypeError(f"{function} has no field {unknown[0]!r}; it has {', '.join(known)}")
    missing = [
        name
        for name, field in known.items()
        if name not in fields and field.default is MISSING and field.default_factory is MISSING
    ]
    if missing:
        raise MessageRejected(channel, missing[0], None, "is required")
    return kind(**fields)


def retry(record_id: int, *, session: Session | None = None) -> None:
    """Ask for another attempt of a record that is waiting, failed or dead: due now, same content if it was prepared.

    From a final state `retry_count` goes up by one and counts on: the budget is not re-armed. Recipients that accepted
    the mail never get it again.

    Raises:
        RecordNotFound: No such record in this tenant.
        StateError: It is SENT, SENDING, cancelled, has nobody left to send to, or changed meanwhile.
    """
    record_id = _id(record_id)
    with _connection(session) as connection:
        channel = channel_of(connection, record_id)
        requeue.retry(connection, channel.table, channel.recipients, record_id, channel=channel.name)


def retry_batch(record_ids: Sequence[int], *, session: Session | None = None) -> int:
    """As `retry` for many; skips those it would refuse and answers how many were requeued."""
    ids = []
    for record_id in record_ids:
        with suppress(RecordNotFound):
            ids.append(_id(record_id))
    with _connection(session) as connection:
        return sum(
            requeue.retry_batch(connection, channel.table, channel.recipients, ids, channel=channel.name)
            for channel in CHANNELS.values()
        )


def cancel(record_id: int, *, session: Session | None = None) -> Cancelled:
    """Call a record off; the answer says truthfully whether it was, will be or may have been sent.

    In a caller's session the answer holds once that transaction commits.

    Raises:
        RecordNotFound: No such record in this tenant.
    """
    record_id = _id(record_id)
    with _connection(session) as connection:
        channel = channel_of(connection, record_id)
        return cancel_record(connection, channel.table, record_id, channel=channel.name)


def mark_bounced(record_id: int, *, code: str, recipients: Sequence[str] = (), session: Session | None = None) -> bool:
    """A bounce came back for a SENT mail: FAILED with `BOUNCED`; answers whether that took effect."""
    with suppress(RecordNotFound):
        record_id = _id(record_id)
        with _connection(session) as connection:
            return receipts.mark_bounced(connection, record_id, code=code, recipients=recipients)
    return False


def mark_read_receipt(record_id: int, *, session: Session | None = None) -> bool:
    """A read receipt came back for a SENT mail (RFC 8098); answers whether that took effect."""
    with suppress(RecordNotFound):
        record_id = _id(record_id)
        with _connection(session) as connection:
            return receipts.mark_read_receipt(connection, record_id)
    return False


def quota_usage(tenant_id: int | None = None, *, session: Session | None = None) -> Usage:
    """What a tenant has used of this month's quota, and its limit; zeros where nothing was charged yet.

    None is the current tenant; -1 is the platform's own. The platform may ask for any.

    Raises:
        TenantMismatch: Another tenant's.
    """
    settings = environment().settings
    with _session(session) as s:
        return quota.usage(s, tenant_id, settings.quota)


def quota_history(
    tenant_id: int | None = None, *, months: int = 24, session: Session | None = None
) -> Sequence[MonthUsage]:
    """A tenant's months in which something was charged, newest first. Raises: as `quota_usage`."""
    environment()
    with _session(session) as s:
        return quota.history(s, tenant_id, months=months)


def set_quota_limits(
    tenant_id: int,
    *,
    mail: int | Unchanged | None = UNCHANGED,
    sms: int | Unchanged | None = UNCHANGED,
    session: Session | None = None,
) -> None:
    """Set a tenant's monthly limits, as the platform: None is the default of the settings, 0 lets nothing out.

    Raises:
        TenantMismatch: A tenant asks for it.
        ValueError: A limit below 0, or no whole number.
    """
    environment()
    with _session(session) as s:
        quota.set_limits(s, tenant_id, mail=mail, sms=sms)


@dataclass(frozen=True, slots=True)
class MailStatus:
    """Where a mail stands, and why."""

    id: int
    subject: str | None
    to: list[str]
    status: SendStatus
    retry_count: int
    next_attempt_at: datetime
    error_code: str | None
    error_message: str | None
    sent_at: datetime | None
    #: Envelope recipient -> result, code, text, at.
    recipient_results: dict[str, dict[str, Any]]
    uncertain: bool
    bounced: bool
    bounce_code: str | None
    read_receipt_received: bool


@dataclass(frozen=True, slots=True)
class SmsStatus:
    """Where a text message stands, and why."""

    id: int
    #: E.164 with the plus.
    phone_number: str
    status: SendStatus
    retry_count: int
    next_attempt_at: datetime
    error_code: str | None
    error_message: str | None
    sent_at: datetime | None
    uncertain: bool
    #: None before it is prepared, as are the three after it.
    provider_config_id: int | None
    provider_type: str | None
    encoding: Encoding | None
    #: Messages that are charged.
    segments: int | None
    #: What the provider calls the message; None until it took it.
    provider_message_id: str | None
    #: What the provider's receipts said of it.
    delivery_status: DeliveryStatus
    delivery_status_updated_at: datetime | None


def status(record_id: int, *, session: Session | None = None) -> MailStatus | SmsStatus:
    """Where a mail or text message stands.

    Raises:
        RecordNotFound: No such record in this tenant.
    """
    record_id = _id(record_id)
    environment()
    with _connection(session) as connection:
        if channel_of(connection, record_id).name == sms.NAME:
            return _sms_status(connection, record_id)
        return _mail_status(connection, record_id)


def _mail_status(connection: Connection, record_id: int) -> MailStatus:
    t = MAIL_SEND_RECORD
    names = [name for name in MailStatus.__dataclass_fields__ if name != "to"]
    statement = select(*(t.c[name] for name in names), t.c.to_addresses.label("to")).where(t.c.id == record_id)
    fields = dict(connection.execute(statement).one()._mapping)
    return MailStatus(**fields | {"status": SendStatus(fields["status"])})


def _sms_status(connection: Connection, record_id: int) -> SmsStatus:
    t = SMS_SEND_RECORD
    statement = select(*(t.c[name] for name in SmsStatus.__dataclass_fields__)).where(t.c.id == record_id)
    fields = dict(connection.execute(statement).one()._mapping)
    encoding = fields["encoding"]
    kinds = {
        "status": SendStatus(fields["status"]),
        "encoding": None if encoding is None else Encoding(encoding),
        "delivery_status": DeliveryStatus(fields["delivery_status"]),
    }
    return SmsStatus(**fields | kinds)


def add_mail_server(*, session: Session | None = None, **fields: Unpack[ServerFields]) -> int:
    """Add a mail server of this tenant; answers its id. See `messaging.mail.server_admin` for what follows.

    Raises:
        ConfigRejected: A field cannot be saved; names field and value. Nothing was written.
    """
    environment()
    with _session(session) as s:
        return server_admin.add_server(s, **fields)


def change_mail_server(config_id: int, *, session: Session | None = None, **fields: Unpack[ServerFields]) -> None:
    """Change fields of a mail server; the next attempt of each record that uses it goes by them within a second.

    Raises:
        ConfigRejected: A field cannot be saved; nothing was changed.
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with _session(session) as s:
        server_admin.change_server(s, config_id, **fields)


def list_mail_servers(*, with_disabled: bool = False, session: Session | None = None) -> list[ServerLine]:
    """This tenant's mail servers in the order in which they are chosen, without secrets."""
    environment()
    with _session(session) as s:
        return server_admin.list_servers(s, include_disabled=with_disabled)


def set_mail_server_active(config_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a mail server or enable it again; what was prepared with it goes out in any case.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with _session(session) as s:
        server_admin.set_server_active(s, config_id, is_active)


def set_default_mail_server(config_id: int, *, session: Session | None = None) -> None:
    """Make a mail server this tenant's default in the place of any other.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
        StateError: It is disabled.
    """
    environment()
    with _session(session) as s:
        server_admin.set_default_server(s, config_id)


def list_mail_templates(*, with_disabled: bool = False, session: Session | None = None) -> list[TemplateLine]:
    """This tenant's mail templates by code."""
    environment()
    with _session(session) as s:
        return template_tools.list_templates(s, include_disabled=with_disabled)


def preview_mail_template(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    variables: Mapping[str, Any] | None = None,
    *,
    session: Session | None = None,
) -> TemplatePreview:
    """Render a template of this tenant, disabled or not, as a send would; sends nothing, charges nothing.

    By `id`, which wins, or `code`. A test send is an ordinary `send_mail` with `template_id`.

    Raises:
        MessageRejected: Neither is given, or the variables are no JSON.
        RecordNotFound: This tenant has no such template.
        RenderError: The template fails; names column, line and variable.
    """
    settings = environment().settings
    renderer = Renderer(max_chars=settings.mail.max_body_chars, ticker=time.monotonic)
    with _session(session) as s:
        return template_tools.preview(template_tools.get_template(s, id, code), renderer, variables)


def list_template_variables(
    id: int | None = None,  # noqa: A002 - the field's name
    code: str | None = None,
    *,
    session: Session | None = None,
) -> list[TemplateVariable]:
    """The values that an input form for a template of this tenant asks for; by `id`, which wins, or `code`.

    Raises:
        MessageRejected: Neither is given.
        RecordNotFound: This tenant has no such template.
    """
    environment()
    with _session(session) as s:
        return template_tools.variables_of(template_tools.get_template(s, id, code))


def import_mail_templates(
    folder: Path, *, dry_run: bool = False, session: Session | None = None
) -> list[TemplateChange]:
    """Create or update this tenant's templates by their codes from a folder of theirs; says what it did.

    Raises:
        FileRejected: Names file, field and value; nothing was written.
    """
    environment()
    with _session(session) as s:
        return template_files.import_templates(s, folder, dry_run=dry_run)


def export_mail_templates(
    folder: Path, codes: Sequence[str] | None = None, *, session: Session | None = None
) -> list[Path]:
    """Write this tenant's templates as folders that `import_mail_templates` reads; None is all of them.

    Raises:
        FileRejected: A code has no template, or a file cannot be written.
    """
    environment()
    with _session(session) as s:
        return template_files.export_templates(s, folder, codes)


def add_suppression(
    address: str,
    *,
    channel: str = mail.NAME,
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
    with _session(session) as s:
        return suppression_admin.suppress(
            s, address, channel=channel, reason=reason, sender=sender, list_name=list_name, note=note
        )


def lift_suppression(entry_id: int, *, note: str, session: Session | None = None) -> bool:
    """Lift an entry of this tenant's suppression list, saying why; answers False when it was lifted before.

    Raises:
        EntryRejected: The note is blank or too long.
        RecordNotFound: No such entry in this tenant.
    """
    environment()
    with _session(session) as s:
        return suppression.lift(s, entry_id, note=note)


def list_suppressions(
    *,
    channel: str | None = None,
    search: str | None = None,
    reason: SuppressionReason | None = None,
    with_lifted: bool = False,
    limit: int = 50,
    before: int | None = None,
    session: Session | None = None,
) -> list[SuppressionLine]:
    """Entries of this tenant's suppression list, newest first; `search` is a part of the address or number.

    `before` is the id of the last entry of the page before.
    """
    environment()
    with _session(session) as s:
        return suppression_admin.page(
            s, channel=channel, search=search, reason=reason, include_lifted=with_lifted, limit=limit, before=before
        )


def import_suppressions(
    source: TextIO,
    *,
    name: str = "-",
    channel: str = mail.NAME,
    reason: SuppressionReason | str = SuppressionReason.MANUAL,
    dry_run: bool = False,
    session: Session | None = None,
) -> SuppressionsImported:
    """Put the entries of a CSV file on this tenant's suppression list, all or none.

    Raises:
        FileRejected: Names the bad lines by number; nothing was written.
    """
    environment()
    with _session(session) as s:
        return suppression_files.import_entries(s, source, name=name, channel=channel, reason=reason, dry_run=dry_run)


def export_suppressions(target: TextIO, *, with_lifted: bool = False, session: Session | None = None) -> int:
    """Write this tenant's suppression list as a CSV file that `import_suppressions` reads; answers how many entries."""
    environment()
    with _session(session) as s:
        return suppression_files.export_entries(s, target, include_lifted=with_lifted)


def find_subscription(token: str, *, session: Session | None = None) -> Subscription | None:
    """What the token of an unsubscribe link is about; changes nothing. None for a token that we did not sign."""
    environment()
    with _session(session) as s:
        return unsubscribing.find_subscription(s, token)


def unsubscribe(token: str, *, session: Session | None = None) -> Subscription | None:
    """Leave the mailing list that an unsubscribe link is about (RFC 8058); None for a token that we did not sign.

    Needs no tenant: the token names it. Again, nothing changes.
    """
    environment()
    with _session(session) as s:
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
    with _session(session) as s:
        return provisioning.provision_tenant(s, tenant_id, folder, rebuild=rebuild, environ=environ)


def add_sms_provider(*, session: Session | None = None, **fields: Unpack[ProviderFields]) -> int:
    """Add an SMS provider of this tenant; answers its id. See `messaging.sms.provider_admin` for what follows.

    Raises:
        ConfigRejected: A field cannot be saved, or its adapter could not send with it. Nothing was written.
    """
    environment()
    with _session(session) as s:
        return provider_admin.add_provider(s, **fields)


def change_sms_provider(config_id: int, *, session: Session | None = None, **fields: Unpack[ProviderFields]) -> None:
    """Change fields of an SMS provider; the next attempt of each record that uses it goes by them within a second.

    Raises:
        ConfigRejected: As `add_sms_provider`; nothing was changed.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with _session(session) as s:
        provider_admin.change_provider(s, config_id, **fields)


def list_sms_providers(*, with_disabled: bool = False, session: Session | None = None) -> list[ProviderLine]:
    """This tenant's SMS providers, lowest priority first, without secrets."""
    environment()
    with _session(session) as s:
        return provider_admin.list_providers(s, include_disabled=with_disabled)


def set_sms_provider_active(config_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable an SMS provider or enable it again; what was prepared with it goes out in any case.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    environment()
    with _session(session) as s:
        provider_admin.set_provider_active(s, config_id, is_active)


def check_sms_provider(config_id: int) -> ProviderCheck:
    """Whether an SMS provider of this tenant, disabled or not, has all that its adapter needs. Calls nobody.

    Raises:
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    return provider_admin.check_provider(environment().engine, config_id)


def add_sms_route(
    provider_config_id: int, region_code: str, *, priority: int = 100, session: Session | None = None
) -> int:
    """Let an SMS provider of this tenant serve a country (ISO 3166-1 alpha-2); answers the route's id.

    Raises:
        ConfigRejected: No such country, or there is such a route already.
        RecordNotFound: No such provider in this tenant.
        TenantMismatch: The provider belongs to the platform.
    """
    environment()
    with _session(session) as s:
        return route_admin.add_route(s, provider_config_id, region_code, priority=priority)


def list_sms_routes(
    region_code: str | None = None, *, with_disabled: bool = False, session: Session | None = None
) -> list[RouteLine]:
    """This tenant's routes by country; None is all countries. Raises: ConfigRejected, for what is no country."""
    environment()
    with _session(session) as s:
        return route_admin.list_routes(s, region_code, include_disabled=with_disabled)


def set_sms_route_active(route_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a route of this tenant or enable it again. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with _session(session) as s:
        route_admin.set_route_active(s, route_id, is_active)


def remove_sms_route(route_id: int, *, session: Session | None = None) -> None:
    """Remove a route of this tenant. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with _session(session) as s:
        route_admin.remove_route(s, route_id)


def add_sms_binding(
    template_code: str,
    provider_config_id: int,
    region_code: str | None = None,
    *,
    external_template_id: str | None = None,
    sign_name: str | None = None,
    priority: int = 100,
    session: Session | None = None,
) -> int:
    """Say what an SMS template of this tenant is called at a provider, its own or the platform's; answers an id.

    Raises:
        ConfigRejected: A field cannot be saved, or there is such a binding already.
        RecordNotFound: No such template in this tenant, or no such provider.
    """
    environment()
    with _session(session) as s:
        return route_admin.add_binding(
            s,
            template_code,
            provider_config_id,
            region_code,
            external_template_id=external_template_id,
            sign_name=sign_name,
            priority=priority,
        )


def list_sms_bindings(
    template_code: str | None = None, *, with_disabled: bool = False, session: Session | None = None
) -> list[BindingLine]:
    """The bindings of this tenant's SMS templates; None is all templates. Raises: RecordNotFound."""
    environment()
    with _session(session) as s:
        return route_admin.list_bindings(s, template_code, include_disabled=with_disabled)


def set_sms_binding_active(binding_id: int, is_active: bool, *, session: Session | None = None) -> None:
    """Disable a binding of this tenant or enable it again. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with _session(session) as s:
        route_admin.set_binding_active(s, binding_id, is_active)


def remove_sms_binding(binding_id: int, *, session: Session | None = None) -> None:
    """Remove a binding of this tenant. Raises: RecordNotFound, TenantMismatch."""
    environment()
    with _session(session) as s:
        route_admin.remove_binding(s, binding_id)


def which_provider(
    phone_number: str, *, scope: MessageScope = MessageScope.TENANT, template_code: str | None = None
) -> RouteExplanation:
    """Which provider a message of this tenant to this number would take now, and why, step by step. Sends nothing.

    Raises:
        MessageRejected: The number is none that a message is accepted for.
        TenantContextMissing: No tenant is set.
    """
    return explaining.explain_route(environment().engine, phone_number, scope=scope, template_code=template_code)


def test_connectivity(config_id: int) -> Connectivity:
    """Try a mail server of this tenant, disabled or not: connect, EHLO, TLS, AUTH, QUIT. Sends nothing; takes seconds.

    Raises:
        RecordNotFound: No such server in this tenant.
        TenantMismatch: It belongs to the platform.
    """
    here = environment()
    return connectivity.probe_server(here.engine, here.settings.mail, config_id)


#: A name that pytest would take for a test of whoever imports it.
test_connectivity.__test__ = False  # type: ignore[attr-defined]
