"""Reading records for people, whatever their channel: one with its whole story, or a page of them, newest first."""

from sqlalchemy.orm import Session

from messaging.channels import channel_of
from messaging.db.filters import owning_tenant
from messaging.delivery.status import SendStatus
from messaging.delivery.stories import Line
from messaging.errors import RecordNotFound
from messaging.mail import records as mails
from messaging.mail.records import Story
from messaging.sms import records as texts
from messaging.sms.records import SmsStory
from messaging.tenancy import SINGLE_TENANT_ID, is_multi_tenancy

_SOURCES = {source.channel: source for source in (mails.LINES, texts.LINES)}


def read_story(session: Session, record_id: int, *, with_bodies: bool = False) -> Story | SmsStory:
    """The whole story of one record of the current tenant.

    Raises: RecordNotFound.
    """
    channel = channel_of(session.connection(), record_id)
    read = texts.read_story if channel.name == texts.LINES.channel else mails.read_story
    return read(session, record_id, with_bodies=with_bodies)


def page(
    session: Session,
    *,
    channel: str | None = None,
    status: SendStatus | None = None,
    limit: int = 20,
    before: int | None = None,
) -> list[Line]:
    """Records of the current tenant, newest first, of one channel or (None) of all.

    `before` is the id of the last one of the page before. Across tenants they are in order of their ids.

    Raises: RecordNotFound, when `before` is none of them.
    """
    chosen = [source for name, source in _SOURCES.items() if channel in (None, name)]
    owner = owning_tenant() if is_multi_tenancy() else SINGLE_TENANT_ID
    position = None
    if before is not None:
        position = next(filter(None, (source.position(session, before) for source in _SOURCES.values())), None)
        if position is None:
            raise RecordNotFound(f"no record {before}")
    lines = [
        line
        for source in chosen
        for line in source.lines(session, owner=owner, status=status, limit=limit, before=position)
    ]
    lines.sort(key=lambda line: line.id if owner is None else (line.created_at, line.id), reverse=True)
    return lines[:limit]
