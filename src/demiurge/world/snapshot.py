"""Snapshots: a unit's whole state as one node, so that the unit loads without reading its whole history.

A snapshot is a cache of the fold of the records up to its number. It may be lost, and one that does not fit its chain
is ignored. Lists of the cell are chunked nodes beside it; chunks that an earlier snapshot stored are shared, so a
snapshot costs as much as changed since. Equal states have equal nodes, which is how `replay` checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from demiurge.errors import Damaged, DemiurgeError, InvalidValue
from demiurge.stores.protocol import Snapshot
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.values.vector import Vector
from demiurge.world.budget import Run, Used
from demiurge.world.cell import Cell
from demiurge.world.plan import PlanInstance
from demiurge.world.state import OpenIntent, Request, UnitState
from demiurge.world.unit import Unit

__all__ = ["read_snapshot", "snapshot_node", "take_snapshot"]

FORMAT = 1


def snapshot_node(state: UnitState) -> tuple[bytes, dict[Ref, bytes]]:
    """Returns the node, and the chunks of the cell's lists that no earlier call returned (see `Vector.root`). Store all
    of them or none.

    Raises InvalidValue if a running plan holds something other than plain data; such a state has no snapshot and must
    be computed.
    """
    cell, chunks = _cell_node(state.cell)
    node = {
        "format": FORMAT,
        "world": state.world,
        "unit": str(state.unit),
        "seq": state.seq,
        "head": state.head,
        "manifest": state.manifest,
        "cell": cell,
        "plans": [plan.to_node() for plan in state.plans.values()],
        "intents": [_intent_node(intent) for intent in state.intents.values()],
        "next_plan": state.next_plan,
    }
    if state.runs:
        node["runs"] = [run.to_node() for run in state.runs.values()]
    if state.rules:
        node["rules"] = list(state.rules.values())
    if state.tainted:
        node["tainted"] = [[run, list(tools)] for run, tools in state.tainted.items()]
    if state.used is not None:
        node["used"] = list(state.used)
    return cbor.encode(node), chunks


def take_snapshot(state: UnitState, blobs: list[bytes]) -> Snapshot | None:
    """Returns a snapshot of `state`, to be written with the records that made it, and adds its blobs to `blobs`, its
    own node last. Returns None for a state that has no snapshot."""
    try:
        node, chunks = snapshot_node(state)
    except InvalidValue:
        return None
    blobs += [*chunks.values(), node]
    return Snapshot(str(state.unit), state.seq - 1, state.head, ref_of(node))


def read_snapshot(
    snapshot: Snapshot,
    world: str,
    unit: Unit,
    get: Callable[[Ref], bytes],
    lost: Callable[[DemiurgeError], object] = lambda _error: None,
) -> UnitState:
    """Returns the state in `snapshot`. Lists are read by `get` when they are used; `lost` is called with the error if
    that fails.

    Raises Damaged if the node is not a snapshot of this unit after this record, and whatever `get` raises.
    """
    try:
        node = cbor.decode(get(snapshot.ref))
        identity = (node["format"], node["world"], node["unit"], node["seq"], node["head"])
        if identity != (FORMAT, world, str(unit), snapshot.unit_seq + 1, snapshot.hash):
            raise Damaged(f"{snapshot.ref} is not a snapshot of {unit} after record {snapshot.unit_seq}")
        return UnitState(
            world,
            unit,
            node["seq"],
            node["head"],
            node["manifest"],
            _read_cell(node["cell"], get, lost),
            {plan["id"]: PlanInstance.from_node(plan) for plan in node["plans"]},
            {intent["id"]: _read_intent(intent) for intent in node["intents"]},
            node["next_plan"],
            {run.id: run for run in map(Run.from_node, node.get("runs", ()))},
            Used(*node["used"]) if "used" in node else None,
            {rule["id"]: rule for rule in node.get("rules", ())},
            {run: tuple(tools) for run, tools in node.get("tainted", ())},
        )
    except (InvalidValue, LookupError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{snapshot.ref} can't be read as a snapshot") from error


def _cell_node(cell: Cell | None) -> tuple[list[Any] | None, dict[Ref, bytes]]:
    """Returns the fields in their order, which a reducer may see, as `[name, is it a list, value or root]`, and the new
    chunks."""
    if cell is None:
        return None, {}
    node: list[Any] = []
    fresh: dict[Ref, bytes] = {}
    for name, value in cell.items():
        if isinstance(value, Vector):
            root, chunks = value.root()
            node.append([name, True, root])
            fresh |= chunks
        else:
            node.append([name, False, value])
    return node, fresh


def _read_cell(node: Any, get: Callable[[Ref], bytes], lost: Callable[[DemiurgeError], object]) -> Cell | None:
    if node is None:
        return None
    return {name: Vector.load(value, get, lost) if is_list else value for name, is_list, value in node}


def _intent_node(intent: OpenIntent) -> dict[str, Any]:
    node = {field.name: getattr(intent, field.name) for field in fields(intent)}
    for name in ("run", "left", "refused", "edited_from", "leg", "tainted"):  # rarely used fields are left out
        if node[name] is None:
            del node[name]
    node["actor"] = node.pop("caller").to_node()
    node["requests"] = [
        [ordinal, [request.kind, request.params_digest, request.intent, request.answer]]
        for ordinal, request in intent.requests.items()
    ]
    return node


def _read_intent(node: Mapping[str, Any]) -> OpenIntent:
    known = {name: value for name, value in node.items() if name != "actor"}
    requests = {ordinal: Request(*request) for ordinal, request in node["requests"]}
    if "tainted" in known:
        known["tainted"] = tuple(known["tainted"])
    return OpenIntent(**known | {"caller": Caller.from_node(node["actor"]), "requests": requests})
