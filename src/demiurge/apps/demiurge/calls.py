"""The reducer of calls that a person makes: one cell a call, which has no chat and touches none.

Such a call goes the way of one that a model proposes: an event asks for it, a plan emits the effect `tool.call`, and
every policy decides on it (architecture.md 1). Its id is its cell's key, so a call that is asked for twice runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from demiurge.apps.demiurge.answer import error_blob, known_code, said
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
    if context.origin == "external" or state is None or state["outcome"] is not None:
        return Step()
    return _HANDLERS[tag](value, context)


def _on_asked(state: State | None, value: Event) -> Step:
    if state is None:
        asked = {name: value[name] for name in ("tool", "call_ref")}
        return Step(set=asked, events=[Emit("demiurge/CallRequested@1", value)])
    if (state["tool"], state["call_ref"]) == (value["tool"], value["call_ref"]):
        return Step()
    message = "There is another call with this id."
    return Step(
        events=[Emit("demiurge/CallRefused@1", {"call_id": value["call_id"], "code": "exists", "message": message})]
    )


def _on_done(value: Event, _context: ReducerContext) -> Step:
    return Step(set={"outcome": {name: value[name] for name in value if name != "call_id"}})


def _on_failed(value: Event, context: ReducerContext) -> Step:
    return _failed(known_code(value["code"]), value["message"], context)


def _on_fault(value: Event, context: ReducerContext) -> Step:
    return _failed(ToolErrorCode.UNKNOWN_OUTCOME.value, value["message"], context)


def _failed(code: str, message: str, context: ReducerContext) -> Step:
    why = said(code, message)
    blob = error_blob(context.key, code, why)
    outcome = {"ok": False, "error_code": code, "message": why, "result_ref": ref_of(blob), "view_ref": None}
    return Step(set={"outcome": outcome}, blobs=[blob])


_HANDLERS: Mapping[str, Callable[[Event, ReducerContext], Step]] = {
    "Done": _on_done,
    "Failed": _on_failed,
    "PlanFailed": _on_fault,
    "StepFailed": _on_fault,
}
