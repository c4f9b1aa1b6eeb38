"""What an application is told: the types of events, and an event's body. The same bytes for every attempt."""

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from messaging.delivery.announcing import EventType

#: The event by which an operator tries an endpoint.
TRIAL = "webhook.test"

#: Types that an endpoint may ask for; a trial comes to it in any case.
EVENT_TYPES = tuple(str(kind) for kind in EventType)


def event_id(record_id: int) -> str:
    """By what an application knows an event that it was told already."""
    return f"evt_{record_id}"


def body_of(record: Mapping[str, Any]) -> str:
    """The body of a webhook's record: type, when it happened, and what is told of the message."""
    at = record["created_at"].astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    event = {"type": record["event_type"], "timestamp": at, "data": record["payload"]}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))
