"""`PACK_TOOLS`: the core tools as tools that a model can call, `core__<id>`.

A call reads the workspace through its capability. Its result has the evidence in a receipt; the receipt is valid
because the call is recorded, not because of its id.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from demiurge.registry.evidence import receipt_of
from demiurge.registry.pack import (
    beat_architect,
    canon_checker,
    consistency_checker,
    file_locator,
    file_reader,
    issue_status_summarizer,
    line_editor,
    outline_analyzer,
    prose_analyzer,
    reader_experience_simulator,
    scene_draft_validator,
    scene_impact_analyzer,
    search_issues,
    stakes_mapper,
    task_router,
    timeline_validator,
)
from demiurge.registry.pack.load import core_tool
from demiurge.registry.pack.result import Gathered, GatherError
from demiurge.registry.pack.sources import Sources
from demiurge.tools.capabilities import Issues, Workspaces
from demiurge.tools.context import ToolContext
from demiurge.tools.core.tool import CoreTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["PACK_TOOLS", "PackOutcome"]


@dataclass(frozen=True, slots=True)
class PackOutcome:
    """The outcome of a call of the core tool `tool`. `ok`: True with a `result` and a `receipt`, False with an `error`
    that has a code and a message."""

    tool: str
    ok: bool
    result: dict[str, Any] | None = None
    receipt: dict[str, Any] | None = None
    error: dict[str, str] | None = None

    def render(self) -> str:
        """Returns the outcome as JSON that begins with the tool, without absent parts."""
        present = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(present, ensure_ascii=False)


_REDACTION: Final = Redaction.paths(
    "tool",
    "ok",
    "error.code",
    "error.message",
    "receipt.receipt_id",
    "receipt.evidence.path",
    "receipt.evidence.start_line",
    "receipt.evidence.end_line",
)


def _pack_tool(
    core_id: str,
    description: str,
    params_type: type[Any],
    gather: Callable[..., Awaitable[Gathered]],
    capability: type[Any] | None = Workspaces,
) -> CoreTool[Any, PackOutcome]:
    """Returns the callable of a core tool. `gather` takes the arguments and, if the tool needs a capability, the files
    of the workspace or the issues."""

    async def handle(params: Any, *, context: ToolContext) -> ToolResult[PackOutcome]:
        args = asdict(params)
        if capability is None:
            return await _outcome(core_id, args, gather(params))
        granted = context.resources.get(capability)
        if granted is None:
            raise ToolFailure(ToolErrorCode.UNAVAILABLE)
        source = Sources(granted, workspace=args["workspace"]) if capability is Workspaces else granted
        return await _outcome(core_id, args, gather(params, source))

    return CoreTool(
        name=f"core__{core_id}",
        description=description,
        handler=handle,
        effect=ToolEffect.READ_ONLY,
        redaction=_REDACTION,
        capabilities=() if capability is None else (capability,),
        params_type=params_type,
        result_type=PackOutcome,
    )


async def _outcome(core_id: str, args: dict[str, Any], gathering: Awaitable[Gathered]) -> ToolResult[PackOutcome]:
    try:
        found = await gathering
    except GatherError as error:
        outcome = PackOutcome(core_id, ok=False, error=error.to_json()["error"])
        return ToolResult(message=f"{core_id}: {error.message}", value=outcome)
    receipt = receipt_of(core_id, core_tool(core_id).digest, args, found.evidence)
    outcome = PackOutcome(core_id, ok=True, result=found.value, receipt=receipt.to_json())
    return ToolResult(message=f"{core_id}, receipt {receipt.receipt_id}:", value=outcome)


PACK_TOOLS: Final[tuple[CoreTool[Any, PackOutcome], ...]] = (
    _pack_tool(
        "search_issues",
        "Find issues by tags, assignee, status or priority.",
        search_issues.SearchIssues,
        search_issues.gather,
        Issues,
    ),
    _pack_tool(
        "file_locator",
        "Find files of the workspace by a part of their path, name or text.",
        file_locator.LocateFiles,
        file_locator.gather,
    ),
    _pack_tool(
        "file_reader",
        "Read numbered lines of one file, to quote them.",
        file_reader.ReadLines,
        file_reader.gather,
    ),
    _pack_tool(
        "task_router",
        "Say which role a request is for and what that role needs.",
        task_router.RouteTask,
        task_router.gather,
        None,
    ),
    _pack_tool(
        "canon_checker",
        "Show a scene beside canon files, or list the canon files.",
        canon_checker.CheckCanon,
        canon_checker.gather,
    ),
    _pack_tool(
        "outline_analyzer",
        "List the scenes of an outline with their lines and points of view.",
        outline_analyzer.AnalyzeOutline,
        outline_analyzer.gather,
    ),
    _pack_tool(
        "prose_analyzer",
        "Count the sentences, dialogue, pronouns and repeated words of a scene.",
        prose_analyzer.AnalyzeProse,
        prose_analyzer.gather,
    ),
    _pack_tool(
        "consistency_checker",
        "List the names, terms and times that two to ten files share.",
        consistency_checker.CheckConsistency,
        consistency_checker.gather,
    ),
    _pack_tool(
        "scene_draft_validator",
        "Show a scene with its beat of the outline and its character's card.",
        scene_draft_validator.ValidateDraft,
        scene_draft_validator.gather,
    ),
    _pack_tool(
        "issue_status_summarizer",
        "Show the open issues, their counts and the latest receipts.",
        issue_status_summarizer.SummarizeIssues,
        issue_status_summarizer.gather,
        Issues,
    ),
    _pack_tool(
        "stakes_mapper",
        "Find the sentences that may say what is at stake, in scenes or in the outline.",
        stakes_mapper.MapStakes,
        stakes_mapper.gather,
    ),
    _pack_tool(
        "line_editor",
        "Point at long sentences, filler words, adverbs and repetition in a file or a text.",
        line_editor.EditLines,
        line_editor.gather,
    ),
    _pack_tool(
        "scene_impact_analyzer",
        "Show the opening, the ending and the signals of tension of a scene.",
        scene_impact_analyzer.AnalyzeImpact,
        scene_impact_analyzer.gather,
    ),
    _pack_tool(
        "reader_experience_simulator",
        "Show how scenes begin and end, and how each leads into the next one.",
        reader_experience_simulator.SimulateReader,
        reader_experience_simulator.gather,
    ),
    _pack_tool(
        "timeline_validator",
        "List the lines of files that say when something happens.",
        timeline_validator.ValidateTimeline,
        timeline_validator.gather,
    ),
    _pack_tool(
        "beat_architect",
        "Lay out the beats of a scene from its brief, or list what the brief leaves open.",
        beat_architect.PlanBeats,
        beat_architect.gather,
        None,
    ),
)
"""The core tools, in the order of `CORE_IDS`."""
