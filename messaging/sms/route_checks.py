"""What a route and a binding may hold, each field by itself; whether the rows that they name are there, others ask."""

from collections.abc import Mapping
from typing import Any, TypedDict

from messaging import field_checks
from messaging.field_checks import MAX_NUMBER, number, switch, text
from messaging.sms.regions import region_code


class RouteFields(TypedDict, total=False):
    """The fields of `SmsProviderRegion` that are given; what they mean is said there."""

    provider_config_id: int
    region_code: str
    priority: int
    active: bool


class BindingFields(TypedDict, total=False):
    """The fields of `SmsTemplateProviderBinding` that are given; what they mean is said there."""

    template_id: int
    provider_config_id: int
    #: None or empty: any.
    region_code: str | None
    external_template_id: str | None
    sign_name: str | None
    priority: int
    active: bool


def checked_route(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored.

    Raises: ConfigRejected, naming the field; TypeError for a field that there is none of.
    """
    return field_checks.checked(given, _ROUTE_CHECKS, what="a route", secrets=())


def checked_binding(given: Mapping[str, Any]) -> dict[str, Any]:
    """As `checked_route`."""
    return field_checks.checked(given, _BINDING_CHECKS, what="a binding", secrets=())


def _region(*, is_required: bool) -> field_checks.Check:
    return lambda value: region_code(value, is_required=is_required)


_ID = number(1, 2**63 - 1)
_PRIORITY = number(-MAX_NUMBER, MAX_NUMBER)
_ROUTE_CHECKS: Mapping[str, field_checks.Check] = {
    "provider_config_id": _ID,
    "region_code": _region(is_required=True),
    "priority": _PRIORITY,
    "active": switch,
}
_BINDING_CHECKS: Mapping[str, field_checks.Check] = {
    "template_id": _ID,
    "provider_config_id": _ID,
    "region_code": _region(is_required=False),
    "external_template_id": text(100),
    "sign_name": text(50),
    "priority": _PRIORITY,
    "active": switch,
}
