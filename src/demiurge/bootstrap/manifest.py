"""A world's manifest: the definitions that the world keeps, and the tools, code and policy of the process that has it
open.

Definitions are data and stay in the world's store. A world that was given none has those of the shipped app. Code is
never stored in a world: the process that opens it names the Python functions that are its reducers, so nobody runs a
program that somebody else put into a folder. Definitions that a world brought with it can only be read until its user
accepts them (`adoption`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from demiurge import faults
from demiurge.apps.demiurge import CHAT, app
from demiurge.bootstrap.manifest_settings import folder_problems
from demiurge.bootstrap.mcp_tools import is_servers
from demiurge.bootstrap.trust.adoption import Adoption
from demiurge.errors import Conflict, DemiurgeError, InvalidValue
from demiurge.stores.protocol import Store
from demiurge.tools.bound import BoundTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import ToolSource
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.effect import Adapter
from demiurge.world.effect_kinds import tables
from demiurge.world.manifest import (
    ASKED_TOOLS,
    BadManifest,
    Bases,
    Folder,
    Manifest,
    Problem,
    extended,
    problems,
    read_folder,
)
from demiurge.world.manifest_log import last_entry
from demiurge.world.messages import user_blob
from demiurge.world.reducer import Reducer
from demiurge.world.system_reducers import system_reducers

__all__ = [
    "BASES",
    "Code",
    "Definitions",
    "ManifestInForce",
    "ProcessConfig",
    "check_adapters",
    "copy_definitions",
    "default_policy",
    "keep_definitions",
    "load_manifest",
    "policy_as_given",
    "read_definitions",
    "reducers_of",
    "set_definitions",
    "stored_definitions",
]

KEY = "definitions"
"""The entry of the store's meta data with the world's own definitions; empty or missing: the shipped app's."""

Code = Mapping[str, Reducer | Callable[..., Any]]
"""Reducers by module name. The source that is kept of a plain function is that of its Python module."""


def default_policy(specs: Iterable[ToolSpec], source: ToolSource) -> ToolPolicy:
    """Returns the policy that allows the tools in Python code of this process that only read, shipped or the user's
    own, and those of MCP servers that a person allowed, and has a person asked for all others of `specs`.

    `source` has the tools of this process. A tool whose spec differs from the one here is another tool: its `specs` may
    be the word of a world from elsewhere."""
    found = tuple(specs)
    asked = tuple(spec.name for spec in found if not _runs_at_once(spec, source.get(spec.name)))
    return ToolPolicy(allowed_tools=tuple(spec.name for spec in found), require_approval_for_tools=asked)


def _runs_at_once(spec: ToolSpec, tool: BoundTool | None) -> bool:
    if tool is None or tool.spec.spec_hash != spec.spec_hash:
        return False
    return tool.trust == "allow" or (tool.is_own_code and tool.spec.effect is ToolEffect.READ_ONLY)


def _with_trust(policy: ToolPolicy, source: ToolSource) -> tuple[ToolPolicy, tuple[str, ...]]:
    """Returns a policy of the user's own that also asks before each call of a server's tool of which the person who
    trusted it said so, and the ids of these tools."""
    bound = (source.get(spec.name) for spec in source.specs())
    named = frozenset(policy.require_approval_for_tools)
    asked = tuple(
        sorted(
            tool.spec.name for tool in bound if tool is not None and tool.trust == "ask" and tool.spec.name not in named
        )
    )
    together = (*policy.require_approval_for_tools, *asked)
    return (replace(policy, require_approval_for_tools=together) if asked else policy), asked


def policy_as_given(node: Mapping[str, Any]) -> ToolPolicy:
    """Returns the tool policy of a manifest as somebody named it: without what trust in servers' tools adds."""
    policy, asked = ToolPolicy.from_json(node["tool_policy"]), frozenset(node.get(ASKED_TOOLS, ()))
    left = tuple(name for name in policy.require_approval_for_tools if name not in asked)
    return replace(policy, require_approval_for_tools=left) if asked else policy


BASES: Bases = MappingProxyType({"demiurge": lambda: app().folder})
"""The manifests that a manifest of one's own can extend."""


class Definitions(NamedTuple):
    """The content of a manifest folder: `root` has defaults, routing, triggers, settings, tool policy, toolsets.

    Definitions that extend the shipped app contain the app's too; `extension` is then what the folder itself holds,
    `{definitions, root}`."""

    definitions: Sequence[Mapping[str, Any]]
    root: Mapping[str, Any]
    extension: Mapping[str, Any] | None = None

    @classmethod
    def shipped(cls) -> Definitions:
        return cls(app().definitions, app().root)

    @classmethod
    def of_node(cls, node: bytes) -> Definitions:
        """Returns the definitions in the node of a manifest."""
        manifest = cbor.decode(node)
        return cls(manifest["definitions"], manifest["root"], manifest.get("extension"))

    @classmethod
    def of_folder(cls, folder: Folder, check: Callable[[Folder], Sequence[Problem]] = problems) -> Definitions:
        """Returns the definitions of a folder, joined with those that it extends. Raises BadManifest with all that
        `check` finds wrong, and where."""
        whole = extended(folder, BASES)
        wrong = check(whole)
        if wrong:
            raise BadManifest(wrong)
        own = cls(folder.contents(), folder.root())
        return own if whole.base is None else cls(whole.contents(), whole.root(), own.to_node())

    @classmethod
    def from_node(cls, node: Mapping[str, Any]) -> Definitions:
        """The inverse of `to_node`. An extension is joined with what it extends here: raises BadManifest if it does not
        fit. Its settings are not checked: they were accepted before."""
        if "extends" in node["root"]:
            return cls.of_folder(Folder.of(node["definitions"], node["root"]))
        return cls(node["definitions"], node["root"])

    def to_node(self) -> dict[str, Any]:
        """Returns the definitions as data, an extension without what it extends."""
        if self.extension is not None:
            return dict(self.extension)
        return {"definitions": list(self.definitions), "root": dict(self.root)}

    def modules(self) -> list[str]:
        return [d["name"] for d in self.definitions if d["$kind"] == "defmodule"]


class ManifestInForce(NamedTuple):
    """A manifest, and what a process may do with it.

    `missing`: modules without code in this process; their units can only be read. `blobs`: the blobs that the manifest
    names. `own`: the hash of the definitions that the world keeps, None if it has those of the shipped app. `adopted`
    is false if no user accepted the definitions here; the world can then only be read. `refused`: the error for events
    if the policy that was remembered for this world can't be recalled. `unfit`: the error for events if the definitions
    that the world keeps extend the shipped app, and do not fit the app of this program; `manifest` is then one that can
    be read. `notices`: sentences for the user who opens the world."""

    manifest: Manifest
    missing: tuple[str, ...]
    blobs: tuple[bytes, ...]
    own: Ref | None = None
    adopted: bool = True
    refused: DemiurgeError | None = None
    unfit: DemiurgeError | None = None
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessConfig:
    """The tools, policy and code with which a process opens a world. With `policy` None the policy of the definitions
    applies, or else the `default_policy` of the tools. `kept_prompt`: the stored system prompt that applies if neither
    this process nor the definitions name one. `allowed_hosts`: the hosts that tools may ask by HTTP beside what the
    definitions grant, as `checked_hosts` returns them; None if this process names none. `settings`: those of chats that
    take the place of the definitions'."""

    source: ToolSource
    policy: ToolPolicy | None
    system_prompt: str | None
    code: Mapping[str, Reducer]
    kept_prompt: bytes | None = None
    allowed_hosts: tuple[str, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    observe_until_ns: int | None = None
    """The end of observing (`authority.observing`), None if the tool policy is enforced."""

    def manifest_of(self, given: Definitions, *, new: bool = False) -> ManifestInForce:
        """Returns the manifest of these definitions. With `new` they are checked, and the code of all modules is
        required: raises BadManifest. Definitions that were accepted before are not checked again. Raises Conflict
        (`http_granted`) for allowed hosts beside a grant of HTTP."""
        folder = Folder.of(given.definitions, given.root)
        modules = given.modules()
        settings, blobs = self._prompt(given, modules)
        toolset = self.source.specs()
        if given.root.get("toolsets"):
            pinned = folder.toolset()
            names = {spec.name for spec in pinned}
            toolset = (*pinned, *(spec for spec in toolset if is_servers(spec) and spec.name not in names))
        policy, asked = self.policy or folder.tool_policy(), tuple[str, ...]()
        if policy is not None:
            policy, asked = _with_trust(policy, self.source)
        manifest = Manifest.build(
            given.definitions,
            given.root,
            self._code_of(modules),
            tool_policy=policy or self._usual_policy(toolset),
            asked_tools=asked,
            toolset=toolset,
            settings={**settings, **(self.settings if CHAT in modules else {})},
            extension=given.extension,
            allowed_hosts=self.allowed_hosts or (),
            observe_until_ns=self.observe_until_ns,
            check=new,
        )
        return ManifestInForce(manifest, tuple(sorted(set(modules) - set(self.code))), blobs)

    def load(self, node: bytes) -> ManifestInForce:
        """Returns the manifest in a stored node, with the code of this process."""
        modules = Definitions.of_node(node).modules()
        manifest = Manifest.load(node, self._code_of(modules))
        return ManifestInForce(manifest, tuple(sorted(set(modules) - set(self.code))), ())

    def _usual_policy(self, toolset: Sequence[ToolSpec]) -> ToolPolicy:
        """Returns the default policy for the tools of this process, as the manifest's toolset words them."""
        pinned = {spec.name: spec for spec in toolset}
        return default_policy((pinned.get(spec.name, spec) for spec in self.source.specs()), self.source)

    def _code_of(self, modules: Sequence[str]) -> dict[str, Reducer]:
        code = {name: reducer for name, reducer in self.code.items() if name in modules}
        return {**code, **system_reducers()}

    def _prompt(self, given: Definitions, modules: Sequence[str]) -> tuple[Mapping[str, Any], tuple[bytes, ...]]:
        """Returns the settings and the blob of the system prompt, if there are chats and the definitions don't name
        one."""
        said = self.system_prompt
        if CHAT not in modules or (said is None and "system_ref" in given.root.get("settings", {})):
            return {}, ()
        if said is None and self.kept_prompt is not None:
            prompt = self.kept_prompt
        else:
            prompt = user_blob(app().system_prompt if said is None else said, role="system")
        return {"system_ref": ref_of(prompt)}, (prompt,)


def read_definitions(folder: str | PathLike[str]) -> Definitions:
    """Returns the definitions in the JSON files of a folder. Raises BadManifest with all that is wrong, and where."""
    return Definitions.of_folder(read_folder(Path(folder)), folder_problems)


def stored_definitions(store: Store) -> Definitions | None:
    """Returns the definitions that the world keeps, None for a world that runs the shipped app's. An extension is not
    joined with what it extends."""
    kept = store.get_meta(KEY)
    if not kept:
        return None
    node = canonical_json.parse_object(kept.encode())
    return Definitions(node["definitions"], node["root"])


def keep_definitions(store: Store, given: Definitions) -> None:
    """Makes these definitions the world's; durable on return."""
    store.set_meta(KEY, _text(given))


def _text(given: Definitions) -> str:
    node = given.to_node()
    return "" if node == Definitions.shipped().to_node() else canonical_json.encode(node).decode()


def set_definitions(store: Store, given: Definitions, adoption: Adoption) -> tuple[Ref | None, str | None]:
    """Makes these definitions the world's, and records that the user accepts them; durable on return. A process that is
    killed in between leaves a world with the old definitions or the new ones, and either count. Returns the hash of
    what the world keeps (None: the shipped app's), and a warning if the user's record could not be written."""
    text = _text(given)
    own = ref_of(text.encode()) if text else None
    warning = adoption.take(own, _kept_hash(store)) if own is not None else None
    faults.point("manifest.accepted")
    keep_definitions(store, given)
    faults.point("manifest.kept")
    return own, warning if own is not None else adoption.take(None)


def _kept_hash(store: Store) -> Ref | None:
    kept = store.get_meta(KEY)
    return ref_of(kept.encode()) if kept else None


def load_manifest(
    store: Store, config: ProcessConfig, given: Definitions | None, adoption: Adoption, *, adopt: bool = False
) -> ManifestInForce:
    """Returns the manifest in force in a world: of the definitions `given`, which it keeps from then on, else of its
    own, if they were taken here before or are now (`adopt`)."""
    own, told = set_definitions(store, given, adoption) if given is not None else (_kept_hash(store), None)
    in_force = _manifest_of_world(store, config)
    if in_force.unfit is not None:
        return in_force._replace(own=own, adopted=own is not None and adoption.holds(own))
    if config.policy is None:
        in_force = in_force._replace(refused=adoption.policy_not_recalled())
    if given is None and adopt:
        told = adoption.take(own)
    if given is not None or adopt:
        return in_force._replace(own=own, notices=(told,) if told is not None else ())
    return in_force._replace(own=own, adopted=own is None or adoption.holds(own))


def _manifest_of_world(store: Store, config: ProcessConfig) -> ManifestInForce:
    """Returns the manifest of the definitions that a world keeps. If these are an extension that does not fit the app
    of this program, the result has the last manifest that was in force, which can be read, and the error."""
    kept = stored_definitions(store)
    if kept is None:
        return config.manifest_of(Definitions.shipped())
    try:
        return config.manifest_of(Definitions.from_node(kept.to_node()))
    except BadManifest as problem:
        unfit = Conflict(
            f"This world's manifest extends the app {kept.root['extends']}, and does not fit the app of this program. "
            f"Correct its folder and set it with `demiurge manifest set DIR`, or set the app's own manifest with "
            f"`demiurge manifest set --shipped`. Until then the world can only be read. {problem.message}",
            code="unfit_extension",
        )
    in_force = config.manifest_of(Definitions.shipped()._replace(extension=kept.to_node()))
    with suppress(DemiurgeError):
        last = last_entry(store)
        in_force = config.load(store.get_blob(last.ref)) if last is not None else in_force
    return in_force._replace(unfit=unfit, notices=(unfit.message,))


def copy_definitions(source: Store, target: Store) -> None:
    """Copies the definitions of a world to its fork."""
    kept = source.get_meta(KEY)
    if kept:
        target.set_meta(KEY, kept)


def reducers_of(code: Code) -> dict[str, Reducer]:
    """Returns the reducers by module name. Raises InvalidValue for a function whose source can't be read."""
    return {name: found if isinstance(found, Reducer) else _reducer(name, found) for name, found in code.items()}


def _reducer(name: str, function: Callable[..., Any]) -> Reducer:
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    try:
        if module is None or not callable(function):
            raise TypeError
        return Reducer(function, inspect.getsource(module).encode())
    except (OSError, TypeError) as error:
        raise InvalidValue(
            f"the reducer of {name} is no function of a module with a source", code="bad_code"
        ) from error


def check_adapters(adapters: Sequence[Adapter]) -> None:
    """Raises InvalidValue for an object that is no adapter, and for one that performs a built-in effect."""
    for adapter in adapters:
        if isinstance(adapter, type) or not isinstance(getattr(adapter, "kinds", None), tuple):
            what = f"adapters are objects with `kinds`, `restart` and `perform`, not {adapter!r}"
            raise InvalidValue(what, path="adapters", code="bad_code")
    for kind in (kind for adapter in adapters for kind in adapter.kinds):
        if kind in tables().kinds:
            raise InvalidValue(f"{kind} is built in, and has its own adapter", code="bad_code")
