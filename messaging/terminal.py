"""How the command line shows records and findings to people: tables and labelled lines, nothing decided here."""

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from messaging.access.models import ApiToken, Operator
from messaging.delivery.lines import Line
from messaging.delivery.stories import AttemptStory
from messaging.doctor import Finding, Level
from messaging.mail.records import RecipientStory, Story
from messaging.mail.server_admin import ServerLine
from messaging.mail.template_admin import TemplateLine
from messaging.quota import MonthUsage
from messaging.receive.mailbox_admin import MailboxLine, WatermarkLine
from messaging.receive.mailbox_checks import INBOX
from messaging.receive.vocabulary import MailboxAuth
from messaging.sms.explaining import RouteExplanation
from messaging.sms.provider_admin import ProviderLine
from messaging.sms.records import SmsStory
from messaging.sms.route_admin import BindingLine, RouteLine
from messaging.sms.template_admin import SmsTemplateLine
from messaging.suppression_admin import SuppressionLine

STATUS_STYLE = {
    "PENDING": "cyan",
    "SENDING": "blue",
    "SENT": "green",
    "RETRY": "yellow",
    "FAILED": "red",
    "DEAD_LETTER": "bold red",
}

#: Columns of what is written to a file or a pipe.
FILE_WIDTH = 160

#: What a terminal would act upon: controls, shown as their pictures where Unicode has some, and changes of direction.
_INERT = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_INERT |= dict.fromkeys((*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)

_LEVEL_STYLE = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "bold red"}


def table(*headings: str) -> Table:
    """An empty table of ours."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in headings:
        made.add_column(heading, overflow="fold")
    return made


def status_text(status: str) -> Text:
    """A status in its colour."""
    return Text(status, style=STATUS_STYLE.get(status, ""))


def time_text(at: datetime | None) -> str:
    """A time in UTC, to the second; empty for None."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z"


class PeoplesConsole(Console):
    """Shows text and acts upon none of it: subjects, addresses and bodies are written by strangers."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Without controls but our own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=segment.text.translate(_INERT))


def console_for_people() -> Console:
    """Standard output; wide where it is no terminal, as nobody can make a file wider."""
    console = PeoplesConsole(highlight=False)
    return console if console.is_terminal else PeoplesConsole(highlight=False, width=FILE_WIDTH)


def print_story(story: Story | SmsStory) -> None:
    """`messaging show`."""
    console = console_for_people()
    console.print(Text(f"{story.channel} {story.id}  ", style="bold"), status_text(story.status), sep="")
    told = _told_of_mail(story) if isinstance(story, Story) else _told_of_text(story)
    for label, value in told.items():
        if value:
            console.print(Text(f"{label:>16}  ", style="dim"), Text(value), sep="", soft_wrap=True)
    console.print()
    if isinstance(story, Story):
        console.print(_recipients(story.recipients))
    if story.attempts:
        console.print(_attempts(story.attempts))
    bodies = {"plain text": story.body_text, "html": story.body_html} if isinstance(story, Story) else {}
    if isinstance(story, SmsStory):
        bodies = {"text": story.content}
    for name, body in bodies.items():
        if body is not None:
            console.print(Text(f"-- {name}", style="bold"), soft_wrap=True)
            console.print(Text(body), soft_wrap=True)


def _told_of_mail(story: Story) -> dict[str, str | None]:
    return {
        "why": story.why,
        "next attempt": time_text(story.next_attempt_at),
        "subject": story.subject,
        "from": story.from_address,
        "server": story.server,
        "template": story.template,
        "missing": ", ".join(story.missing_variables or ()),
        "attachments": ", ".join(story.attachments),
        "list": story.unsubscribe_list,
        "message id": story.message_id,
        "accepted": time_text(story.created_at),
        "not before": time_text(story.send_at),
        "not after": time_text(story.expires_at),
        "prepared": time_text(story.prepared_at),
        "sent": time_text(story.sent_at),
        "retries": str(story.retry_count),
        "uncertain": "an attempt may have reached somebody without it being recorded" if story.uncertain else "",
        "dead letter": story.dead_letter,
        "bounced": (story.bounce_code or "yes") if story.bounced else "",
        "read receipt": time_text(story.read_receipt_received_at),
        "idempotency key": story.idempotency_key,
        "tenant": str(story.tenant_id),
        "trace id": story.trace_id,
    }


def _told_of_text(story: SmsStory) -> dict[str, str | None]:
    receipt_at = time_text(story.delivery_status_updated_at)
    return {
        "why": story.why,
        "next attempt": time_text(story.next_attempt_at),
        "to": story.phone_number,
        "country": story.region_code,
        "provider": story.provider,
        "message id": story.provider_message_id,
        "receipt": f"{story.delivery_status} {receipt_at}" if receipt_at else "",
        "length": f"{story.segments} x {story.encoding}" if story.segments else "",
        "template": story.template,
        "missing": ", ".join(story.missing_variables or ()),
        "its template": story.external_template_id,
        "signature": story.sign_name,
        "accepted": time_text(story.created_at),
        "not before": time_text(story.send_at),
        "not after": time_text(story.expires_at),
        "prepared": time_text(story.prepared_at),
        "sent": time_text(story.sent_at),
        "retries": str(story.retry_count),
        "uncertain": "an attempt may have reached the number without it being recorded" if story.uncertain else "",
        "dead letter": story.dead_letter,
        "idempotency key": story.idempotency_key,
        "tenant": str(story.tenant_id),
        "trace id": story.trace_id,
    }


def _recipients(recipients: Sequence[RecipientStory]) -> Table:
    shown = table("recipient", "result", "code", "what its server said")
    for r in recipients:
        shown.add_row(Text(r.address), r.result, r.code or "", Text(r.text or ""))
    return shown


def _attempts(attempts: Sequence[AttemptStory]) -> Table:
    shown = table("attempt", "began", "took", "outcome", "category", "code", "worker")
    for a in attempts:
        took = "" if a.ended_at is None else f"{(a.ended_at - a.started_at).total_seconds():.2f} s"
        shown.add_row(
            str(a.attempt_no),
            time_text(a.started_at),
            took,
            a.outcome or "",
            a.category or "",
            Text(a.error_code or ""),
            Text(a.worker_name or ""),
        )
    return shown


def print_page(lines: Sequence[Line], next_before: int | None) -> None:
    """`messaging list`."""
    console = console_for_people()
    shown = table("id", "channel", "accepted", "status", "retries", "next attempt", "to", "subject", "code")
    for line in lines:
        others = f" and {len(line.to) - 1} more" if len(line.to) > 1 else ""
        shown.add_row(
            str(line.id),
            line.channel,
            time_text(line.created_at),
            status_text(line.status),
            str(line.retry_count),
            time_text(line.next_attempt_at),
            Text(line.to[0] + others),
            Text(line.subject or (f"of template {line.template}" if line.template else "")),
            Text(line.error_code or ""),
        )
    console.print(shown if lines else "no records")
    if next_before is not None:
        console.print(f"older ones: --before {next_before}")


def print_months(months: Sequence[MonthUsage]) -> None:
    """`messaging quota show --history`."""
    made = table("month", "mails", "limit then", "texts", "limit then")
    for month in months:
        mail_limit, sms_limit = (
            "unlimited" if limit is None else str(limit) for limit in (month.mail_limit, month.sms_limit)
        )
        made.add_row(month.period, str(month.mail_used), mail_limit, str(month.sms_used), sms_limit)
    console_for_people().print(made if months else "nothing was charged in any month")


def print_servers(lines: Sequence[ServerLine]) -> None:
    """`messaging server list`."""
    console = console_for_people()
    shown = table("id", "tenant", "name", "host", "tls", "login", "from", "default", "state", "a day", "a minute")
    for line in lines:
        tls = (
            "implicit" if line.ssl_enabled or line.protocol == "SMTPS" else "starttls" if line.starttls_enabled else ""
        )
        login = (line.username or "") + ("" if line.has_password or not line.username else " (no password)")
        shown.add_row(
            str(line.id),
            str(line.tenant_id),
            Text(line.name),
            Text(f"{line.host}:{line.port}"),
            tls,
            Text(login),
            Text(line.from_address or line.username or ""),
            Text("default" if line.is_default else "", style="bold"),
            _state(line.active),
            str(line.daily_send_limit or ""),
            str(line.rate_limit_per_minute or ""),
        )
    console.print(shown if lines else "no servers")


def print_mailboxes(lines: Sequence[MailboxLine]) -> None:
    """`messaging mailbox list`."""
    shown = table("id", "tenant", "name", "protocol", "host", "login", "folders", "every", "next", "default", "state")
    for line in lines:
        shown.add_row(
            str(line.id),
            str(line.tenant_id),
            Text(line.name),
            line.protocol + (" over TLS" if line.ssl_enabled and not line.protocol.endswith("S") else ""),
            Text(f"{line.host}:{line.port}"),
            Text((line.username or "") + ("" if line.auth == MailboxAuth.PASSWORD else f" ({line.auth})")),
            Text(line.fetch_folders or INBOX),
            f"{line.fetch_interval_seconds} s" if line.fetch_interval_seconds else "",
            time_text(line.next_fetch_at) if line.active else "",
            Text("default" if line.is_default else "", style="bold"),
            _state(line.active),
        )
    console_for_people().print(shown if lines else "no mailboxes")


def print_watermarks(lines: Sequence[WatermarkLine]) -> None:
    """`messaging mailbox watermarks`."""
    shown = table("mailbox", "folder", "UIDVALIDITY", "last UID", "last fetch", "being read since")
    for line in lines:
        shown.add_row(
            str(line.server_config_id),
            Text(line.folder_name),
            "" if line.uid_validity is None else str(line.uid_validity),
            str(line.last_seen_uid or ""),
            time_text(line.last_fetched_at),
            time_text(line.in_progress_since),
        )
    console_for_people().print(shown if lines else "nothing was fetched so far")


def print_templates(lines: Sequence[TemplateLine]) -> None:
    """`messaging template list`."""
    shown = table("id", "tenant", "code", "name", "mode", "priority", "state", "changed")
    for line in lines:
        shown.add_row(
            str(line.id),
            str(line.tenant_id),
            Text(line.code),
            Text(line.name),
            line.body_mode,
            line.default_priority or "",
            _state(line.active),
            time_text(line.updated_at),
        )
    console_for_people().print(shown if lines else "no templates")


def print_sms_templates(lines: Sequence[SmsTemplateLine]) -> None:
    """`messaging template list --channel sms`."""
    shown = table("id", "tenant", "code", "name", "to GSM", "segments", "state", "changed")
    for line in lines:
        shown.add_row(
            str(line.id),
            str(line.tenant_id),
            Text(line.code),
            Text(line.name),
            "yes" if line.to_gsm else "",
            "" if line.max_segments is None else f"at most {line.max_segments}",
            _state(line.active),
            time_text(line.updated_at),
        )
    console_for_people().print(shown if lines else "no templates")


def print_suppressions(lines: Sequence[SuppressionLine], next_before: int | None) -> None:
    """`messaging suppression list`."""
    console = console_for_people()
    shown = table("id", "since", "reason", "address", "only", "by", "note", "lifted")
    for line in lines:
        only = f"list {line.list}" if line.list else f"sender {line.sender}" if line.sender else ""
        lifted = f"{time_text(line.lifted_at)}: {line.lifted_note}" if line.lifted_at else ""
        by = line.created_by or (f"record {line.record_id}" if line.record_id else "")
        shown.add_row(
            str(line.id),
            time_text(line.created_at),
            line.reason,
            Text(line.address),
            Text(only),
            Text(by),
            Text(line.note or ""),
            Text(lifted),
        )
    console.print(shown if lines else "no entries")
    if next_before is not None:
        console.print(f"older ones: --before {next_before}")


def print_tokens(rows: Sequence[ApiToken]) -> None:
    """`messaging token list`."""
    console = console_for_people()
    shown = table("id", "begins", "role", "for", "name", "last used", "ends", "revoked")
    for row in rows:
        times = map(time_text, (row.last_used_at, row.expires_at, row.revoked_at))
        who = "" if row.user_id is None else f"user {row.user_id}"
        shown.add_row(str(row.id), row.prefix, row.role, who, Text(row.name), *times)
    console.print(shown if rows else "no tokens")


def print_operators(rows: Sequence[Operator]) -> None:
    """`messaging operator list`."""
    console = console_for_people()
    shown = table("id", "user name", "role", "for", "name", "signed in", "")
    for row in rows:
        who = "" if row.user_id is None else f"user {row.user_id}"
        signed_in, state = time_text(row.last_signed_in_at), "" if row.active else "disabled"
        shown.add_row(str(row.id), row.user_name, row.role, who, Text(row.display_name or ""), signed_in, state)
    console.print(shown if rows else "no operators")


def print_classified(lines: Sequence[dict[str, Any]]) -> None:
    """`messaging classify`: the values of `messaging.receive.classify.summary`, one mail a row."""
    console = console_for_people()
    shown = table("file", "type", "recipients", "status", "code", "action", "reason", "hard", "about", "flags")
    for line in lines:
        shown.add_row(
            Text(os.fsencode(line["file"]).decode(errors="replace")),
            line["type"],
            Text("\n".join(line["recipients"])),
            Text(line["status"] or ""),
            Text(line["reply_code"] or ""),
            Text(line["action"] or ""),
            line["reason"] or "",
            "yes" if line["hard_bounce"] else "",
            Text(line["original_message_id"] or ""),
            " ".join(line["flags"]),
        )
    console.print(shown if lines else "no mails")


def print_providers(lines: Sequence[ProviderLine]) -> None:
    """`messaging provider list`."""
    shown = table(
        "id", "tenant", "name", "type", "endpoint", "sender", "default", "priority", "state", "a day", "a minute"
    )
    for line in lines:
        shown.add_row(
            str(line.id),
            str(line.tenant_id),
            Text(line.name),
            line.provider_type,
            Text(line.api_endpoint or ""),
            Text(line.sender_number or line.sender_id or ""),
            Text("default" if line.is_default else "", style="bold"),
            str(line.priority),
            _state(line.active),
            str(line.daily_send_limit or ""),
            str(line.rate_limit_per_minute or ""),
        )
    console = console_for_people()
    console.print(shown if lines else "no providers")
    for line in lines:
        if not line.is_told_receipt_url:
            address = line.receipt_url or f"{line.receipt_path} below PUBLIC_BASE_URL"
            console.print(Text(f"receipts of {line.id}, to be set in its console: {address}"), soft_wrap=True)


def print_provider(line: ProviderLine) -> None:
    """`messaging provider show`."""
    console = console_for_people()
    for name, value in _provider_fields(line):
        if value:
            console.print(Text(f"{name:<10}  {value}"), soft_wrap=True)


def _provider_fields(line: ProviderLine) -> list[tuple[str, str]]:
    secrets = {"API key": line.has_api_key, "API secret": line.has_api_secret}
    receipts = line.receipt_url or f"{line.receipt_path} below PUBLIC_BASE_URL, which is not set"
    how = "given with each message" if line.is_told_receipt_url else "to be set in the provider's console"
    return [
        ("id", str(line.id)),
        ("tenant", str(line.tenant_id)),
        ("name", line.name),
        ("type", line.provider_type),
        ("state", "in use" if line.active else "disabled"),
        ("endpoint", line.api_endpoint or ""),
        ("account", line.account_id or ""),
        ("sender", line.sender_number or line.sender_id or ""),
        ("secrets", ", ".join(name for name, is_set in secrets.items() if is_set)),
        ("its own", ", ".join(line.ext_keys)),
        ("default", "yes" if line.is_default else ""),
        ("priority", str(line.priority)),
        ("a day", str(line.daily_send_limit or "")),
        ("a minute", str(line.rate_limit_per_minute or "")),
        ("receipts", f"{receipts} ({how})"),
        ("inbound", "" if line.inbound_url is None else f"{line.inbound_url} (to be set in the provider's console)"),
    ]


def print_routes(lines: Sequence[RouteLine]) -> None:
    """`messaging route list`."""
    shown = table("id", "tenant", "country", "code", "priority", "provider", "name", "type", "state")
    for line in lines:
        state = _state(line.active)
        if line.active and not line.is_used:
            state = Text("provider disabled" if line.provider_name is not None else "no provider", style="yellow")
        shown.add_row(
            str(line.id),
            str(line.tenant_id),
            line.region_code,
            f"+{line.dial_code}" if line.dial_code else "",
            str(line.priority),
            str(line.provider_config_id),
            Text(line.provider_name or ""),
            line.provider_type or "",
            state,
        )
    console_for_people().print(shown if lines else "no routes")


def print_bindings(lines: Sequence[BindingLine]) -> None:
    """`messaging binding list`."""
    shown = table(
        "id", "tenant", "template", "country", "provider", "name", "its template", "sign", "priority", "state"
    )
    for line in lines:
        shown.add_row(
            str(line.id),
            str(line.tenant_id),
            Text(line.template_code or str(line.template_id)),
            line.region_code or "any",
            str(line.provider_config_id),
            Text(line.provider_name or ""),
            Text(line.external_template_id or ""),
            Text(line.sign_name or ""),
            str(line.priority),
            _state(line.active),
        )
    console_for_people().print(shown if lines else "no bindings")


def print_explanation(explanation: RouteExplanation) -> None:
    """`messaging route explain`."""
    console = console_for_people()
    for number, step in enumerate(explanation.steps, 1):
        is_end = number == len(explanation.steps)
        style = "" if not is_end else "bold red" if explanation.error_code else "bold"
        console.print(Text(f"{number:>2}. {step}", style=style), soft_wrap=True)
    for label, value in (("template there", explanation.external_template_id), ("sign", explanation.sign_name)):
        if value:
            console.print(Text(f"    {label}: {value}"), soft_wrap=True)


def _state(is_active: bool) -> Text:
    return Text("") if is_active else Text("disabled", style="yellow")


def print_findings(findings: Sequence[Finding]) -> None:
    """`messaging doctor`."""
    console = console_for_people()
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        level = Text(f"{finding.level:<4}  ", style=_LEVEL_STYLE[finding.level])
        console.print(level, Text(f"{finding.check:<{width}}  {finding.detail}"), sep="", soft_wrap=True)
        if finding.advice:
            console.print(Text(f"{'':<{width + 6}}  -> {finding.advice}", style="bold"), soft_wrap=True)
