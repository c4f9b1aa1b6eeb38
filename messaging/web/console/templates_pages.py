"""Templates of mails and text messages: an editor with a preview beside it, versions, a test send."""

import difflib
import html
import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Annotated, Any

from fastapi import Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import HTMLResponse, Response

from messaging import api
from messaging.access.roles import Permission
from messaging.api import template_versions
from messaging.errors import MessageRejected, MessagingError, TemplateRejected
from messaging.mail.template_admin import TEMPLATES as MAIL_KIND
from messaging.mail.template_tools import TemplatePreview
from messaging.sms.segments import to_gsm
from messaging.sms.template_admin import TEMPLATES as SMS_KIND
from messaging.sms.template_tools import SmsTemplatePreview
from messaging.templates.errors import RenderError
from messaging.templates.variables import extract_variables
from messaging.web.api.mail_templates import MailTemplateChanged, MailTemplateGiven
from messaging.web.api.resource import DbSession, needs
from messaging.web.api.shapes import Given, Id
from messaging.web.api.sms_templates import SmsTemplateChanged, SmsTemplateGiven
from messaging.web.api.talking import renders
from messaging.web.console import forms
from messaging.web.console.asked_first import ask_first
from messaging.web.console.config import ACTIVE, ConfigPages
from messaging.web.console.content import FRAMED
from messaging.web.console.forms import Posted
from messaging.web.console.pages import Pages, done, page, url
from messaging.web.console.tables import Cell, Column

routes = Pages()

_READ, _KEEP, _SEND = ([needs(one)] for one in (Permission.READ, Permission.ADMINISTER, Permission.OPERATE))

#: The field of the editor that holds what a template is tried with.
SAMPLE = "sample_variables"

_Sample = Annotated[dict[str, Any], Field(json_schema_extra={"type": "object"})]


class _MailForm(MailTemplateGiven):
    """A mail template, and what it is tried with."""

    sample_variables: _Sample | None = None


class _MailChange(MailTemplateChanged):
    """What of one changes."""

    sample_variables: _Sample | None = None


class _SmsForm(SmsTemplateGiven):
    """A template of text messages, and what it is tried with."""

    sample_variables: _Sample | None = None


class _SmsChange(SmsTemplateChanged):
    """What of one changes."""

    sample_variables: _Sample | None = None


def _saving(channel: str, save: Callable[..., Any]) -> Callable[..., Any]:
    """Saves a template, and what it is tried with beside it."""

    def saved(*ids: int, session: Session, **fields: Any) -> Any:
        is_tried, sample = SAMPLE in fields, fields.pop(SAMPLE, None)
        made = save(*ids, session=session, **fields)
        if is_tried:
            row_id = ids[0] if ids else made
            template_versions.set_template_sample(channel, row_id, sample or {}, session=session)
        return made

    return saved


def _reading(channel: str, get: Callable[..., Any]) -> Callable[..., Any]:
    """Reads a template with what it is tried with."""

    def read(row_id: int, *, session: Session) -> Any:
        row = get(row_id, session=session)
        sample = template_versions.get_template_sample(channel, row_id, session=session)
        columns = {name: getattr(row, name) for name in row.__dataclass_fields__}
        return SimpleNamespace(**columns, sample_variables=sample or None)

    return read


class TemplatePages(ConfigPages):
    """The pages of one channel's templates."""

    channel: str = ""

    def begin(self, channel: str) -> None:
        """Add the routes, those of the editor before those of any configuration."""
        object.__setattr__(self, "channel", channel)
        path, name = self.path, self.path.strip("/").replace("-", "_")

        def preview(request: Request, session: DbSession, posted: Posted) -> Response:
            return self.preview(request, session, posted)

        def versions(request: Request, session: DbSession, row_id: Id) -> Response:
            return self.show_versions(request, session, row_id)

        def ask_restore(request: Request, session: DbSession, row_id: Id, number: Id) -> Response:
            return ask_first(
                request,
                f"Roll back to version {number}?",
                "What it is now stays as a version. What is prepared from a second later on is made from the old one.",
                verb="Roll back",
                action=f"{path}/{row_id}/versions/{number}",
                leave=f"{path}/{row_id}/versions",
                what={"Template": self.get(row_id, session=session).code},
            )

        def restore(request: Request, session: DbSession, row_id: Id, number: Id) -> Response:
            target = url(request, f"{path}/{row_id}/versions")
            try:
                with session.begin_nested():
                    template_versions.roll_back_template(channel, row_id, number, session=session)
            except TemplateRejected as exc:
                return done(request, target, f"Nothing was changed: {exc}.", is_refusal=True)
            return done(request, target, f"It is as it was in version {number}.")

        def ask_try(request: Request, session: DbSession, row_id: Id) -> Response:
            return self.try_form(request, session, row_id, "", "")

        def send(request: Request, session: DbSession, row_id: Id, posted: Posted) -> Response:
            return self.send(request, session, row_id, str(posted.get("to") or "").strip())

        for method, where, handler, dependencies, what in (
            ("POST", f"{path}/preview", preview, [*_READ, renders()], "preview"),
            ("GET", f"{path}/{{row_id}}/versions", versions, _READ, "versions"),
            ("GET", f"{path}/{{row_id}}/versions/{{number}}", ask_restore, _KEEP, "ask_restore"),
            ("POST", f"{path}/{{row_id}}/versions/{{number}}", restore, _KEEP, "restore"),
            ("GET", f"{path}/{{row_id}}/try", ask_try, _SEND, "ask_try"),
            ("POST", f"{path}/{{row_id}}/try", send, _SEND, "send_trial"),
        ):
            routes.add_api_route(
                where, handler, methods=[method], dependencies=dependencies, operation_id=f"{name}_{what}"
            )
        self.register()

    # -- the editor ---------------------------------------------------------------------------------------------------

    def fields(self, session: Session, *, is_new: bool = True) -> list[forms.Field]:
        """What is written comes first, then what it is tried with, then the switches."""
        found = super().fields(session, is_new=is_new)
        return sorted(found, key=lambda one: _FIRST.index(one.name) if one.name in _FIRST else len(_FIRST))

    def preview(self, request: Request, session: Session, posted: Posted) -> Response:
        """What a draft comes to, for the frame beside it; nothing is saved."""
        fields = self.fields(session)
        texts = forms.typed(fields, posted).texts
        columns = {name: texts.get(name) or None for name in _SOURCES[self.channel]}
        flags: dict[str, Any] = {name: bool(texts.get(name)) for name in ("inline_css", "to_gsm") if name in texts}
        cap = texts.get("max_segments", "")
        if cap.isdecimal() and len(cap) < 4:
            flags["max_segments"] = int(cap)
        try:
            sample = json.loads(texts.get(SAMPLE) or "{}")
            if not isinstance(sample, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            return _frame(f"<p class=warn>{html.escape('The sample data is no JSON object.')}</p>", 422)
        try:
            made = template_versions.preview_draft(self.channel, {**columns, **flags}, sample)
        except (MessagingError, RenderError) as exc:
            return _frame(f"<p class=warn>{html.escape(str(exc))}</p>", 422)
        return _frame(_mail_shown(made) if isinstance(made, TemplatePreview) else _text_shown(made))

    # -- versions -----------------------------------------------------------------------------------------------------

    def show_versions(self, request: Request, session: Session, row_id: int) -> Response:
        """All of them, each with what it changed."""
        row = self.get(row_id, session=session)
        found = template_versions.list_template_versions(self.channel, row_id, session=session)
        before: list[Mapping[str, Any]] = [version.content for version in found[1:]] + [{}]
        changes = [list(_differences(older, version.content)) for version, older in zip(found, before, strict=True)]
        return page(
            request,
            "versions.html",
            row=row,
            path=self.path,
            title=self.title,
            versions=list(zip(found, changes, strict=True)),
        )

    # -- trial --------------------------------------------------------------------------------------------------------

    def try_form(self, request: Request, session: Session, row_id: int, to: str, error: str) -> Response:
        """To whom a trial goes."""
        row = self.get(row_id, session=session)
        return page(
            request,
            "trial.html",
            status=422 if error else 200,
            row=row,
            path=self.path,
            to=to,
            error=error,
            asks="Number" if self.channel == "sms" else "Address",
        )

    def send(self, request: Request, session: Session, row_id: int, to: str) -> Response:
        """Send the saved template with its sample data, as any message is sent."""
        row = self.get(row_id, session=session)
        sample = template_versions.get_template_sample(self.channel, row_id, session=session)
        given: dict[str, Any] = {"template_id": row.id, "template_variables": sample, "session": session}
        try:
            with session.begin_nested():
                if self.channel == "mail":
                    record_id = api.send_mail(to=[to], **given)
                else:
                    del given["template_id"]
                    record_id = api.send_sms(phone_number=to, template_code=row.code, **given)
        except MessageRejected as exc:
            return self.try_form(request, session, row_id, to, exc.reason)
        return done(request, url(request, f"/{self.channel}/{record_id}"), "The trial is accepted. This is its record.")


_FIRST = ("code", "name", "subject", "body_mode", "body_html", "content", "body_text", SAMPLE, "active")

_SOURCES = {"mail": ("subject", "body_html", "body_text"), "sms": ("content",)}

_STYLE = (
    "<style>.told{font:14px/1.45 sans-serif;margin:0 0 12px;padding:8px 12px;background:#f1f4f7;color:#1a2027}"
    ".warn{font:14px/1.45 sans-serif;color:#a9222f}pre{white-space:pre-wrap;overflow-wrap:anywhere}</style>"
)


def _frame(body: str, status: int = 200) -> Response:
    """A page of the frame, which may nothing."""
    headers = {"content-security-policy": FRAMED, "x-frame-options": "SAMEORIGIN"}
    return HTMLResponse(f"<!doctype html><title>Preview</title>{_STYLE}{body}", status, headers)


def _missing(names: list[str]) -> str:
    if not names:
        return ""
    return f"<p class=warn>Not given: {html.escape(', '.join(names))}</p>"


def _mail_shown(made: TemplatePreview) -> str:
    octets = sum(len((text or "").encode()) for text in (made.rendered_body_html, made.rendered_body_text))
    warnings = _missing(made.missing_variables)
    if not made.rendered_subject:
        warnings += "<p class=warn>It has no subject.</p>"
    if not made.rendered_body_html and not made.rendered_body_text:
        warnings += "<p class=warn>It has no body.</p>"
    head = f"<div class=told><b>{html.escape(made.rendered_subject or '')}</b><br>{octets:,} octets{warnings}</div>"
    text = made.rendered_body_text
    shown_text = f"<pre>{html.escape(text)}</pre>" if text else ""
    # The author's own HTML, in a frame without script, form and network.
    return head + (made.rendered_body_html or "") + shown_text


def _text_shown(made: SmsTemplatePreview) -> str:
    facts = f"{made.encoding}, {len(made.content):,} characters, {made.segments} segments"
    forced = sorted({char for char in made.content if to_gsm(char) != char}) if made.encoding == "UCS2" else []
    warnings = _missing(made.missing_variables)
    if forced:
        warnings += f"<p class=warn>Could be written in GSM: {html.escape(' '.join(forced))}</p>"
    if made.refused:
        warnings += f"<p class=warn>A send would refuse it: {html.escape(made.refused)}</p>"
    return f"<div class=told>{facts}{warnings}</div><pre>{html.escape(made.content)}</pre>"


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Any:
    """Fields that changed, each with its lines: a sign and the line."""
    for name in after:
        old, new = _lines(before.get(name)), _lines(after.get(name))
        if old != new:
            lines = [
                line for line in difflib.unified_diff(old, new, lineterm="", n=2) if line[:3] not in ("---", "+++")
            ]
            yield name, [(line[:1], line[1:]) for line in lines if not line.startswith("@@")]


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).split("\n")


def _variables(row: Any) -> list[tuple[str, str]]:
    """What the template asks for."""
    sources = (getattr(row, "subject", None), getattr(row, "body_html", None), getattr(row, "body_text", None))
    text = getattr(row, "content", None)
    found = extract_variables(None, None, text) if text is not None else extract_variables(*sources)
    names = ", ".join(f"{one.name} ({one.kind.lower()})" for one in found)
    return [("Asks for", names)] if names else []


def _coded(path: str) -> Column:
    return Column("Code", lambda row: Cell(row.code, path=f"{path}/{row.id}", title=row.code), "c-to")


_LABELS = {
    "body_html": "HTML",
    "body_text": "Text",
    "inline_css": "Style sheets are written into the elements",
    "strict": "A missing variable fails the message",
    "redact": "Text and variables go once it is sent",
    "preferred_server_config_id": "Preferred server",
    "reply_to": "Reply-To",
    "to_gsm": "Typographic characters become GSM ones",
    "max_segments": "Segments at most",
    "active": "Active",
    SAMPLE: "Sample data",
}


def _servers(session: Session) -> Mapping[str, Any]:
    return {
        "preferred_server_config_id": [(str(one.id), one.name) for one in api.list_mail_servers(session=session)],
    }


def _of(channel: str, path: str, given: type[Given], changed: type[Given], **more: Any) -> TemplatePages:
    for name in ("add", "change"):
        more[name] = _saving(channel, more[name])
    more["get"] = _reading(channel, more["get"])
    return TemplatePages(
        routes=routes,
        path=path,
        one="template",
        given=given,
        changed=changed,
        hints={SAMPLE: "A JSON object; kept with the template, for the preview and a test send."},
        labels=_LABELS,
        begins_with={"active": "yes"} | ({"body_mode": "HTML_WITH_DERIVED_PLAIN"} if "mail" in path else {}),
        further=(("Versions", "versions", False), ("Test send…", "try", False)),
        facts=lambda _request, _session, row: _variables(row),
        after_delete="Messages that name it and are not prepared yet fail; what is prepared goes out.",
        form_template="editor.html",
        **more,
    )


_of(
    "mail",
    "/mail-templates",
    _MailForm,
    _MailChange,
    title="Mail templates",
    kind=MAIL_KIND,
    columns=(
        _coded("/mail-templates"),
        Column("Name", lambda row: row.name, "c-wide"),
        Column("Subject", lambda row: row.subject, "c-what"),
        Column("Changed by", lambda row: row.updated_by, "c-with"),
        Column("Changed (UTC)", lambda row: row.updated_at, "c-when"),
        ACTIVE,
    ),
    list_rows=api.list_mail_templates,
    get=api.get_mail_template,
    add=api.add_mail_template,
    change=api.change_mail_template,
    delete=api.delete_mail_template,
    copy=api.copy_mail_template,
    options=_servers,
    left_out=("attachments",),
).begin("mail")

_of(
    "sms",
    "/sms-templates",
    _SmsForm,
    _SmsChange,
    title="SMS templates",
    kind=SMS_KIND,
    columns=(
        _coded("/sms-templates"),
        Column("Name", lambda row: row.name, "c-what"),
        Column("Segments at most", lambda row: row.max_segments, "c-error", is_number=True),
        Column("Changed by", lambda row: row.updated_by, "c-with"),
        Column("Changed (UTC)", lambda row: row.updated_at, "c-when"),
        ACTIVE,
    ),
    list_rows=api.list_sms_templates,
    get=api.get_sms_template,
    add=api.add_sms_template,
    change=api.change_sms_template,
    delete=api.delete_sms_template,
    copy=api.copy_sms_template,
).begin("sms")
