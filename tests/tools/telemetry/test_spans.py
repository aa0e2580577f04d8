"""One span per call, with digests and sizes and nothing that was said; a broken sink is the tracer's own trouble."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, Tracer

from demiurge import Redaction, Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner, ToolUserError
from demiurge.tools import LoopSignal, SpanSink, ToolSpan
from demiurge.values.clock import FixedClock


@dataclass(frozen=True)
class Args:
    text: str


def echo(params: Args, *, context: ToolContext) -> ToolResult[str]:
    if params.text == "raise":
        raise ToolUserError("canary")
    if params.text == "signal":
        raise LoopSignal("canary")
    return ToolResult("canary", params.text)


ECHO = Tool[Args, str](name="echo", description="Echo.", handler=echo, effect=ToolEffect.READ_ONLY)
POLICY = ToolPolicy(("echo",))


class Spans:
    def __init__(self) -> None:
        self.kept: list[ToolSpan] = []

    def put(self, span: ToolSpan, /) -> None:
        self.kept.append(span)


def traced(args: Any, tool_id: str = "echo", redaction: Redaction | None = None) -> tuple[ToolSpan, Any]:
    spans = Spans()
    clock = FixedClock(5_000_000_000, step_ns=500_000)
    runner = ToolRunner([ECHO], policy=POLICY, resources={SpanSink: spans}, clock=clock)
    result = runner.exec_sync(tool_id, args, tool_call_id="c1")
    (span,) = spans.kept
    return span, result


def test_a_span_of_a_success() -> None:
    span, result = traced('{"text":"canary é"}')
    assert (span.name, span.start_ns) == ("tool:echo", 5_000_000_000)
    assert span.attributes == {
        "tool_call_id": "c1",
        "effect": "read_only",
        "spec_hash": ECHO.spec.spec_hash,
        "decision": "allow",
        "policy_digest": POLICY.digest,
        "args_digest": result.record.args_digest,
        "args_bytes": len('{"text":"canary é"}'.encode()),
        "outcome": "ok",
        "duration_ms": (span.end_ns - span.start_ns) / 1_000_000,
        "result_bytes": len('"canary é"'.encode()),
        "replayed": False,
    }
    assert span.attributes["duration_ms"] == 0.5


@pytest.mark.parametrize(
    ("args", "tool_id", "outcome"),
    [
        ('{"text":"raise"}', "echo", "execution"),
        ('{"text":"canary", "canary": 1}', "echo", "validation"),
        ('{"text":"canary"', "echo", "invalid_json"),
        ('{"text":"canary"}', "other", "policy_denied"),
        ('{"text":"canary"}', "canary is no id", "policy_denied"),
        (object(), "echo", "invalid_json"),
    ],
)
def test_a_span_of_a_failure(args: Any, tool_id: str, outcome: str) -> None:
    span, result = traced(args, tool_id)
    assert span.name == f"tool:{result.record.name}"
    assert (span.attributes["outcome"], result.error_code) == (outcome, outcome)
    assert span.attributes.get("args_bytes") == (len(args.encode()) if isinstance(args, str) else None)
    assert "result_bytes" not in span.attributes
    assert "canary" not in repr(span)


def test_the_size_of_a_mapping_is_that_of_its_json() -> None:
    args = {"text": "x" * 100}
    assert traced(args)[0].attributes["args_bytes"] == len(json.dumps(args))


def test_a_call_that_goes_up_has_its_span_too() -> None:
    spans = Spans()
    runner = ToolRunner([ECHO], policy=POLICY, resources={SpanSink: spans})
    with pytest.raises(LoopSignal):
        runner.exec_sync("echo", {"text": "signal"})
    assert [span.attributes["outcome"] for span in spans.kept] == ["cancelled"]


class Broken:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def put(self, span: ToolSpan, /) -> None:
        raise self.error("canary")


@pytest.mark.parametrize(
    "error", [RuntimeError, LoopSignal, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
)
async def test_a_failing_sink_never_touches_the_call(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Any] = []
    runner = ToolRunner([ECHO], policy=POLICY, resources={SpanSink: Broken(error)}, emit=events.append)
    assert (await runner.exec("echo", {"text": "x"})).ok
    assert runner.exec_sync("echo", {"text": "x"}).ok
    assert len(events) == 4
    assert error.__name__ in caplog.text
    assert "canary" not in caplog.text


async def test_calls_side_by_side_have_a_span_each() -> None:
    spans = Spans()
    runner = ToolRunner([ECHO], policy=POLICY, resources={SpanSink: spans}, max_parallel=4)
    await runner.exec_many([(f"c{index}", "echo", {"text": "x"}) for index in range(8)])
    assert sorted(str(span.attributes["tool_call_id"]) for span in spans.kept) == [f"c{index}" for index in range(8)]


class OpenTelemetrySpans:
    """All it takes to send the spans to OpenTelemetry."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def put(self, span: ToolSpan, /) -> None:
        sent = self.tracer.start_span(span.name, attributes=dict(span.attributes), start_time=span.start_ns)
        if span.attributes["outcome"] != "ok":
            sent.set_status(Status(StatusCode.ERROR, str(span.attributes["outcome"])))
        sent.end(span.end_ns)


def test_an_opentelemetry_tracer_takes_the_spans_into_the_callers() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    runner = ToolRunner([ECHO], policy=POLICY, resources={SpanSink: OpenTelemetrySpans(tracer)})
    with tracer.start_as_current_span("turn"):
        runner.exec_sync("echo", {"text": "x"}, tool_call_id="c1")
        asyncio.run(runner.exec("echo", {"text": 1}, tool_call_id="c2"))
    first, second, turn = exporter.get_finished_spans()
    for span, call_id, status in ((first, "c1", StatusCode.UNSET), (second, "c2", StatusCode.ERROR)):
        assert (span.name, span.status.status_code) == ("tool:echo", status)
        assert span.attributes is not None
        assert span.attributes["tool_call_id"] == call_id
        assert span.parent is not None
        assert turn.context is not None
        assert span.parent.span_id == turn.context.span_id
        assert span.start_time is not None
        assert span.end_time is not None
        assert turn.start_time is not None
        assert turn.start_time <= span.start_time <= span.end_time
