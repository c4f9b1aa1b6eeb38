"""First attempt only: settle everything that will be sent, in the order of `sms.md` section 5.3.

Template, text, route, bindings, what the provider needs: all of it is written back, so that a retry replays the record
at the same provider. Nothing here does I/O; what is read comes from caches that were filled for the chunk. Expiry is
looked at before, by the claim; the quota is charged after, with the write-back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from messaging.sms.planning import BindingCache, plan, template_params
from messaging.sms.providers.base import OutgoingSms, SmsProvider
from messaging.sms.routing import RouteCache
from messaging.sms.templates import Templates, find_template, text_of
from messaging.templates.render import Renderer

#: Columns that preparation may fill; one that it does not name, or names None, stays as it is.
PREPARED_COLUMNS = (
    "content",
    "missing_variables",
    "provider_config_id",
    "provider_type",
    "region_code",
    "sign_name",
    "external_template_id",
    "template_params",
    "encoding",
    "segments",
    "redact",
    "prepared_at",
)


#: Answers the adapter of a provider type. Raises: PreparationError, PROVIDER_UNSUPPORTED.
FindProvider = Callable[[str], SmsProvider]


@dataclass(frozen=True, slots=True)
class Sources:
    """What a worker process prepares from."""

    templates: Templates
    renderer: Renderer
    routes: RouteCache
    bindings: BindingCache
    #: The adapter of a type.
    find_provider: FindProvider


def prepare_sms(record: Mapping[str, Any], sources: Sources, *, now: datetime) -> dict[str, Any]:
    """Values for those of `PREPARED_COLUMNS` that are to be filled.

    Raises: PreparationError.
    """
    template = find_template(record, sources.templates)
    text = text_of(record, template, sources.renderer)
    way = plan(record, template, sources.routes, sources.bindings)
    prepared = {
        "content": text.content,
        "missing_variables": list(text.missing) or None,
        "provider_config_id": way.config["id"],
        "provider_type": way.config["provider_type"],
        "region_code": way.region_code,
        "sign_name": way.sign_name,
        "external_template_id": way.external_template_id,
        "template_params": template_params(template, record["template_variables"]) or None,
        "encoding": text.size.encoding,
        "segments": text.size.segments,
        "prepared_at": now,
    }
    if template is not None and template["redact"]:
        prepared["redact"] = True
    provider = sources.find_provider(way.config["provider_type"])
    provider.check(sources.routes.account(way.config), outgoing({**record, **prepared}))
    return prepared


def outgoing(record: Mapping[str, Any]) -> OutgoingSms:
    """A prepared record as providers take it."""
    return OutgoingSms(
        record_id=record["id"],
        phone_number=record["phone_number"],
        content=record["content"],
        region_code=record["region_code"],
        sign_name=record["sign_name"],
        external_template_id=record["external_template_id"],
        template_params=record["template_params"] or (),
        template_variables=record["template_variables"] or {},
    )
