"""How the command line shows received mails to people; nothing decided here."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from messaging.api import MailStatus
from messaging.receive.received import ReceivedLine, ReceivedMail
from messaging.terminal import console_for_people, status_text, table, time_text


def print_received(lines: Sequence[ReceivedLine], next_before: int | None) -> None:
    """`messaging received list`."""
    console = console_for_people()
    console.print(received_table(lines) if lines else "no mails")
    if next_before is not None:
        console.print(f"older ones: --before {next_before}")


def print_about(lines: Sequence[ReceivedLine]) -> None:
    """Of `messaging show`: the received mails about a record."""
    console = console_for_people()
    console.print(Text("received about it", style="bold"))
    console.print(received_table(lines))


def received_table(lines: Sequence[ReceivedLine]) -> Table:
    """One mail a row."""
    shown = table("id", "received", "status", "type", "flags", "from", "subject", "link", "record")
    for line in lines:
        kind = f" {line.bounce_kind.lower()}" if line.mail_type == "BOUNCE" and line.bounce_kind else ""
        shown.add_row(
            str(line.id),
            time_text(line.received_at),
            line.status,
            f"{line.mail_type}{kind}",
            " ".join(flag.lower() for flag in line.flags),
            Text(line.from_address or ""),
            Text(line.subject or ""),
            line.link_status,
            str(line.linked_send_record_id or ""),
        )
    return shown


def print_received_mail(mail: ReceivedMail, record: MailStatus | None) -> None:
    """`messaging received show`."""
    console = console_for_people()
    console.print(Text(f"received {mail.id}  ", style="bold"), f"{mail.mail_type}  {mail.status}", sep="")
    for label, value in (_told(mail) | _told_of_record(mail, record)).items():
        if value:
            console.print(Text(f"{label:>16}  ", style="dim"), value, sep="", soft_wrap=True)
    if mail.bounce_recipients:
        console.print()
        console.print(_groups(mail.bounce_recipients))
    for name, body in {"plain text": mail.body_text, "html": mail.body_html}.items():
        if body is not None:
            console.print(Text(f"-- {name}", style="bold"), soft_wrap=True)
            console.print(Text(body), soft_wrap=True)


def _told(mail: ReceivedMail) -> dict[str, Text]:
    sender = f"{mail.from_name} <{mail.from_address}>" if mail.from_name else mail.from_address
    told = {
        "from": sender,
        "to": ", ".join(mail.to_addresses),
        "cc": ", ".join(mail.cc_addresses),
        "subject": mail.subject,
        "date": mail.date_header,
        "received": time_text(mail.received_at),
        "fetched": time_text(mail.fetched_at),
        "mailbox": f"{mail.server_config_id}, {mail.folder_name}",
        "message id": mail.message_id,
        "flags": ", ".join(flag.lower().replace("_", " ") for flag in mail.flags),
        "says": mail.type_detail,
        "attachments": ", ".join(_attachment(one) for one in mail.attachments or ()),
        "raw": f"file {mail.eml_file_id}" if mail.eml_file_id else "",
        "not whole": mail.truncation_reason,
        "same id as": str(mail.duplicate_of or ""),
        "about": mail.original_message_id,
        "link": mail.link_status,
    }
    return {label: Text(value) for label, value in told.items() if value}


def _told_of_record(mail: ReceivedMail, record: MailStatus | None) -> dict[str, Text]:
    if record is None:
        return {"record": Text(str(mail.linked_send_record_id or ""))}
    bounced = f", bounced {record.bounce_code or ''}".rstrip() if record.bounced else ""
    read = ", read" if record.read_receipt_received else ""
    told = f"  to {', '.join(record.to)}{bounced}{read}"
    return {"record": Text.assemble(f"{record.id} ", status_text(record.status), told)}


def _groups(groups: Sequence[Mapping[str, Any]]) -> Table:
    shown = table("recipient", "sent to", "kind", "action", "codes", "reason", "what its server said")
    for one in groups:
        shown.add_row(
            Text(one.get("recipient") or ""),
            Text(one.get("original_recipient") or ""),
            one["kind"],
            Text(one.get("action") or ""),
            Text(" ".join(filter(None, (one.get("reply_code"), one.get("status"))))),
            one["reason"] + (" (doubtful)" if one.get("is_doubtful") else ""),
            Text(one.get("diagnostic") or ""),
        )
    return shown


def _attachment(reference: Mapping[str, Any]) -> str:
    described = (reference.get("content_type"), f"{reference['size']} octets", f"file {reference['file_id']}")
    return f"{reference['file_name']} ({', '.join(filter(None, described))})"
