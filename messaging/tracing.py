"""OpenTelemetry: spans of deliveries as children of what asked for them, in processes where it is in use.

Nothing is imported here, and nothing done where no provider of spans was set (that its API is loaded says nothing:
`redis` loads it); so a worker is traced by being started under `opentelemetry-instrument`. A span holds ids and counts,
never an address or a text. Source: https://www.w3.org/TR/trace-context/ and
https://opentelemetry.io/docs/specs/semconv/messaging/.
"""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_NOTHING = nullcontext()


def current_span() -> tuple[str | None, str | None]:
    """Trace id and span id of the running code, in hex; two None where there is no span."""
    trace = _in_use()
    if trace is None:
        return None, None
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None, None
    return trace.format_trace_id(span.trace_id), trace.format_span_id(span.span_id)


def sending(channel: str, record: Mapping[str, Any], attempt_no: int) -> AbstractContextManager[Any]:
    """The span of one attempt of a send record with these columns, from its first contact to its result."""
    trace = _in_use()
    if trace is None:
        return _NOTHING
    span: AbstractContextManager[Any] = trace.get_tracer("messaging").start_as_current_span(
        f"send {channel}",
        context=_parent(trace, record["trace_id"], record["span_id"]),
        kind=trace.SpanKind.PRODUCER,
        attributes={
            "messaging.system": "messaging",
            "messaging.operation.type": "send",
            "messaging.destination.name": channel,
            "messaging.message.id": str(record["id"]),
            "messaging.attempt": attempt_no,
        },
        # Its words may name a recipient; the attempt log has them.
        record_exception=False,
    )
    return span


def _in_use() -> Any | None:
    """The API's module, where spans go somewhere."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return trace


def _parent(trace: Any, trace_id: str | None, span_id: str | None) -> Any:
    """The caller's span; None, which is what runs here, where none is known or it is no hex."""
    try:
        parent = trace.SpanContext(
            int(trace_id or "", 16), int(span_id or "", 16), is_remote=True, trace_flags=trace.TraceFlags(1)
        )
    except ValueError:
        return None
    return trace.set_span_in_context(trace.NonRecordingSpan(parent)) if parent.is_valid else None
