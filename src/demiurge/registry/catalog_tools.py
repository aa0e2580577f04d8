"""`core__prompt_tool` and `core__propose_tool`: a model reads an approved prompt tool, and proposes one.

A proposal is all that an agent can do to the registry. What it proposes is checked, reviewed, and decided on by people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from demiurge.registry.catalog_text import PROMPT_TOOL, tool_text
from demiurge.registry.core_ids import CORE_IDS, core_id_of
from demiurge.registry.prompt_tool import PromptTool
from demiurge.tools.capabilities import PromptTools
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["CATALOG_TOOLS", "PROPOSE_TOOL"]

PROPOSE_TOOL: Final = "core__propose_tool"


@dataclass(frozen=True, slots=True)
class ReadPromptTool:
    id: str = field(metadata={"description": "The id of the prompt tool, as the catalog names it."})


@dataclass(frozen=True, slots=True)
class PromptToolText:
    """The whole text of an approved prompt tool. `digest` names this version of it."""

    id: str
    name: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class ProposedExample:
    input: str
    expected: str


@dataclass(frozen=True, slots=True)
class ProposedCase:
    """A test case: a `reply` with the regular expressions that it must or must not match, or a `check` for a person."""

    id: str
    should: Literal["pass", "fail"]
    check: str | None = None
    reply: str | None = None
    must_match: tuple[str, ...] = ()
    must_not_match: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        patterns = {"must_match": list(self.must_match), "must_not_match": list(self.must_not_match)}
        expect = {name: value for name, value in patterns.items() if value}
        found = {"id": self.id, "should": self.should, "check": self.check, "reply": self.reply}
        present = {name: value for name, value in found.items() if value is not None}
        return {**present, "expect": expect} if expect else present


@dataclass(frozen=True, slots=True)
class ProposePromptTool:
    id: str = field(metadata={"description": "3 to 48 lower-case letters, digits and '_'; no core tool's id."})
    name: str
    usage_notes: str = field(metadata={"description": "When to use it, in one line."})
    prompt: str = field(metadata={"description": "The instructions."})
    rationale: str = field(metadata={"description": "Why the tool is needed, in 20 to 2000 characters."})
    examples: tuple[ProposedExample, ...] = field(metadata={"description": "Two or three requests and good answers."})
    test_cases: tuple[ProposedCase, ...] = field(
        metadata={"description": "At least one that should pass and one that should fail."}
    )
    archetype: str = ""
    scope: str = ""
    goals: str = ""
    guardrails: str = ""
    change: Literal["new", "modify"] = "new"
    base_digest: str | None = field(
        default=None, metadata={"description": "Of a change: the digest of the tool that you read."}
    )
    revises: str | None = field(default=None, metadata={"description": "A proposal of yours that was returned."})

    def to_json(self) -> dict[str, Any]:
        """Returns the proposal as a file holds it."""
        texts = ("id", "name", "archetype", "scope", "goals", "guardrails", "prompt", "rationale")
        found = {name: getattr(self, name) for name in texts}
        found |= {"usageNotes": self.usage_notes, "proposalType": self.change}
        found |= {"examples": [asdict(example) for example in self.examples]}
        found |= {"testCases": [case.to_json() for case in self.test_cases]}
        return found if self.base_digest is None else {**found, "baseHash": self.base_digest}


@dataclass(frozen=True, slots=True)
class SubmittedProposal:
    """A proposal that was taken. It is not live; `digest` names this revision."""

    proposal: str
    state: str
    digest: str


async def _read(params: ReadPromptTool, *, context: ToolContext) -> ToolResult[PromptToolText]:
    wanted = core_id_of(params.id) or params.id
    record = next((record for record in await _registry(context).tools() if record["id"] == wanted), None)
    if record is None:
        raise ToolUserError("The catalog of this turn has no prompt tool with this id.")
    tool = PromptTool.from_json(record)
    runs_as = (
        f"It runs as core__{tool.id}, if that tool is offered to you." if tool.id in CORE_IDS else "It is text alone."
    )
    value = PromptToolText(tool.id, tool.name, tool.digest, tool_text(tool))
    return ToolResult(message=f"The prompt tool. {runs_as}", value=value)


async def _propose(params: ProposePromptTool, *, context: ToolContext) -> ToolResult[SubmittedProposal]:
    taken: Mapping[str, Any] = await _registry(context).propose(params.to_json(), revises=params.revises)
    value = SubmittedProposal(taken["proposal"], taken["state"], taken["digest"])
    return ToolResult(message="The proposal waits for a review. It is not live.", value=value)


def _registry(context: ToolContext) -> PromptTools:
    found: Any = context.resources.get(PromptTools)
    if found is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    registry: PromptTools = found
    return registry


CATALOG_TOOLS: Final = (
    CoreTool[ReadPromptTool, PromptToolText](
        name=PROMPT_TOOL,
        description="Read the whole text of a prompt tool that the catalog lists, before you follow it.",
        handler=_read,
        effect=ToolEffect.READ_ONLY,
        redaction=Redaction.allow("id", "name", "digest"),
        capabilities=(PromptTools,),
    ),
    CoreTool[ProposePromptTool, SubmittedProposal](
        name=PROPOSE_TOOL,
        description="Propose a new prompt tool, or a change of one. People review it; it is not live by this.",
        handler=_propose,
        effect=ToolEffect.STATE_CHANGE,
        redaction=Redaction.allow("proposal", "state", "digest"),
        capabilities=(PromptTools,),
    ),
)
"""The tools by which a model reads the catalog, and proposes."""
