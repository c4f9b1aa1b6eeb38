"""Reading records for people, whatever their channel: one with its whole story, or a page of them, newest first."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from messaging.channels import channel_of
from messaging.db.filters import reading_owner
from messaging.db.newest import SCAN_ROWS
from messaging.delivery.lines import Line, Position, RecordFilter, RecordPage
from messaging.delivery.stories import AttemptStory, attempts_of
from messaging.delivery.tallies import Tallies, tally
from messaging.errors import RecordNotFound, shown_value
from messaging.mail import records as mails
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG
from messaging.mail.records import Story
from messaging.sms import records as texts
from messaging.sms.models import SMS_PROVIDER_CONFIG
from messaging.sms.records import SmsStory
from messaging.tenancy import PLATFORM_TENANT_ID

#: Servers or providers that are offered to choose from.
MAX_CONFIGS = 200

_CONFIGS: dict[str, Table] = {mails.LINES.channel: MAIL_SEND_SERVER_CONFIG, texts.LINES.channel: SMS_PROVIDER_CONFIG}
_SOURCES = {source.channel: source for source in (mails.LINES, texts.LINES)}


def channel_of_recipient(text: str) -> str:
    """Which channel goes to what somebody wrote: a number has a plus, an address a sign that no number has."""
    return mails.LINES.channel if "@" in text else texts.LINES.channel


def recipient(channel: str, text: str) -> str:
    """An address or number as somebody wrote it, as lists look for it. Raises: ValueError, which names it."""
    read = texts.recipient if channel == texts.LINES.channel else mails.recipient
    try:
        return read(text)
    except ValueError as exc:
        raise ValueError(f"recipient is {shown_value(text)}; it {exc}") from exc


def attempts(session: Session, record_id: int, *, channel: str | None = None) -> list[AttemptStory]:
    """The attempt log of one record of the current tenant. Raises: RecordNotFound."""
    _channel_of(session, record_id, channel)
    return attempts_of(session, record_id)


def read_story(
    session: Session, record_id: int, *, channel: str | None = None, with_bodies: bool = False
) -> Story | SmsStory:
    """The whole story of one record of the current tenant; bodies and variables only where they are asked for.

    Raises: RecordNotFound.
    """
    found = _channel_of(session, record_id, channel)
    read = texts.read_story if found == texts.LINES.channel else mails.read_story
    return read(session, record_id, with_bodies=with_bodies)


def _channel_of(session: Session, record_id: int, channel: str | None) -> str:
    """The channel of a record that is in this one, or (None) in any. Raises: RecordNotFound."""
    found = channel_of(session.connection(), record_id).name
    if found not in _SOURCES or channel not in (None, found):
        raise RecordNotFound(f"no {channel or ''} record {record_id}".replace("  ", " "))
    return found


def position(session: Session, record_id: int) -> Position:
    """Where a record of the current tenant stands in lists. Raises: RecordNotFound."""
    owner = reading_owner()
    for source in _SOURCES.values():
        found = source.position(session, record_id, owner=owner)
        if found is not None:
            return found
    raise RecordNotFound(f"no record {record_id}")


def page(
    session: Session,
    *,
    channel: str | None = None,
    asked: RecordFilter = RecordFilter(),  # noqa: B008 - frozen
    limit: int = 20,
    before: Position | None = None,
    after: Position | None = None,
    scan_rows: int = SCAN_ROWS,
) -> RecordPage:
    """Records of the current tenant that fit a filter, newest first, of one channel or (None) of all.

    Across tenants they are in order of their ids. A page costs the same however long the list is: see
    `messaging.db.newest`. `after`, of one channel: those next above a place.
    """
    owner = reading_owner()
    if after is not None and channel in _SOURCES:
        return _SOURCES[channel].page(
            session, asked, owner=owner, limit=limit, before=None, after=after, scan_rows=scan_rows
        )
    pages = [
        source.page(session, asked, owner=owner, limit=limit, before=before, scan_rows=scan_rows)
        for name, source in _SOURCES.items()
        if channel in (None, name)
    ]

    def place(at: Line | Position) -> tuple[Any, ...]:
        return (at.id,) if owner is None else (at.created_at, at.id)

    # Below the highest place where one channel's page ended, lines of that channel are missing.
    ends = [page.next for page in pages if page.next is not None]
    end = max(ends, key=place, default=None)
    lines = sorted((line for page in pages for line in page.lines), key=place, reverse=True)
    known = [line for line in lines if end is None or place(line) >= place(end)]
    if len(known) > limit:
        end = Position(known[limit - 1].created_at, known[limit - 1].id)
    return RecordPage(known[:limit], end, pages[0].newer if len(pages) == 1 else None)


def config_names(session: Session, channel: str, config_ids: Collection[int]) -> dict[int, str]:
    """What the servers or providers of records are called: a tenant's record may go out by the platform's."""
    if not config_ids:
        return {}
    c = _CONFIGS[channel].c
    rows = session.connection().execute(select(c.id, c.name).where(c.id.in_(config_ids)))
    return {row.id: row.name for row in rows}


def configs_to_choose(session: Session, channel: str) -> list[tuple[int, str]]:
    """Ids and names of servers or providers by which records of the current tenant may have gone out, by name."""
    c, owner = _CONFIGS[channel].c, reading_owner()
    statement = select(c.id, c.name).order_by(c.name, c.id).limit(MAX_CONFIGS)
    if owner is not None:
        statement = statement.where(c.tenant_id.in_((owner, PLATFORM_TENANT_ID)))
    return [(row.id, row.name) for row in session.connection().execute(statement)]


def find(
    session: Session,
    text: str,
    *,
    channel: str,
    asked: RecordFilter = RecordFilter(),  # noqa: B008 - frozen
    limit: int = 20,
) -> list[Line]:
    """Records of the current tenant and a channel that a text names: by id, Message-ID, the provider's id, or key."""
    return _SOURCES[channel].find(session, text, asked, owner=reading_owner(), limit=limit)


def tallies(session: Session, *, channel: str, asked: RecordFilter = RecordFilter()) -> Tallies:  # noqa: B008
    """How many records of each status fit the rest of a filter, as far as that costs little."""
    return tally(session, _SOURCES[channel], asked, owner=reading_owner())
