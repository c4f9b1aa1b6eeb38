"""WebhookChannel: an event to an endpoint over HTTP, in the shape that delivery wants.

Whatever is not 2xx is tried again by the core's table: a receiver that was set up wrongly is mended, and what it missed
meanwhile comes to it. Redirects are not followed. Of an answer only its status counts: its words may come from inside
the network of who runs this, and are not for the tenant to read.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine, Table

from messaging.category import ErrorCategory, MarkerCode
from messaging.clock import Clock, Ticker
from messaging.delivery.channel import Claim, RateLimits
from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult, RecipientStatus
from messaging.errors import DeliveryError, PreparationError
from messaging.http.client import HttpClient, HttpReply
from messaging.sandbox.captured import Composed
from messaging.settings import Settings
from messaging.suppression import Subject
from messaging.webhooks.endpoints import Endpoint, EndpointCache
from messaging.webhooks.events import body_of, event_id
from messaging.webhooks.models import WEBHOOK_SEND_RECORD
from messaging.webhooks.signing import signed_headers

NAME = "webhook"

#: Label of who takes events.
PROVIDER = "http"

#: Octets of an answer that are read before its connection is given up.
MAX_REPLY_BYTES = 65_536

#: RFC 9110 sections 15.5.11 and 15.5.20, RFC 6585 section 4; every other status is TRANSIENT.
_CATEGORIES = {410: ErrorCategory.PERMANENT, 429: ErrorCategory.QUOTA}
_GONE = 410

#: Its address was changed after the chunk was loaded: sandbox mode has ruled on the one before.
_CHANGED_CODE = "ENDPOINT_CHANGED"

logger = logging.getLogger(__name__)


class WebhookChannel:
    """One per worker process; its client keeps connections."""

    name = NAME
    table: Table = WEBHOOK_SEND_RECORD
    prepared_columns = ("prepared_at",)
    #: Events are not charged.
    monthly_default = None

    def __init__(self, engine: Engine, settings: Settings, client: HttpClient, *, clock: Clock, ticker: Ticker) -> None:
        self.queue = settings.queues.webhook_send
        self._client = client
        self._clock = clock
        self._endpoints = EndpointCache(engine, ttl_seconds=settings.config_cache_ttl_seconds, ticker=ticker)

    def provider(self, content: Mapping[str, Any]) -> str:
        """The same for all."""
        return PROVIDER

    def load(self, claims: Sequence[Claim]) -> None:
        """Read the endpoints of these records, and note where each goes."""
        self._endpoints.ensure({claim.content["endpoint_id"] for claim in claims})
        for claim in claims:
            claim.content["endpoint_url"] = self._endpoints.find_url(claim.content["endpoint_id"])

    def subject(self, content: Mapping[str, Any]) -> Subject:
        """Nobody: an endpoint is on no suppression list."""
        return Subject({})

    def prepare(self, claim: Claim) -> Mapping[str, Any]:
        """Never asked for: a record is written prepared."""
        raise PreparationError(MarkerCode.PREPARE_FAILED, "a webhook's record that was not written prepared")

    def recipients(self, content: Mapping[str, Any]) -> Sequence[str]:
        """The one endpoint."""
        return recipients(content)

    def config_id(self, claim: Claim) -> int | None:
        """The endpoint's."""
        endpoint_id: int = claim.content["endpoint_id"]
        return endpoint_id

    def rate_limits(self, claim: Claim) -> RateLimits | None:
        """None: an endpoint that has had enough says so."""
        return None

    def send(self, claim: Claim, recipients: Sequence[str], gate: Gate) -> Mapping[str, RecipientResult]:
        """One call of the endpoint, signed anew: the standard's time is that of the attempt."""
        [recipient] = recipients
        record, now = claim.content, self._clock()
        endpoint = self._endpoints.get(record["endpoint_id"], record["tenant_id"], now=now)
        if endpoint.url != recipient:
            text = f"webhook endpoint {endpoint.id} was pointed elsewhere meanwhile"
            raise DeliveryError(ErrorCategory.TRANSIENT, _CHANGED_CODE, text)
        gate.check_start()
        body = body_of(record)
        headers = {
            "Content-Type": "application/json",
            **signed_headers(endpoint.keys, event_id(claim.record_id), body, at=now),
        }
        reply = self._client.post(endpoint.url, headers=headers, body=body.encode(), before_body=gate.check_last_byte)
        if not reply.is_success:
            raise self._refusal(endpoint, reply)
        return {recipient: RecipientResult(RecipientStatus.ACCEPTED, f"HTTP_{reply.status}", "the endpoint has it")}

    def compose(self, claim: Claim, gate: Gate) -> Composed:
        """The body; who is asked to keep it is told where it would go as its recipient."""
        record = claim.content
        return Composed(content=body_of(record), details={n: record[n] for n in ("endpoint_id", "event_type")})

    def redirected(self, content: Mapping[str, Any], recipients: Sequence[str], to: str) -> Mapping[str, Any]:
        """Never asked for: no setting names an endpoint in the place of all."""
        raise PreparationError(MarkerCode.UNEXPECTED, "an event cannot be redirected")

    def _refusal(self, endpoint: Endpoint, reply: HttpReply) -> DeliveryError:
        text = f"webhook endpoint {endpoint.id} answered {reply.status}"
        if reply.status == _GONE and self._endpoints.note_gone(endpoint):
            logger.warning("an endpoint is gone and was disabled", extra={"endpoint_id": endpoint.id})
            text += ", and was disabled"
        elif 300 <= reply.status < 400:
            text += "; redirects are not followed"
        category = _CATEGORIES.get(reply.status, ErrorCategory.TRANSIENT)
        return DeliveryError(category, f"HTTP_{reply.status}", text, retry_after_seconds=reply.retry_after_seconds)


def recipients(content: Mapping[str, Any]) -> list[str]:
    """The endpoint of a record, as its one recipient: its address where that was looked up, and is known."""
    return [content.get("endpoint_url") or f"endpoint {content['endpoint_id']}"]
