"""The id of a request and its place in a trace: what is taken from headers, and what is not."""

import pytest

from messaging.web.tracing import request_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("given", [b"a", b"order-1/2", b"x" * 64, b"A.b_c~d+e/f=g:h@i"])
def test_a_sane_request_id_is_taken(given: bytes) -> None:
    assert request_context([(b"x-request-id", given)]).request_id == given.decode()


@pytest.mark.parametrize("given", [b"", b"x" * 65, b"a b", b"a\x00", b'"a"', "é".encode(), b"a\r\nb"])
def test_another_is_replaced_by_one_of_ours(given: bytes) -> None:
    made = request_context([(b"x-request-id", given)]).request_id

    assert made is not None
    assert len(made) == 32
    assert made != request_context([]).request_id


# W3C Trace Context, section 3.2.2
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (f"00-{TRACE}-{SPAN}-00", (TRACE, SPAN)),
        (f"cc-{TRACE}-{SPAN}-01-what-is-to-come", (TRACE, SPAN)),
        (f"00-{TRACE}-{SPAN}", (None, None)),
        (f"ff-{TRACE}-{SPAN}-00", (None, None)),
        (f"00-{'0' * 32}-{SPAN}-00", (None, None)),
        (f"00-{TRACE}-{'0' * 16}-00", (None, None)),
        (f"00-{TRACE[:-1]}-{SPAN}-00", (None, None)),
        (f"00-{TRACE.upper()}-{SPAN}-00", (None, None)),
        ("", (None, None)),
    ],
)
def test_a_traceparent_is_taken_as_the_standard_says(given: str, found: tuple[str | None, str | None]) -> None:
    context = request_context([(b"traceparent", given.encode())])

    assert (context.trace_id, context.span_id) == found
    assert context.tenant_id is None
