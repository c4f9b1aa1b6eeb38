"""`messaging send`, `sms`, `show`, `list`, `retry`, `cancel`: records of all channels, by id or newest first."""

import sys
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated

import typer

from messaging.cli.acting import EXIT_WRONG, acting_for, print_json, refused
from messaging.cli.values import (
    MAX_ID,
    AnyTenant,
    AsJson,
    RecordId,
    RecordIds,
    Tenant,
    member,
    time_value,
    whole_number,
)
from messaging.cli.variables import SingleVariables, Variables, given_variables
from messaging.delivery.status import SendStatus
from messaging.errors import ConfigurationError, MessagingError
from messaging.requests import Attachment, BodyMode, MessageScope, Priority

app = typer.Typer()

Template = Annotated[str | None, typer.Option(metavar="CODE", help="An active template's code.")]


class Channel(StrEnum):
    """What `list --channel` takes."""

    MAIL = "MAIL"
    SMS = "SMS"


#: Most records one `list` shows.
MAX_PAGE = 1000

#: Records of one transaction of `retry --error`.
RETRIED_AT_ONCE = 200

#: Fields of a story that are left out unless they are asked for.
BODIES = ("body_text", "body_html", "content", "template_variables")


@app.command()
def send(
    to: Annotated[list[str], typer.Option(help="A recipient, as `name@example.com` or `Name <name@example.com>`.")],
    cc: Annotated[list[str] | None, typer.Option(help="As --to.")] = None,
    bcc: Annotated[list[str] | None, typer.Option(help="As --to; in no header.")] = None,
    subject: Annotated[str | None, typer.Option()] = None,
    text: Annotated[str | None, typer.Option(help="Plain body; `-` reads standard input.")] = None,
    html: Annotated[str | None, typer.Option(help="HTML body; `-` reads standard input.")] = None,
    body_mode: Annotated[BodyMode | None, typer.Option(parser=member(BodyMode), metavar="MODE")] = None,
    template: Template = None,
    template_id: Annotated[
        int | None,
        typer.Option(parser=whole_number(1, MAX_ID), metavar="ID", help="That very template, active or not."),
    ] = None,
    variables: Variables = None,
    var: SingleVariables = None,
    attach: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A file; may be repeated.")] = None,
    unsubscribe_list: Annotated[
        str | None, typer.Option("--list", metavar="NAME", help="Adds a link by which the recipient leaves it.")
    ] = None,
    reply_to: Annotated[str | None, typer.Option()] = None,
    server: Annotated[int | None, typer.Option(parser=whole_number(1, MAX_ID), metavar="ID")] = None,
    priority: Annotated[Priority | None, typer.Option(parser=member(Priority), metavar="PRIORITY")] = None,
    scope: Annotated[MessageScope, typer.Option(parser=member(MessageScope), metavar="SCOPE")] = MessageScope.TENANT,
    read_receipt: Annotated[bool | None, typer.Option(help="Ask for one, or not; else the server's setting.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key again answers the first record's id.")
    ] = None,
    send_at: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Not before.")] = None,
    expires_at: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Not after.")] = None,
    tenant: Tenant = None,
) -> None:
    """Accept one mail and print its record's id."""
    from messaging import api

    readers = [name for name, value in (("--text", text), ("--html", html), ("--variables", variables)) if value == "-"]
    if len(readers) > 1:
        raise ConfigurationError(f"{readers[1]} is '-'; {readers[0]} reads standard input already")
    given = given_variables(variables, var)
    attachments = [_attachment(path) for path in attach or ()]
    with acting_for(tenant):
        record_id = api.send_mail(
            to=to,
            cc=cc or (),
            bcc=bcc or (),
            subject=subject,
            text_body=sys.stdin.read() if text == "-" else text,
            html_body=sys.stdin.read() if html == "-" else html,
            body_mode=body_mode,
            template_code=template,
            template_id=template_id,
            template_variables=given,
            attachments=attachments,
            unsubscribe_list=unsubscribe_list,
            reply_to=reply_to,
            server_config_id=server,
            priority=priority,
            scope=scope,
            read_receipt_requested=read_receipt,
            idempotency_key=idempotency_key,
            send_at=send_at,
            expires_at=expires_at,
        )
    typer.echo(record_id)


@app.command()
def sms(
    number: Annotated[str, typer.Argument(metavar="NUMBER", help="E.164, as +4915112345678.")],
    text: Annotated[str | None, typer.Option(help="The text; `-` reads standard input.")] = None,
    template: Template = None,
    variables: Variables = None,
    var: SingleVariables = None,
    provider: Annotated[int | None, typer.Option(parser=whole_number(1, MAX_ID), metavar="ID")] = None,
    priority: Annotated[Priority | None, typer.Option(parser=member(Priority), metavar="PRIORITY")] = None,
    scope: Annotated[MessageScope, typer.Option(parser=member(MessageScope), metavar="SCOPE")] = MessageScope.TENANT,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key again answers the first record's id.")
    ] = None,
    send_at: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Not before.")] = None,
    expires_at: Annotated[datetime | None, typer.Option(parser=time_value, metavar="TIME", help="Not after.")] = None,
    tenant: Tenant = None,
) -> None:
    """Accept one text message and print its record's id."""
    from messaging import api

    if text == "-" and variables == "-":
        raise ConfigurationError("--variables is '-'; --text reads standard input already")
    given = given_variables(variables, var)
    with acting_for(tenant):
        record_id = api.send_sms(
            phone_number=number,
            content=sys.stdin.read() if text == "-" else text,
            template_code=template,
            template_variables=given,
            provider_config_id=provider,
            priority=priority,
            scope=scope,
            idempotency_key=idempotency_key,
            send_at=send_at,
            expires_at=expires_at,
        )
    typer.echo(record_id)


def _attachment(path: Path) -> Attachment:
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise ConfigurationError(f"--attach is {str(path)!r}; it cannot be read ({exc.strerror})") from exc
    return Attachment(content=content, file_name=path.name, content_type=guess_type(path.name)[0])


@app.command()
def show(
    record_id: RecordId,
    bodies: Annotated[bool, typer.Option("--bodies", help="The bodies too.")] = False,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """Tell the whole story of a record: where it stands and why, recipients, attempts, what came back."""
    from messaging.db.session import transaction
    from messaging.receive import received
    from messaging.records import read_story
    from messaging.terminal import print_story

    with acting_for(tenant, may_be_all=True) as engine, transaction(engine) as session:
        story = read_story(session, record_id, with_bodies=bodies)
        about = received.page(session, record_id=record_id)
    if as_json:
        told = asdict(story) | {"received": [asdict(line) for line in about]}
        print_json(told if bodies else {k: v for k, v in told.items() if k not in BODIES})
    else:
        print_story(story)
        if about:
            from messaging.cli.received_tables import print_about

            print_about(about)


def _recipient(text: str) -> str:
    """An address or number as lists look for it."""
    from messaging.records import channel_of_recipient, recipient

    try:
        return recipient(channel_of_recipient(text), text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


@app.command("list")
def list_records(
    channel: Annotated[
        Channel | None, typer.Option(parser=member(Channel), metavar="CHANNEL", help="mail or sms; by default both.")
    ] = None,
    status: Annotated[SendStatus | None, typer.Option(parser=member(SendStatus), metavar="STATUS")] = None,
    to: Annotated[
        str | None, typer.Option(parser=_recipient, metavar="RECIPIENT", help="To this address or number.")
    ] = None,
    template: Annotated[str | None, typer.Option(metavar="CODE", help="That ask for this template.")] = None,
    error: Annotated[str | None, typer.Option(metavar="CODE", help="With this error code.")] = None,
    limit: Annotated[int, typer.Option(parser=whole_number(1, MAX_PAGE), metavar="N", help="At most so many.")] = 20,
    before: Annotated[
        int | None,
        typer.Option(parser=whole_number(1, MAX_ID), metavar="ID", help="Go on below this record, as told at the end."),
    ] = None,
    as_json: AsJson = False,
    tenant: AnyTenant = None,
) -> None:
    """List records, newest first. Of a rare kind a page may be short and have an older one: 10,000 are looked at."""
    from messaging.db.session import transaction
    from messaging.delivery.lines import RecordFilter
    from messaging.records import channel_of_recipient, page, position
    from messaging.terminal import print_page

    chosen = channel.lower() if channel else None if to is None else channel_of_recipient(to)
    with acting_for(tenant, may_be_all=True) as engine, transaction(engine) as session:
        found = page(
            session,
            channel=chosen,
            asked=RecordFilter(status=status, recipient=to, template_code=template, error_code=error),
            limit=limit,
            before=None if before is None else position(session, before),
        )
    next_before = None if found.next is None else found.next.id
    if as_json:
        print_json({"records": [asdict(line) for line in found.lines], "next_before": next_before})
    else:
        print_page(found.lines, next_before)


@app.command()
def retry(
    record_ids: RecordIds = None,
    error: Annotated[
        str | None, typer.Option(metavar="CODE", help="Instead of ids: all that wait or failed with this error code.")
    ] = None,
    tenant: AnyTenant = None,
) -> int:
    """Ask for another attempt of each record: due now. Those that cannot have one are named, and the exit is 2."""
    from messaging import api

    if bool(record_ids) == bool(error):
        raise ConfigurationError("give ids of records, or --error CODE")
    code = 0
    with acting_for(tenant, may_be_all=True):
        if error:
            typer.echo(f"{_retry_all(error)} are due now")
        for record_id in record_ids or ():
            try:
                api.retry(record_id)
            except MessagingError as exc:
                code = refused(str(exc))
            else:
                typer.echo(f"{record_id} is due now")
    return code


def _retry_all(error: str) -> int:
    """From the newest on, a page a transaction; answers how many are due."""
    from messaging import api

    count, found = 0, api.list_records(error_code=error, limit=RETRIED_AT_ONCE)
    while True:
        count += api.retry_batch([line.id for line in found.lines])
        if found.next is None:
            return count
        found = api.list_records(error_code=error, limit=RETRIED_AT_ONCE, before=found.next)


@app.command()
def cancel(record_id: RecordId, tenant: AnyTenant = None) -> int:
    """Call a record off and say truthfully what that means; exit 1 when nothing could be called off."""
    from messaging import api
    from messaging.delivery.cancel import CancelAnswer

    with acting_for(tenant, may_be_all=True):
        answer = api.cancel(record_id)
    meaning = {
        CancelAnswer.CANCELLED: "it was not sent and never will be",
        CancelAnswer.STOPPED: "no further attempt; an earlier one did or may have reached somebody",
        CancelAnswer.IN_PROGRESS: "a worker has it and nothing was changed; ask again",
        CancelAnswer.ALREADY_FINAL: f"it had ended before, {answer.status}",
        CancelAnswer.TOO_LATE: "it is sent",
    }[answer.answer]
    typer.echo(f"{answer.answer}: {meaning}")
    return 0 if answer.answer in (CancelAnswer.CANCELLED, CancelAnswer.STOPPED) else EXIT_WRONG
