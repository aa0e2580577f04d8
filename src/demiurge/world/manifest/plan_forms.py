"""The form of a world plan as it is written, step by step and edge by edge, also of a plan with mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demiurge.world.manifest.problem import ManifestPlace, Problem
from demiurge.world.manifest.shapes import STEPS, did_you_mean
from demiurge.world.plan import BOUND

__all__ = ["Step", "by_id", "form_problems", "is_edge", "is_unnamed", "listed", "op_of", "variable_of"]

MAX_STEPS = 256

Step = Mapping[str, Any]


def form_problems(steps: Sequence[Any], place: ManifestPlace) -> Iterator[tuple[int, Problem]]:
    """Yields problems, each with the index of the step that it makes unreadable; -1 if there is no such step."""
    if not 0 < len(steps) <= MAX_STEPS:
        yield -1, place.wrong(f"a plan has 1 to {MAX_STEPS} steps, not {len(steps)}", "add or take away steps")
    seen: set[str] = set()
    for index, step in enumerate(steps):
        at = place.at(index)
        if not isinstance(step, Mapping):
            yield index, at.wrong("is no step", 'write {"id": ..., "op": ..., ...}')
            continue
        op = step.get("op")
        if not isinstance(op, str) or op not in STEPS:
            yield index, at.at("op").wrong(f"there is no op {op!r}", did_you_mean(op, STEPS, "leave the step out"))
        else:
            yield from ((index, problem) for problem in STEPS[op](step, at))
        if isinstance(step.get("id"), str):
            if step["id"] in seen:
                yield index, at.at("id").wrong(f"two steps have the id {step['id']}", "give each its own")
            seen.add(step["id"])


def by_id(steps: Sequence[Step]) -> dict[str, Step]:
    """Returns the first step of each id."""
    found: dict[str, Step] = {}
    for step in steps:
        if isinstance(step.get("id"), str):
            found.setdefault(step["id"], step)
    return found


def listed(definition: Mapping[str, Any], field: str) -> Sequence[Any]:
    found = definition.get(field)
    return found if isinstance(found, list | tuple) else ()


def variable_of(step: Step) -> str | None:
    """Returns the variable that a step binds, or None; for an unknown op, the variable that it seems to bind."""
    op, bind = op_of(step), step.get("bind")
    fields = [BOUND[op]] if op in BOUND else [] if op else sorted(set(BOUND.values()))
    found = (bind.get(field) for field in fields) if isinstance(bind, Mapping) else ()
    return next((name for name in found if isinstance(name, str)), None)


def op_of(step: Step) -> str:
    """Returns a step's op; "" if it names no known op."""
    op = step.get("op")
    return op if isinstance(op, str) and op in STEPS else ""


def is_unnamed(step: Any) -> bool:
    """Returns whether an unreadable step may set a variable of any name."""
    return not isinstance(step, Mapping) or (variable_of(step) is None and (op_of(step) in BOUND or "bind" in step))


def is_edge(edge: Any) -> bool:
    return isinstance(edge, Mapping) and isinstance(edge.get("from"), str) and isinstance(edge.get("to"), str)
