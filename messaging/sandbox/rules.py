"""What sandbox mode makes of a message's recipients: sent, kept, or sent elsewhere. Pure; `SANDBOX__*` says which.

Asked in one place, in front of every transport: `messaging.delivery.sandboxing`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import idna

from messaging.settings import SandboxSettings


@dataclass(frozen=True, slots=True)
class Ruling:
    """The recipients of one message, each in one of three."""

    #: They get it.
    sent: tuple[str, ...] = ()
    #: What they would get is kept.
    captured: tuple[str, ...] = ()
    #: What they would get goes to `redirect_to`.
    redirected: tuple[str, ...] = ()
    redirect_to: str | None = None


class SandboxRules:
    """The settings, spelled as recipients are."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._mode = settings.mode
        self._allowed = frozenset(map(_spelled, settings.allow))
        #: Channel -> where its messages go instead.
        self._targets = {("mail" if "@" in target else "sms"): target for target in settings.redirect_to}

    @property
    def is_on(self) -> bool:
        """Whether anything is kept from being sent."""
        return self._mode != "off"

    def rule(self, channel: str, recipients: Sequence[str]) -> Ruling:
        """Decide over these envelope recipients, numbers or addresses of endpoints."""
        everybody = tuple(recipients)
        match self._mode:
            case "off":
                return Ruling(sent=everybody)
            case "capture":
                return Ruling(captured=everybody)
            case "redirect":
                target = self._targets.get(channel)
                if target is None:
                    return Ruling(captured=everybody)
                return Ruling(redirected=everybody, redirect_to=target)
            case "allowlist":
                sent = tuple(r for r in everybody if self._is_allowed(r))
                return Ruling(sent=sent, captured=tuple(r for r in everybody if r not in sent))

    def _is_allowed(self, recipient: str) -> bool:
        """By itself or by its domain; a domain stands for itself and not for those below it."""
        if "://" in recipient:
            domain = urlsplit(recipient).hostname or ""
        else:
            domain = recipient.rpartition("@")[2]
        return not self._allowed.isdisjoint((_spelled(recipient), _spelled(domain)))


def _spelled(entry: str) -> str:
    """In lower case, the domain as A-labels."""
    local, at, domain = entry.lower().rpartition("@")
    if not domain.isascii():
        domain = idna.encode(domain, uts46=True).decode()
    return f"{local}{at}{domain}"
