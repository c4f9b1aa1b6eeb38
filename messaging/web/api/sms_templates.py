"""`/sms/templates`: what text messages are made from; kept by authors, offered to senders, previewed."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from messaging import api
from messaging.sms.models import Encoding
from messaging.sms.template_checks import MAX_SEGMENTS, MAX_SOURCE_CHARS
from messaging.templates.errors import RenderError
from messaging.web.api.config_routes import ConfigRoutes
from messaging.web.api.configurations import (
    SEND,
    ConfigQuery,
    Description,
    Items,
    Name,
    Switch,
    left_out,
)
from messaging.web.api.mail_templates import NO_TEMPLATE, PreviewGiven, TemplateNamed, VariableShown, render_failed
from messaging.web.api.resource import DbSession, Resource
from messaging.web.api.shapes import Given, Id, Shown, Text, Time
from messaging.web.api.talking import renders

routes = Resource("sms templates")

_Cap = Annotated[int, Field(strict=True, ge=1, le=MAX_SEGMENTS)]
_Source = Annotated[Text, Field(max_length=MAX_SOURCE_CHARS)]


class SmsTemplateListed(Shown):
    """A template without its text."""

    id: Id
    code: str
    name: str
    description: str | None
    #: A missing variable fails the message.
    strict: bool
    #: Text and variables go once a message is sent; a hash stays.
    redact: bool
    #: Typographic characters become those of the GSM alphabet.
    to_gsm: bool
    #: Null: no cap.
    max_segments: int | None
    active: bool
    created_at: Time
    updated_at: Time
    updated_by: str | None


class SmsTemplateShown(SmsTemplateListed):
    """All of a template."""

    content: str | None


class SmsTemplateChanged(Given):
    """What changes; what is left out stays, null takes a value away."""

    code: Name = left_out()
    name: Name = left_out()
    description: Description | None = left_out()
    active: Switch = left_out()
    strict: Switch = left_out()
    redact: Switch = left_out()
    to_gsm: Switch = left_out()
    max_segments: _Cap | None = left_out()
    #: Jinja2.
    content: _Source | None = left_out()


class SmsTemplateGiven(SmsTemplateChanged):
    """A template to add."""

    code: Name
    name: Name


class SmsTemplateCopied(SmsTemplateChanged):
    """What a copy has of its own."""

    code: Name


class SmsTemplateQuery(ConfigQuery):
    """Which templates."""

    sort: Literal["code", "-code", "name", "-name", "updated_at", "-updated_at", "id", "-id"] = "code"


class SmsTemplateSummary(Shown):
    """A template as a form offers it."""

    id: Id
    code: str
    name: str
    description: str | None
    #: The first 100 characters.
    content: str | None


class SmsPreviewShown(Shown):
    """A template rendered, and what the text comes to on the air."""

    content: str
    encoding: Encoding
    #: Messages that are charged.
    segments: int
    #: Septets in GSM7, UTF-16 code units in UCS2.
    units: int
    #: Why a send would not take it; null when it would.
    refused: str | None
    #: Names that it asked for and did not get.
    missing_variables: list[str]


@routes.get("/sms/templates/summaries", dependencies=SEND)
def list_sms_template_summaries(session: DbSession) -> Items[SmsTemplateSummary]:
    """The tenant's enabled templates, as a form offers them to whoever sends."""
    found = api.list_sms_template_summaries(session=session)
    return Items(items=[SmsTemplateSummary.model_validate(one) for one in found])


@routes.get("/sms/templates/variables", dependencies=SEND, responses=NO_TEMPLATE)
def list_sms_template_variables(session: DbSession, query: Annotated[TemplateNamed, Query()]) -> Items[VariableShown]:
    """The values that a form for a template asks for, of a disabled one too."""
    found = api.list_sms_template_variables(query.id, query.code, session=session)
    return Items(items=[VariableShown.model_validate(one) for one in found])


@routes.post("/sms/templates/preview", dependencies=[*SEND, renders()], responses=NO_TEMPLATE)
def preview_sms_template(session: DbSession, given: PreviewGiven) -> SmsPreviewShown:
    """Render a template, a disabled one too, as a send would, and count its segments; charges nothing."""
    try:
        rendered = api.preview_sms_template(given.id, given.code, given.variables, session=session)
    except RenderError as exc:
        raise render_failed(exc) from exc
    return SmsPreviewShown.model_validate(rendered)


templates = ConfigRoutes(routes, "/sms/templates", "template_id", read=api.get_sms_template, shown=SmsTemplateShown)
templates.get_page(
    api.list_sms_templates,
    SmsTemplateQuery,
    "The tenant's templates, without their texts.",
    line=SmsTemplateListed,
)
templates.get("One template, disabled or not.")
templates.post(
    api.add_sms_template,
    SmsTemplateGiven,
    "Add a template; its text is compiled, and refused with the line where that fails.",
)
templates.patch(
    api.change_sms_template,
    SmsTemplateChanged,
    "Change a template; messages that are prepared from a second later on are made from it.",
)
templates.delete(
    api.delete_sms_template,
    "Delete a template with its bindings; messages that name it and are not prepared yet fail.",
)
templates.post_copy(
    api.copy_sms_template,
    SmsTemplateCopied,
    "Add a template like this one under a code of its own, without bindings; disabled unless it is said otherwise.",
)
