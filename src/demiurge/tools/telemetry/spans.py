"""A tool call as one span for a tracer: its times, its decision, its outcome, its sizes.

A span holds digests and sizes only, and what a tool's redaction makes public of the arguments, never a value of a
result, because more people read traces than results. A span is emitted when its call is over, so a sink that fails
cannot harm the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["SpanSink", "ToolSpan"]


@dataclass(frozen=True, slots=True)
class ToolSpan:
    """The span of one call. `name`: `tool:<id>`. Times: nanoseconds since 1970, UTC; `end_ns` is never before
    `start_ns`.

    `attributes`, each present only if it has a value: `tool_call_id`, `effect`, `spec_hash`, `decision`,
    `policy_digest`, `rule` (the name of the policy's rule that decided), `args_digest`, `arguments` (the public
    ones, as JSON text), `args_bytes` (of the JSON text as it came), `outcome` (`ok` or an error code),
    `duration_ms`, `result_bytes` (of the value as JSON), `replayed`."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int | float | bool]


class SpanSink(Protocol):
    """Receives spans: `resources={SpanSink: sink}`. `put` is called once per call, in the context of the caller (or
    a copy), so that a tracer finds the enclosing span."""

    def put(self, span: ToolSpan, /) -> object: ...
