"""Finds everything that is wrong with a policy at once: each of its parts is read as a policy of its own.

`ToolPolicy.from_json` stops at the first mistake, but the author wants to see all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.policy import ToolPolicy, rule_from_json
from demiurge.tools.policy_rule import ToolPolicyRule, rule_conflicts

__all__ = ["policy_problems"]

Read: TypeAlias = Callable[[Any], object]


def policy_problems(data: object) -> list[InvalidValue]:
    """Returns one error for each mistake of a policy in its JSON form, in its order. Each has a `path`, which is
    empty if the policy as a whole is wrong. Returns an empty list for a valid policy."""
    if not isinstance(data, Mapping):
        return list(_problems(ToolPolicy.from_json, data))
    found = [] if "allowed_tools" in data else list(_problems(ToolPolicy.from_json, {}))
    for name, value in data.items():
        if name == "rules" and isinstance(value, list | tuple):
            for index, rule in enumerate(value):
                found += _rule_problems(rule, f"rules[{index}]")
        else:
            found += _part_problems(ToolPolicy.from_json, {"allowed_tools": []}, name, value)
    return found or [_without_place(error) for error in _conflicts(data)] or list(_problems(ToolPolicy.from_json, data))


def _rule_problems(rule: object, place: str) -> list[InvalidValue]:
    """Returns what is wrong with the parts of a rule, or else with the rule as a whole."""
    found: list[InvalidValue] = []
    read = partial(rule_from_json, place=place)
    for name, value in rule.items() if isinstance(rule, Mapping) else ():
        found += _part_problems(read, _smallest_rule(str(name)), name, value)
    return found or list(_problems(read, rule))


def _smallest_rule(name: str) -> dict[str, Any]:
    """Returns the smallest rule that the field `name` can be added to."""
    says = "denied_tools" if name.endswith("_effects") else "require_approval_for_effects"
    return {"name": "a", "roles": ["a"], says: ["read_only"]}


def _conflicts(data: Mapping[Any, Any]) -> Iterator[InvalidValue]:
    """Yields every line of the rules that can change nothing, for a policy whose parts are valid."""
    rules = [ToolPolicyRule.from_json(rule) for rule in data.get("rules", ())]
    policy = ToolPolicy.from_json({name: part for name, part in data.items() if name != "rules"})
    return rule_conflicts(rules, policy.allowed_tools, policy.approvers)


def _part_problems(read: Read, around: Mapping[str, Any], name: Any, value: Any) -> Iterator[InvalidValue]:
    """Yields what is wrong with each part of the field `name`, read one by one within `around`."""
    for place, part in _parts(value):
        for error in _problems(read, {**around, name: part}):
            if error.path and place:
                error.path += place
            yield error


def _problems(read: Read, data: object) -> Iterator[InvalidValue]:
    try:
        read(data)
    except InvalidValue as error:
        yield _without_place(error)


def _without_place(error: InvalidValue) -> InvalidValue:
    """Removes the place from the error's message."""
    error.message = error.message.removeprefix(f"{error.path}: ")
    return error


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a value: the place of the part in a list, and a value that holds only this part."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            for place, part in _parts(inner):
                yield place, {name: part}
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield f"[{index}]", [item]
    else:
        yield "", value
