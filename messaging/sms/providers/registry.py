"""Which adapter serves which type of provider.

Ours are known from the start and imported when they are first asked for. An application registers its own before
workers start, e.g. in the module that configures them: `register(MyProvider())`.
"""

import threading
from collections.abc import Mapping
from importlib import import_module

from messaging.category import MarkerCode
from messaging.errors import ConfigurationError, PreparationError
from messaging.sms.providers.base import SmsProvider

#: The module in this package and the class of each of our own.
BUILT_IN: Mapping[str, tuple[str, str]] = {
    "TWILIO": ("twilio", "Twilio"),
    "INFOBIP": ("infobip", "Infobip"),
    "ALIYUN": ("aliyun", "Aliyun"),
    "TENCENT": ("tencent", "Tencent"),
    "SINCH": ("sinch", "Sinch"),
    "BIRD": ("bird", "Bird"),
    "CM": ("cm", "Cm"),
}

_lock = threading.Lock()
_known: dict[str, SmsProvider] = {}


def provider(provider_type: str) -> SmsProvider:
    """The adapter of a type, whatever its case.

    Raises: PreparationError, PROVIDER_UNSUPPORTED.
    """
    name = provider_type.strip().upper()
    found = _known.get(name)
    if found is not None:
        return found
    if name not in BUILT_IN:
        raise PreparationError(
            MarkerCode.PROVIDER_UNSUPPORTED, f"no adapter for {provider_type[:50]!r}; there are {', '.join(types())}"
        )
    module, class_name = BUILT_IN[name]
    adapter: SmsProvider = getattr(import_module(f"messaging.sms.providers.{module}"), class_name)()
    with _lock:
        return _known.setdefault(name, adapter)


def register(adapter: SmsProvider) -> None:
    """Make an adapter of an application's own known.

    Raises: ConfigurationError, when its type is taken or it has no proper type and label.
    """
    name, label = adapter.type, adapter.label
    if not name or name != name.strip().upper() or len(name) > 20:
        raise ConfigurationError(f"the provider's type is {name!r}; allowed: 1 to 20 characters in upper case")
    if not label or not label.isascii() or not label.replace("_", "a").replace("-", "a").isalnum():
        raise ConfigurationError(f"the label of provider {name} is {label!r}; allowed: letters, digits, - and _")
    with _lock:
        if name in BUILT_IN or name in _known:
            raise ConfigurationError(f"two adapters for the provider type {name}; allowed: one")
        _known[name] = adapter


def types() -> tuple[str, ...]:
    """All types there is an adapter for, ours first."""
    return tuple(dict.fromkeys((*BUILT_IN, *_known)))


def by_label(label: str) -> SmsProvider | None:
    """The adapter whose label stands in an address of receipts; None where there is none."""
    wanted = label.lower()
    for name in types():
        if name == wanted.upper() or (name in _known and _known[name].label == wanted):
            return provider(name)
    return None
