"""The manifest of a process that joined a world: agreed with the owner, and in force when this process becomes the
owner.

A joining process has to agree with the owner only in the options that it names: tools, policy, prompt, code. A
successor takes over the manifest in force, with its policy, if it has the code for it. Without the code it does not
become the owner, and can only read. A process that becomes the owner to change the manifest needs the code of the new
manifest only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from demiurge.bootstrap.backend.connection import LacksCode
from demiurge.bootstrap.manifest import (
    Definitions,
    ManifestInForce,
    ProcessConfig,
    default_policy,
    policy_as_given,
    set_definitions,
    stored_definitions,
)
from demiurge.bootstrap.manifest_change import OPENED, ManifestChange, changed, lacking_code, lacking_tools
from demiurge.bootstrap.mcp_tools import is_servers
from demiurge.bootstrap.models import model_object
from demiurge.bootstrap.trust.adoption import Adoption
from demiurge.bootstrap.world_options import CHAT_SETTINGS, WorldOptions
from demiurge.errors import Conflict
from demiurge.stores.protocol import Store
from demiurge.tools.effect import ToolEffect
from demiurge.tools.source import ToolSource
from demiurge.tools.spec import ToolSpec
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.manifest import ALLOWED_HOSTS, Folder, Manifest
from demiurge.world.manifest_log import MANIFESTS, last_entry

__all__ = ["Joined"]

_SAID = {"system_ref": "system prompt"}

OTHER_PROCESS_ASKS = (
    "Another process has this world open and asks its models, and the model given here is an object that only this "
    "process has. Stop the other process, or give a model's name."
)

HANDED_OVER = (
    "The process that had this world open lacks code or tools of the new manifest, and has handed the world over. When "
    "the process that took it over ends, that process can only read: start it again with the code (--tools)."
)


class Joined:
    """The manifest that the owner had when this process joined. `names_tools`: the options name tools, and these tools
    are already listed. `former`: the agreement with the previous owner."""

    def __init__(
        self, options: WorldOptions, config: ProcessConfig, *, names_tools: bool, former: Joined | None = None
    ) -> None:
        self._options, self._config, self._names_tools, self._former = options, config, names_tools, former
        self._ref: Ref | None = None
        self._log_length = 0

    def note(self, store: Store, ref: Ref) -> None:
        """Notes the manifest under which this process itself ran the world, before it hands the world over."""
        head = store.head(str(MANIFESTS))
        self._ref, self._log_length = ref, head.next_seq if head is not None else 0

    def agree(self, node: bytes, log_length: int, log: Callable[[], list[dict[str, Any]]]) -> None:
        """Keeps the owner's manifest and the length of its log.

        Raises Conflict (`owned`) if the options name tools, a policy, a prompt or code that differ from the owner's. A
        difference is accepted if the manifest was changed since this process joined the `former` owner, or was the
        owner itself."""
        others = list(self._differences(node))
        known = self if self._ref is not None else self._former
        if known is None and model_object(self._options.model) is not None:
            raise Conflict(OTHER_PROCESS_ASKS, code="owned")
        if others and not (known is not None and known._is_replaced(ref_of(node), log())):
            raise Conflict(
                f"Another process has this world open with {' and '.join(others)}. Join it without naming them, "
                "change them for both (`demiurge policy set`, `demiurge manifest set`), or stop it first.",
                code="owned",
            )
        self._ref, self._log_length = ref_of(node), log_length

    def _is_replaced(self, ref: Ref, log: list[dict[str, Any]]) -> bool:
        """Returns whether this manifest is in force because it replaced the one that this process agreed to."""
        last = log[-1] if log and self._ref is not None else None
        return last is not None and last["manifest"] == ref and self._is_after(last["seq"], last["how"])

    def _is_after(self, seq: int, how: str) -> bool:
        return seq >= self._log_length and how != OPENED

    def _differences(self, node: bytes) -> Iterator[str]:
        theirs, options, config = cbor.decode(node), self._options, self._config
        names_manifest = options.manifest is not None  # it is put in force with the tools, policy and code named here
        if (
            self._names_tools
            and not names_manifest
            and _own_tools(theirs["toolset"], config.source) != [spec.to_json() for spec in config.source.specs()]
        ):
            yield "other tools"
        if config.policy is not None and not names_manifest and policy_as_given(theirs).digest != config.policy.digest:
            yield "another policy"
        if config.allowed_hosts is not None and theirs.get(ALLOWED_HOSTS, []) != list(config.allowed_hosts):
            yield "other allowed hosts"
        named = {**options.settings, **({"system_ref": None} if options.system_prompt is not None else {})}
        if named:
            ours = config.manifest_of(Definitions.of_node(node)).manifest.settings
            settings = theirs["root"].get("settings", {})
            yield from (f"another {_SAID.get(name, name)}" for name in named if ours.get(name) != settings.get(name))
        own = {name: ref_of(config.code[name].source) for name in options.reducers if name in theirs["sources"]}
        if not names_manifest and any(theirs["sources"][name] != ref for name, ref in own.items()):
            yield "other code"

    def followed(
        self, store: Store, in_force: ManifestInForce, config: ProcessConfig
    ) -> tuple[ManifestInForce, ProcessConfig]:
        """Returns the manifest and the configuration with which this process runs the world as the owner's successor.

        These are its own (`in_force`, `config`), unless the log shows that another manifest has been in force since it
        joined. Raises LacksCode."""
        entry = last_entry(store) if self._ref is not None else None
        if entry is None or entry.ref == in_force.manifest.ref:
            return in_force, config
        if entry.ref != self._ref and not self._is_after(entry.seq, entry.how):
            return in_force, config
        then = config.load(store.get_blob(entry.ref))
        lacking = lacking_code(then.manifest, config.source)
        if lacking:
            raise LacksCode(lacking)
        config = _following(store, config, then.manifest)
        return in_force._replace(manifest=then.manifest, missing=then.missing, refused=None), config

    def replaced(
        self,
        store: Store,
        in_force: ManifestInForce,
        config: ProcessConfig,
        change: ManifestChange,
        adoption: Adoption,
    ) -> tuple[ManifestInForce, ProcessConfig]:
        """Makes a change of the manifest in force for which the former owner lacks code, and returns what this process
        runs the world with. Raises Conflict (`no_code`, `owned`), BadManifest; then nothing has changed."""
        entry, manifest = last_entry(store), in_force.manifest
        if entry is not None:
            manifest = config.load(store.get_blob(entry.ref)).manifest
            config = _following(store, config, manifest)
        config, then = changed(config, manifest, change)
        in_force = in_force._replace(manifest=then.manifest, missing=then.missing, blobs=then.blobs, refused=None)
        if change.definitions is not None:
            own, warning = set_definitions(store, change.definitions, adoption)
            notices = (*in_force.notices, warning) if warning is not None else in_force.notices
            in_force = in_force._replace(own=own, adopted=True, unfit=None, notices=notices)
        return in_force._replace(notices=(*in_force.notices, HANDED_OVER)), config


def _following(store: Store, config: ProcessConfig, manifest: Manifest) -> ProcessConfig:
    """Returns the configuration of a process after another one ran the world under `manifest`: the policy and the
    allowed hosts that were named there stay, unless this process names its own; so do the system prompt and the
    settings, which may have changed since this process agreed to them."""
    given, as_given = Definitions.of_node(manifest.node), policy_as_given(cbor.decode(manifest.node))
    usual = Folder.of(given.definitions, given.root).tool_policy()
    if not (_is_default(manifest, config.source) if usual is None else as_given.digest == usual.digest):
        config = replace(config, policy=as_given)
    kept = (stored_definitions(store) or Definitions.shipped()).root.get("settings", {})
    if config.allowed_hosts is None and (hosts := cbor.decode(manifest.node).get(ALLOWED_HOSTS)):
        config = replace(config, allowed_hosts=tuple(hosts))
    config = replace(config, observe_until_ns=manifest.observe_until_ns)
    prompt = manifest.settings.get("system_ref")
    if prompt is not None and prompt != kept.get("system_ref"):
        config = replace(config, system_prompt=None, kept_prompt=store.get_blob(prompt))
    settings = {name: manifest.settings[name] for name in CHAT_SETTINGS if name in manifest.settings}
    named = {name: value for name, value in settings.items() if name in config.settings or value != kept.get(name)}
    return replace(config, settings=named)


def _own_tools(toolset: Sequence[Mapping[str, Any]], source: ToolSource) -> list[Mapping[str, Any]]:
    """Returns the specs of a manifest's toolset without those of the world's MCP servers, which `source` need not
    have."""
    own = {spec.name for spec in source.specs()}
    return [spec for spec in toolset if spec["name"] in own or not is_servers(ToolSpec.from_json(spec))]


def _is_default(manifest: Manifest, source: ToolSource) -> bool:
    """Returns whether nobody named the policy of a manifest: it is the default policy, except that read-only tools
    which `source` lacks may be the other process's own code or not."""
    tools, policy = manifest.toolset, manifest.tool_policy
    lacking = [name for name in lacking_tools(manifest, source) if tools[name].effect is ToolEffect.READ_ONLY]
    asked = (*policy.require_approval_for_tools, *lacking)
    return replace(policy, require_approval_for_tools=asked).digest == default_policy(tools.values(), source).digest
