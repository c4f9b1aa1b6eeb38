"""Routes and bindings of text messages, and which provider a number would take."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session

from messaging import api
from messaging.errors import MessageRejected
from messaging.sms.route_admin import BINDINGS, ROUTES
from messaging.web.api.sms_bindings import SmsBindingChanged, SmsBindingGiven
from messaging.web.api.sms_routes import SmsRouteChanged, SmsRouteGiven
from messaging.web.console import asking
from messaging.web.console.asking import Asked
from messaging.web.console.config import ACTIVE, ConfigPages
from messaging.web.console.pages import Pages
from messaging.web.console.tables import Cell, Column, Filter

routes = Pages()

_ROUTES, _BINDINGS = "/routes", "/bindings"

_Options = Mapping[str, Sequence[tuple[str, str]]]


def _countries(session: Session) -> list[tuple[str, str]]:
    return [
        (one.code, f"{one.name} ({one.code}{f', +{one.dial_code}' if one.dial_code else ''})")
        for one in api.list_regions(session=session)
    ]


def _providers(session: Session) -> list[tuple[str, str]]:
    return [(str(one.id), one.name) for one in api.list_sms_providers(session=session, active="all")]


def _templates(session: Session) -> list[tuple[str, str]]:
    return [(str(one.id), one.code) for one in api.list_sms_templates(session=session, active="all")]


def _route_options(session: Session) -> _Options:
    return {"region_code": _countries(session), "provider_config_id": _providers(session)}


def _add_binding(*, session: Session, template_id: int, **fields: Any) -> int:
    return api.add_sms_binding(template_id, session=session, **fields)


def _explained(_request: Request, _session: Session, asked: Asked) -> Mapping[str, Any]:
    """Which provider the number in the address would take."""
    if asked.get("to") is None:
        return {"explained": None, "refused": ""}
    # As people write it.
    number = re.sub(r"[ ()./-]", "", asked.get("to"))
    try:
        return {"explained": api.which_provider(number, template_code=asked.get("template")), "refused": ""}
    except MessageRejected as exc:
        return {"explained": None, "refused": exc.reason}


ConfigPages(
    routes=routes,
    path=_ROUTES,
    title="Routes",
    one="route",
    kind=ROUTES,
    given=SmsRouteGiven,
    changed=SmsRouteChanged,
    columns=(
        Column("Country", lambda row: Cell(row.region_code, path=f"{_ROUTES}/{row.id}"), "c-short"),
        Column("Code", lambda row: f"+{row.dial_code}" if row.dial_code else "", "c-short", is_number=True),
        Column("Provider", lambda row: row.provider_name, "c-what"),
        Column("Type", lambda row: row.provider_type, "c-error"),
        Column("Priority", lambda row: row.priority, "c-short", is_number=True),
        Column(
            "Used", lambda row: Cell("Used", status="on") if row.is_used else Cell("Not used", status="off"), "c-error"
        ),
        ACTIVE,
    ),
    list_rows=api.list_sms_routes,
    get=api.get_sms_route,
    add=api.add_sms_route,
    change=api.change_sms_route,
    delete=api.remove_sms_route,
    after_delete="The country is served by its other routes, or by the default providers where none is left.",
    labels={"region_code": "Country", "provider_config_id": "Provider", "active": "Active"},
    hints={"priority": "Lower first.", "region_code": "Once a country has a route, no default provider serves it."},
    options=_route_options,
    filter_options=lambda session: (
        Filter("region_code", "Country", options=_countries(session)),
        Filter("provider_config_id", "Provider", options=_providers(session)),
    ),
    readers={
        "region_code": asking.words,
        "provider_config_id": asking.row_id,
    },
    own_readers={"to": asking.words, "template": asking.words},
    begins_with={"active": "yes", "priority": "100"},
    list_template="routes.html",
    more=_explained,
).register()

ConfigPages(
    routes=routes,
    path=_BINDINGS,
    title="Bindings",
    one="binding",
    kind=BINDINGS,
    given=SmsBindingGiven,
    changed=SmsBindingChanged,
    columns=(
        Column(
            "Template",
            lambda row: Cell(row.template_code or str(row.template_id), path=f"{_BINDINGS}/{row.id}"),
            "c-to",
        ),
        Column("Provider", lambda row: row.provider_name or row.provider_config_id, "c-what"),
        Column("Country", lambda row: row.region_code or "any", "c-short"),
        Column("Called there", lambda row: row.external_template_id, "c-wide"),
        Column("Sign name", lambda row: row.sign_name, "c-with"),
        Column("Priority", lambda row: row.priority, "c-short", is_number=True),
        ACTIVE,
    ),
    list_rows=api.list_sms_bindings,
    get=api.get_sms_binding,
    add=_add_binding,
    change=api.change_sms_binding,
    delete=api.remove_sms_binding,
    after_delete="The template goes out by its other bindings; with none left by any provider.",
    labels={
        "template_id": "Template",
        "provider_config_id": "Provider",
        "region_code": "Country",
        "external_template_id": "What the provider calls the template",
        "active": "Active",
    },
    hints={"priority": "Lower first.", "region_code": "Empty: any."},
    options=lambda session: {
        "template_id": _templates(session),
        "provider_config_id": _providers(session),
        "region_code": _countries(session),
    },
    begins_with={"active": "yes", "priority": "100"},
).register()
