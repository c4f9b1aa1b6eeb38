"""`messaging template ...`: a tenant's mail templates, listed, shown, previewed, and kept as files."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from messaging.cli.acting import acting_for, print_json, refused
from messaging.cli.values import MAX_ID, AsJson, Tenant, whole_number
from messaging.cli.variables import SingleVariables, Variables, given_variables

template = typer.Typer(help="Mail templates.")

Code = Annotated[str | None, typer.Argument(metavar="CODE", help="The template's code, active or not.")]
TemplateId = Annotated[
    int | None,
    typer.Option("--id", parser=whole_number(1, MAX_ID), metavar="ID", help="The template's id; beats CODE."),
]
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds a folder for each template.")]


@template.command("list")
def list_templates(
    with_disabled: Annotated[bool, typer.Option("--all", help="Disabled ones too.")] = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """List templates by code."""
    from messaging import api
    from messaging.terminal import print_templates

    with acting_for(tenant):
        lines = api.list_mail_templates(with_disabled=with_disabled)
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_templates(lines)


@template.command()
def show(code: Code = None, template_id: TemplateId = None, as_json: AsJson = False, tenant: Tenant = None) -> None:
    """Show a template as its files have it."""
    from messaging.db.session import transaction
    from messaging.mail.template_checks import FIELDS
    from messaging.mail.template_files import BODY_FILES, settings_text
    from messaging.mail.template_tools import get_template

    with acting_for(tenant) as engine, transaction(engine) as session:
        row = get_template(session, template_id, code)
        fields = {"id": row.id, "tenant_id": row.tenant_id} | {field: getattr(row, field) for field in FIELDS}
        settings = settings_text(row)
    if as_json:
        print_json(fields)
        return
    typer.echo(settings, nl=False)
    for column, name in BODY_FILES.items():
        if fields[column] is not None:
            typer.echo(f"--- {name}")
            typer.echo(fields[column], nl=not fields[column].endswith("\n"))


@template.command()
def preview(
    code: Code = None,
    template_id: TemplateId = None,
    variables: Variables = None,
    var: SingleVariables = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> int:
    """Render a template and print it; sends nothing. Variables that it misses are named on standard error."""
    from messaging import api
    from messaging.templates.errors import RenderError

    given = given_variables(variables, var)
    with acting_for(tenant):
        try:
            rendered = api.preview_mail_template(template_id, code, given)
        except RenderError as exc:
            return refused(str(exc))
    if as_json:
        print_json(asdict(rendered))
        return 0
    parts = {
        "subject": rendered.rendered_subject,
        "html": rendered.rendered_body_html,
        "text": rendered.rendered_body_text,
    }
    for name, text in parts.items():
        if text is not None:
            typer.echo(f"--- {name}\n{text}", nl=not text.endswith("\n"))
    if rendered.missing_variables:
        typer.echo(f"missing: {', '.join(rendered.missing_variables)}", err=True)
    return 0


@template.command("variables")
def list_variables(
    code: Code = None, template_id: TemplateId = None, as_json: AsJson = False, tenant: Tenant = None
) -> None:
    """List the variables that a template wants, and what kind each is."""
    from messaging import api

    with acting_for(tenant):
        variables = api.list_template_variables(template_id, code)
    if as_json:
        print_json([asdict(variable) for variable in variables])
        return
    for variable in variables:
        typer.echo(f"{variable.kind:<10}  {' '.join(variable.name.split())}")


@template.command("import")
def import_folder(
    folder: Folder,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
) -> None:
    """Create and update templates from files, by their codes: all or none. Templates without a folder stay."""
    from messaging import api

    with acting_for(tenant):
        changes = api.import_mail_templates(folder, dry_run=dry_run)
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
    tenant: Tenant = None,
) -> None:
    """Write templates, disabled ones too, as files to edit and keep in git; prints their folders."""
    from messaging import api

    with acting_for(tenant):
        written = api.export_mail_templates(folder, codes or None)
    for path in written:
        typer.echo(path)
