from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, Tracer

from demiurge import ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.tools import SpanSink, ToolSpan


class OpenTelemetrySpans:
    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def put(self, span: ToolSpan, /) -> None:
        sent = self.tracer.start_span(span.name, attributes=dict(span.attributes), start_time=span.start_ns)
        if span.attributes["outcome"] != "ok":
            sent.set_status(Status(StatusCode.ERROR, str(span.attributes["outcome"])))
        sent.end(span.end_ns)


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> int:
    """How many pieces of a part are in stock."""
    return 120


exporter = InMemorySpanExporter()  # in a program: an OTLP exporter
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("shop")
runner = ToolRunner(
    [stock_count],
    policy=ToolPolicy(("stock_count",)),
    resources={SpanSink: OpenTelemetrySpans(tracer)},
)

with tracer.start_as_current_span("turn") as turn:
    runner.exec_sync("stock_count", {"part": "bolt"})
    runner.exec_sync("stock_count", {"part": 7})

for span in exporter.get_finished_spans():
    inside = span.parent is not None and span.parent.span_id == turn.get_span_context().span_id
    print(span.name, span.status.status_code.name, "inside the turn" if inside else "")
