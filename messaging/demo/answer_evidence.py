"""What came back of the shop's mails, by their records, the received mails and the suppression list."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from messaging import api, suppression
from messaging.category import MarkerCode
from messaging.delivery.status import SendStatus
from messaging.demo.answers import Answer
from messaging.demo.shop import ANSWERS, SHOP, Accepted, Fate
from messaging.mail.models import MailSendRecord
from messaging.mail.records import Story
from messaging.receive.models import MailReceiveRecord
from messaging.receive.vocabulary import MailType
from messaging.requests import SuppressionReason

#: What the far side says of a mailbox that is not there any more.
BOUNCE_CODE = "550 5.1.1"

_TYPES = {Answer.BOUNCED: MailType.BOUNCE, Answer.READ: MailType.READ_RECEIPT, Answer.REPLIED: MailType.AUTO_REPLY}


def read_answers(session: Session, accepted: Sequence[Accepted]) -> dict[int, Answer]:
    """What is known by now of mails that something is to come back of, by record id."""
    awaited = {each.mail_id: each for each in accepted if each.order.fate in ANSWERS}
    r, received = MailSendRecord, MailReceiveRecord
    found: dict[int, Answer] = {}
    columns = (r.id, r.bounced, r.read_receipt_received)
    for row in session.execute(select(*columns).where(r.id.in_(awaited))):
        if row.bounced:
            found[row.id] = Answer.BOUNCED
        elif row.read_receipt_received:
            found[row.id] = Answer.READ
    repliers = select(received.from_address).where(received.mail_type == MailType.AUTO_REPLY)
    replied = set(session.scalars(repliers))
    return {i: Answer.REPLIED for i, each in awaited.items() if each.order.address in replied} | found


def what_is_wrong_with_answer(fate: Fate, story: Story) -> str:
    """What is wrong with the record of a mail that something came back of, or of one stopped by that; else empty."""
    match fate:
        case Fate.BOUNCED:
            if (story.status, story.error_code) != (SendStatus.FAILED, MarkerCode.BOUNCED):
                return f"its mail came back, yet it is {story.status}: {story.why}"
            if not story.bounced or story.bounce_code != BOUNCE_CODE or story.sent_at is None:
                return f"its bounce says {story.bounce_code}, not {BOUNCE_CODE}"
        case Fate.SUPPRESSED:
            if (story.status, story.error_code) != (SendStatus.FAILED, MarkerCode.SUPPRESSED):
                return f"is to an address that bounced, yet it is {story.status}: {story.why}"
        case Fate.READ | Fate.AWAY:
            if story.status is not SendStatus.SENT or story.bounced:
                return f"is {story.status}, not {SendStatus.SENT}: {story.why}"
            read_at = story.read_receipt_received_at
            if (read_at is not None) is not (fate is Fate.READ):
                return f"its read receipt came at {read_at}"
            if read_at is not None and not (story.sent_at and story.sent_at <= read_at <= datetime.now(UTC)):
                return f"was read at {read_at}, which is not between its sending and now"
    return ""


def wrong_answers(accepted: Sequence[Accepted]) -> list[str]:
    """What is wrong with the shop's received mails and its suppression list: each holds what came back, and no more."""
    orders = {each.order.fate: each for each in accepted}
    with SHOP.acting():
        mails = api.list_received()
        suppressed = {line.address: line for line in api.list_suppressions(channel=suppression.MAIL)}
    received = {line.mail_type: line for line in mails}
    wrong = [f"{len(mails)} mails were received, not {len(ANSWERS)}"] if len(mails) != len(ANSWERS) else []
    for fate, answer in ANSWERS.items():
        about = orders[fate].mail_id
        line = received.get(_TYPES[answer])
        # An automatic answer changes no record and is tied to none.
        if line is None or line.linked_send_record_id != (None if answer is Answer.REPLIED else about):
            wrong.append(f"no {_TYPES[answer]} was received for mail {about}, or it is about another one")
    address = orders[Fate.BOUNCED].order.address
    if suppressed.keys() != {address} or suppressed[address].reason is not SuppressionReason.HARD_BOUNCE:
        wrong.append(f"suppressed are {sorted(suppressed)}, not {address} for its bounce")
    return wrong
