"""What the database tells: the server, the schema, the lines of records, the configurations."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, Engine, Text, exists, func, literal_column, select, type_coerce
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from messaging import tenancy
from messaging.channels import CHANNELS, ChannelFacts
from messaging.db import schema
from messaging.db.active import with_disabled
from messaging.db.encryption import CredentialUnreadable, decrypt
from messaging.db.engine import check_server, create_engine
from messaging.delivery.dead_letter import DEAD_LETTER_MESSAGE
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.delivery.gauges import measure_line, oldest_due_seconds, oldest_transaction_seconds
from messaging.doctor.failures import look_at_failures
from messaging.doctor.findings import ANSWER_SECONDS, MAX_NAMED, Finding, Findings, Level
from messaging.doctor.mailboxes import look_at_mailboxes
from messaging.doctor.pruning import look_at_pruning
from messaging.errors import ConfigurationError
from messaging.mail.models import MailSendRecord, MailSendServerConfig
from messaging.receive.models import MailReceiveServerConfig
from messaging.settings import Settings
from messaging.sms.models import SmsProviderConfig, SmsProviderRegion
from messaging.tenancy import PLATFORM_TENANT_ID, SINGLE_TENANT_ID
from messaging.webhooks.models import WebhookEndpoint

#: Records among which a use of mailing lists is looked for.
NEWEST_RECORDS = 10_000

#: Pending dead letters that are counted.
MAX_COUNTED = 10_000

#: Seconds from which an open transaction's snapshot slows the claim.
OLD_TRANSACTION_SECONDS = 60.0


def look_at_database(settings: Settings, old_transaction_seconds: float) -> Findings:
    """Over a connection of its own."""
    quick = settings.database.model_copy(update={"connect_timeout_seconds": ANSWER_SECONDS})
    engine = create_engine(
        settings.model_copy(update={"database": quick}),
        pool_size=1,
        application_name="messaging doctor",
        statement_timeout_seconds=ANSWER_SECONDS,
    )
    try:
        yield from _look(settings, engine, old_transaction_seconds)
    except SQLAlchemyError as exc:
        lines = str(getattr(exc, "orig", None) or exc).strip().splitlines()
        yield Finding(
            "database",
            Level.FAIL,
            f"{settings.shown_database_url}: {lines[0] if lines else type(exc).__name__}",
            "start PostgreSQL, or correct MESSAGING_DATABASE_URL",
        )
    finally:
        engine.dispose()


def _look(settings: Settings, engine: Engine, old_transaction_seconds: float) -> Findings:
    try:
        check_server(engine, settings)
    except ConfigurationError as exc:
        yield Finding(
            "server settings", Level.FAIL, str(exc), "correct postgresql.conf or the setting, or use another server"
        )
    else:
        yield Finding("database", Level.OK, settings.shown_database_url)
        yield Finding("server settings", Level.OK, "version, synchronous_commit and time zone are as needed")
    try:
        schema.require_head(engine)
    except ConfigurationError as exc:
        yield Finding("schema", Level.FAIL, str(exc), "messaging db upgrade, or the version of this code that fits")
        return
    yield Finding("schema", Level.OK, f"at {schema.head()}")
    with engine.connect() as connection:
        for channel in CHANNELS.values():
            yield from _line(settings, connection, channel)
            yield _stuck(settings, connection, channel)
            yield from look_at_failures(connection, channel)
        yield _transactions(connection, old_transaction_seconds)
        yield from _dead_letters(connection)
        yield from look_at_mailboxes(settings, connection)
        yield from look_at_pruning(settings, connection)
    with Session(engine) as session:
        yield from _servers(settings, session)
        yield _providers(session)
        yield _endpoints(session)
        yield from _public_address(settings, session)
        yield from _secrets(session)


def _line(settings: Settings, connection: Connection, channel: ChannelFacts) -> Findings:
    line = measure_line(connection, channel.table)
    oldest = oldest_due_seconds(connection, channel.table)
    due, overdue = f"{channel.name}: due records", f"{channel.name}: overdue records"
    detail = f"{line.due_count} records in line" + (f", the oldest for {oldest:.0f} s" if line.due_count else "")
    if oldest > settings.dispatch.stranded_warn_seconds:
        yield Finding(due, Level.WARN, detail, "see that beat and workers run; if they do, more is due than they send")
    else:
        yield Finding(due, Level.OK, detail)
    detail = f"{line.overdue_count} records are due and not in line"
    if line.oldest_overdue_seconds > settings.dispatch.tick_expires_seconds:
        yield Finding(
            overdue,
            Level.FAIL,
            f"{detail}, the oldest for {line.oldest_overdue_seconds:.0f} s",
            "no tick puts them in line: see that beat and a worker on the control queue run",
        )
    else:
        yield Finding(overdue, Level.OK, detail)


def _stuck(settings: Settings, connection: Connection, channel: ChannelFacts) -> Finding:
    """Claims that a sweep should have taken back by now."""
    c, check = channel.table.c, f"{channel.name}: stuck sends"
    late = settings.sweeper.stale_seconds + 2 * settings.sweeper.interval_seconds
    found = connection.execute(
        select(func.count(), func.coalesce(func.extract("epoch", func.now() - func.min(c.claimed_at)), 0)).where(
            c.status == "SENDING", c.claimed_at < func.now() - late * literal_column("interval '1 second'")
        )
    ).one()
    if not found[0]:
        return Finding(check, Level.OK, "no claim is older than a sweep allows")
    advice = "see that beat and a worker on the control queue run"
    if not settings.sweeper.enabled:
        advice = "set MESSAGING_SWEEPER__ENABLED to true"
    detail = f"{found[0]} records are SENDING, the oldest for {found[1]:.0f} s, and no sweep took them back"
    return Finding(check, Level.FAIL, detail, advice)


def _transactions(connection: Connection, old_seconds: float) -> Finding:
    age = oldest_transaction_seconds(connection)
    detail = f"the oldest open transaction is {age:.0f} s old"
    if age > old_seconds:
        return Finding(
            "transactions",
            Level.WARN,
            detail,
            "old snapshots slow every tick: find it in pg_stat_activity or pg_prepared_xacts, and end it",
        )
    return Finding("transactions", Level.OK, detail)


def _dead_letters(connection: Connection) -> Findings:
    """Nothing where each was seen to. Counted up to a cap, as they may be many."""
    t = DEAD_LETTER_MESSAGE.c
    pending = select(t.source).where(t.status == DeadLetterStatus.PENDING).limit(MAX_COUNTED).subquery()
    rows = connection.execute(select(pending.c.source, func.count().label("pending")).group_by(pending.c.source))
    counts = {row.source: row.pending for row in rows}
    if not counts:
        return
    sends, messages = counts.get(DeadLetterSource.SEND_EXHAUSTED, 0), counts.get(DeadLetterSource.BROKER_POISON, 0)
    more = " at least" if sends + messages >= MAX_COUNTED else ""
    detail = f"pending are{more} {sends} sends without attempts left, {messages} messages that no worker could process"
    advice = "messaging dead-letter list, then retry the records, and resolve or discard each"
    yield Finding("dead letters", Level.WARN, detail, advice)


def _servers(settings: Settings, session: Session) -> Findings:
    c = MailSendServerConfig
    with tenancy.all_tenants():
        found = session.execute(
            select(c.tenant_id, func.bool_or(c.is_default)).group_by(c.tenant_id).order_by(c.tenant_id)
        )
        has_default = {tenant_id: bool(is_default) for tenant_id, is_default in found}
    add = "messaging server add ... --default, or messaging server default ID"
    without = [str(tenant_id) for tenant_id, is_there in has_default.items() if not is_there]
    if not settings.multi_tenancy and not has_default.get(SINGLE_TENANT_ID):
        yield Finding("mail server", Level.FAIL, "no default mail server is configured", add)
    elif settings.multi_tenancy and not has_default.get(PLATFORM_TENANT_ID):
        detail = f"no default of the platform; {sum(has_default.values())} tenants have one of their own"
        if without:
            detail += f", with servers but no default are {', '.join(without[:MAX_NAMED])}"
        level = Level.WARN if any(has_default.values()) else Level.FAIL
        advice = f"{add}, with --tenant {PLATFORM_TENANT_ID}: tenants without one cannot send"
        yield Finding("mail server", level, detail, advice)
    else:
        yield Finding("mail server", Level.OK, "a default mail server is configured")


def _providers(session: Session) -> Finding:
    """A system without text messages has none."""
    c, r = SmsProviderConfig, SmsProviderRegion
    with tenancy.all_tenants():
        count, defaults = session.execute(select(func.count(), func.count().filter(c.is_default))).one()
        routes = session.execute(select(func.count(r.id))).scalar_one()
    check = "SMS provider"
    if count and not defaults and not routes:
        detail = f"{count} are configured, and none is a default or has a route"
        return Finding(check, Level.WARN, detail, "messaging provider change ID --default, or messaging route add ...")
    if not count:
        return Finding(check, Level.OK, "none is configured, so no text message goes out")
    return Finding(check, Level.OK, f"{count} are configured: {defaults} defaults, {routes} routes")


def _endpoints(session: Session) -> Finding:
    """An endpoint that answered 410 Gone misses all that happens until somebody enables it."""
    e, check = WebhookEndpoint, "webhook endpoints"
    with tenancy.all_tenants():
        gone = session.scalars(with_disabled(select(e.id)).where(e.gone_at.is_not(None)).order_by(e.id)).all()
        count = session.execute(select(func.count(e.id))).scalar_one()
    if gone:
        named = ", ".join(map(str, gone[:MAX_NAMED]))
        advice = "messaging webhook enable ID, or messaging webhook delete ID"
        return Finding(check, Level.WARN, f"disabled, as they answered 410 Gone: {named}", advice)
    return Finding(check, Level.OK, f"{count} are told events" if count else "none is configured")


def _public_address(settings: Settings, session: Session) -> Findings:
    """Without one no link can be made, and no signature of a provider's request can be checked that covers it."""
    if settings.public_base_url is not None:
        return
    newest = select(MailSendRecord.unsubscribe_list).order_by(MailSendRecord.id.desc()).limit(NEWEST_RECORDS).subquery()
    with tenancy.all_tenants():
        has_lists = session.execute(select(exists().where(newest.c.unsubscribe_list.is_not(None)))).scalar_one()
        providers = session.execute(select(func.count(SmsProviderConfig.id))).scalar_one()
    check, advice = "public address", "set MESSAGING_PUBLIC_BASE_URL to where messaging web is reached from outside"
    if has_lists:
        detail = "mails of a mailing list need MESSAGING_PUBLIC_BASE_URL for their unsubscribe links, and fail without"
        yield Finding(check, Level.FAIL, detail, advice)
    elif providers:
        detail = "receipts that an SMS provider signs are not taken without MESSAGING_PUBLIC_BASE_URL"
        yield Finding(check, Level.WARN, detail, advice)


def _secrets(session: Session) -> Findings:
    with tenancy.all_tenants():
        unreadable = [*_unreadable(session, MailSendServerConfig, "mail server", _MAIL_SECRETS)]
        unreadable += _unreadable(session, SmsProviderConfig, "SMS provider", _SMS_SECRETS)
        unreadable += _unreadable(session, MailReceiveServerConfig, "mailbox", _MAILBOX_SECRETS)
        unreadable += _unreadable(session, WebhookEndpoint, "webhook endpoint", _ENDPOINT_SECRETS)
    if unreadable:
        yield Finding(
            "secrets",
            Level.FAIL,
            f"no key of MESSAGING_SECRETS_KEYS decrypts {', '.join(unreadable[:MAX_NAMED])}",
            "add the key it was written with to MESSAGING_SECRETS_KEYS, or: messaging server change ID, messaging"
            " provider change ID, messaging mailbox change ID, messaging webhook rotate-secret ID",
        )


#: What of a configuration is encrypted, as a finding names it.
_MAIL_SECRETS = {"password": "password", "dkim_private_key": "DKIM key"}
_SMS_SECRETS = {"api_key": "API key", "api_secret": "API secret"}
#: A token that cannot be read is asked for anew.
_MAILBOX_SECRETS = {"password": "password"}
_ENDPOINT_SECRETS = {"secret": "secret"}


def _unreadable(session: Session, model: Any, kind: str, secrets: Mapping[str, str]) -> Iterator[str]:
    """Of disabled configurations too: what was prepared with one still goes out by it."""
    ciphertexts = [type_coerce(getattr(model, column), Text) for column in secrets]
    for config_id, *stored in session.execute(with_disabled(select(model.id, *ciphertexts)).order_by(model.id)):
        for name, ciphertext in zip(secrets.values(), stored, strict=True):
            try:
                if ciphertext is not None:
                    decrypt(ciphertext)
            except CredentialUnreadable:
                yield f"the {name} of {kind} {config_id}"
