"""The resolved parts of a manifest, as the kernel and those who decide read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.errors import InvalidValue

__all__ = [
    "ORIGINS",
    "RULE_FIELDS",
    "DeclaredSecret",
    "EffectType",
    "Grant",
    "ModuleType",
    "Route",
    "Rule",
    "Trigger",
    "origins_of",
]

RULE_FIELDS = frozenset({"effect_kind", "cap_name", "cap_type", "origin_kind", "origin_name"})
"""What a rule of the policy may ask about; a field that nothing fills would make a denial match nothing."""

ORIGINS = frozenset({"plan", "reducer", "tool"})
"""Who may ask for an effect, if its definition admits them."""


def origins_of(scope: Any) -> frozenset[str]:
    """Those that an `origin_scope` admits: a word, a list of words, or `both` for plans and tools."""
    if scope == "both":
        return frozenset({"plan", "tool"})
    words = scope if isinstance(scope, list) else [scope]
    return frozenset(word for word in words if isinstance(word, str) and word in ORIGINS)


@dataclass(frozen=True, slots=True)
class ModuleType:
    """A reducer's declaration: its state and event schemas, and the schema of its key (None: one cell, key "")."""

    name: str
    state: str
    event: str
    key_schema: str | None
    arms: Mapping[str, str]
    """Schema of each arm of the event variant -> the arm's tag, so that an arm's own schema is routed as well."""
    tags: Mapping[str, str]
    """The inverse."""
    effects: Mapping[str, tuple[str, ...]]
    """The kinds of effects that it may ask for -> the grants that it may use for one, the first declared first."""


@dataclass(frozen=True, slots=True)
class EffectType:
    kind: str
    params: str
    receipt: str
    cap_type: str
    origins: frozenset[str]
    changes: bool
    """Whether it changes what others see; a `read_only` tool may not ask for it."""
    answers_refusals: bool = False
    """Whether its adapter also answers what was refused: a refused effect is an intent with a receipt, like any other.
    Manifests from before say nothing of it, and their histories are computed as they were."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A cap with its parameters. `expires_ns` is wall time; None never expires."""

    name: str
    cap_type: str
    params: Mapping[str, Any]
    expires_ns: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the world's policy. An absent field of `when` matches anything; the first match decides."""

    when: Mapping[str, str]
    decision: str


@dataclass(frozen=True, slots=True)
class Route:
    module: str
    key_field: str | None
    tag: str | None
    """Set when the event is an arm of the module's event variant, to be wrapped before delivery."""


@dataclass(frozen=True, slots=True)
class Trigger:
    plan: str
    correlate_by: str | None


@dataclass(frozen=True, slots=True)
class DeclaredSecret:
    """`alias@version` bound to places where its value may be found, tried in order: `env:NAME`, `file:PATH`,
    `vault:NAME`. Only effects under `allowed_caps` (grants by name), asked for by `allowed_plans`, get it; None: any,
    empty: none. Of `alias@*` the version is None: it is every version that the vault has, or comes to have."""

    alias: str
    version: int | None
    bindings: tuple[str, ...]
    allowed_caps: frozenset[str] | None = None
    allowed_plans: frozenset[str] | None = None

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> DeclaredSecret:
        """From a `defsecret`. Raises InvalidValue."""
        alias, _, version = str(definition["name"]).rpartition("@")
        if not alias or not (version.isdecimal() or version == "*"):
            raise InvalidValue("a secret's name is alias@version", path=str(definition["name"]))
        bindings = (definition["binding_id"], *definition.get("else_binding_ids", ()))
        for binding in bindings:
            if not _BINDING.fullmatch(binding):
                raise InvalidValue(
                    f"{binding!r} is none of env:NAME, file:/PATH, file:~/PATH, vault:NAME", path=definition["name"]
                )
            if version == "*" and not binding.startswith("vault:"):
                raise InvalidValue(f"{binding!r} has no versions: only a vault has", path=definition["name"])
        allowed = [definition.get(name) for name in ("allowed_caps", "allowed_plans")]
        number = None if version == "*" else int(version)
        return cls(alias, number, bindings, *(None if names is None else frozenset(names) for names in allowed))

    def __str__(self) -> str:
        return f"{self.alias}@{'*' if self.version is None else self.version}"


_BINDING = re.compile(r"env:[^=\0]+|file:~?/[^\0]+|vault:[^\0]+")
