"""A unit's cell: a state record that steps change.

The cost of a step depends on the size of the change, not of the cell: only the fields that a step sets or appends to
are checked and digested, and lists are persistent vectors whose chunks are stored once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.limits.allowance import Allowance
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.values.schema import Schemas, Validator
from demiurge.values.vector import Vector
from demiurge.world.reducer import EffectRequest, Emit, Step

__all__ = ["Cell", "apply_step", "cell_node", "own_copy"]

Cell = Mapping[str, Any]
"""A state record; its list fields are `Vector`s."""

EVENTS_PER_STEP = 256
EFFECTS_PER_STEP = 64
BYTES_PER_STEP = 1 << 20
_ATOMS = frozenset([str, int, bool, bytes, type(None), Vector])


def apply_step(schemas: Schemas, schema: str, cell: Cell | None, step: Step) -> tuple[Cell | None, list[Emit], bytes]:
    """Returns the cell after `step`, the step's events in normal form, and the digest of everything that the step
    changed and emitted.

    Raises InvalidValue (with the path) if a change or an event breaks its schema or a limit is passed; then no part of
    the step takes effect.
    """
    fields: Mapping[str, Any] = schemas.get(schema)["record"]
    _check_names(fields, step)
    checks = schemas.fields(schema)
    changed = {name: _checked(checks[name], name, step.set[name]) for name in _ordered(checks, step.set)}
    added = {name: _checked(checks[name], name, list(step.append[name])) for name in _ordered(checks, step.append)}
    if len(step.events) > EVENTS_PER_STEP:
        raise InvalidValue(f"the step emits more than {EVENTS_PER_STEP} events")
    emitted = [_emitted(schemas, f"events[{index}]", emit) for index, emit in enumerate(step.events)]
    if step.effects:
        _check_effects(step.effects)
    encoded = _encoded(step, changed, added, emitted)
    if len(encoded) > BYTES_PER_STEP:
        raise InvalidValue("the step changes and emits more than 1 MiB")
    digest = hashlib.sha256(encoded).digest()
    if step.delete:
        return None, emitted, digest
    if not changed and not added:
        return cell, emitted, digest
    after: dict[str, Any] = dict(cell) if cell is not None else {}
    if len(after) < len(fields):  # a new cell, or one older than a list or option of its schema
        for name, missing in _empty(fields).items():
            after.setdefault(name, missing)
    for name, value in changed.items():
        after[name] = Vector.of(value) if "list" in fields[name] else value
    for name, items in added.items():
        after[name] = after[name].extend(items)
    for name in fields:
        if name not in after:
            raise InvalidValue("a new cell must set this field", path=name)
    return after, emitted, digest


def _encoded(step: Step, changed: Cell, added: Cell, emitted: Sequence[Emit]) -> bytes:
    """Returns the node `{set, blobs, append, delete, events: [[schema, value, budget?]], effects?: [[kind, params, key,
    grant]]}`, joined from encoded parts."""
    parts = [_NODE if not step.effects else _NODE_WITH_EFFECTS, _part(changed)]
    if step.blobs or added or step.delete or emitted:
        blobs, events = [ref_of(blob) for blob in step.blobs], [_event(emit) for emit in emitted]
        parts += b"\x65blobs", _part(blobs), b"\x66append", _part(added)
        parts += b"\x66delete", _part(step.delete), b"\x66events", _part(events)
    else:
        parts.append(_NOTHING_ELSE)
    if step.effects:
        effects = [[effect.kind, effect.params, effect.key, effect.grant] for effect in step.effects]
        parts += b"\x67effects", _part(effects)
    return b"".join(parts)


def _event(emit: Emit) -> list[Any]:
    return [emit.schema, emit.value] if emit.budget is None else [emit.schema, emit.value, emit.budget.to_json()]


def _part(value: Any) -> bytes:
    """Returns a value as encoded inside the node. It is encoded inside a list, so that the depth limit counts it as
    deep as it lies there."""
    return cbor.encode_item([value])[1:]


_NODE = cbor.encode({})[:3] + b"\xa5\x63set"
_NODE_WITH_EFFECTS = cbor.encode({})[:3] + b"\xa6\x63set"
_NOTHING_ELSE = b"".join(
    (b"\x65blobs", _part([]), b"\x66append", _part({}), b"\x66delete", _part(False), b"\x66events", _part([]))
)


def cell_node(cell: Cell | None) -> tuple[bytes, dict[Ref, bytes]]:
    """Returns a cell as canonical CBOR with its lists as chunked nodes, and the chunks that no earlier call
    returned."""
    if cell is None:
        return cbor.encode(None), {}
    node: dict[str, Any] = {}
    fresh: dict[Ref, bytes] = {}
    for name, value in cell.items():
        if isinstance(value, Vector):
            node[name], chunks = value.root()
            fresh |= chunks
        else:
            node[name] = value
    return cbor.encode(node), fresh


def _check_names(fields: Mapping[str, Any], step: Step) -> None:
    for name in (*step.set, *step.append):
        if name not in fields:
            raise InvalidValue("the state has no such field", path=name)
    for name in step.append:
        if "list" not in fields[name]:
            raise InvalidValue("only a list can be appended to", path=name)


def own_copy(value: Any) -> Any:
    """Returns a copy that a reducer may change without changing the original. Vectors are immutable and not copied."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {name: part if type(part) in _ATOMS else own_copy(part) for name, part in value.items()}
    if kind is list:
        return [part if type(part) in _ATOMS else own_copy(part) for part in value]
    if isinstance(value, Mapping):
        return {name: own_copy(part) for name, part in value.items()}
    return [own_copy(part) for part in value] if isinstance(value, list) else value


def _emitted(schemas: Schemas, name: str, emit: Emit) -> Emit:
    if emit.schema not in schemas:
        raise InvalidValue(f"there is no schema {emit.schema}", path=name)
    if not isinstance(emit.budget, Allowance | None):
        raise InvalidValue("is an Allowance", path=f"{name}.budget")
    return Emit(emit.schema, _checked(schemas.validator(emit.schema), name, emit.value), emit.budget)


def _check_effects(effects: Sequence[EffectRequest]) -> None:
    if len(effects) > EFFECTS_PER_STEP:
        raise InvalidValue(f"the step asks for more than {EFFECTS_PER_STEP} effects")
    for index, effect in enumerate(effects):
        if not isinstance(effect, EffectRequest):
            raise InvalidValue("is an EffectRequest", path=f"effects[{index}]")
        if not isinstance(effect.key, str):
            raise InvalidValue("is a text", path=f"effects[{index}].key")


def _ordered(checks: Mapping[str, Validator], values: Mapping[str, Any]) -> Iterable[str]:
    """Returns the names in `values`, in the order of the schema."""
    return [name for name in checks if name in values] if len(values) > 1 else values


def _checked(check: Validator, name: str, value: Any) -> Any:
    try:
        return check.normalise(value)
    except InvalidValue as error:
        problem = str(error).removeprefix(f"{error.path}: ") if error.path else str(error)
        dot = "." if error.path and not error.path.startswith("[") else ""
        raise InvalidValue(problem, path=f"{name}{dot}{error.path}") from error


def _empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a new cell that need not be set: lists empty, options None."""
    cell: dict[str, Any] = {}
    for name, expr in fields.items():
        if "list" in expr:
            cell[name] = Vector.of(())
        elif "option" in expr:
            cell[name] = None
    return cell
