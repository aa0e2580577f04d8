"""Model runs on a proposal: a line for each test case as soon as its reply is there, and what is left of the budget."""

from __future__ import annotations

import asyncio
from typing import Final

from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.bootstrap.budget_notices import budgets_near_end
from demiurge.bootstrap.prompt_tools import PromptToolRegistry
from demiurge.cli import output
from demiurge.cli.proposal_lines import result_line
from demiurge.cli.world import Opened
from demiurge.world.review.model_run_unit import MODEL_RUN
from demiurge.world.unit import Unit

__all__ = ["say_budgets", "try_cases"]

_LOOK_EVERY_S: Final = 0.5


def say_budgets(opening: Opened, view: ToolProposalView) -> None:
    """Says which limits of the model runs on a proposal near their end."""
    world, portal = opening
    near = portal.run(budgets_near_end(world.backend, [str(Unit(MODEL_RUN, view.id))]))
    for uses in near.values():
        for use in uses:
            output.notice(use.says)


async def try_cases(
    tools: PromptToolRegistry, proposal_id: str, digest: str | None, provider: str | None, model: str | None
) -> ToolProposalView:
    """Tries the test cases on a model, and returns the proposal. Raises as `PromptToolRegistry.try_cases`."""
    before = await tools.proposal(proposal_id)
    last = before.model_runs["cases"]["number"] if "cases" in before.model_runs else 0
    trying = asyncio.create_task(tools.try_cases(proposal_id, digest or before.digest, provider, model))
    told = 0
    try:
        while not (await asyncio.wait({trying}, timeout=_LOOK_EVERY_S))[0]:
            run = (await tools.proposal(proposal_id)).model_runs.get("cases")
            if run is not None and run["number"] > last:
                for result in run["results"][told:]:
                    told += 1
                    output.notice(f"{told} of {len(run['cases'])}: {result_line(result)}")
        return await trying
    finally:
        trying.cancel()
        await asyncio.gather(trying, return_exceptions=True)
