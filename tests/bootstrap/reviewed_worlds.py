"""Worlds with approved prompt tools, and the files of their user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.registry.proposals import proposal_of

from demiurge import World
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import read_proposal

__all__ = ["approve", "change_of", "live", "opened", "proposals", "propose", "tool_in", "user_file"]

PROPOSAL = "sys/ToolProposal@1"


def opened(folder: Path) -> World:
    """Opens the world in `folder`; the home of its user is beside it."""
    return World.open(folder, environment={"HOME": str(folder.parent)})


def user_file(folder: Path) -> Path:
    """Returns the place of the layer file of the user of the world in `folder`."""
    return folder.parent / ".config" / "demiurge" / "prompts" / "tools.json"


async def proposals(world: World) -> dict[str, Mapping[str, Any]]:
    """Returns the states of all proposals by id."""
    found = {key: await world.state(PROPOSAL, key) for key in await world.keys(PROPOSAL)}
    return {key: cell for key, cell in found.items() if cell is not None}


async def propose(world: World, name: str, **changed: Any) -> None:
    """Submits a proposal as the user."""
    body = read_proposal(proposal_of(**changed)).encode()
    value = {"proposal_id": name, "body_ref": world.blobs.put(body)}
    await world.submit("sys/ToolProposalSubmit@1", value)


async def approve(world: World, name: str) -> None:
    """Skips the review of a proposal, judges its manual cases, and approves it, as the user."""
    await world.settle()
    cell = (await proposals(world))[name]
    about = {"proposal_id": name, "digest": cell["body_ref"]}
    await world.submit("sys/ToolProposalSkip@1", {**about, "reason": "A test."})
    for case in cell["manual"]:
        verdict = {**about, "case": case, "passed": True, "note": "Seen."}
        await world.submit("sys/ToolProposalVerdict@1", verdict)
    await world.submit("sys/ToolProposalDecide@1", {**about, "verdict": "approve", "reason": "", "read": True})
    await world.settle()
    assert (await proposals(world))[name]["state"] == "approved", (await proposals(world))[name]


async def live(world: World) -> dict[str, str]:
    """Returns the digests of the live tools, by layer and id."""
    cell = await world.state("sys/ToolRegistry@1", "main")
    return {} if cell is None else {key: entry["digest"] for key, entry in cell["live"].items()}


async def change_of(world: World, **changed: Any) -> dict[str, Any]:
    """Returns a proposal that changes the version of a tool that is live."""
    given = proposal_of(**{"proposalType": "modify", **changed})
    versions = await world.prompt_tools.history(given["id"])
    return {"baseHash": next(version.digest for version in versions if version.is_live), **given}


def tool_in(**changed: Any) -> PromptTool:
    """Returns the tool of the proposal that `propose` submits."""
    return read_proposal(proposal_of(**changed)).tool
