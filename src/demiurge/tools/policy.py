"""The tool policy: data that says which tools may run, for which callers. Any other tool may not run.

`decide` is a pure function of the policy, the caller, the tool's id and its effect; nothing else decides. The digest
names the policy in every record, and does not depend on the order in which lists and rules were written
(`docs/policy.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from demiurge.errors import InvalidValue, NotFound
from demiurge.tools.display import Table, View, shown
from demiurge.tools.effect import ToolEffect
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy_fields import WHEN_TAINTED, WhenTainted, closed, effects, ids, people, when_tainted
from demiurge.tools.policy_rule import RuleIndex, ToolPolicyRule, rule_conflicts
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import ref_of

__all__ = ["Approvers", "Budgets", "Decision", "ToolPolicy", "ToolPolicyContext", "rule_from_json"]

Decision = Literal["allow", "deny", "require_approval"]
Approvers: TypeAlias = tuple[tuple[str, ...], ...]
"""Lists of roles: a person who decides on a call needs at least one role of each list."""

_Line: TypeAlias = tuple[str, ToolPolicyRule | None]
"""A field that decides, and the rule it belongs to; None: the policy's own field."""

_LISTS = {
    "allowed_tools": ids,
    "require_approval_for_tools": ids,
    "require_approval_for_effects": effects,
    "approvers": people,
    "when_tainted": when_tainted,
}


@dataclass(frozen=True, slots=True)
class ToolPolicyContext:
    """The caller and the run of a call: references only, never credentials. `tainted`: the run has read text of an
    untrusted tool."""

    run_id: str = ""
    actor: str = ""
    tenant: str = ""
    roles: tuple[str, ...] = ()
    tainted: bool = False

    @classmethod
    def of(cls, caller: Caller, run_id: str = "", *, tainted: bool = False) -> ToolPolicyContext:
        """Returns the context of a caller's calls in a run."""
        return cls(run_id, caller.actor, caller.tenant, caller.roles, tainted)


_NOBODY = ToolPolicyContext()


@dataclass(frozen=True, slots=True)
class Budgets:
    """The limits of one call: `max_runtime_ms`, milliseconds in the handler; `max_result_bytes`, UTF-8 bytes of the
    result. In a world also the total for a `run` and for a `unit`; a unit's has no `max_wall_ms`. None: no limit.
    Raises InvalidValue."""

    max_runtime_ms: int | None = None
    max_result_bytes: int | None = None
    run: Allowance | None = None
    unit: Allowance | None = None

    def __post_init__(self) -> None:
        for name in ("max_runtime_ms", "max_result_bytes"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidValue("a budget is a whole number of at least 1", path=f"budgets.{name}")
        for name in ("run", "unit"):
            if not isinstance(getattr(self, name), Allowance | None):
                raise InvalidValue("must be an Allowance", path=f"budgets.{name}")
        if self.unit is not None and self.unit.max_wall_ms is not None:
            raise InvalidValue(
                "a unit never ends, so its time cannot be limited; remove max_wall_ms", path="budgets.unit.max_wall_ms"
            )

    def to_json(self) -> dict[str, Any]:
        shares = {name: share.to_json() for name in ("run", "unit") if (share := getattr(self, name)) is not None}
        return {"max_runtime_ms": self.max_runtime_ms, "max_result_bytes": self.max_result_bytes, **shares}

    @classmethod
    def from_json(cls, data: object) -> Budgets:
        """Returns the budgets from their JSON form. Raises InvalidValue for an unknown key."""
        content = closed(data, {entry.name for entry in fields(cls)}, "budgets")
        for name in ("run", "unit"):
            if content.get(name) is not None:
                content[name] = _allowance(content[name], f"budgets.{name}")
        return cls(**content)


def _allowance(data: object, path: str) -> Allowance:
    try:
        return Allowance.from_json(data)
    except InvalidValue as error:
        where = f"{path}.{error.path}" if error.path else path
        raise InvalidValue(error.message.removeprefix(f"{error.path}: "), path=where) from None


@shown
@dataclass(frozen=True)
class ToolPolicy:
    """The tools that may run, for which callers, and those that need a person's approval.

    `allowed_tools`: the allowlist of ids. A listed tool runs, unless its effect or its id needs approval, or a rule
    for its caller says more. `rules`: lines for some callers only, in any order. `approvers`: roles, one of which a
    person needs to decide on any call that waits for approval; empty: anybody who may decide at all. `when_tainted`:
    effect level -> "ask" or "deny", for calls of a tainted run (`ToolPolicyContext.tainted`) that every other line
    allows. Raises InvalidValue for an id or an effect of the wrong form, and for rules that conflict."""

    allowed_tools: tuple[str, ...] = ()
    require_approval_for_effects: tuple[ToolEffect, ...] = ()
    budgets: Budgets = Budgets()
    require_approval_for_tools: tuple[str, ...] = ()
    rules: tuple[ToolPolicyRule, ...] = ()
    approvers: tuple[str, ...] = ()
    when_tainted: WhenTainted = field(default_factory=lambda: WHEN_TAINTED, hash=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.budgets, Budgets):
            raise InvalidValue("must be a Budgets", path="budgets")
        if not isinstance(self.rules, list | tuple) or not all(isinstance(r, ToolPolicyRule) for r in self.rules):
            raise InvalidValue("must be a list of ToolPolicyRules", path="rules")
        freeze = object.__setattr__
        freeze(self, "rules", tuple(self.rules))
        for name, read in _LISTS.items():
            freeze(self, name, read(getattr(self, name), name))
        for conflict in rule_conflicts(self.rules, self.allowed_tools, self.approvers):
            raise conflict

    @property
    def allowed_to_some(self) -> tuple[str, ...]:
        """The ids that the policy's own list or one of its rules allows."""
        lists = (self.allowed_tools, *(rule.allowed_tools for rule in self.rules))
        return tuple(dict.fromkeys(name for names in lists for name in names))

    @cached_property
    def _allowed(self) -> frozenset[str]:
        return frozenset(self.allowed_tools)

    @cached_property
    def _needs_approval(self) -> frozenset[str]:
        return frozenset(self.require_approval_for_tools)

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(self.rules)

    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        """Returns the decision for one call. If the tool is not known, pass `external_side_effect` as `effect`."""
        if self.rules or ctx.tainted:
            return self._lines(ctx, tool_id, effect)[0]
        if tool_id not in self._allowed:
            return "deny"
        if tool_id in self._needs_approval or effect in self.require_approval_for_effects:
            return "require_approval"
        return "allow"

    def _lines(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> tuple[Decision, list[_Line]]:
        """Returns the decision by the policy's own lists and its rules, and the lines that make it: the policy's own
        first, and last the line about tainted runs, which no permission overrides."""
        matching = self._index.matching(ctx)
        denying: list[_Line] = [(line, rule) for rule in matching if (line := rule.denying_line(tool_id, effect))]
        if denying:
            return "deny", denying
        allowing: list[_Line] = [("allowed_tools", None)] if tool_id in self._allowed else []
        allowing += [("allowed_tools", rule) for rule in matching if rule.allows(tool_id)]
        if not allowing:
            return "deny", []
        own = self._own_line(tool_id, effect)
        asking: list[_Line] = [(own, None)] if own != "allowed_tools" else []
        asking += [(line, rule) for rule in matching if (line := rule.asking_line(tool_id, effect))]
        tainted = self.when_tainted.get(effect) if ctx.tainted else None
        if tainted == "deny":
            return "deny", [("when_tainted", None)]
        asking += [("when_tainted", None)] if tainted == "ask" else []
        return ("require_approval", asking) if asking else ("allow", allowing)

    def _own_line(self, tool_id: str, effect: ToolEffect) -> str:
        """Returns the policy's own list that requires approval, else `allowed_tools`."""
        if tool_id in self._needs_approval:
            return "require_approval_for_tools"
        return "require_approval_for_effects" if effect in self.require_approval_for_effects else "allowed_tools"

    def deciding_lines(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> list[dict[str, str]]:
        """Returns every line that makes the decision on a call; an empty list if no line allows it. A line is
        `{"rule": a field of the policy or of one of its rules, "tool" or "effect"}`; a rule's line also has the
        rule's name as `"rule_name"`."""
        return [_line_json(field, rule, tool_id, effect) for field, rule in self._lines(ctx, tool_id, effect)[1]]

    def rule(self, tool_id: str, effect: ToolEffect, ctx: ToolPolicyContext = _NOBODY) -> dict[str, str]:
        """Returns the first of `deciding_lines`; if no line allows the tool, what the policy's own lists say of it."""
        lines = self.deciding_lines(ctx, tool_id, effect) if self.rules or ctx.tainted else []
        return lines[0] if lines else _line_json(self._own_line(tool_id, effect), None, tool_id, effect)

    def rule_name(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect, decision: Decision) -> str | None:
        """Returns the name of the rule that makes this decision; None if the policy's own lists make it, or if this
        policy does not."""
        found, lines = self._lines(ctx, tool_id, effect)
        return lines[0][1].name if lines and lines[0][1] is not None and found == decision else None

    def rule_digest(self, tool_id: str, effect: ToolEffect, ctx: ToolPolicyContext = _NOBODY) -> str:
        """Returns the digest of all lines that require approval of this call, and of who may approve it; an approval
        is bound to it."""
        lines = self.deciding_lines(ctx, tool_id, effect) if self.rules or ctx.tainted else []
        approvers = self.approvers_of(ctx, tool_id, effect)
        if approvers or len(lines) > 1:
            lines = sorted(lines, key=canonical_json.encode) or [self.rule(tool_id, effect)]
            return ref_of(canonical_json.encode({"lines": lines, "approvers": approvers}))
        return ref_of(canonical_json.encode(self.rule(tool_id, effect, ctx)))

    def approvers_of(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Approvers:
        """Returns who may decide on this call if it waits for approval; empty: anybody who may decide at all."""
        if not self.rules:
            return (tuple(sorted(set(self.approvers))),) if self.approvers else ()
        decision, lines = self._lines(ctx, tool_id, effect)
        asking = [rule for _, rule in lines] if decision == "require_approval" else [None]
        lists = {frozenset((rule.approvers if rule is not None else ()) or self.approvers) for rule in asking}
        lists.discard(frozenset())
        return tuple(sorted(tuple(sorted(roles)) for roles in lists if not any(other < roles for other in lists)))

    def _view(self) -> View:
        """Each tool with its decision for a caller to whom no rule applies; then what the policy says by effect."""
        rows = []
        for name in sorted(self.allowed_to_some):
            listed = "require_approval" if name in self._needs_approval else "allow"
            rows.append((name, listed if name in self._allowed else "deny"))
        facts = {
            "asks for effects": ", ".join(str(effect) for effect in self.require_approval_for_effects),
            "approvers": ", ".join(self.approvers),
            "rules": ", ".join(rule.name for rule in self.rules),
            "in a tainted run": ", ".join(f"{answer} before {effect}" for effect, answer in self.when_tainted.items()),
            "digest": self.digest,
        }
        tables = [Table(("tool", "decision"), rows)] if rows else ["No tool is allowed."]
        return View("Tool policy", facts=[fact for fact in facts.items() if fact[1]], parts=tables)

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` of the RFC 8785 JSON of the policy."""
        return ref_of(canonical_json.encode(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """Returns the policy as JSON, lists sorted and without repetitions; `rules` and `approvers` only if there
        are some, `when_tainted` only if it is not the default."""
        rules = [rule.to_json() for rule in sorted(self.rules, key=lambda rule: rule.name)]
        tainted = {effect.value: answer for effect, answer in self.when_tainted.items()}
        return {
            "allowed_tools": sorted(set(self.allowed_tools)),
            "require_approval_for_effects": sorted({effect.value for effect in self.require_approval_for_effects}),
            "require_approval_for_tools": sorted(set(self.require_approval_for_tools)),
            "budgets": self.budgets.to_json(),
            **({"rules": rules} if rules else {}),
            **({"approvers": sorted(set(self.approvers))} if self.approvers else {}),
            **({"when_tainted": tainted} if tainted != WHEN_TAINTED else {}),
        }

    @classmethod
    def from_json(cls, data: object) -> ToolPolicy:
        """Returns a policy from its JSON form. Raises InvalidValue if `allowed_tools` is missing or a key is
        unknown."""
        content = closed(data, {entry.name for entry in fields(cls)}, "")
        if "allowed_tools" not in content:
            raise InvalidValue("is required (an empty list allows nothing)", path="allowed_tools")
        if "budgets" in content:
            content["budgets"] = Budgets.from_json(content["budgets"])
        if content.get("approvers") in ([], ()):
            raise InvalidValue("is empty, so it names nobody; add a name or leave it out", path="approvers")
        if "rules" in content:
            content["rules"] = _rules(content["rules"])
        return cls(**content)

    @classmethod
    def load(cls, path: str | Path) -> ToolPolicy:
        """Reads a `.toml`, `.yaml`/`.yml` or `.json` file. Raises NotFound, or InvalidValue that names the file and
        the place."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise NotFound(f"There is no policy file {file}.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidValue(f"The policy file {file} can't be read: {type(error).__name__}.") from error
        from demiurge.tools.policy_file import parse  # YAML is slow to import, and most policies are not files

        try:
            return cls.from_json(parse(text, file.suffix))
        except InvalidValue as error:
            named = InvalidValue(f"The policy file {file}: {error.message}", code=error.code)
            named.path = error.path
            raise named from error


def _line_json(field: str, rule: ToolPolicyRule | None, tool_id: str, effect: ToolEffect) -> dict[str, str]:
    about = {"effect": str(effect)} if field.endswith("effects") or field == "when_tainted" else {"tool": tool_id}
    return {"rule": field, **about, **({"rule_name": rule.name} if rule is not None else {})}


def _rules(data: object) -> tuple[ToolPolicyRule, ...]:
    if not isinstance(data, list | tuple):
        raise InvalidValue("must be a list", path="rules")
    return tuple(rule_from_json(item, f"rules[{index}]") for index, item in enumerate(data))


def rule_from_json(data: object, place: str) -> ToolPolicyRule:
    """Returns a rule from its JSON form. Raises InvalidValue that names the place in the policy."""
    try:
        return ToolPolicyRule.from_json(data)
    except InvalidValue as error:
        where = f"{place}.{error.path}" if error.path else place
        raise InvalidValue(error.message.removeprefix(f"{error.path}: "), path=where) from None
