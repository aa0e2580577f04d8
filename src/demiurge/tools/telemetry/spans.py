"""A call as one span for a tracer: when it was, how it was decided, how it ended, how much went in and out.

Digests and sizes only, and what a tool's redaction makes public of the arguments, never a value of a result: what a
trace collects is read by more people than a result is. A span is
handed over when its call is over, so a sink that breaks has nothing left to break.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["SpanSink", "ToolSpan"]


@dataclass(frozen=True, slots=True)
class ToolSpan:
    """`name`: `tool:<id>`. Times: nanoseconds since 1970, UTC; `end_ns` is never before `start_ns`.

    `attributes`, left out where there is none to tell: `tool_call_id`, `effect`, `spec_hash`, `decision`,
    `policy_digest`, `rule` (the name of the policy's rule that decided), `args_digest`, `arguments` (the public ones,
    as JSON text), `args_bytes` (of the JSON text as it came), `outcome` (`ok` or an error code), `duration_ms`,
    `result_bytes` (of the value as JSON), `replayed`."""

    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int | float | bool]


class SpanSink(Protocol):
    """Where spans go: `resources={SpanSink: sink}`. `put` is called once per call, in the context of whoever
    made it (or a copy), so that a tracer finds the span that is open around it."""

    def put(self, span: ToolSpan, /) -> object: ...
