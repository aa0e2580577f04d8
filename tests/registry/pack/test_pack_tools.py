"""The core tools as calls: a receipt for each answer, one form of errors, and private texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from tests.registry.pack.story_files import STORY
from tests.registry.pack.workspace_folder import FolderWorkspaces, put

from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.evidence import receipt_from_json
from demiurge.registry.pack.load import core_tool
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.tools import ToolExecResult, ToolPolicy, ToolRunner, Workspaces
from demiurge.tools.capabilities import FoundIssues, Issues, IssueSummary, ReceiptSummary

ONE, TWO = "Story/SCN-scene-1-mara.md", "Story/SCN-low-tide.md"

ARGS: Final[dict[str, dict[str, Any]]] = {
    "search_issues": {"tags": ["canon"]},
    "file_locator": {"search_criteria": "tide", "scan_mode": "DEEP_SCAN"},
    "file_reader": {"file_path": ONE},
    "task_router": {"user_request": "Check the timeline."},
    "canon_checker": {"scene_path": ONE, "canon_paths": ["Compendium/characters/CHAR-mara.md"]},
    "outline_analyzer": {},
    "prose_analyzer": {"scene_path": ONE},
    "consistency_checker": {"file_paths": [ONE, TWO]},
    "scene_draft_validator": {"scene_path": ONE},
    "issue_status_summarizer": {},
    "stakes_mapper": {"scene_paths": [ONE]},
    "line_editor": {"file_path": ONE},
    "scene_impact_analyzer": {"scene_path": ONE},
    "reader_experience_simulator": {"scene_paths": [ONE, TWO]},
    "timeline_validator": {"file_paths": [ONE, TWO]},
    "beat_architect": {"scene_brief": "Mara leaves."},
}
NO_FILES = {"search_issues", "task_router", "issue_status_summarizer", "beat_architect"}


class Board:
    """A list of issues and receipts."""

    async def search(self, *, status: str | None = None) -> FoundIssues:
        found = [
            IssueSummary("7", "Old gate", "open", "high", "ann", ("canon",), 1, 2),
            IssueSummary("8", "New gate", "closed", "low", "bo", ("canon", "gate"), 3, 4),
        ]
        return FoundIssues([issue for issue in found if status in (None, issue.status)])

    async def recent_receipts(self, *, limit: int) -> Sequence[ReceiptSummary]:
        return [ReceiptSummary("rcpt_" + "0" * 32, "file_reader", "agent:ann", 5, (ONE,))][:limit]


async def call(folder: Path, core_id: str, args: dict[str, Any]) -> ToolExecResult:
    put(folder / "main", STORY)
    resources = {Workspaces: FolderWorkspaces(folder), Issues: Board()}
    runner = ToolRunner(PACK_TOOLS, policy=ToolPolicy(tuple(f"core__{one}" for one in CORE_IDS)), resources=resources)
    return await runner.exec(f"core__{core_id}", args)


async def outcome(folder: Path, core_id: str, args: dict[str, Any]) -> dict[str, Any]:
    """Returns the outcome that the model reads."""
    content = (await call(folder, core_id, args)).content
    found: dict[str, Any] = json.loads(content.partition("\n\n")[2])
    return found


@pytest.mark.parametrize("core_id", CORE_IDS)
async def test_a_call_has_a_result_and_an_intact_receipt(tmp_path: Path, core_id: str) -> None:
    found = await outcome(tmp_path, core_id, ARGS[core_id])
    assert list(found) == ["tool", "ok", "result", "receipt"]
    assert (found["tool"], found["ok"]) == (core_id, True)
    receipt = receipt_from_json(found["receipt"])
    assert (receipt.tool, receipt.tool_sha256) == (core_id, core_tool(core_id).digest)
    assert bool(receipt.evidence) == (core_id not in NO_FILES)
    assert found == await outcome(tmp_path, core_id, ARGS[core_id])


@pytest.mark.parametrize("core_id", [one for one in CORE_IDS if one not in ("search_issues",)])
async def test_a_dry_run_has_a_receipt_without_evidence(tmp_path: Path, core_id: str) -> None:
    found = await outcome(tmp_path, core_id, {**ARGS[core_id], "dry_run": True})
    assert found["result"]["dry_run"] is True
    assert found["receipt"]["evidence"] == []


@pytest.mark.parametrize(
    ("core_id", "args", "code"),
    [
        ("prose_analyzer", {"scene_path": "none.md"}, "unreadable"),
        ("file_reader", {"file_path": "../secret.md"}, "invalid_path"),
        ("consistency_checker", {"file_paths": [ONE]}, "invalid_args"),
        ("line_editor", {}, "invalid_args"),
        ("beat_architect", {"scene_brief": " "}, "invalid_args"),
    ],
)
async def test_a_fault_is_one_error_with_a_code_and_a_sentence(
    tmp_path: Path, core_id: str, args: dict[str, Any], code: str
) -> None:
    found = await outcome(tmp_path, core_id, args)
    assert (set(found), found["ok"], found["error"]["code"]) == ({"tool", "ok", "error"}, False, code)
    assert found["error"]["message"].endswith(".")


async def test_texts_of_files_are_private_and_paths_are_public(tmp_path: Path) -> None:
    result = await call(tmp_path, "file_reader", {"file_path": ONE})
    public = str(result.value)
    assert ONE in public
    assert "rcpt_" in public
    assert "Mara waited" not in public
    assert "Mara waited" in result.content
