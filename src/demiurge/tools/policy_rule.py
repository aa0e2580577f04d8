"""Rules of a tool policy for some callers: those with a role, of a tenant, or a certain actor.

A policy's rules have no order. All rules that match a caller count. Of what they and the policy's own lists say
about a tool, the strictest wins: denied, then "ask for approval", then allowed. So a rule can give its callers a
tool that nobody else has, but it cannot lift a denial or a required approval of another line.

A line that could change nothing is an error, because its author believes that it does: a misspelled id in
`denied_tools` would deny nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import UNNAMED, canonical_id
from demiurge.tools.policy_fields import closed, effects, ids, people

if TYPE_CHECKING:
    from demiurge.tools.policy import ToolPolicyContext

__all__ = ["RuleIndex", "ToolPolicyRule", "rule_conflicts"]

_CALLERS = {"roles": people, "tenants": people, "actors": people}
_LINES = {
    "allowed_tools": ids,
    "require_approval_for_tools": ids,
    "require_approval_for_effects": effects,
    "denied_tools": ids,
    "denied_effects": effects,
}


@dataclass(frozen=True)
class ToolPolicyRule:
    """Lines of a tool policy for the calls of some callers.

    A caller matches if one of its roles is in `roles`, its tenant in `tenants` and its actor in `actors`. An empty
    list matches every caller; at least one of the three is not empty. `allowed_tools`: ids that these callers may
    call in addition. `require_approval_for_tools`, `require_approval_for_effects`: which of their calls need a
    person's approval. `denied_tools`, `denied_effects`: what they may not call, whatever allows it. `approvers`:
    roles, one of which a person needs to decide on a call that needs approval by this rule. `name` is 1 to 64
    letters, digits, '_' or '-'. Raises InvalidValue for a rule that matches nobody, says nothing or contradicts
    itself."""

    name: str
    roles: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    require_approval_for_tools: tuple[str, ...] = ()
    require_approval_for_effects: tuple[ToolEffect, ...] = ()
    denied_tools: tuple[str, ...] = ()
    denied_effects: tuple[ToolEffect, ...] = ()
    approvers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or canonical_id(self.name) != self.name or self.name == UNNAMED:
            raise InvalidValue("a rule's name is 1 to 64 letters, digits, '_' or '-'", path="name")
        for field, read in (_CALLERS | _LINES | {"approvers": people}).items():
            object.__setattr__(self, field, read(getattr(self, field), field))
        if not any(getattr(self, field) for field in _CALLERS):
            raise InvalidValue("a rule needs roles, tenants or actors; what holds for everybody stands outside rules")
        if not any(getattr(self, field) for field in _LINES):
            raise InvalidValue(f"a rule needs at least one of {', '.join(_LINES)}")
        for field, stricter in (
            ("allowed_tools", self.denied_tools),
            ("require_approval_for_tools", self.denied_tools),
            ("require_approval_for_effects", self.denied_effects),
        ):
            for index, name in enumerate(getattr(self, field)):
                if name in stricter:
                    raise InvalidValue(f"this rule denies {name} as well; remove one", path=f"{field}[{index}]")
        if self.approvers and not (self.require_approval_for_tools or self.require_approval_for_effects):
            raise InvalidValue("this rule asks for no approval; say for which tools or effects", path="approvers")

    def matches(self, caller: ToolPolicyContext) -> bool:
        """Returns whether this rule counts for `caller`."""
        return (
            (not self.actors or caller.actor in self.actors)
            and (not self.tenants or caller.tenant in self.tenants)
            and (not self.roles or not self._roles.isdisjoint(caller.roles))
        )

    @cached_property
    def _roles(self) -> frozenset[str]:
        return frozenset(self.roles)

    @cached_property
    def _tools(self) -> dict[str, frozenset[str]]:
        return {field: frozenset(getattr(self, field)) for field in _LINES if field.endswith("tools")}

    def allows(self, tool_id: str) -> bool:
        return tool_id in self._tools["allowed_tools"]

    def asking_line(self, tool_id: str, effect: ToolEffect) -> str:
        """Returns the field that requires approval of this call, "" if none does."""
        return self._line("require_approval_for", tool_id, effect)

    def denying_line(self, tool_id: str, effect: ToolEffect) -> str:
        """Returns the field that denies this call, "" if none does."""
        return self._line("denied", tool_id, effect)

    def _line(self, says: str, tool_id: str, effect: ToolEffect) -> str:
        if tool_id in self._tools[f"{says}_tools"]:
            return f"{says}_tools"
        return f"{says}_effects" if effect in getattr(self, f"{says}_effects") else ""

    def to_json(self) -> dict[str, Any]:
        """Returns the rule as JSON, lists sorted, without repetitions and without the empty ones."""
        lists = {field: sorted({str(item) for item in getattr(self, field)}) for field in _LISTS}
        return {"name": self.name, **{field: items for field, items in lists.items() if items}}

    @classmethod
    def from_json(cls, data: object) -> ToolPolicyRule:
        """Returns a rule from its JSON form. Raises InvalidValue for unknown keys, and for empty `roles`, `tenants`,
        `actors` or `approvers`, which could mean nobody or everybody."""
        content = closed(data, {"name", *_LISTS}, "")
        if "name" not in content:
            raise InvalidValue("is required: decisions name the rule that made them", path="name")
        for field in (*_CALLERS, "approvers"):
            if field in content and content[field] in ([], ()):
                raise InvalidValue("is empty, so it names nobody; add a name or leave it out", path=field)
        return cls(**content)


_LISTS = tuple(field.name for field in fields(ToolPolicyRule) if field.name != "name")


class RuleIndex:
    """Finds the rules that match a caller, looking only at those that name the caller's actor, tenant or a role."""

    def __init__(self, rules: Sequence[ToolPolicyRule]) -> None:
        self._naming: dict[tuple[str, str], list[ToolPolicyRule]] = {}
        for rule in sorted(rules, key=lambda rule: rule.name):
            kind = next(kind for kind in ("actors", "tenants", "roles") if getattr(rule, kind))
            for name in dict.fromkeys(getattr(rule, kind)):
                self._naming.setdefault((kind, name), []).append(rule)

    def matching(self, caller: ToolPolicyContext) -> list[ToolPolicyRule]:
        """Returns the rules that match `caller`, sorted by name. Raises InvalidValue for roles that are text: read
        letter by letter, they would match no rule that denies."""
        roles: object = caller.roles
        if isinstance(roles, str | bytes):
            raise InvalidValue("must be a list of names", path="roles")
        keys = [("actors", caller.actor), ("tenants", caller.tenant), *(("roles", role) for role in caller.roles)]
        found = {rule.name: rule for key in keys for rule in self._naming.get(key, ()) if rule.matches(caller)}
        return [found[name] for name in sorted(found)]


def rule_conflicts(
    rules: Sequence[ToolPolicyRule], allowed_tools: Collection[str], approvers: Collection[str]
) -> Iterator[InvalidValue]:
    """Yields an error for each line of a policy's rules that could change nothing, or that names approvers who are
    not among the policy's. `allowed_tools` and `approvers` are the policy's own."""
    named: set[str] = set()
    allowing, denying = _by_tenant(rules), _by_caller(rules)
    for index, rule in enumerate(rules):
        place = f"rules[{index}]"
        if rule.name in named:
            yield InvalidValue(f"two rules have the name {rule.name}; rename one", path=f"{place}.name")
        named.add(rule.name)
        for number, tool_id in enumerate(rule.allowed_tools):
            wrong = _denied_anyway(denying, rule, tool_id)
            if tool_id in allowed_tools:
                wrong = f"everybody may call {tool_id}; remove it here, or from the policy's own allowed_tools"
            if wrong:
                yield InvalidValue(wrong, path=f"{place}.allowed_tools[{number}]")
        for field in ("require_approval_for_tools", "denied_tools"):
            for number, tool_id in enumerate(getattr(rule, field)):
                if tool_id not in allowed_tools and not _may_be_allowed(allowing, rule, tool_id):
                    wrong = f"no line allows {tool_id} to these callers, so this line changes nothing"
                    yield InvalidValue(f"{wrong}; correct the id or remove it", path=f"{place}.{field}[{number}]")
        for number, role in enumerate(rule.approvers):
            if approvers and role not in approvers:
                wrong = f"{role} is not among the policy's approvers; add it there or remove it here"
                yield InvalidValue(wrong, path=f"{place}.approvers[{number}]")


Rules: TypeAlias = Mapping[Hashable, Sequence[ToolPolicyRule]]


def _by_tenant(rules: Sequence[ToolPolicyRule]) -> Rules:
    """Returns the rules that allow a tool, by the tool alone and by tool and tenant; the tenant is "" for a rule
    that names none."""
    found: dict[Hashable, list[ToolPolicyRule]] = {}
    for rule in rules:
        for tool_id in rule.allowed_tools:
            for key in (tool_id, *((tool_id, tenant) for tenant in rule.tenants or ("",))):
                found.setdefault(key, []).append(rule)
    return found


def _by_caller(rules: Sequence[ToolPolicyRule]) -> Rules:
    """Returns the rules that deny a tool, by tool and by each name in one of their lists of callers. The tool is ""
    for rules that deny every tool."""
    found: dict[Hashable, list[ToolPolicyRule]] = {}
    for rule in rules:
        kind = next(kind for kind in _CALLERS if getattr(rule, kind))
        everything = [""] if len(set(rule.denied_effects)) == len(ToolEffect) else []
        for tool_id in (*rule.denied_tools, *everything):
            for name in getattr(rule, kind):
                found.setdefault((tool_id, kind, name), []).append(rule)
    return found


def _denied_anyway(denying: Rules, rule: ToolPolicyRule, tool_id: str) -> str:
    """Returns why a rule's permission of a tool changes nothing, "" if it may change something."""
    for kind in _CALLERS:
        for name in getattr(rule, kind)[
            :1
        ]:  # a rule that covers this one has every name of the list, so also the first
            for other in (*denying.get((tool_id, kind, name), ()), *denying.get(("", kind, name), ())):
                if _covers(other, rule):
                    return f"the rule {other.name} denies {tool_id} to all these callers; remove one of the two lines"
    return ""


def _may_be_allowed(allowing: Rules, rule: ToolPolicyRule, tool_id: str) -> bool:
    """Returns whether a rule may allow a tool to some caller of `rule`."""
    keys: list[Hashable] = [(tool_id, tenant) for tenant in ("", *rule.tenants)] if rule.tenants else [tool_id]
    return any(_may_meet(rule, other) for key in keys for other in allowing.get(key, ()))


def _covers(wide: ToolPolicyRule, narrow: ToolPolicyRule) -> bool:
    """Returns whether every caller that matches `narrow` matches `wide` too."""
    return all(
        not getattr(wide, field)
        or (getattr(narrow, field) and set(getattr(narrow, field)) <= set(getattr(wide, field)))
        for field in _CALLERS
    )


def _may_meet(one: ToolPolicyRule, other: ToolPolicyRule) -> bool:
    """Returns whether one caller can match both: it has one tenant and one actor, but may have many roles."""
    return all(
        not (getattr(one, field) and getattr(other, field))
        or not set(getattr(one, field)).isdisjoint(getattr(other, field))
        for field in ("tenants", "actors")
    )
