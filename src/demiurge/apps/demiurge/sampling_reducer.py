"""The reducer of requests for a model that MCP servers make during a call: one cell a request, which has no chat.

A running tool call asks, within the grant of its server; nobody from outside does. The request holds the server's
messages and nothing of this world's. Its cell's key begins with the id of the call's intent, so the journal says which
call it serves, and a call that is performed again finds the answer that it has had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.world.reducer import Emit, ReducerContext, Step

__all__ = ["reduce"]

State = Mapping[str, Any]
Event = Mapping[str, Any]


def reduce(state: State | None, event: Event, context: ReducerContext) -> Step:
    """One step of a request."""
    tag, value = event["$tag"], event["$value"]
    if context.origin == "external":
        return Step()
    if tag == "Asked":
        return _asked(value, context) if state is None else Step()
    if state is None or state["outcome"] is not None:
        return Step()
    if tag == "Done":
        usage = value["token_usage"]
        tokens = usage["prompt"] + usage["completion"] or state["max_tokens"]  # a provider that reports none
        named = {name: value[name] for name in ("output_ref", "stop_reason")}
        return Step(set={"outcome": {"ok": True, "code": None, "message": "", "tokens": tokens, **named}})
    failed = {name: value[name] for name in ("code", "message")}
    return Step(
        set={"outcome": {"ok": False, "output_ref": None, "tokens": 0, "stop_reason": None, **failed}},
    )


def _asked(value: Event, context: ReducerContext) -> Step:
    asked = {name: value[name] for name in ("tool", "digest", "provider", "model", "max_tokens")}
    request = {name: value[name] for name in ("sample_id", "message_refs", "provider", "model", "max_tokens")}
    request["temperature"] = context.settings["temperature"]
    return Step(set={**asked, "outcome": None}, events=[Emit("demiurge/SampleRequested@1", request)])
