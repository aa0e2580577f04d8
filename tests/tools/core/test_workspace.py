"""Workspace tools: path rules here, storage behind the capability."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from demiurge.tools import (
    CORE_TOOLS,
    ToolExecResult,
    ToolPolicy,
    ToolRunner,
    ToolUserError,
    WorkspaceCommit,
    WorkspaceEntry,
    WorkspaceFile,
    Workspaces,
)

IDS = ("workspace__list", "workspace__read", "workspace__write")


class Shelf:
    """Workspaces in a dict."""

    def __init__(self) -> None:
        self.files = {("main", "docs/plan.md"): "the plan", ("main", "todo.txt"): "milk"}
        self.version = 1
        self.listed: list[str] = []

    async def list(self, path: str, *, workspace: str) -> Sequence[WorkspaceEntry]:
        self.listed.append(path)
        inside = f"{path}/" if path else ""
        names = [file for space, file in self.files if space == workspace and file.startswith(inside)]
        return [WorkspaceEntry(name, "file", len(self.files[workspace, name])) for name in names]

    async def read(self, path: str, *, workspace: str) -> WorkspaceFile:
        if (workspace, path) not in self.files:
            raise ToolUserError(f"There is no file {path} in workspace {workspace}.")
        text = self.files[workspace, path]
        return WorkspaceFile(path, text, self.version, len(text.encode()))

    async def write(self, path: str, text: str, *, workspace: str, expected_version: int | None) -> WorkspaceCommit:
        if expected_version not in (None, self.version):
            return WorkspaceCommit(path, self.version, False, expected_version, self.version)
        self.files[workspace, path] = text
        self.version += 1
        return WorkspaceCommit(path, self.version, True)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


async def call(shelf: Shelf, tool_id: str, args: dict[str, Any]) -> ToolExecResult:
    runner = ToolRunner(CORE_TOOLS, policy=ToolPolicy(IDS), resources={Workspaces: shelf})
    return await runner.exec(tool_id, args)


@pytest.mark.parametrize("path", ["", ".", "/", "./", " / "])
async def test_the_root_has_many_names(shelf: Shelf, path: str) -> None:
    result = await call(shelf, "workspace__list", {"path": path})
    assert shelf.listed == [""]
    assert [entry["path"] for entry in result.value["entries"]] == ["docs/plan.md", "todo.txt"]


@pytest.mark.parametrize("path", ["docs", "/docs", "./docs/", "docs/"])
async def test_a_folder_is_normalised_for_list(shelf: Shelf, path: str) -> None:
    result = await call(shelf, "workspace__list", {"path": path})
    assert (shelf.listed, result.value["path"]) == (["docs"], "docs")


@pytest.mark.parametrize("path", ["", "..", "a/../b", "/todo.txt", "a//b", "a/", "a b", "é", "a\n", "a\\b", "."])
@pytest.mark.parametrize("tool_id", ["workspace__read", "workspace__write"])
async def test_a_path_out_of_form_never_reaches_the_adapter(shelf: Shelf, tool_id: str, path: str) -> None:
    before = dict(shelf.files)
    args = {"path": path, "text": "x"} if tool_id.endswith("write") else {"path": path}
    result = await call(shelf, tool_id, args)
    assert (result.error_code, shelf.files) == ("execution", before)
    assert "names joined by /" in str(result.safe_message)


async def test_list_does_not_climb(shelf: Shelf) -> None:
    for path in ("..", "/../x", "a/../.."):
        assert not (await call(shelf, "workspace__list", {"path": path})).ok
    assert not (await call(shelf, "workspace__list", {"workspace": "../other"})).ok
    assert shelf.listed == []


async def test_read_shows_the_model_the_text_and_the_public_only_where(shelf: Shelf) -> None:
    result = await call(shelf, "workspace__read", {"path": "docs/plan.md"})
    assert result.content == "docs/plan.md, version 1:\n\nthe plan"
    assert result.value == {"workspace": "main", "path": "docs/plan.md", "version": 1, "size": 8}
    missing = await call(shelf, "workspace__read", {"path": "docs/x"})
    assert missing.safe_message == "There is no file docs/x in workspace main."


async def test_write_and_a_conflict_which_is_a_result(shelf: Shelf) -> None:
    result = await call(shelf, "workspace__write", {"path": "new.md", "text": "hello"})
    assert (result.value["ok"], result.value["version"]) == (True, 2)
    assert shelf.files["main", "new.md"] == "hello"
    late = await call(shelf, "workspace__write", {"path": "new.md", "text": "no", "expected_version": 1})
    assert (late.ok, late.value["ok"], late.value["expected"], late.value["actual"]) == (True, False, 1, 2)
    assert shelf.files["main", "new.md"] == "hello"
    assert "hello" not in json.dumps(result.value)


async def test_without_the_capability_the_tool_is_unavailable() -> None:
    runner = ToolRunner(CORE_TOOLS, policy=ToolPolicy(IDS))
    assert (await runner.exec("workspace__list", {})).error_code == "unavailable"


@pytest.mark.parametrize("version", [-1, 2**53, 10**30])
async def test_a_version_that_no_workspace_can_have_is_refused_before_anything_runs(shelf: Shelf, version: int) -> None:
    result = await call(shelf, "workspace__write", {"path": "a", "text": "x", "expected_version": version})
    assert result.error_code == "validation"
    assert result.safe_message is not None
    assert "expected_version: must be at " in result.safe_message
    assert ("main", "a") not in shelf.files


@pytest.mark.parametrize("version", [0, 2**53 - 1])
async def test_the_versions_at_the_edge_are_compared(shelf: Shelf, version: int) -> None:
    result = await call(shelf, "workspace__write", {"path": "a", "text": "x", "expected_version": version})
    assert (result.ok, result.value["ok"], result.value["expected"]) == (True, False, version)
