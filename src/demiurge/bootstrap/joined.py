"""The manifest of a process that joined a world: agreed with the owner, and in force when this process becomes the
owner.

A joining process has to agree with the owner only in the options that it names: tools, policy, prompt, code. A
successor takes over the manifest in force, with its policy, if it has the code for it. Without the code it does not
become the owner, and can only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from demiurge.bootstrap.backend.connection import LacksCode
from demiurge.bootstrap.manifest import Definitions, ManifestInForce, ProcessConfig, default_policy
from demiurge.bootstrap.manifest_change import OPENED, lacking_code
from demiurge.bootstrap.world_options import WorldOptions
from demiurge.errors import Conflict
from demiurge.stores.protocol import Store
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.manifest_log import last_entry

__all__ = ["Joined"]


class Joined:
    """The manifest that the owner had when this process joined. `names_tools`: the options name tools, and these tools
    are already listed. `former`: the agreement with the previous owner."""

    def __init__(
        self, options: WorldOptions, config: ProcessConfig, *, names_tools: bool, former: Joined | None = None
    ) -> None:
        self._options, self._config, self._names_tools, self._former = options, config, names_tools, former
        self._ref: Ref | None = None
        self._log_length = 0

    def agree(self, node: bytes, log_length: int, log: Callable[[], list[dict[str, Any]]]) -> None:
        """Keeps the owner's manifest and the length of its log.

        Raises Conflict (`owned`) if the options name tools, a policy, a prompt or code that differ from the owner's. A
        difference is accepted if the manifest was changed since this process joined the `former` owner."""
        others = list(self._differences(node))
        if others and not (self._former is not None and self._former._is_replaced(ref_of(node), log())):
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
        if self._names_tools and theirs["toolset"] != [spec.to_json() for spec in config.source.specs()]:
            yield "other tools"
        if config.policy is not None and theirs["tool_policy"] != config.policy.to_json():
            yield "another policy"
        if options.system_prompt is not None:
            ours = config.manifest_of(Definitions.of_node(node)).manifest
            if ours.settings.get("system_ref") != theirs["root"].get("settings", {}).get("system_ref"):
                yield "another system prompt"
        own = {name: ref_of(config.code[name].source) for name in options.reducers if name in theirs["sources"]}
        if options.manifest is None and any(theirs["sources"][name] != ref for name, ref in own.items()):
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
        if then.manifest.tool_policy != default_policy(config.source):
            config = replace(config, policy=then.manifest.tool_policy)
        return in_force._replace(manifest=then.manifest, missing=then.missing, refused=None), config
