"""The test cases of a proposal on a model, with a line for each case as soon as its reply is there."""

from __future__ import annotations

import asyncio
from typing import Final

from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.bootstrap.prompt_tools import PromptToolRegistry
from demiurge.cli import output
from demiurge.cli.proposal_lines import result_line

__all__ = ["try_cases"]

_LOOK_EVERY_S: Final = 0.5


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
