"""`Manifest`: a resolved manifest, as the kernel uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from demiurge.errors import Conflict
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.spec import ToolSpec
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.values.schema import Schemas
from demiurge.world.manifest.check import problems
from demiurge.world.manifest.folder import Folder
from demiurge.world.manifest.parts import (
    ALLOWED_HOSTS,
    ASKED_TOOLS,
    OBSERVE,
    DeclaredSecret,
    EffectType,
    Grant,
    ModuleType,
    Route,
    Rule,
    Trigger,
)
from demiurge.world.manifest.problem import BadManifest
from demiurge.world.manifest.resolve import Resolved, resolve
from demiurge.world.manifest.system import system_definitions
from demiurge.world.plan import WorldPlan
from demiurge.world.reducer import Reducer

__all__ = ["Manifest"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A resolved manifest. Make one with `build` (from definitions) or `load` (from a stored node)."""

    ref: Ref
    node: bytes
    schemas: Schemas
    modules: Mapping[str, ModuleType]
    plans: Mapping[str, WorldPlan]
    effects: Mapping[str, EffectType]
    grants: Mapping[str, Grant]
    rules: tuple[Rule, ...] | None
    tool_policy: ToolPolicy
    toolset: Mapping[str, ToolSpec]
    secrets: Mapping[tuple[str, int | None], DeclaredSecret]
    routes: Mapping[str, Route]
    triggers: Mapping[str, tuple[Trigger, ...]]
    settings: Mapping[str, Any]
    observe_until_ns: int | None
    """Wall time until which denials and approvals of the tool policy are recorded and not enforced for trusted MCP
    tools (`authority.observing`); None if they are enforced."""
    reducers: Mapping[str, Reducer] = field(repr=False)
    sources: Mapping[str, Ref] = field(repr=False)
    """Address of each module's source as this manifest pins it."""

    @classmethod
    def build(
        cls,
        definitions: Iterable[Mapping[str, Any]],
        root: Mapping[str, Any],
        reducers: Mapping[str, Reducer],
        *,
        tool_policy: ToolPolicy,
        toolset: Sequence[ToolSpec] = (),
        settings: Mapping[str, Any] = MappingProxyType({}),
        extension: Mapping[str, Any] | None = None,
        allowed_hosts: Sequence[str] = (),
        asked_tools: Sequence[str] = (),
        observe_until_ns: int | None = None,
        check: bool = True,
    ) -> Manifest:
        """Makes a manifest from an app's definitions and its root (`defaults`, `routing`, `triggers`, `settings`).
        `extension`: what of these is an extension of another manifest, `{definitions, root}`; it is kept for readers.
        `allowed_hosts`: the hosts that tools may ask beside what the definitions grant, as `checked_hosts` returns
        them. `asked_tools`: see `ASKED_TOOLS`. `observe_until_ns`: see the field.

        Raises BadManifest with all problems, Conflict (`http_granted`: the definitions have a grant of HTTP too).
        `check=False` skips the search for problems: for definitions that were accepted before, whose code need not be
        at hand."""
        definitions = list(definitions)
        found = problems(Folder.of(definitions, root), reducers) if check else ()
        if found:
            raise BadManifest(found)
        node: dict[str, Any] = {
            "root": dict(root) | {"settings": {**root.get("settings", {}), **settings}},
            "system": [dict(definition) for definition in system_definitions()],
            "definitions": [dict(definition) for definition in definitions],
            "sources": {name: ref_of(reducer.source) for name, reducer in sorted(reducers.items())},
            "tool_policy": tool_policy.to_json(),
            "toolset": [spec.to_json() for spec in toolset],
        }
        if extension is not None:
            node["extension"] = dict(extension)
        if asked_tools:
            node[ASKED_TOOLS] = list(asked_tools)
        if allowed_hosts:
            node[ALLOWED_HOSTS] = list(allowed_hosts)
            _require_no_http(root, [*node["system"], *definitions])
        if observe_until_ns is not None:
            node[OBSERVE] = observe_until_ns
        return cls.load(cbor.encode(node), reducers)

    @classmethod
    def load(cls, node: bytes, reducers: Mapping[str, Reducer]) -> Manifest:
        """Resolves a stored manifest node; `reducers` is the code at hand, by module name. Raises InvalidValue."""
        return cls(ref=ref_of(node), node=node, reducers=reducers, **_resolved(node)._asdict())

    def route(self, schema: str) -> Route | None:
        return self.routes.get(schema)

    def secret(self, alias: str, version: int) -> DeclaredSecret | None:
        """Returns the secret of this name and version, also if `alias@*` declares it; None if none does."""
        unversioned = self.secrets.get((alias, None)) if version > 0 else None
        if (alias, version) in self.secrets or unversioned is None:
            return self.secrets.get((alias, version))
        return replace(unversioned, version=version)

    def unchecked_modules(self) -> list[str]:
        """Returns the modules whose code at hand differs from the source that this manifest pins: that code cannot
        check their history."""
        return sorted(
            name
            for name, ref in self.sources.items()
            if name not in self.reducers or ref_of(self.reducers[name].source) != ref
        )


def _require_no_http(root: Mapping[str, Any], definitions: Iterable[Mapping[str, Any]]) -> None:
    """Raises Conflict (`http_granted`) if a manifest grants HTTP itself: of several grants a tool can't choose."""
    caps = {each["name"] for each in definitions if each["$kind"] == "defcap" and each["cap_type"] == "http.out"}
    grants = root.get("defaults", {}).get("cap_grants", ())
    names = [grant["name"] for grant in grants if grant["cap"] in caps or grant["name"] == ALLOWED_HOSTS]
    if names:
        raise Conflict(
            f"This world's manifest has a grant of HTTP, {', '.join(names)}, and tools can't choose between two. Add "
            "the hosts to that grant, and name none with http= or --allow-host (`demiurge init --forget` forgets "
            "those that were remembered).",
            code="http_granted",
        )


@lru_cache(8)
def _resolved(node: bytes) -> Resolved:
    """Resolves a node. Cached, because an open plan needs its own manifest at each of its moves."""
    return resolve(cbor.decode(node))
