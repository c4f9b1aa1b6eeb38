"""`messaging template ...`: a tenant's templates, of mails or text messages, listed, previewed, kept as files."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messaging.cli.acting import acting_for, print_json, refused
from messaging.cli.suppressions import Channel
from messaging.cli.values import MAX_ID, AsJson, Tenant, whole_number
from messaging.cli.variables import SingleVariables, Variables, given_variables
from messaging.errors import ConfigurationError
from messaging.folders import read_text

if TYPE_CHECKING:
    from messaging.mail.template_tools import TemplatePreview
    from messaging.sms.template_tools import SmsTemplatePreview
    from messaging.templates.folders import Kind, TemplateChange
    from messaging.templates.variables import TemplateVariable

template = typer.Typer(help="Templates of mails, with --channel sms of text messages.")

Code = Annotated[str | None, typer.Argument(metavar="CODE", help="The template's code, active or not.")]
TemplateId = Annotated[
    int | None,
    typer.Option("--id", parser=whole_number(1, MAX_ID), metavar="ID", help="The template's id; beats CODE."),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds a folder for each template.")]


@dataclass(frozen=True, slots=True)
class _Templates:
    """What the commands ask of one channel's templates."""

    kind: "Kind"
    lines: "Callable[..., list[Any]]"
    print_lines: "Callable[[list[Any]], None]"
    preview: "Callable[..., TemplatePreview | SmsTemplatePreview]"
    variables: "Callable[..., list[TemplateVariable]]"
    import_folder: "Callable[..., list[TemplateChange]]"
    export_folder: "Callable[..., list[Path]]"
    delete: "Callable[..., None]"


def _of(channel: str | None) -> _Templates:
    from messaging import api, terminal
    from messaging.mail.template_files import MAIL_TEMPLATES
    from messaging.sms.template_files import SMS_TEMPLATES

    if channel == "sms":
        return _Templates(
            SMS_TEMPLATES,
            api.list_sms_templates,
            terminal.print_sms_templates,
            api.preview_sms_template,
            api.list_sms_template_variables,
            api.import_sms_templates,
            api.export_sms_templates,
            api.delete_sms_template,
        )
    return _Templates(
        MAIL_TEMPLATES,
        api.list_mail_templates,
        terminal.print_templates,
        api.preview_mail_template,
        api.list_template_variables,
        api.import_mail_templates,
        api.export_mail_templates,
        api.delete_mail_template,
    )


@template.command("list")
def list_templates(
    with_disabled: Annotated[bool, typer.Option("--all", help="Disabled ones too.")] = False,
    channel: Channel = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """List templates by code."""
    with acting_for(tenant):
        lines = _of(channel).lines(active="all" if with_disabled else "true")
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        _of(channel).print_lines(lines)


@template.command()
def show(
    code: Code = None,
    template_id: TemplateId = None,
    channel: Channel = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """Show a template as its files have it."""
    from messaging.db.session import transaction
    from messaging.templates.finding import get_template
    from messaging.templates.folders import settings_text

    kind = _of(channel).kind
    with acting_for(tenant) as engine, transaction(engine) as session:
        row = get_template(session, kind.model, kind.what, template_id, code)
        fields = {"id": row.id, "tenant_id": row.tenant_id} | {field: getattr(row, field) for field in kind.fields}
        settings = settings_text(kind, row)
    if as_json:
        print_json(fields)
        return
    typer.echo(settings, nl=False)
    for column, name in kind.source_files.items():
        if fields[column] is not None:
            _print_part(name, fields[column])


@template.command()
def delete(
    template_id: Annotated[
        int, typer.Argument(parser=whole_number(1, MAX_ID), metavar="ID", help="The template's id.")
    ],
    channel: Channel = None,
    tenant: Tenant = None,
) -> None:
    """Delete a template; messages that name it and are not prepared yet fail, what is prepared goes out."""
    with acting_for(tenant):
        _of(channel).delete(template_id)
    typer.echo(f"{_of(channel).kind.what} {template_id} is deleted")


@template.command()
def add(
    code: Annotated[str, typer.Argument(metavar="CODE")],
    name: Annotated[str | None, typer.Option(help="The code, where it is not given.")] = None,
    content: Annotated[str | None, typer.Option(metavar="TEXT", help="The text, with placeholders.")] = None,
    content_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Holds the text.")] = None,
    description: Annotated[str | None, typer.Option()] = None,
    to_gsm: Annotated[bool, typer.Option("--to-gsm", help="Typographic characters become those of GSM.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A missing variable fails the message.")] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="Text and variables go once a message is sent; a hash stays.")
    ] = False,
    max_segments: Annotated[
        int | None, typer.Option(parser=whole_number(1, 2**15 - 1), metavar="N", help="None: no cap.")
    ] = None,
    tenant: Tenant = None,
) -> None:
    """Add a template of text messages and print its id. Templates of mails are imported."""
    from messaging import api
    from messaging.sms.template_checks import MAX_SOURCE_CHARS

    if (content is None) == (content_file is None):
        raise ConfigurationError("give --content or --content-file, one of the two")
    if content_file is not None:
        content = read_text(content_file, str(content_file), max_bytes=4 * MAX_SOURCE_CHARS)
    with acting_for(tenant):
        template_id = api.add_sms_template(
            code=code,
            name=name or code,
            content=content,
            description=description,
            to_gsm=to_gsm,
            strict=strict,
            redact=redact,
            max_segments=max_segments,
        )
    typer.echo(template_id)


@template.command()
def preview(
    code: Code = None,
    template_id: TemplateId = None,
    variables: Variables = None,
    var: SingleVariables = None,
    channel: Channel = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> int:
    """Render a template and print it; sends nothing. Variables that it misses are named on standard error."""
    from messaging.templates.errors import RenderError

    given = given_variables(variables, var)
    with acting_for(tenant):
        try:
            rendered = _of(channel).preview(template_id, code, given)
        except RenderError as exc:
            return refused(str(exc))
    if as_json:
        print_json(asdict(rendered))
        return 0
    for name, text in _parts(rendered).items():
        if text is not None:
            _print_part(name, text)
    if rendered.missing_variables:
        typer.echo(f"missing: {', '.join(rendered.missing_variables)}", err=True)
    return 0


def _parts(rendered: "TemplatePreview | SmsTemplatePreview") -> dict[str, str | None]:
    """What of a preview stands under which heading."""
    from messaging.sms.template_tools import SmsTemplatePreview

    if isinstance(rendered, SmsTemplatePreview):
        plural = "" if rendered.segments == 1 else "s"
        heading = f"{rendered.encoding}, {rendered.segments} segment{plural}, {rendered.units} units"
        return {f"{heading}; not sent: {rendered.refused}" if rendered.refused else heading: rendered.content}
    return {
        "subject": rendered.rendered_subject,
        "html": rendered.rendered_body_html,
        "text": rendered.rendered_body_text,
    }


def _print_part(heading: str, text: str) -> None:
    typer.echo(f"--- {heading}\n{text}", nl=not text.endswith("\n"))


@template.command("variables")
def list_variables(
    code: Code = None,
    template_id: TemplateId = None,
    channel: Channel = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """List the variables that a template wants, and what kind each is."""
    with acting_for(tenant):
        variables = _of(channel).variables(template_id, code)
    if as_json:
        print_json([asdict(variable) for variable in variables])
        return
    for variable in variables:
        typer.echo(f"{variable.kind:<10}  {' '.join(variable.name.split())}")


@template.command("import")
def import_folder(
    folder: Folder,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    channel: Channel = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """Create and update templates from files, by their codes: all or none. Templates without a folder stay."""
    with acting_for(tenant):
        changes = _of(channel).import_folder(folder, dry_run=dry_run)
    if as_json:
        print_json([asdict(change) for change in changes])
        return
    for change in changes:
        fields = f" ({', '.join(change.fields)})" if change.fields else ""
        typer.echo(f"{change.action:<9}  {change.code}{fields}")
    if dry_run:
        typer.echo("nothing was written")


@template.command("export")
def export_folder(
    folder: Folder,
    codes: Annotated[
        list[str] | None, typer.Option("--code", metavar="CODE", help="Only this one; repeatable.")
    ] = None,
    channel: Channel = None,
    tenant: Tenant = None,
) -> None:
    """Write templates, disabled ones too, as files to edit and keep in git; prints their folders."""
    with acting_for(tenant):
        written = _of(channel).export_folder(folder, codes or None)
    for path in written:
        typer.echo(path)
