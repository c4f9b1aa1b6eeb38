"""What a request is called: its `X-Request-Id`, and its place in a trace (W3C Trace Context, section 3.2)."""

import random
import re
from collections.abc import Iterable

from messaging.tenancy import Context

#: Taken as it is; what is longer or has other characters would make log lines and headers unsafe.
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,64}")
#: Of any version but ff; a later one may have more behind its flags.
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


def request_context(headers: Iterable[tuple[bytes, bytes]]) -> Context:
    """Request id, trace and span; of nobody's tenant. A request that brings no sane id gets one."""
    request_id = trace_id = span_id = None
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            request_id = value.decode()
        elif name == b"traceparent" and (found := _TRACEPARENT.fullmatch(value)):
            trace_id, span_id = found[1].decode(), found[2].decode()
    # Nobody is kept from guessing it, so it needs no system call.
    return Context(request_id=request_id or f"{random.getrandbits(128):032x}", trace_id=trace_id, span_id=span_id)
