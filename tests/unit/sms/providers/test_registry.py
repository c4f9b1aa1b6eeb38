"""Which adapter serves which type: sms.md P38."""

import os
import subprocess
import sys

import pytest

from messaging.category import MarkerCode
from messaging.errors import ConfigurationError, PreparationError
from messaging.sms.providers.base import Accepted, Provider, Rejected
from messaging.sms.providers.registry import BUILT_IN, Registry


class Carrier(Provider):
    """An application's own."""

    type = "CARRIER"
    label = "carrier"

    def send(self, config, message, client, before_body) -> Accepted | Rejected:  # type: ignore[no-untyped-def]
        return Accepted("c-1")


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_type_has_its_adapter(registry: Registry, name: str) -> None:  # P38
    adapter = registry.provider(name)

    assert (adapter.type, adapter.label) == (name, name.lower())
    assert registry.provider(name.title()) is adapter
    assert registry.by_label(name.lower()) is adapter


@pytest.mark.parametrize("name", ["VONAGE", "", "twilio2", "TWİLİO"])
def test_an_unknown_type_is_unsupported(registry: Registry, name: str) -> None:  # P38
    with pytest.raises(PreparationError) as raised:
        registry.provider(name)

    assert raised.value.marker is MarkerCode.PROVIDER_UNSUPPORTED
    assert registry.by_label(name) is None


def test_an_application_registers_its_own(registry: Registry) -> None:
    own = Carrier()
    registry.register(own)

    assert registry.provider("carrier") is own
    assert registry.by_label("carrier") is own
    assert registry.types()[-1] == "CARRIER"


def test_two_adapters_for_one_type_are_an_error_at_start(registry: Registry) -> None:  # P38
    registry.register(Carrier())

    with pytest.raises(ConfigurationError, match="CARRIER"):
        registry.register(Carrier())


@pytest.mark.parametrize("name", BUILT_IN)
def test_ours_cannot_be_replaced(registry: Registry, name: str) -> None:
    class Impostor(Carrier):
        type = name

    with pytest.raises(ConfigurationError, match=name):
        registry.register(Impostor())


@pytest.mark.parametrize(
    ("name", "label"),
    [("carrier", "c"), ("", "c"), ("X" * 21, "c"), ("X", ""), ("X", "a/b"), ("X", "Ab"), ("X", "é"), ("X", "twilio")],
)
def test_a_type_or_label_that_cannot_be_stored_is_an_error_at_start(registry: Registry, name: str, label: str) -> None:
    odd = type("Odd", (Carrier,), {"type": name, "label": label})

    with pytest.raises(ConfigurationError):
        registry.register(odd())


def test_no_adapter_is_imported_before_it_is_asked_for() -> None:
    program = (
        "import sys, messaging.sms.providers.registry;"
        "print([m for m in sys.modules if m in ('messaging.sms.providers.twilio', 'messaging.sms.providers.cm')])"
    )

    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={**os.environ}
    )

    assert shown.stdout.strip() == "[]"
