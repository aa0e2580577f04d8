"""The module `sys/ToolRegistry@1`: the approved prompt tools of a world, in one unit, and their history.

A tool becomes live by one event alone: `Publish`, from the unit of a proposal that a user approved. The event names the
version that the proposal changes. If another version is live by then, nothing changes, and the proposal is told so. The
shipped core tools are not in the registry: they come with the program, and no event can touch their ids.

`live` maps `layer/id` to the version that is live, `versions` to the number of its last version; `history` has every
version that was ever approved, oldest first."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Final

from demiurge.registry.core_ids import core_id_of
from demiurge.world.reducer import Emit, Reducer, ReducerContext, Step

__all__ = [
    "LAYERS",
    "LAYER_SEEN",
    "MAX_LIVE",
    "PUBLISHED",
    "REGISTRY",
    "REGISTRY_KEY",
    "live_key",
    "registry_reducer",
]

REGISTRY: Final = "sys/ToolRegistry@1"
REGISTRY_KEY: Final = "main"
PUBLISHED: Final = "sys/ToolProposalPublished@1"
LAYER_SEEN: Final = "sys/ToolRegistryLayerSeen@1"

LAYERS: Final = ("user", "project")
"""The layers that approved tools are in, the later one before the earlier one."""

MAX_LIVE: Final = 300
"""The most tools that are live at once."""

_PROPOSALS: Final = "sys/ToolProposal@1/"

State = Mapping[str, Any]

_EMPTY: Final[State] = {"live": {}, "versions": {}, "layers": {}}


def reduce(state: State | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of the registry."""
    value = event["$value"]
    if event["$tag"] == "LayerSeen":
        return _layer_seen(state, value, context)
    if context.origin != "unit" or context.sender != f"{_PROPOSALS}{value['proposal']}":
        return Step()
    problem = _problem(state, value)
    if problem is not None:
        return Step(events=[_answer(value, context, None, *problem)])
    key, cell = live_key(value["layer"], value["tool"]), state if state is not None else _EMPTY
    version = cell["versions"].get(key, 0) + 1
    names = ("tool", "layer", "kind", "digest", "snapshot", "proposal", "revision", "by")
    entry = {name: value[name] for name in names} | {"version": version, "at": context.stamp.time_ns}
    live = dict(cell["live"])
    if value["kind"] == "delete":
        live.pop(key)
    else:
        live[key] = {name: entry[name] for name in ("digest", "version", "proposal", "by", "at")}
    return Step(
        set={"live": live, "versions": {**cell["versions"], key: version}, "layers": cell["layers"]},
        append={"history": [entry]},
        events=[_answer(value, context, version, None, None)],
    )


def live_key(layer: str, tool_id: str) -> str:
    """Returns the key of a tool in the map of live tools."""
    return f"{layer}/{tool_id}"


def _problem(state: State | None, value: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns why a version is not taken: a code and a sentence; None if it is."""
    if core_id_of(value["tool"]) is not None:
        return "core_tool_locked", f"{value['tool']} is Locked (core)."
    if value["layer"] not in LAYERS:
        return "invalid_proposal", f"There is no layer {value['layer']}."
    live = state["live"] if state is not None else {}
    now = live.get(live_key(value["layer"], value["tool"]))
    if (now["digest"] if now is not None else None) != value["base"]:
        what = "is live already" if value["base"] is None else "was changed or deleted in the meantime"
        return "stale", f"{value['tool']} {what}: propose it again on what is live now."
    if value["base"] is None and len(live) >= MAX_LIVE:
        return "too_many", f"At most {MAX_LIVE} prompt tools are live at once: delete one first."
    return None


def _answer(
    value: Mapping[str, Any], context: ReducerContext, version: int | None, code: str | None, message: str | None
) -> Emit:
    answer = {"proposal_id": value["proposal"], "digest": value["proposal_digest"], "version": version}
    return Emit(PUBLISHED, {**answer, "code": code, "message": message})


def _layer_seen(state: State | None, value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Notes the content of a layer file that this world wrote or read. Nothing in it becomes live by that."""
    if context.origin != "external" or "user" not in context.stamp.caller.roles or value["layer"] not in LAYERS:
        return Step()
    seen = {name: value[name] for name in ("digest", "problem")} | {"at": context.stamp.time_ns}
    if state is None:
        return Step(set={**_EMPTY, "layers": {value["layer"]: seen}})
    return Step(set={"layers": {**state["layers"], value["layer"]: seen}})


def registry_reducer() -> Reducer:
    """Returns the code of the module."""
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
