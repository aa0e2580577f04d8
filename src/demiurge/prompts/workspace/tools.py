"""Six tools over `context.filesystem`: ls, read_file, write_file, edit_file, glob, grep.

They only split results into portions and describe them. The filesystem decides which paths exist and what may be
done, and rolls back the changes of a failed call. Paths and counts are public, the text of a file never is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from demiurge.errors import Unavailable
from demiurge.prompts.workspace.files import (
    Edited,
    EditFile,
    FileLines,
    FoundFile,
    FoundFiles,
    FoundLine,
    FoundLines,
    Glob,
    Grep,
    Listed,
    ListFolder,
    Listing,
    ReadFile,
    WriteFile,
    Written,
)
from demiurge.tools.authoring.tool import Tool, ToolExample
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError
from demiurge.tools.filesystem import Filesystem
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["workspace_tools"]

_MAX_ENTRIES = 200
_MAX_MATCHES = 100
_MAX_MATCH_CHARACTERS = 300
_MAX_LINES = 2_000
_MAX_READ_CHARACTERS = 60_000


def workspace_tools(*, read_only: bool = False, accepts_overrides: bool = False) -> tuple[Tool[Any, Any], ...]:
    """Returns `ls`, `read_file`, `write_file`, `edit_file`, `glob`, `grep`; with `read_only` without the two that
    write.

    They work on the Filesystem of their call's resources, and fail with `unavailable` if there is none."""
    makers = (_ls_tool, _read_tool, _write_tool, _edit_tool, _glob_tool, _grep_tool)
    made = (make(accepts_overrides) for make in makers)
    return tuple(tool for tool in made if not read_only or tool.effect is ToolEffect.READ_ONLY)


def _ls(params: ListFolder, *, context: ToolContext) -> ToolResult[Listing]:
    with _files(context) as files:
        found = files.list(params.path, limit=_MAX_ENTRIES + 1)
    entries = tuple(Listed(entry.path, entry.kind, entry.size) for entry in found[:_MAX_ENTRIES])
    value = Listing(params.path, entries, len(found) > _MAX_ENTRIES)
    return ToolResult(f"{_counted(value.entries, 'entry', 'entries', value.more)} in {_folder(params.path)}.", value)


def _read(params: ReadFile, *, context: ToolContext) -> ToolResult[FileLines]:
    if params.first_line < 1 or not 1 <= params.lines <= _MAX_LINES:
        raise ToolUserError(f"first_line counts from 1, and lines is 1 to {_MAX_LINES}.")
    with _files(context) as files:
        found = files.read(params.path, offset=params.first_line - 1, limit=params.lines)
    if found.lines == 0 and params.first_line > 1:
        raise ToolUserError(f"{found.path} has no line {params.first_line}: it has {found.total_lines}.")
    text, lines = _portion(found.text, found.lines)
    after = found.first_line + lines
    value = FileLines(
        path=found.path,
        first_line=found.first_line,
        lines=lines,
        total_lines=found.total_lines,
        size=found.size,
        next_line=after if after <= found.total_lines else None,
        text=text,
    )
    if not lines:
        return ToolResult(f"{found.path} is empty.", value)
    return ToolResult(f"{found.path}, lines {found.first_line} to {after - 1} of {found.total_lines}:", value)


def _portion(text: str, lines: int) -> tuple[str, int]:
    """Returns as many whole lines as fit into one answer, at least the first, and their number."""
    if len(text) <= _MAX_READ_CHARACTERS:
        return text, lines
    end = text.rfind("\n", 0, _MAX_READ_CHARACTERS) + 1 or text.find("\n") + 1 or len(text)
    return text[:end], text.count("\n", 0, end) or 1


def _write(params: WriteFile, *, context: ToolContext) -> ToolResult[Written]:
    with _files(context) as files:
        entry = files.write(params.path, params.text, mode=params.mode)
    done = "Added to" if params.mode == "append" else "Wrote"
    return ToolResult(f"{done} {entry.path}, now {entry.size} bytes.", Written(entry.path, entry.size))


def _edit(params: EditFile, *, context: ToolContext) -> ToolResult[Edited]:
    with _files(context) as files:
        done = files.edit(params.path, params.old_text, params.new_text, replace_all=params.replace_all)
    places = f"the text in line {done.first_line}" if done.replaced == 1 else f"{done.replaced} places"
    value = Edited(done.path, done.replaced, done.first_line, done.size)
    return ToolResult(f"Replaced {places} of {done.path}.", value)


def _glob(params: Glob, *, context: ToolContext) -> ToolResult[FoundFiles]:
    with _files(context) as files:
        found = files.glob(params.pattern, path=params.path, limit=_MAX_ENTRIES + 1)
    listed = tuple(FoundFile(entry.path, entry.size) for entry in found[:_MAX_ENTRIES])
    value = FoundFiles(listed, len(found) > _MAX_ENTRIES)
    return ToolResult(f"{_counted(value.files, 'file', 'files', value.more)} in {_folder(params.path)}.", value)


def _grep(params: Grep, *, context: ToolContext) -> ToolResult[FoundLines]:
    pattern = f"(?i){params.pattern}" if params.ignore_case and params.pattern else params.pattern
    with _files(context) as files:
        found = files.grep(pattern, path=params.path, glob=params.glob, limit=_MAX_MATCHES + 1)
    matches = tuple(FoundLine(match.path, match.line, _shortened(match.text)) for match in found[:_MAX_MATCHES])
    value = FoundLines(matches, len(found) > _MAX_MATCHES)
    return ToolResult(f"{_counted(matches, 'line', 'lines', value.more)} in {_folder(params.path)}.", value)


@contextmanager
def _files(context: ToolContext) -> Iterator[Filesystem]:
    """Provides the call's files; a disk error is shown to the model with its own message."""
    files = context.filesystem
    if files is None:
        raise ToolFailure(ToolErrorCode.UNAVAILABLE)
    try:
        yield files
    except Unavailable as error:
        raise ToolUserError(error.message) from error


def _counted(found: tuple[Any, ...], one: str, many: str, more: bool) -> str:
    count = f"1 {one}" if len(found) == 1 else f"{len(found)} {many}"
    return f"The first {count}" if more else count if found else f"No {one}"


def _folder(path: str) -> str:
    return path if path not in ("", ".", "/") else "the top folder"


def _shortened(line: str) -> str:
    return line if len(line) <= _MAX_MATCH_CHARACTERS else f"{line[:_MAX_MATCH_CHARACTERS]}…"


def _ls_tool(accepts_overrides: bool) -> Tool[ListFolder, Listing]:
    shown = Listing("docs", (Listed("docs/img", "dir", 0), Listed("docs/notes.md", "file", 412)), False)
    return Tool[ListFolder, Listing](
        name="ls",
        description="List the files and folders in one folder.",
        handler=_ls,
        examples=(ToolExample("A folder.", ListFolder("docs"), shown),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.READ_ONLY,
        capabilities=(Filesystem,),
        redaction=Redaction.allow("path", "entries", "more"),
    )


def _read_tool(accepts_overrides: bool) -> Tool[ReadFile, FileLines]:
    shown = FileLines("docs/notes.md", 1, 2, 40, 412, 3, "# Notes\n\n")
    return Tool[ReadFile, FileLines](
        name="read_file",
        description="Read lines of a text file. Each comes with its number and a tab in front, which are not in the "
        "file.",
        handler=_read,
        examples=(ToolExample("The first two lines.", ReadFile("docs/notes.md", lines=2), shown),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.READ_ONLY,
        capabilities=(Filesystem,),
        redaction=Redaction.allow("path", "first_line", "lines", "total_lines", "size", "next_line"),
    )


def _write_tool(accepts_overrides: bool) -> Tool[WriteFile, Written]:
    example_input = WriteFile("docs/todo.md", "- check the links\n", "create")
    return Tool[WriteFile, Written](
        name="write_file",
        description="Write a whole text file, or add to its end. Folders are made as needed. To change a part of a "
        "file, use edit_file.",
        handler=_write,
        examples=(ToolExample("A new file.", example_input, Written("docs/todo.md", 18)),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.STATE_CHANGE,
        capabilities=(Filesystem,),
        redaction=Redaction.allow("path", "size"),
    )


def _edit_tool(accepts_overrides: bool) -> Tool[EditFile, Edited]:
    example_input = EditFile("docs/todo.md", "check the links", "check all links")
    return Tool[EditFile, Edited](
        name="edit_file",
        description="Replace an exact piece of a text file. It has to be there exactly once, or replace_all is true. "
        "Read the file first.",
        handler=_edit,
        examples=(ToolExample("One place.", example_input, Edited("docs/todo.md", 1, 1, 18)),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.STATE_CHANGE,
        capabilities=(Filesystem,),
        redaction=Redaction.allow("path", "replaced", "first_line", "size"),
    )


def _glob_tool(accepts_overrides: bool) -> Tool[Glob, FoundFiles]:
    shown = FoundFiles((FoundFile("docs/notes.md", 412), FoundFile("docs/todo.md", 18)), False)
    return Tool[Glob, FoundFiles](
        name="glob",
        description="Find files by their path.",
        handler=_glob,
        examples=(ToolExample("In any folder.", Glob("**/*.md"), shown),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.READ_ONLY,
        capabilities=(Filesystem,),
        redaction=Redaction.allow("files", "more"),
    )


def _grep_tool(accepts_overrides: bool) -> Tool[Grep, FoundLines]:
    shown = FoundLines((FoundLine("docs/todo.md", 1, "- check all links"),), False)
    return Tool[Grep, FoundLines](
        name="grep",
        description="Find lines of text files by a regular expression.",
        handler=_grep,
        examples=(ToolExample("In files of one kind.", Grep("links?$", glob="*.md"), shown),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.READ_ONLY,
        capabilities=(Filesystem,),
        redaction=Redaction.paths("matches.path", "matches.line", "more"),
    )
