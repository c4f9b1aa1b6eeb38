"""Who asked for a message can be followed from the request to each attempt: ids on rows and lines, and spans."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from messaging import api, tenancy
from tests.integration.delivery.desk import Desk

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

#: A process has one provider of spans, for its life.
_EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_EXPORTER))
    trace.set_tracer_provider(provider)


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    _EXPORTER.clear()
    yield _EXPORTER
    _EXPORTER.clear()


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    desk = make_desk()
    api.configure(desk.settings, engine=desk.engine)
    desk.add_server()
    return desk


def accept() -> int:
    return api.send_mail(to=["a@example.com"], subject="s", text_body="t")


def as_request(span_id: str | None = SPAN_ID) -> tenancy.Context:
    return replace(tenancy.current(), trace_id=TRACE_ID, span_id=span_id, request_id="order-7")


def test_a_request_and_its_trace_stand_on_the_record_in_the_attempt_log_and_on_its_lines(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.run("UPDATE mail_send_server_config SET port = 1")  # nobody listens there
    with tenancy.acting_as(as_request()):
        record_id = accept()
    with caplog.at_level(logging.DEBUG, "messaging"):
        desk.deliver(record_id)
    row = desk.records.row(record_id)
    assert (row.trace_id, row.span_id, row.request_id) == (TRACE_ID, SPAN_ID, "order-7")
    [attempt] = desk.records.attempts(record_id)
    assert (attempt.trace_id, attempt.request_id) == (TRACE_ID, "order-7")
    told = [r.__dict__ for r in caplog.records if r.__dict__.get("record_id") == record_id]
    assert {(line["trace_id"], line["request_id"]) for line in told if "attempt_no" in line} == {(TRACE_ID, "order-7")}


def test_a_delivery_is_a_span_below_the_callers_and_names_no_address(desk: Desk, spans: InMemorySpanExporter) -> None:
    with tenancy.acting_as(as_request()):
        record_id = accept()
    desk.deliver(record_id)
    [span] = spans.get_finished_spans()
    assert span.name == "send mail"
    assert trace.format_trace_id(span.context.trace_id) == TRACE_ID
    assert span.parent is not None
    assert trace.format_span_id(span.parent.span_id) == SPAN_ID
    assert dict(span.attributes or {}) == {
        "messaging.system": "messaging",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(record_id),
        "messaging.attempt": 1,
    }


def test_a_span_of_the_caller_is_taken_where_no_context_names_a_trace(desk: Desk, spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("shop").start_as_current_span("place order") as ordering:
        record_id = accept()
    desk.deliver(record_id)
    sent = next(span for span in spans.get_finished_spans() if span.name == "send mail")
    assert sent.parent is not None
    assert sent.parent.span_id == ordering.get_span_context().span_id


@pytest.mark.parametrize("span_id", [None, "zz", "0" * 16])
def test_a_record_without_a_usable_span_is_delivered_in_a_trace_of_its_own(
    desk: Desk, spans: InMemorySpanExporter, span_id: str | None
) -> None:
    with tenancy.acting_as(as_request(span_id)):
        record_id = accept()
    assert desk.deliver(record_id) == {"sent": 1}
    [span] = spans.get_finished_spans()
    assert span.parent is None
