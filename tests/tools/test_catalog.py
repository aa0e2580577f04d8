"""What a model may see is the tools that the policy lets through, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demiurge.tools import (
    Tool,
    ToolCatalog,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
)


@dataclass(frozen=True)
class Nothing:
    pass


def handle(params: Nothing, *, context: ToolContext) -> ToolResult[None]:
    return ToolResult(message="done")


def make_tool(name: str, effect: ToolEffect = ToolEffect.READ_ONLY) -> Tool[Any, Any]:
    return Tool[Nothing, None](name=name, description="d", handler=handle, effect=effect)


TOOLS = [make_tool("zeta"), make_tool("alpha"), make_tool("change", ToolEffect.STATE_CHANGE)]
POLICY = ToolPolicy(("zeta", "change", "absent"), (ToolEffect.STATE_CHANGE,))


def names(catalog: ToolCatalog) -> list[str]:
    return [spec.name for spec in catalog.specs()]


def test_catalog_is_tools_that_the_policy_allows() -> None:
    assert names(ToolCatalog.compile(TOOLS, POLICY)) == ["zeta"]
    assert names(ToolCatalog.compile(TOOLS)) == []


def test_approval_tools_are_in_it_exactly_when_somebody_can_be_asked() -> None:
    assert names(ToolCatalog.compile(TOOLS, POLICY, approvals_bound=True)) == ["change", "zeta"]


def test_a_catalog_is_sorted_and_its_digest_depends_on_the_wording() -> None:
    everything = ToolPolicy(("alpha", "zeta"))
    one, two = ToolCatalog.compile(TOOLS, everything), ToolCatalog.compile(TOOLS[::-1], everything)
    assert names(one) == ["alpha", "zeta"]
    assert one.digest == two.digest
    assert one.digest != ToolCatalog.compile(TOOLS, POLICY).digest
    assert "alpha" in one
    assert one.get("change") is None
    assert len(one) == 2


class Broken(ToolPolicy):
    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Any:
        raise RuntimeError


def test_a_policy_that_breaks_shows_nothing() -> None:
    assert names(ToolCatalog.compile(TOOLS, Broken(("zeta",)))) == []
