"""What an SMS provider's configuration may hold: each field by itself, then what its adapter needs. Calls nobody."""

from collections.abc import Mapping
from typing import Any, TypedDict

from messaging import field_checks
from messaging.category import MarkerCode
from messaging.errors import ConfigRejected, PreparationError
from messaging.field_checks import MAX_NUMBER, number, secret, switch, text
from messaging.sms.providers import registry
from messaging.sms.providers.base import ProviderConfig
from messaging.templates.given import VariableError, to_json

#: Never shown, not even to say what is wrong with them; some adapters keep keys in `ext_config`.
SECRET_FIELDS = frozenset({"api_key", "api_secret", "ext_config"})


class ProviderFields(TypedDict, total=False):
    """The fields of `SmsProviderConfig` that are given; what they mean is said there."""

    name: str
    description: str | None
    provider_type: str
    api_key: str | None
    api_secret: str | None
    api_endpoint: str | None
    account_id: str | None
    ext_config: Mapping[str, Any] | None
    sender_number: str | None
    sender_id: str | None
    rate_limit_per_minute: int | None
    daily_send_limit: int | None
    is_default: bool
    active: bool
    priority: int


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as they are stored: trimmed, blank ones None, the type in upper case.

    Raises: ConfigRejected, naming the field; TypeError for a field that there is none of.
    """
    return field_checks.checked(given, _CHECKS, what="an SMS provider", secrets=SECRET_FIELDS)


def check_together(fields: Mapping[str, Any]) -> None:
    """Refuse what the adapter could not send with; `fields` are all of them.

    Raises: ConfigRejected.
    """
    provider_type = fields["provider_type"]
    names = ProviderConfig.__dataclass_fields__.keys() & fields.keys()
    own: dict[str, Any] = {name: fields[name] for name in names}
    try:
        registry.provider(provider_type).check_config(ProviderConfig(id=0, tenant_id=0, **own))
    except PreparationError as exc:
        if exc.marker == MarkerCode.SENDER_REQUIRED:
            raise ConfigRejected("sender_number", fields["sender_number"], str(exc)) from exc
        raise ConfigRejected("provider_type", provider_type, str(exc)) from exc


def _provider_type(value: Any) -> str:
    name = (text(20, is_required=True)(value) or "").upper()
    if name not in registry.types():
        raise ValueError(f"there is no adapter for it; allowed: {', '.join(registry.types())}")
    return name


def _ext_config(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError("allowed: a JSON object")
    try:
        to_json(value)
    except VariableError as exc:
        raise ValueError(f"allowed: a JSON object; {exc.path or 'it'} {exc.reason}") from exc
    return dict(value) or None


_CHECKS: Mapping[str, field_checks.Check] = {
    "name": text(100, is_required=True),
    "description": text(500),
    "provider_type": _provider_type,
    "api_key": secret(255),
    "api_secret": secret(),
    "api_endpoint": text(500),
    "account_id": text(255),
    "ext_config": _ext_config,
    "sender_number": text(50),
    "sender_id": text(50),
    #: 0 is no limit, as None.
    "rate_limit_per_minute": number(0, MAX_NUMBER, is_required=False),
    "daily_send_limit": number(0, MAX_NUMBER, is_required=False),
    "is_default": switch,
    "active": switch,
    "priority": number(-MAX_NUMBER, MAX_NUMBER),
}
