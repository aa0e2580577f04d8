"""Which tools may run is data, and what it does not name may not (seed 003 #19, #20).

`decide` is a pure function of the policy, the tool's id and its effect; nobody else decides. The digest names
the policy in every record, and does not depend on the order in which the lists were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from demiurge.errors import InvalidValue, NotFound
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import UNNAMED, canonical_id
from demiurge.tools.limits.allowance import Allowance
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import ref_of

__all__ = ["Budgets", "Decision", "ToolPolicy", "ToolPolicyContext"]

Decision = Literal["allow", "deny", "require_approval"]


@dataclass(frozen=True, slots=True)
class ToolPolicyContext:
    """Who asks, and in which run: references only, never credentials (seed 003 #26)."""

    run_id: str = ""
    actor: str = ""
    tenant: str = ""
    roles: tuple[str, ...] = ()

    @classmethod
    def of(cls, caller: Caller, run_id: str = "") -> ToolPolicyContext:
        """The context of what a caller asks for in a run."""
        return cls(run_id, caller.actor, caller.tenant, caller.roles)


@dataclass(frozen=True, slots=True)
class Budgets:
    """Per call: `max_runtime_ms`, milliseconds in the handler; `max_result_bytes`, UTF-8 bytes of the result. In a
    world also what a `run` and a `unit` may use in all; a unit's has no `max_wall_ms`. None: no limit."""

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
                raise InvalidValue("is an Allowance", path=f"budgets.{name}")
        if self.unit is not None and self.unit.max_wall_ms is not None:
            raise InvalidValue("a unit has no end, so it has no time either", path="budgets.unit.max_wall_ms")

    def to_json(self) -> dict[str, Any]:
        shares = {name: share.to_json() for name in ("run", "unit") if (share := getattr(self, name)) is not None}
        return {"max_runtime_ms": self.max_runtime_ms, "max_result_bytes": self.max_result_bytes, **shares}

    @classmethod
    def from_json(cls, data: object) -> Budgets:
        """Raises InvalidValue for an unknown key."""
        content = _closed(data, {entry.name for entry in fields(cls)}, "budgets")
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


@dataclass(frozen=True)
class ToolPolicy:
    """`allowed_tools`: the allowlist of ids. A listed tool runs, unless its effect or its id asks for
    approval. Raises InvalidValue for an id or an effect that can't be."""

    allowed_tools: tuple[str, ...] = ()
    require_approval_for_effects: tuple[ToolEffect, ...] = ()
    budgets: Budgets = Budgets()
    require_approval_for_tools: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        effects = _names(self.require_approval_for_effects, "require_approval_for_effects")
        known = {effect.value for effect in ToolEffect}
        for effect in effects:
            if effect not in known:
                raise InvalidValue(
                    f"an effect is one of {', '.join(sorted(known))}", path="require_approval_for_effects"
                )
        if not isinstance(self.budgets, Budgets):
            raise InvalidValue("budgets are a Budgets", path="budgets")
        freeze = object.__setattr__
        freeze(self, "allowed_tools", _ids(self.allowed_tools, "allowed_tools"))
        freeze(
            self,
            "require_approval_for_tools",
            _ids(self.require_approval_for_tools, "require_approval_for_tools"),
        )
        freeze(self, "require_approval_for_effects", tuple(ToolEffect(effect) for effect in effects))

    @cached_property
    def _allowed(self) -> frozenset[str]:
        return frozenset(self.allowed_tools)

    @cached_property
    def _asked_for(self) -> frozenset[str]:
        return frozenset(self.require_approval_for_tools)

    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        """The decision for one call; `effect` counts as `external_side_effect` where the tool is not
        known."""
        if tool_id not in self._allowed:
            return "deny"
        if tool_id in self._asked_for or effect in self.require_approval_for_effects:
            return "require_approval"
        return "allow"

    def rule(self, tool_id: str, effect: ToolEffect) -> dict[str, str]:
        """The line that decides on an allowed tool: `{"rule": a field of the policy, "tool" or "effect"}`."""
        if tool_id in self._asked_for:
            return {"rule": "require_approval_for_tools", "tool": tool_id}
        if effect in self.require_approval_for_effects:
            return {"rule": "require_approval_for_effects", "effect": str(effect)}
        return {"rule": "allowed_tools", "tool": tool_id}

    def rule_digest(self, tool_id: str, effect: ToolEffect) -> str:
        """Digest of the rule that makes this tool ask for approval; an approval is bound to it."""
        return ref_of(canonical_json.encode(self.rule(tool_id, effect)))

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` of the RFC 8785 JSON of the policy."""
        return ref_of(canonical_json.encode(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """The policy as JSON, lists sorted and without repetitions."""
        return {
            "allowed_tools": sorted(set(self.allowed_tools)),
            "require_approval_for_effects": sorted({effect.value for effect in self.require_approval_for_effects}),
            "require_approval_for_tools": sorted(set(self.require_approval_for_tools)),
            "budgets": self.budgets.to_json(),
        }

    @classmethod
    def from_json(cls, data: object) -> ToolPolicy:
        """A policy from its JSON form; `allowed_tools` must be there, unknown keys are refused. Raises
        InvalidValue."""
        content = _closed(data, {entry.name for entry in fields(cls)}, "")
        if "allowed_tools" not in content:
            raise InvalidValue("is required (an empty list allows nothing)", path="allowed_tools")
        if "budgets" in content:
            content["budgets"] = Budgets.from_json(content["budgets"])
        return cls(**content)

    @classmethod
    def load(cls, path: str | Path) -> ToolPolicy:
        """Reads a `.toml`, `.yaml`/`.yml` or `.json` file. Raises NotFound, or InvalidValue that names
        the file and the place."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise NotFound(f"There is no policy file {file}.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidValue(f"The policy file {file} can't be read: {type(error).__name__}.") from error
        from demiurge.tools.policy_file import parse  # imports YAML, which is slow, and most policies are no file

        try:
            return cls.from_json(parse(text, file.suffix))
        except InvalidValue as error:
            named = InvalidValue(f"The policy file {file}: {error.message}", code=error.code)
            named.path = error.path
            raise named from error


def _closed(data: object, known: set[str], path: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise InvalidValue("must be an object", path=path)
    unknown = sorted(str(key) for key in data if key not in known)
    if unknown:
        raise InvalidValue(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}", path=path)
    return dict(data)


def _names(value: object, path: str) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, list | tuple | set | frozenset):
        raise InvalidValue("must be a list", path=path)
    if not all(isinstance(item, str) for item in value):
        raise InvalidValue("must hold only names", path=path)
    return tuple(sorted(value) if isinstance(value, set | frozenset) else value)


def _ids(value: object, path: str) -> tuple[str, ...]:
    ids = tuple(canonical_id(item) for item in _names(value, path))
    if UNNAMED in ids:
        raise InvalidValue("a tool id is 1 to 64 letters, digits, '_' or '-'", path=path)
    return ids
