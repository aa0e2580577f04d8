"""The catalog: the tools of the sources that a model may see in one request under the tool policy.

A tool that needs a person's approval is in the catalog if an approval store is bound; a quarantined tool never is, and
a prompt or a resource of an MCP server is in a catalog of its own. The runner decides again at the call: being in a
catalog is visibility, not permission.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from demiurge.tools.display import Table, View, shown
from demiurge.tools.errors import PromptValidationError
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.source import Tools, as_source
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of

__all__ = ["ToolCatalog"]


@shown
@dataclass(frozen=True)
class ToolCatalog:
    """Specs by id, sorted by id so that a request's bytes are stable. Make one with `compile`."""

    tools: Mapping[str, ToolSpec]

    @classmethod
    def compile(
        cls,
        tools: Tools,
        policy: ToolPolicy | None = None,
        approvals_bound: bool = False,
        ctx: ToolPolicyContext | None = None,
        *,
        mcp_items: bool = False,
    ) -> ToolCatalog:
        """Returns the catalog of `tools` under `policy` (None denies all). `mcp_items`: the prompts, resources and
        templates of MCP servers in place of the tools. Raises PromptValidationError if two tools have one id."""
        rules = policy if policy is not None else ToolPolicy()
        caller = ctx if ctx is not None else ToolPolicyContext(run_id="catalog")
        wanted = {"allow", "require_approval"} if approvals_bound else {"allow"}
        found: dict[str, ToolSpec] = {}
        for spec in as_source(tools).specs():
            if spec.name in found:
                raise PromptValidationError(f"two tools have the id {spec.name!r}", code="tool_id_collision")
            found[spec.name] = spec
        shown = (found[name] for name in sorted(found) if not found[name].quarantined)
        shown = (spec for spec in shown if (spec.mcp_item is not None) == mcp_items)
        visible = {spec.name: spec for spec in shown if _decide(rules, caller, spec) in wanted}
        return cls(MappingProxyType(visible))

    def specs(self) -> tuple[ToolSpec, ...]:
        """Returns the specs that are sent to the model."""
        return tuple(self.tools.values())

    def get(self, tool_id: str) -> ToolSpec | None:
        return self.tools.get(tool_id)

    def __contains__(self, tool_id: object) -> bool:
        return tool_id in self.tools

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self.tools.values())

    def __repr__(self) -> str:
        return f"ToolCatalog({', '.join(self.tools)})"

    def _view(self) -> View:
        rows = [(spec.name, str(spec.effect), spec.description, spec.spec_hash[7:19]) for spec in self]
        return View(f"Tools: {len(rows)}", parts=[Table(("tool", "effect", "description", "spec hash"), rows)])

    @cached_property
    def digest(self) -> str:
        """`sha256:<hex>` over the ids and spec hashes: it names the set of tools and their exact wording."""
        return ref_of(canonical_json.encode({spec.name: spec.spec_hash for spec in self}))


def _decide(policy: ToolPolicy, ctx: ToolPolicyContext, spec: ToolSpec) -> str:
    try:
        return policy.decide(ctx, spec.name, spec.effect)
    except Exception:  # noqa: BLE001  (a policy that fails denies)
        return "deny"
