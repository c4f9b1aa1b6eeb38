"""Where a provider's requests to us come to: one address for each configuration, unguessable by its token.

Served by `messaging.web`; whoever knows an address can send receipts to it.
"""

from messaging.errors import PreparationError
from messaging.sms.providers import registry

#: What stands behind an address of receipts in that of messages to us.
INBOUND = "/inbound"


def receipt_path(provider_type: str, token: str) -> str:
    """The path, below the public address of the web application."""
    try:
        label = registry.provider(provider_type).label
    except PreparationError:  # an application's own type, which this process has not registered
        label = provider_type.lower()
    return f"/hooks/sms/{label}/{token}"


def receipt_url(public_base_url: str | None, provider_type: str, token: str) -> str | None:
    """The whole address; None where the web application has no public one."""
    return None if public_base_url is None else public_base_url.rstrip("/") + receipt_path(provider_type, token)
