"""Observing: until a named time, denials and required approvals of the tool policy are recorded and not enforced for
trusted MCP tools, so that a policy can be tried on real work.

Nothing else is lifted: the caps, the world's policy, quarantine, validation, limits, locks, and the denial of a tainted
run (`when_tainted`: `deny`) hold as ever. The end is in the manifest and the time in the stamp, so replay decides the
same, and observing ends by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Final

from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import Decision, ToolPolicy, ToolPolicyContext
from demiurge.world.manifest import Manifest

__all__ = ["LONGEST_NS", "MCP_TOOL", "ObservingPolicy", "observing_policy", "policy_at"]

LONGEST_NS: Final = 30 * 24 * 3600 * 10**9
"""The longest time for which a world can observe: 30 days."""

MCP_TOOL: Final = "mcp__"
"""The prefix of the ids of MCP tools."""


@dataclass(frozen=True)
class ObservingPolicy(ToolPolicy):
    """A tool policy that allows the calls of the `observed` tools, whatever its lines say."""

    observed: Collection[str] = frozenset()

    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        decision = super().decide(ctx, tool_id, effect)
        is_kept = ctx.tainted and self.when_tainted.get(effect) == "deny"
        return "allow" if tool_id in self.observed and not is_kept else decision


def policy_at(manifest: Manifest, now_ns: int) -> ToolPolicy:
    """Returns the tool policy that is enforced under a manifest at a time."""
    if manifest.observe_until_ns is None or now_ns >= manifest.observe_until_ns:
        return manifest.tool_policy
    trusted = {name for name, spec in manifest.toolset.items() if not spec.quarantined}
    return observing_policy(manifest.tool_policy, trusted)


def observing_policy(policy: ToolPolicy, trusted: Collection[str]) -> ToolPolicy:
    """Returns the policy that is enforced while its decisions on the MCP tools among the `trusted` are observed."""
    observed = frozenset(name for name in trusted if name.startswith(MCP_TOOL))
    return ObservingPolicy(**{each.name: getattr(policy, each.name) for each in fields(ToolPolicy)}, observed=observed)
