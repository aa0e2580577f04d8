"""Tests of the proposal that a changed entry of a layer file becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.registry.prompt_tools import prompt_tools, tool_of

from demiurge.registry.layer_proposal import layer_proposal, layer_proposal_id
from demiurge.registry.layers import LayerChange, LayerFile, layer_changes
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import read_proposal

BASE = tool_of(name="Old name").digest


@given(prompt_tools())
def test_any_entry_makes_a_sound_proposal(tool: PromptTool) -> None:
    for pinned, file, live in (
        ({}, LayerFile((tool,)), None),
        ({tool.id: BASE}, LayerFile((tool,)), None),
        ({tool.id: tool.digest}, LayerFile(()), tool),
    ):
        (change,) = layer_changes(pinned, file, LayerFile((live,) if live is not None else ()))
        proposal = layer_proposal("user", change, live)
        assert read_proposal(proposal.to_json()).digest == proposal.digest
        assert (proposal.kind, proposal.base) == (change.kind, change.base)
        assert all(case.is_manual for case in proposal.test_cases)


def test_a_proposal_says_which_file_it_comes_from() -> None:
    proposal = layer_proposal("project", LayerChange("new", "scene_pacer", tool_of(), None), None)
    assert proposal.target == "project"
    assert proposal.rationale.startswith("The layer file of the project has this tool")


def test_the_same_change_has_one_id_until_a_version_was_approved() -> None:
    changes = [
        LayerChange("new", "scene_pacer", tool_of(), None),
        LayerChange("modify", "scene_pacer", tool_of(), BASE),
        LayerChange("delete", "scene_pacer", None, BASE),
        LayerChange("new", "scene_pacer", tool_of(goals=""), None),
    ]
    ids = {
        layer_proposal_id(layer, each, count) for layer in ("user", "project") for each in changes for count in (0, 1)
    }
    assert len(ids) == 16
    assert layer_proposal_id("user", changes[0], 0) == layer_proposal_id("user", changes[0], 0)


def test_a_deletion_needs_the_tool() -> None:
    with pytest.raises(ValueError, match="needed"):
        layer_proposal("user", LayerChange("delete", "scene_pacer", None, BASE), None)
