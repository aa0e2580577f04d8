"""A change of the manifest in force: the parts that are replaced, as data, and the manifest that it leads to.

Code does not travel. A process that asks for a change says by digest which code and which tools it means, and the owner
of the world makes the change only if it has these. Else the asking process can take the world over
(`backend.hand_over`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.manifest import Definitions, ManifestInForce, ProcessConfig
from demiurge.bootstrap.manifest_settings import SETTINGS
from demiurge.bootstrap.mcp_tools import is_servers
from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import ToolSource
from demiurge.tools.spec import ToolSpec
from demiurge.values import cbor
from demiurge.values.refs import Ref, parse_ref, ref_of
from demiurge.world.manifest import ALLOWED_HOSTS, OBSERVE, Folder, Manifest
from demiurge.world.reducer import Reducer

__all__ = [
    "ENFORCED",
    "MANIFEST_SET",
    "NO_CODE",
    "OBSERVED",
    "OPENED",
    "OTHER_TOOLS",
    "POLICY_SET",
    "PROMPT",
    "SETTINGS_SET",
    "TOOLS_REFRESHED",
    "ManifestChange",
    "changed",
    "changed_parts",
    "lacking_code",
    "lacking_tools",
    "sources_of",
    "tools_of",
    "without_servers",
]

OPENED: Final = "opened with"
MANIFEST_SET: Final = "manifest set"
POLICY_SET: Final = "policy set"
SETTINGS_SET: Final = "settings set"
TOOLS_REFRESHED: Final = "tools refreshed"
OBSERVED: Final = "policy observed"
ENFORCED: Final = "policy enforced"
"""The reasons for which a manifest comes into force, as the log of manifests records them."""

NO_CODE: Final = "no_code"
"""The code of an error: a process lacks the code of a manifest."""

OTHER_TOOLS: Final = "owned"
"""The code of an error: the process that owns the world has other tools."""

PROMPT: Final = "prompt"
"""The part of a manifest that the system prompt is, in the log of manifests."""

_PARTS: Final = MappingProxyType(
    {"definitions": "definitions", "root": "definitions", "system": "definitions", "sources": "code"}
    | {ALLOWED_HOSTS: "hosts", "extension": "definitions", "tool_policy": "policy", "toolset": "tools"}
    | {OBSERVE: "observing", "settings": "settings", PROMPT: PROMPT}
)


_ASKED_FOR: Final = (MANIFEST_SET, POLICY_SET, SETTINGS_SET, TOOLS_REFRESHED, OBSERVED, ENFORCED)


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """A change of the manifest in force; a part that is None stays as it is. `sources`: the digests of the reducers
    that the asking process means, by module. `specs`: the digests of the specs that it has of the definitions' tools,
    by name. `listed`: the source of the new tools, if the owner itself makes the change. `observe_until_ns`: the end of
    observing, in nanoseconds of wall time; 0 ends it now. `settings`: those of chats that change, by name;
    `system_prompt`: the text that the model of each chat is told first."""

    how: str
    definitions: Definitions | None = None
    policy: ToolPolicy | None = None
    tools: tuple[ToolSpec, ...] | None = None
    sources: Mapping[str, Ref] = field(default_factory=dict)
    specs: Mapping[str, str] = field(default_factory=dict)
    listed: ToolSource | None = None
    observe_until_ns: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    system_prompt: str | None = None

    def to_node(self) -> dict[str, Any]:
        """Returns the change as data, without code, for the owner's socket."""
        given = self.definitions
        return {
            "how": self.how,
            **(given.to_node() if given is not None else {"definitions": None, "root": None}),
            "policy": self.policy.to_json() if self.policy is not None else None,
            "tools": [spec.to_json() for spec in self.tools] if self.tools is not None else None,
            "sources": dict(self.sources),
            "specs": dict(self.specs),
            "observe_until_ns": self.observe_until_ns,
            "settings": dict(self.settings),
            "system_prompt": self.system_prompt,
        }

    @classmethod
    def from_node(cls, node: object) -> ManifestChange:
        """The inverse of `to_node`. Raises InvalidValue, ValueError."""
        if not isinstance(node, dict) or node.get("how") not in _ASKED_FOR:
            raise ValueError("this is no change of a manifest")
        try:
            return cls(
                node["how"],
                Definitions.from_node(node) if node["definitions"] is not None else None,
                ToolPolicy.from_json(node["policy"]) if node["policy"] is not None else None,
                tuple(map(ToolSpec.from_json, node["tools"])) if node["tools"] is not None else None,
                {str(name): parse_ref(ref) for name, ref in node["sources"].items()},
                {str(name): str(digest) for name, digest in node.get("specs", {}).items()},
                observe_until_ns=node.get("observe_until_ns"),
                settings=dict(node.get("settings", {})),
                system_prompt=node.get("system_prompt"),
            )
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError("this is no change of a manifest") from error


def sources_of(given: Definitions, code: Mapping[str, Reducer]) -> dict[str, Ref]:
    """Returns the digests of the code at hand for the modules of these definitions."""
    return {name: ref_of(code[name].source) for name in given.modules() if name in code}


def tools_of(given: Definitions, source: ToolSource) -> dict[str, str]:
    """Returns the digests of the specs at hand for the tools that these definitions name in a toolset."""
    named, own = Folder.of(given.definitions, given.root).toolset(), _digests(source)
    return {spec.name: spec.spec_hash for spec in named if own.get(spec.name) == spec.spec_hash}


def changed(config: ProcessConfig, manifest: Manifest, change: ManifestChange) -> tuple[ProcessConfig, ManifestInForce]:
    """Returns what a process runs a world with after a change, of which it has all the code, and the manifest then.

    Raises Conflict (`no_code`, `owned`: it has other tools), BadManifest; InvalidValue, UsageError (`no_chats`) for
    settings."""
    source = change.listed if change.listed is not None else config.source
    if change.tools is not None and _named(change.tools) != _named(ours := without_servers(source, change.tools)):
        others = _other_tools(change.tools, ours)
        raise Conflict(
            f"The process that has this world open has other tools than this one ({others}). Refresh the tools there, "
            "or stop it and open the world here.",
            code=OTHER_TOOLS,
            details={"lacking": [f"the tools {others}"]},
        )
    given = change.definitions
    if given is not None:
        own = _digests(source)
        lacking = [name for name in given.modules() if name not in config.code]
        lacking += [
            f"{name} (it has another version)"
            for name, ref in change.sources.items()
            if name in config.code and ref_of(config.code[name].source) != ref
        ]
        lacking += [f"the tool {name}" for name, digest in change.specs.items() if own.get(name) != digest]
        if lacking:
            raise Conflict(
                f"The process that has this world open lacks the code of {', '.join(lacking)}. Code does not travel: "
                "stop that process, or start it again with the Python modules that have the code (--tools).",
                code=NO_CODE,
                details={"lacking": lacking},
            )
    after = replace(config, policy=change.policy) if change.policy is not None else config
    if change.observe_until_ns is not None:
        after = replace(after, observe_until_ns=change.observe_until_ns or None)
    if change.settings or change.system_prompt is not None:
        after = _with_settings(after, manifest, change)
    ruling = replace(after, source=source)
    return after, ruling.manifest_of(given or Definitions.of_node(manifest.node), new=given is not None)


def _with_settings(config: ProcessConfig, manifest: Manifest, change: ManifestChange) -> ProcessConfig:
    if CHAT not in Definitions.of_node(manifest.node).modules():
        raise UsageError("This world has no chats, so it takes no system prompt and no settings.", code="no_chats")
    for name, value in change.settings.items():
        if (setting := SETTINGS.get(name)) is None or not setting.accepts(value):
            raise InvalidValue(f"is {setting.words if setting is not None else 'no setting'}", path=name)
    config = replace(config, settings={**config.settings, **change.settings})
    return config if change.system_prompt is None else replace(config, system_prompt=change.system_prompt)


def lacking_code(manifest: Manifest, source: ToolSource) -> list[str]:
    """Returns what a process with the code of `manifest.reducers` and the tools of `source` lacks to run the world
    under a manifest: modules and tools that it has not, or in another version. Tools of the world's MCP servers are
    everybody's."""
    return [*manifest.unchecked_modules(), *(f"the tool {name}" for name in lacking_tools(manifest, source))]


def lacking_tools(manifest: Manifest, source: ToolSource) -> list[str]:
    """Returns the tools of a manifest that `source` lacks, or has in another version."""
    own = _digests(source)
    return [
        name
        for name, spec in manifest.toolset.items()
        if own.get(name) != spec.spec_hash and not (is_servers(spec) and name not in own)
    ]


def without_servers(source: ToolSource, but: Iterable[ToolSpec] = ()) -> list[ToolSpec]:
    """Returns the specs of a source without those of the world's MCP servers, which no process has to have. Those of
    the ids in `but` are a process's own."""
    own = {spec.name for spec in but}
    return [spec for spec in source.specs() if spec.name in own or not is_servers(spec)]


def changed_parts(old: bytes, new: bytes) -> list[str]:
    """Returns in which parts the nodes of two manifests differ: of `code`, `definitions`, `hosts`, `observing`,
    `policy`, `prompt`, `settings` and `tools`."""
    before, after = _with_settings_apart(cbor.decode(old)), _with_settings_apart(cbor.decode(new))
    return sorted({part for key, part in _PARTS.items() if before.get(key) != after.get(key)})


def _with_settings_apart(node: Mapping[str, Any]) -> dict[str, Any]:
    settings = dict(node["root"].get("settings", {}))
    root = {name: value for name, value in node["root"].items() if name != "settings"}
    return {**node, "root": root, PROMPT: settings.pop("system_ref", None), "settings": settings}


def _digests(source: ToolSource) -> dict[str, str]:
    return {spec.name: spec.spec_hash for spec in source.specs()}


def _named(specs: Sequence[ToolSpec]) -> list[tuple[str, str]]:
    return [(spec.name, spec.spec_hash) for spec in specs]


def _other_tools(theirs: Sequence[ToolSpec], ours: Sequence[ToolSpec]) -> str:
    differing = set(_named(theirs)) ^ set(_named(ours))
    return ", ".join(sorted({name for name, _ in differing})) or "in another order"
