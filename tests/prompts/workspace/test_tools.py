"""The six tools as a model meets them: through the runner, in words, and in portions that say how to go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demiurge import faults
from demiurge.filesystems import FolderFilesystem, InMemoryFilesystem
from demiurge.filesystems.files import TreeFilesystem
from demiurge.prompts.workspace import workspace_tools
from demiurge.tools import Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner
from demiurge.tools.filesystem import Filesystem
from demiurge.tools.record import ToolExecResult

TOOLS = workspace_tools()


def runner(files: Filesystem | None, *more: Tool[Any, Any]) -> ToolRunner:
    tools = (*TOOLS, *more)
    resources: Mapping[Any, Any] = {} if files is None else {Filesystem: files}
    return ToolRunner(tools, policy=ToolPolicy(tuple(tool.name for tool in tools)), resources=resources)


def call(files: Filesystem | None, tool: str, **args: Any) -> ToolExecResult:
    return runner(files).exec_sync(tool, args)


def content_of(files: Filesystem, tool: str, **args: Any) -> str:
    """What the model reads."""
    result = call(files, tool, **args)
    assert result.ok, result.safe_message
    return result.content


def refusal_of(files: Filesystem, tool: str, **args: Any) -> str:
    result = call(files, tool, **args)
    assert not result.ok
    return result.safe_message or ""


@pytest.fixture
def files() -> InMemoryFilesystem:
    return InMemoryFilesystem({"docs/notes.md": "# Notes\n\nBuy bolts.\n", "src/app.py": "import os\n", "empty": ""})


def test_workspace_tools_have_fixed_names_effects_and_override_flags() -> None:
    assert [tool.name for tool in TOOLS] == ["ls", "read_file", "write_file", "edit_file", "glob", "grep"]
    changing = {tool.name for tool in TOOLS if tool.effect is not ToolEffect.READ_ONLY}
    assert changing == {"write_file", "edit_file"}
    assert all(tool.effect is not ToolEffect.EXTERNAL_SIDE_EFFECT for tool in TOOLS)
    assert [tool.name for tool in workspace_tools(read_only=True)] == ["ls", "read_file", "glob", "grep"]
    assert not any(tool.accepts_overrides for tool in TOOLS)
    assert all(tool.accepts_overrides for tool in workspace_tools(accepts_overrides=True))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_parameter_is_described_and_every_tool_has_an_example(tool: Tool[Any, Any]) -> None:
    assert all(entry.get("description") for entry in tool.spec.input_schema["properties"].values())
    assert tool.examples


def test_without_files_they_are_not_available() -> None:
    for name, args in (("ls", {}), ("write_file", {"path": "a", "text": ""})):
        assert call(None, name, **args).error_code == "unavailable"


def test_ls_lists_a_folder_up_to_its_limit(files: InMemoryFilesystem) -> None:
    assert content_of(files, "ls") == "3 entries in the top folder.\n\ndocs/\nempty (0 bytes)\nsrc/"
    assert content_of(files, "ls", path="./docs/").endswith("\n\ndocs/notes.md (20 bytes)")
    files.mkdir("none")
    assert content_of(files, "ls", path="none") == "No entry in none."
    for number in range(300):
        files.write(f"many/{number:03}", "")
    text = content_of(files, "ls", path="many")
    assert text.startswith("The first 200 entries in many.")
    assert text.endswith("many/199 (0 bytes)\nMore is not shown: use glob.")


def test_reading_shows_numbers_and_how_to_go_on(files: InMemoryFilesystem) -> None:
    assert content_of(files, "read_file", path="docs/notes.md") == (
        "docs/notes.md, lines 1 to 3 of 3:\n\n     1\t# Notes\n     2\t\n     3\tBuy bolts."
    )
    part = content_of(files, "read_file", path="docs/notes.md", first_line=2, lines=1)
    assert part.endswith("of 3:\n\n     2\t\nThere are 3 lines: go on with first_line=3.")
    assert content_of(files, "read_file", path="empty") == "empty is empty."
    assert (
        refusal_of(files, "read_file", path="docs/notes.md", first_line=4) == "docs/notes.md has no line 4: it has 3."
    )
    for wrong in ({"first_line": 0}, {"lines": 0}, {"lines": 2001}):
        assert "counts from 1" in refusal_of(files, "read_file", path="docs/notes.md", **wrong)


def test_a_long_file_is_read_in_portions_that_add_up(files: InMemoryFilesystem) -> None:
    lines = [f"{number} " + "x" * (number % 90) for number in range(6_000)]
    files.write("long", "\n".join(lines))
    read: list[str] = []
    next_line: int | None = 1
    while next_line is not None:
        result = call(files, "read_file", path="long", first_line=next_line, lines=2_000)
        assert len(result.content) < 100_000
        read += [line.partition("\t")[2] for line in result.content.split("\n")[2:] if "\t" in line]
        next_line = result.value["next_line"]
    assert read == lines


@pytest.mark.parametrize("after", ["", "\n", "\nshort\n"])
def test_a_line_that_is_too_long_is_cut_and_says_so(files: InMemoryFilesystem, after: str) -> None:
    files.write("wide", "x" * 100_000 + after)
    text = content_of(files, "read_file", path="wide")
    assert "x… (98000 more characters in this line)" in text
    assert ("go on with first_line=2" in text) == (after == "\nshort\n")


def test_write_file_creates_appends_and_refuses_to_create_twice(files: InMemoryFilesystem) -> None:
    assert content_of(files, "write_file", path="new/a", text="1\n").startswith("Wrote new/a, now 2 bytes.")
    assert content_of(files, "write_file", path="new/a", text="2\n", mode="append").startswith(
        "Added to new/a, now 4 bytes."
    )
    assert "already" in refusal_of(files, "write_file", path="new/a", text="", mode="create")
    assert call(files, "write_file", path="new/a", text="", mode="else").error_code == "validation"
    assert files.read("new/a").text == "1\n2\n"


def test_edit_file_replaces_one_place_or_all(files: InMemoryFilesystem) -> None:
    edit = {"path": "docs/notes.md", "old_text": "o", "new_text": "0"}
    assert "2 times in docs/notes.md" in refusal_of(files, "edit_file", **edit)
    assert content_of(files, "edit_file", **edit, replace_all=True).startswith("Replaced 2 places of docs/notes.md.")
    assert "not in docs/notes.md" in refusal_of(files, "edit_file", **edit)
    one = {"path": "docs/notes.md", "old_text": "\n\nBuy", "new_text": "\nSell"}
    assert content_of(files, "edit_file", **one).startswith("Replaced the text in line 1 of docs/notes.md.")
    assert files.read("docs/notes.md").text == "# N0tes\nSell b0lts.\n"


def test_glob_and_grep_find_files_and_lines_up_to_their_limit(files: InMemoryFilesystem) -> None:
    assert content_of(files, "glob", pattern="**/*.md") == "1 file in the top folder.\n\ndocs/notes.md (20 bytes)"
    assert content_of(files, "glob", pattern="*.md") == "No file in the top folder."
    assert content_of(files, "grep", pattern="bolts|import", ignore_case=True) == (
        "2 lines in the top folder.\n\ndocs/notes.md\n     3\tBuy bolts.\nsrc/app.py\n     1\timport os"
    )
    assert content_of(files, "grep", pattern="BUY", path="docs", ignore_case=True).startswith("1 line in docs.")
    assert content_of(files, "grep", pattern="BUY").startswith("No line in")
    assert "unclosed group" in refusal_of(files, "grep", pattern="(")
    files.write("many", "x\n" * 300)
    text = content_of(files, "grep", pattern="x", glob="many")
    assert text.startswith("The first 100 lines in the top folder.")
    assert text.endswith("   100\tx\nMore lines match: narrow the pattern or the folder.")


def test_a_path_that_leads_out_is_refused(files: InMemoryFilesystem) -> None:
    for tool, args in (
        ("ls", {}),
        ("read_file", {}),
        ("write_file", {"text": ""}),
        ("edit_file", {"old_text": "a", "new_text": "b"}),
        ("glob", {"pattern": "*"}),
        ("grep", {"pattern": "x"}),
    ):
        assert "can't lead upwards" in refusal_of(files, tool, path="../etc/passwd", **args)
        assert "relative to the top folder" in refusal_of(files, tool, path="/etc/passwd", **args)


def test_texts_are_private_paths_and_counts_public(files: InMemoryFilesystem) -> None:
    secret = "sk-12345"
    files.write("key", f"{secret}\n")
    results = [
        call(files, "read_file", path="key"),
        call(files, "grep", pattern="sk-.*"),
        call(files, "edit_file", path="key", old_text=secret, new_text=f"{secret}6"),
        call(files, "write_file", path="key", text=secret),
    ]
    assert [result.ok for result in results] == [True] * 4
    for result in results:
        assert secret not in str(result.value)
        assert secret not in str(result.record.result)
    assert results[1].value == {"matches": [{"path": "key", "line": 1}], "more": False}
    assert results[3].value == {"path": "key", "size": 8}


@dataclass(frozen=True)
class Text:
    text: str


def rewrite(params: Text, *, context: ToolContext) -> ToolResult[None]:
    """Changes much, and fails in the end."""
    assert context.filesystem is not None
    context.filesystem.write("docs/notes.md", params.text)
    context.filesystem.delete("src", recursive=True)
    context.filesystem.write("new/a", params.text)
    raise ValueError("no")


REWRITE = Tool[Text, None](name="rewrite", description="Rewrite everything.", handler=rewrite)


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_a_call_that_fails_has_changed_no_file(kind: str, files: InMemoryFilesystem, tmp_path: Path) -> None:
    bound: TreeFilesystem = files if kind == "memory" else FolderFilesystem(tmp_path)
    for entry in files.glob("**"):
        bound.write(entry.path, files.read(entry.path).text)
    before = {entry.path: bound.read(entry.path) for entry in bound.glob("**")}
    assert not runner(bound, REWRITE).exec_sync("rewrite", {"text": "x"}).ok
    assert {entry.path: bound.read(entry.path) for entry in bound.glob("**")} == before
    assert not bound.exists("new")


async def test_of_two_calls_at_once_only_the_one_that_fails_is_taken_back(tmp_path: Path) -> None:
    files = FolderFilesystem(tmp_path)
    files.write("shared", "0\n")
    both_wrote = threading.Barrier(2)

    def work(params: Text, *, context: ToolContext) -> ToolResult[None]:
        assert context.filesystem is not None
        context.filesystem.write(f"folder/{params.text}", params.text)
        context.filesystem.delete("shared" if params.text == "bad" else f"folder/{params.text}")
        both_wrote.wait(timeout=60)
        if params.text == "bad":
            raise ValueError("no")
        context.filesystem.write("folder/good", "done")
        return ToolResult("Done.")

    tool = Tool[Text, None](name="work", description="Works.", handler=work)
    parallel = ToolRunner([tool], policy=ToolPolicy(("work",)), resources={Filesystem: files}, max_parallel=2)
    done = await asyncio.gather(*(parallel.exec("work", {"text": text}) for text in ("good", "bad")))
    assert [result.ok for result in done] == [True, False]
    assert {entry.path: files.read(entry.path).text for entry in files.glob("**")} == {
        "folder/good": "done",
        "shared": "0\n",
    }


def test_a_full_disk_is_told_to_the_model(tmp_path: Path) -> None:
    with faults.armed({"file.half_written": "enospc"}):
        assert refusal_of(FolderFilesystem(tmp_path), "write_file", path="a", text="x") == "a: No space left on device."
