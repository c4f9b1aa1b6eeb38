"""What a link for leaving a mailing list does: from its token to the entry on the suppression list (RFC 8058).

The token alone says who may do it: whoever has the mail. Following the link changes nothing, as scanners of mails do
that too; only a POST calls `unsubscribe`. Who answers HTTP is `messaging.web`.
"""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging import suppression, tenancy
from messaging.mail import unsubscribe as links
from messaging.mail.channel import envelope_recipients
from messaging.mail.models import MailSendRecord
from messaging.requests import SuppressionReason
from messaging.suppression import MAIL, Suppression, mail_address


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a link is about: an address on a mailing list of the tenant that sent the record."""

    tenant_id: int
    record_id: int
    list_name: str
    address: str
    #: Whether the address gets mails of this list; always False in what `unsubscribe` answers.
    is_on: bool


def find_subscription(session: Session, token: str) -> Subscription | None:
    """What the token of a link is about; changes nothing. None for a token that we did not sign, or whose mail is gone.

    Runs in the tenant the token names, whatever the caller's is.
    """
    link = links.read(token)
    if link is None:
        return None
    with tenancy.tenant(link.tenant_id):
        r = MailSendRecord
        row = session.execute(
            select(r.tenant_id, r.unsubscribe_list, r.to_addresses, r.cc_addresses, r.bcc_addresses).where(
                r.id == link.record_id, r.tenant_id == link.tenant_id
            )
        ).one_or_none()
        if row is None or row.unsubscribe_list is None:
            return None
        [address] = envelope_recipients(dict(row._mapping))
        if not link.is_about(list_name=row.unsubscribe_list, address=address):
            return None
        s = Suppression
        entry = select(s.id).where(
            s.tenant_id == row.tenant_id,
            s.channel == MAIL,
            s.address == mail_address(address),
            s.list.in_(("", row.unsubscribe_list)),
            s.lifted_at.is_(None),
        )
        is_on = session.scalar(entry.limit(1)) is None
        return Subscription(row.tenant_id, link.record_id, row.unsubscribe_list, address, is_on)


def unsubscribe(session: Session, token: str) -> Subscription | None:
    """Leave the mailing list that a link is about, in the caller's transaction; again, nothing changes.

    None for a token that we did not sign, or whose mail is gone. It holds for attempts that begin after the commit.
    """
    found = find_subscription(session, token)
    if found is None:
        return None
    with tenancy.tenant(found.tenant_id):
        suppression.add(
            session,
            channel=MAIL,
            address=found.address,
            reason=SuppressionReason.UNSUBSCRIBED,
            list_name=found.list_name,
            record_id=found.record_id,
        )
    return Subscription(found.tenant_id, found.record_id, found.list_name, found.address, is_on=False)
