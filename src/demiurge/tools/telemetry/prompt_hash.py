"""The prompt hash: one digest for everything that a model was asked, so that equal prompts can be found.

It covers what the model saw: two prompts that differ in a tool call, a tool's result or a tool's schema have
different digests. It does not cover how the model had to answer (a forced tool, a response format). It is made from
RFC 8785 JSON, where a number has one spelling in every language (1.0 and 1 are one temperature), and it contains its
version, so that digests of another recipe are never mistaken for this one's. The digest reveals nothing about the
prompt to somebody who does not have the prompt, and nothing about the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from demiurge.tools.spec import ToolSpec
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of

__all__ = ["PROMPT_HASH_VERSION", "prompt_hash"]

PROMPT_HASH_VERSION = "phv2"
"""The version of the recipe below. The original `phv1` had no tools, no tool calls and no graph."""


def prompt_hash(
    *,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    temperature: float | None = None,
    max_tokens: int | None = None,
    tools: Iterable[ToolSpec] = (),
    graph: GraphRun | None = None,
) -> Ref:
    """Returns `sha256:<hex>` of the RFC 8785 JSON of an object with these fields:

    - `prompt_hash_version`: `phv2`
    - `model`, `temperature`, `max_tokens`: as sent; null when left to the provider
    - `messages`: in order, whole: role, content, tool calls, tool call ids and whatever else is in them
    - `tools`: the spec hashes of the tools that the model saw, sorted, each once
    - `graph`: `{"name", "version"}`, or null

    Raises InvalidValue for data that is not JSON: NaN, integers beyond ±(2^53 - 1), lone surrogates."""
    prompt = {
        "prompt_hash_version": PROMPT_HASH_VERSION,
        "model": model,
        "messages": [dict(message) for message in messages],
        "temperature": temperature,
        "max_tokens": max_tokens,
        "tools": sorted({spec.spec_hash for spec in tools}),
        "graph": {"name": graph.graph_name, "version": graph.graph_version} if graph is not None else None,
    }
    return ref_of(canonical_json.encode(prompt))
