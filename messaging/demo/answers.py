"""What a far side says of a mail that it took: a bounce, a read receipt, a vacation reply. Pure.

Sources: RFC 3464 (delivery status), RFC 8098 (read receipts), RFC 3834 (automatic answers).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import SMTP
from email.utils import format_datetime, make_msgid, parseaddr
from enum import StrEnum

#: What the far end of a bounce says, as the last server on the way heard it.
REFUSAL = "550 5.1.1 <{address}>: no such mailbox here any more"


class Answer(StrEnum):
    """What comes back of a mail."""

    BOUNCED = "bounced"
    READ = "read"
    REPLIED = "answered"


@dataclass(frozen=True, slots=True)
class Taken:
    """A mail for one recipient, and when the answer is written."""

    sender: str
    recipient: str
    content: bytes
    at: datetime

    @property
    def header_block(self) -> bytes:
        """As it came."""
        return self.content.partition(b"\r\n\r\n")[0] + b"\r\n"

    @property
    def headers(self) -> EmailMessage:
        """Decoded."""
        return message_from_bytes(self.header_block + b"\r\n", policy=SMTP)

    @property
    def domain(self) -> str:
        """Of the recipient."""
        return self.recipient.rpartition("@")[2]


def compose(answer: Answer, taken: Taken) -> bytes | None:
    """The mail that comes back; None for a read receipt that nobody asked for."""
    match answer:
        case Answer.BOUNCED:
            return bounce(taken)
        case Answer.READ:
            return read_receipt(taken)
        case Answer.REPLIED:
            return vacation_reply(taken)


def bounce(taken: Taken) -> bytes:
    """A report that delivery failed for good, with the mail's headers; it goes to the envelope sender."""
    server = f"mx.{taken.domain}"
    refusal = REFUSAL.format(address=taken.recipient)
    report = _report("delivery-status", f"MAILER-DAEMON@{server}", taken.sender, taken)
    report["Subject"] = "Undelivered Mail Returned to Sender"
    report["Auto-Submitted"] = "auto-replied"
    report.attach(MIMEText(f"Your message could not be delivered.\n\n<{taken.recipient}>: {refusal}\n"))
    about = {"Reporting-MTA": f"dns; {server}", "Arrival-Date": format_datetime(taken.at)}
    failed = {
        "Final-Recipient": f"rfc822; {taken.recipient}",
        "Action": "failed",
        "Status": "5.1.1",
        "Remote-MTA": f"dns; store.{taken.domain}",
        "Diagnostic-Code": f"smtp; {refusal}",
    }
    report.attach(_fields("delivery-status", about, failed))
    report.attach(MIMEText(taken.header_block.decode(), "rfc822-headers"))
    return report.as_bytes(policy=SMTP)


def read_receipt(taken: Taken) -> bytes | None:
    """A note that the mail was displayed, to whom its sender asked to tell; None where nobody asked."""
    asked_by = taken.headers["Disposition-Notification-To"]
    if asked_by is None:
        return None
    report = _report("disposition-notification", taken.recipient, parseaddr(str(asked_by))[1], taken)
    report["Subject"] = f"Read: {taken.headers['Subject']}"
    _refer(report, taken)
    report.attach(MIMEText(f"Your message to {taken.recipient} was displayed. Nobody says that it was understood.\n"))
    told = {
        "Reporting-UA": f"reader.{taken.domain}; Reader 1.0",
        "Final-Recipient": f"rfc822; {taken.recipient}",
        "Original-Message-ID": str(taken.headers["Message-ID"]),
        "Disposition": "manual-action/MDN-sent-manually; displayed",
    }
    report.attach(_fields("disposition-notification", told))
    return report.as_bytes(policy=SMTP)


def vacation_reply(taken: Taken) -> bytes:
    """A notice that the recipient is away; it goes to the envelope sender, as all automatic answers do."""
    reply = EmailMessage(policy=SMTP)
    _address(reply, taken.recipient, taken.sender, taken)
    reply["Subject"] = f"Auto: {taken.headers['Subject']}"
    reply["Auto-Submitted"] = "auto-replied (vacation)"
    _refer(reply, taken)
    reply.set_content("Thank you. I am away for two weeks, and read your mail when I am back.\n")
    return reply.as_bytes()


def _report(kind: str, sender: str, recipient: str, taken: Taken) -> MIMEMultipart:
    """RFC 6522, without its parts."""
    report = MIMEMultipart("report", policy=SMTP, report_type=kind)
    _address(report, sender, recipient, taken)
    return report


def _address(mail: "Message[str, str] | EmailMessage", sender: str, recipient: str, taken: Taken) -> None:
    mail["From"], mail["To"] = sender, recipient
    mail["Date"] = format_datetime(taken.at)
    mail["Message-ID"] = make_msgid(domain=taken.domain)


def _refer(mail: "Message[str, str] | EmailMessage", taken: Taken) -> None:
    for name in ("In-Reply-To", "References"):
        mail[name] = str(taken.headers["Message-ID"])


def _fields(kind: str, *groups: Mapping[str, str]) -> MIMEBase:
    """The part of a report that programs read: groups of fields."""
    part = MIMEBase("message", kind, policy=SMTP)
    for group in groups:
        block: Message[str, str] = Message(policy=SMTP)
        for name, value in group.items():
            block[name] = value
        part.attach(block)
    return part
