"""Which adapter serves which type of provider.

Ours are known from the start and imported when they are first asked for. An application registers its own where its
workers and its web application start, before they take work:

    class Carrier(Provider):
        type, label = "CARRIER", "carrier"

        def send(self, config, message, client, before_body):
            reply = client.post(..., before_body=before_body)
            return self.accept(reply, entry(reply.json(), "id")) if reply.is_success else self.reject(...)

    register(Carrier())
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

#: Longest type: the column `provider_type`.
MAX_TYPE_CHARS = 20


class Registry:
    """The adapters of one process. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, SmsProvider] = {}

    def provider(self, provider_type: str) -> SmsProvider:
        """The adapter of a type, whatever its case.

        Raises: PreparationError, PROVIDER_UNSUPPORTED.
        """
        name = provider_type.strip().upper()
        found = self._known.get(name)
        if found is not None:
            return found
        if name not in BUILT_IN:
            raise PreparationError(
                MarkerCode.PROVIDER_UNSUPPORTED,
                f"no adapter for {provider_type[:50]!r}; there are {', '.join(self.types())}",
            )
        module, class_name = BUILT_IN[name]
        adapter: SmsProvider = getattr(import_module(f"messaging.sms.providers.{module}"), class_name)()
        with self._lock:
            return self._known.setdefault(name, adapter)

    def register(self, adapter: SmsProvider) -> None:
        """Make an adapter of an application's own known.

        Raises: ConfigurationError, when its type is taken or it has no proper type and label.
        """
        name, label = adapter.type, adapter.label
        if not name or name != name.strip().upper() or len(name) > MAX_TYPE_CHARS:
            raise ConfigurationError(
                f"the provider's type is {name!r}; allowed: 1 to {MAX_TYPE_CHARS} characters in upper case"
            )
        if not label.replace("_", "a").replace("-", "a").isalnum() or not label.isascii() or label != label.lower():
            raise ConfigurationError(
                f"the label of provider {name} is {label!r}; allowed: lower-case letters, digits, - and _"
            )
        with self._lock:
            if name in BUILT_IN or name in self._known:
                raise ConfigurationError(f"two adapters for the provider type {name}; allowed: one")
            taken = self._label_owner(label)
            if taken is not None:
                raise ConfigurationError(f"the label {label!r} of provider {name} is that of {taken}")
            self._known[name] = adapter

    def types(self) -> tuple[str, ...]:
        """All types there is an adapter for, ours first."""
        return tuple(dict.fromkeys((*BUILT_IN, *self._known)))

    def by_label(self, label: str) -> SmsProvider | None:
        """The adapter whose label stands in an address of receipts; None where there is none."""
        owner = self._label_owner(label)
        return None if owner is None else self.provider(owner)

    def _label_owner(self, label: str) -> str | None:
        # Ours are labelled by their types, so that none need be imported to find one.
        if label.upper() in BUILT_IN and label == label.lower():
            return label.upper()
        return next((name for name, adapter in self._known.items() if adapter.label == label), None)


#: What this process knows.
_PROCESS = Registry()
provider = _PROCESS.provider
register = _PROCESS.register
types = _PROCESS.types
by_label = _PROCESS.by_label
