"""A copy of a tool, as the proposal file that a person goes on from."""

from __future__ import annotations

from tests.registry.prompt_tools import tool_of

from demiurge.registry.proposal import read_proposal
from demiurge.registry.tool_copy import copy_of


def test_a_copy_is_a_whole_proposal_with_the_text_of_its_origin() -> None:
    tool = tool_of()
    body = copy_of(tool, "own_pacer", "Ours has other goals.", "project")
    proposal = read_proposal(body)
    assert (proposal.kind, proposal.tool.id, proposal.tool.name) == ("new", "own_pacer", "Own pacer")
    assert (proposal.tool.prompt, proposal.tool.goals) == (tool.prompt, tool.goals)
    assert (proposal.rationale, proposal.target) == ("Ours has other goals.", "project")
    assert [tool.id in example["expected"] for example in body["examples"]] == [True, True]
    assert ["own_pacer" in example["input"] for example in body["examples"]] == [True, True]
    assert [(case["id"], case["should"]) for case in body["testCases"]] == [
        ("as_its_origin", "pass"),
        ("other_tool", "fail"),
    ]
