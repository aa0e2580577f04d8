"""The tools for the catalog of prompt tools, without a world: what they take, what they show, and what they ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.registry.proposals import proposal_of

from demiurge.registry.catalog_text import PROMPT_TOOL
from demiurge.registry.catalog_tools import CATALOG_TOOLS, PROPOSE_TOOL
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import read_proposal
from demiurge.tools import ToolExecResult, ToolPolicy, ToolRunner
from demiurge.tools.capabilities import PromptTools
from demiurge.tools.errors import ToolErrorCode

PACER = read_proposal(proposal_of()).tool
CASES = [
    {"id": "quotes", "should": "pass", "reply": '"She waited."', "must_match": ['"']},
    {"id": "look", "should": "fail", "check": "Is it kind?"},
]
GIVEN = {
    "id": "scene_pacer",
    "name": "Scene pacer",
    "usage_notes": "When a scene feels slow.",
    "prompt": "Read the scene.",
    "rationale": "Editors ask for it several times a week.",
    "examples": [{"input": "Is it slow?", "expected": "A list."}, {"input": "Check it.", "expected": "A list."}],
    "test_cases": CASES,
}


class Shelf:
    """The approved tools, and what was proposed."""

    def __init__(self, *tools: PromptTool) -> None:
        self.taken: list[tuple[Mapping[str, Any], str | None]] = []
        self._tools = tools

    async def tools(self) -> Sequence[Mapping[str, str]]:
        return [tool.to_json() for tool in self._tools]

    async def propose(self, proposal: Mapping[str, Any], *, revises: str | None = None) -> Mapping[str, Any]:
        self.taken.append((proposal, revises))
        return {"proposal": "p1", "state": "chief_review", "digest": "sha256:00"}


async def call(tool: str, arguments: Mapping[str, Any], shelf: Shelf | None = None) -> ToolExecResult:
    resources = {} if shelf is None else {PromptTools: shelf}
    runner = ToolRunner(CATALOG_TOOLS, policy=ToolPolicy((PROMPT_TOOL, PROPOSE_TOOL)), resources=resources)
    return await runner.exec(tool, json.dumps(arguments))


async def test_the_text_of_a_tool_is_for_the_model_alone() -> None:
    result = await call(PROMPT_TOOL, {"id": "scene_pacer"}, Shelf(PACER))
    assert result.value == {"id": "scene_pacer", "name": "Scene pacer", "digest": PACER.digest}
    assert PACER.prompt in result.content
    assert PACER.prompt not in json.dumps(result.record.public())


@pytest.mark.parametrize("wanted", ["other", "", "scene pacer", "SCENE_PACER"])
async def test_a_tool_is_read_by_its_exact_id(wanted: str) -> None:
    result = await call(PROMPT_TOOL, {"id": wanted}, Shelf(PACER))
    assert (result.ok, result.error_code) == (False, ToolErrorCode.EXECUTION)
    assert result.safe_message == "The catalog of this turn has no prompt tool with this id."


async def test_a_proposal_is_submitted_as_a_file_holds_it() -> None:
    shelf = Shelf()
    result = await call(PROPOSE_TOOL, GIVEN, shelf)
    assert result.value == {"proposal": "p1", "state": "chief_review", "digest": "sha256:00"}
    assert "not live" in result.content
    [(file, revises)] = shelf.taken
    assert (file["usageNotes"], file["proposalType"], revises) == (GIVEN["usage_notes"], "new", None)
    assert file["testCases"] == [
        {"id": "quotes", "should": "pass", "reply": '"She waited."', "expect": {"must_match": ['"']}},
        {"id": "look", "should": "fail", "check": "Is it kind?"},
    ]
    proposal = read_proposal(file)
    assert ([case.is_manual for case in proposal.test_cases], proposal.base) == ([False, True], None)


async def test_a_change_names_the_version_that_it_changes_and_a_revision_its_proposal() -> None:
    shelf = Shelf()
    changed = {**GIVEN, "change": "modify", "base_digest": PACER.digest, "revises": "p1"}
    assert (await call(PROPOSE_TOOL, changed, shelf)).ok
    [(file, revises)] = shelf.taken
    assert (file["proposalType"], file["baseHash"], revises) == ("modify", PACER.digest, "p1")


@pytest.mark.parametrize(
    "field", ["state", "submitted_by", "roles", "approve", "target", "digest", "layer", "locked", "verdict"]
)
async def test_a_call_can_not_say_who_proposes_or_what_becomes_of_it(field: str) -> None:
    shelf = Shelf()
    result = await call(PROPOSE_TOOL, {**GIVEN, field: "user"}, shelf)
    assert (result.ok, result.error_code, shelf.taken) == (False, ToolErrorCode.VALIDATION, [])


async def test_an_agent_does_not_propose_to_delete_a_tool() -> None:
    result = await call(PROPOSE_TOOL, {**GIVEN, "change": "delete"}, Shelf())
    assert (result.ok, result.error_code) == (False, ToolErrorCode.VALIDATION)


@pytest.mark.parametrize(("tool", "given"), [(PROMPT_TOOL, {"id": "x"}), (PROPOSE_TOOL, GIVEN)])
async def test_without_a_registry_both_are_unavailable(tool: str, given: Mapping[str, Any]) -> None:
    result = await call(tool, given)
    assert (result.ok, result.error_code) == (False, ToolErrorCode.UNAVAILABLE)
