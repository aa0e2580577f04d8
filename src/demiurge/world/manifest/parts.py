"""The resolved parts of a manifest, as the kernel and the authority read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demiurge.capabilities.http.hosts import origin_of
from demiurge.errors import InvalidValue

__all__ = [
    "ALLOWED_HOSTS",
    "ASKED_TOOLS",
    "OBSERVE",
    "ORIGINS",
    "RULE_FIELDS",
    "DeclaredSecret",
    "EffectType",
    "Grant",
    "ModuleType",
    "Route",
    "Rule",
    "Trigger",
    "hosts_grant",
    "hosts_of",
    "origins_of",
    "with_hosts_rule",
]

RULE_FIELDS = frozenset({"effect_kind", "cap_name", "cap_type", "origin_kind", "origin_name"})
"""Fields that a rule of the world's policy may test. A denial on a field that is never set would match nothing."""

ORIGINS = frozenset({"plan", "reducer", "tool"})
"""Kinds of askers that an effect's definition may admit."""


def origins_of(scope: Any) -> frozenset[str]:
    """Returns the askers that an `origin_scope` admits: a word, a list of words, or `both` for plans and tools."""
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
    """Tag of each arm -> its schema."""
    effects: Mapping[str, tuple[str, ...]]
    """Kinds of effect that the module may ask for -> the grants that it may use for each, in the order of
    declaration."""


@dataclass(frozen=True, slots=True)
class EffectType:
    """A kind of effect, with the names of its schemas and the type of cap that covers it."""

    kind: str
    params: str
    receipt: str
    cap_type: str
    origins: frozenset[str]
    changes: bool
    """True if it changes what others see; a `read_only` tool may not ask for it."""
    answers_refusals: bool = False
    """True if its adapter also answers refused effects: then a refused effect is an intent with a receipt, like any
    other. Older manifests lack the field, and their histories are computed without it."""


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


OBSERVE = "observe_until_ns"
"""The entry of a manifest with the end of observing, in nanoseconds of wall time."""

ALLOWED_HOSTS = "allowed_hosts"
"""The name of the grant of HTTP to the hosts that the process which opened the world allows to tools, and the entry of
a manifest's node that lists these hosts."""


ASKED_TOOLS = "asked_tools"
"""The entry of a manifest's node that lists the tools of MCP servers for which its tool policy asks only because the
person who trusted them said so. Without these lines it is the policy that somebody named."""


def hosts_grant(hosts: Iterable[str]) -> Grant:
    """Returns the grant of HTTP to these hosts, by https, at their ports."""
    return Grant(ALLOWED_HOSTS, "http.out", {"origins": [origin_of(host) for host in hosts]}, None)


def hosts_of(grant: Grant) -> list[str]:
    """Returns the hosts of a `hosts_grant`."""
    return [origin.removeprefix("https://") for origin in grant.params["origins"]]


def with_hosts_rule(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Returns the rules with one that allows the requests of tools under the grant `ALLOWED_HOSTS`. It decides only
    what no other rule decides: it is the last, or before a last rule that denies everything."""
    allow = Rule({"effect_kind": "http.request", "origin_kind": "tool", "cap_name": ALLOWED_HOSTS}, "allow")
    end = len(rules) - 1 if rules and not rules[-1].when and rules[-1].decision == "deny" else len(rules)
    return (*rules[:end], allow, *rules[end:])


@dataclass(frozen=True, slots=True)
class Route:
    """The module that takes an event. `key_field` is the path of the unit's key in the event, None for a module without
    keys."""

    module: str
    key_field: str | None
    tag: str | None
    """The arm's tag if the event is an arm of the module's event variant: the event is wrapped in it before
    delivery."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A world plan that an event starts. `correlate_by` is the path of the field that becomes its correlation, if
    any."""

    plan: str
    correlate_by: str | None


@dataclass(frozen=True, slots=True)
class DeclaredSecret:
    """`alias@version` with the places where its value may be, searched in order: `env:NAME`, `file:PATH`, `vault:NAME`.
    Only effects under `allowed_caps` (names of grants) that `allowed_plans` ask for get it; None admits any, an empty
    set none. The version of `alias@*` is None: it stands for every version in the secret vault, also later ones."""

    alias: str
    version: int | None
    bindings: tuple[str, ...]
    allowed_caps: frozenset[str] | None = None
    allowed_plans: frozenset[str] | None = None

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> DeclaredSecret:
        """Reads a `defsecret`. Raises InvalidValue."""
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
