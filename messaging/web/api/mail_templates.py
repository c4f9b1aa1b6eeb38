"""`/mail/templates`: what mails are made from; kept by authors, offered to senders, previewed."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from messaging import api
from messaging.mail.template_checks import MAX_ATTACHMENTS, MAX_SOURCE_CHARS
from messaging.mail.template_tools import switch_body_mode
from messaging.requests import BodyMode, Priority
from messaging.templates.errors import RenderError
from messaging.templates.variables import VariableKind
from messaging.web.api.config_routes import ConfigRoutes
from messaging.web.api.configurations import (
    ADMINISTER,
    SEND,
    ConfigQuery,
    Description,
    Items,
    Line255,
    Line500,
    Name,
    Switch,
    left_out,
)
from messaging.web.api.resource import DbSession, Resource, problems
from messaging.web.api.shapes import Given, Id, Shown, Text, Time
from messaging.web.api.talking import renders
from messaging.web.errors import ApiError

routes = Resource("mail templates")

_Source = Annotated[Text, Field(max_length=MAX_SOURCE_CHARS)]


class TemplateFileShown(Shown):
    """A stored file that mails of a template carry."""

    file_id: Id
    file_name: str
    content_type: str | None
    #: By which its html names it.
    content_id: str | None


class MailTemplateListed(Shown):
    """A template without its bodies."""

    id: Id
    code: str
    name: str
    description: str | None
    subject: str | None
    body_mode: BodyMode
    default_priority: Priority | None
    #: A missing variable fails the mail.
    strict: bool
    #: Bodies and variables go once a mail is sent; a hash stays.
    redact: bool
    #: Style sheets are written into the elements.
    inline_css: bool
    active: bool
    created_at: Time
    updated_at: Time
    updated_by: str | None


class MailTemplateShown(MailTemplateListed):
    """All of a template."""

    reply_to: str | None
    preferred_server_config_id: Id | None
    attachments: list[TemplateFileShown] | None
    body_html: str | None
    body_text: str | None


class TemplateFileGiven(Given):
    """A stored file that mails of a template carry."""

    file_id: Id
    file_name: Annotated[Text, Field(min_length=1, max_length=255)]
    content_type: Line255 | None = None
    content_id: Line255 | None = None


class MailTemplateChanged(Given):
    """What changes; what is left out stays, null takes a value away."""

    code: Name = left_out()
    name: Name = left_out()
    description: Description | None = left_out()
    #: This and the bodies are Jinja2.
    subject: Line500 | None = left_out()
    body_mode: BodyMode = left_out()
    active: Switch = left_out()
    strict: Switch = left_out()
    redact: Switch = left_out()
    inline_css: Switch = left_out()
    default_priority: Priority | None = left_out()
    reply_to: Line255 | None = left_out()
    preferred_server_config_id: Id | None = left_out()
    attachments: Annotated[list[TemplateFileGiven], Field(max_length=MAX_ATTACHMENTS)] | None = left_out()
    body_html: _Source | None = left_out()
    body_text: _Source | None = left_out()

    def sent(self) -> dict[str, Any]:
        """As the library takes them: files as mappings."""
        fields = super().sent()
        if fields.get("attachments") is not None:
            fields["attachments"] = [file.sent() for file in fields["attachments"]]
        return fields


class MailTemplateGiven(MailTemplateChanged):
    """A template to add, or what a copy is called."""

    code: Name
    name: Name


class MailTemplateCopied(MailTemplateChanged):
    """What a copy has of its own."""

    code: Name


class MailTemplateQuery(ConfigQuery):
    """Which templates."""

    sort: Literal["code", "-code", "name", "-name", "updated_at", "-updated_at", "id", "-id"] = "code"


class MailTemplateSummary(Shown):
    """A template as a form offers it."""

    id: Id
    code: str
    name: str
    description: str | None
    subject: str | None
    default_priority: Priority | None


#: No template has the id or the code that is asked for.
NO_TEMPLATE = problems({404: "No such template"})


class TemplateNamed(BaseModel):
    """Which template: by id, which wins, or by code."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    id: Id | None = None
    code: Name | None = None


class VariableShown(Shown):
    """A value that a form for a template asks for."""

    #: A dotted name, or an expression as it stands in the source.
    name: str
    kind: VariableKind


class PreviewGiven(Given):
    """Which template, by id, which wins, or by code, and what it is filled with."""

    id: Id | None = None
    code: Name | None = None
    variables: dict[str, Any] | None = None


class MailPreviewShown(Shown):
    """A template rendered; what is null in the template is null."""

    rendered_subject: str | None
    rendered_body_html: str | None
    rendered_body_text: str | None
    #: Names that it asked for and did not get.
    missing_variables: list[str]


class BodiesGiven(Given):
    """The state of a form in which the mode was changed to this one."""

    body_mode: BodyMode
    body_html: _Source | None = None
    body_text: _Source | None = None


class BodiesShown(Shown):
    """The state that the form takes on."""

    body_mode: BodyMode
    body_html: str | None
    body_text: str | None


def render_failed(exc: RenderError) -> ApiError:
    """The answer where a template fails: which column, line and variable are to blame."""
    return ApiError(422, str(exc), code="render_failed", field=exc.column, line=exc.line, variable=exc.variable)


@routes.get("/mail/templates/summaries", dependencies=SEND)
def list_mail_template_summaries(session: DbSession) -> Items[MailTemplateSummary]:
    """The tenant's enabled templates, as a form offers them to whoever sends."""
    found = api.list_mail_template_summaries(session=session)
    return Items(items=[MailTemplateSummary.model_validate(one) for one in found])


@routes.get("/mail/templates/variables", dependencies=SEND, responses=NO_TEMPLATE)
def list_mail_template_variables(session: DbSession, query: Annotated[TemplateNamed, Query()]) -> Items[VariableShown]:
    """The values that a form for a template asks for, of a disabled one too."""
    found = api.list_template_variables(query.id, query.code, session=session)
    return Items(items=[VariableShown.model_validate(one) for one in found])


@routes.post("/mail/templates/preview", dependencies=[*SEND, renders()], responses=NO_TEMPLATE)
def preview_mail_template(session: DbSession, given: PreviewGiven) -> MailPreviewShown:
    """Render a template, a disabled one too, as a send would; sends nothing and charges nothing."""
    try:
        rendered = api.preview_mail_template(given.id, given.code, given.variables, session=session)
    except RenderError as exc:
        raise render_failed(exc) from exc
    return MailPreviewShown.model_validate(rendered)


@routes.post("/mail/templates/body-mode-change", dependencies=ADMINISTER)
def change_body_mode(given: BodiesGiven) -> BodiesShown:
    """The bodies of a form whose mode was changed: what the mode needs is drafted, what it does not use is cleared.

    A body that has content is never overwritten. Nothing is stored.
    """
    bodies = {"body_html": given.body_html, "body_text": given.body_text}
    bodies |= switch_body_mode(given.body_mode, given.body_html, given.body_text) or {}
    return BodiesShown(body_mode=given.body_mode, **bodies)


templates = ConfigRoutes(routes, "/mail/templates", "template_id", read=api.get_mail_template, shown=MailTemplateShown)
templates.get_page(
    api.list_mail_templates,
    MailTemplateQuery,
    "The tenant's templates, without their bodies.",
    line=MailTemplateListed,
)
templates.get("One template, disabled or not.")
templates.post(
    api.add_mail_template,
    MailTemplateGiven,
    "Add a template; its sources are compiled, and refused with the line where that fails.",
)
templates.patch(
    api.change_mail_template,
    MailTemplateChanged,
    "Change a template; mails that are prepared from a second later on are made from it.",
)
templates.delete(
    api.delete_mail_template,
    "Delete a template; mails that name it and are not prepared yet fail, what is prepared goes out.",
)
templates.post_copy(
    api.copy_mail_template,
    MailTemplateCopied,
    "Add a template like this one under a code of its own; disabled unless it is said otherwise.",
)
