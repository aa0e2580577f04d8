"""The reducer of calls that a person makes: one cell a call, which has no chat and touches none.

Such a call goes the way of one that a model proposes: an event asks for it, a plan emits the effect `tool.call`, and
every policy decides on it (architecture.md 1). Its id is its cell's key, so a call that is asked for twice runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from demiurge.apps.demiurge.answer import failure_of
from demiurge.tools.errors import ToolErrorCode
from demiurge.values.refs import ref_of
from demiurge.world.reducer import Emit, ReducerContext, Step

__all__ = ["reduce"]

State = Mapping[str, Any]
Event = Mapping[str, Any]


def reduce(state: State | None, event: Event, context: ReducerContext) -> Step:
    """One step of a call. What comes of it is reported by its plan, never from outside the world."""
    tag, value = event["$tag"], event["$value"]
    if tag == "Asked":
        return _on_asked(state, value)
    if context.origin == "external":
        why = f"{tag} is reported by the world itself; from outside it is not taken."
        return Step(events=[_refused(context.key, "origin_not_allowed", why)])
    if state is None or state["outcome"] is not None:
        return Step()
    return _HANDLERS[tag](value, context)


def _on_asked(state: State | None, value: Event) -> Step:
    if state is None:
        asked = {name: value[name] for name in ("tool", "call_ref")}
        return Step(set=asked, events=[Emit("demiurge/CallRequested@1", value)])
    if (state["tool"], state["call_ref"]) == (value["tool"], value["call_ref"]):
        return Step()
    return Step(events=[_refused(value["call_id"], "exists", "There is another call with this id.")])


def _refused(call_id: str, code: str, message: str) -> Emit:
    return Emit("demiurge/CallRefused@1", {"call_id": call_id, "code": code, "message": message})


def _on_done(value: Event, _context: ReducerContext) -> Step:
    return Step(set={"outcome": {name: value[name] for name in value if name != "call_id"}})


def _on_failed(value: Event, context: ReducerContext) -> Step:
    return _failed(value["code"], value["message"], context)


def _on_fault(value: Event, context: ReducerContext) -> Step:
    return _failed(ToolErrorCode.UNKNOWN_OUTCOME.value, value["message"], context)


def _failed(code: str, message: str, context: ReducerContext) -> Step:
    code, why, blob = failure_of(context.key, code, message)
    outcome = {"ok": False, "error_code": code, "message": why, "result_ref": ref_of(blob), "view_ref": None}
    return Step(set={"outcome": outcome}, blobs=[blob])


_HANDLERS: Mapping[str, Callable[[Event, ReducerContext], Step]] = {
    "Done": _on_done,
    "Failed": _on_failed,
    "PlanFailed": _on_fault,
    "StepFailed": _on_fault,
}
