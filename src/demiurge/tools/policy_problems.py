"""All that is wrong with a policy at once: each of its parts is read as a policy of its own.

`ToolPolicy.from_json` stops at the first mistake; its author wants to see the others too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.tools.policy import ToolPolicy

__all__ = ["policy_problems"]


def policy_problems(data: object) -> list[InvalidValue]:
    """One for each mistake of a policy in its JSON form, in its order; each has a `path`, empty where the
    policy as a whole is wrong. None for a sound one."""
    if not isinstance(data, Mapping):
        return [error for error in (_problem(data),) if error is not None]
    found = [] if "allowed_tools" in data else [_problem({})]
    for name, value in data.items():
        for place, part in _parts(value):
            error = _problem({"allowed_tools": [], name: part})
            if error is not None and error.path and place:
                error.path += place
            found.append(error)
    return [error for error in found if error is not None] or [e for e in (_problem(data),) if e is not None]


def _problem(data: object) -> InvalidValue | None:
    try:
        ToolPolicy.from_json(data)
    except InvalidValue as error:
        error.message = error.message.removeprefix(f"{error.path}: ")
        return error
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """A value taken apart: where in a list a part stands, and a value that holds nothing else."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            for place, part in _parts(inner):
                yield place, {name: part}
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield f"[{index}]", [item]
    else:
        yield "", value
