"""`file_reader`: reads lines of one file, with their numbers, so that they can be quoted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import Field

from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.result import Gathered, GatherError, dry_run_of
from demiurge.registry.pack.sources import Sources

__all__ = ["MAX_LINES", "ReadLines", "gather"]

MAX_LINES: Final = 250
"""The most lines of one excerpt."""

_DEFAULT_LINES: Final = 80
_MAX_CHARS: Final = 24_000
_MAX_LINE_NUMBER: Final = 10**9


@dataclass(frozen=True, slots=True)
class ReadLines:
    file_path: str = field(metadata={"description": "Path of a file, as file_locator gave it."})
    start_line: Annotated[int, Field(le=_MAX_LINE_NUMBER)] = field(
        default=1, metadata={"description": "First line, from 1."}
    )
    end_line: Annotated[int, Field(le=_MAX_LINE_NUMBER)] | None = field(
        default=None, metadata={"description": "Last line. Left out: 80 lines after the first."}
    )
    include_line_numbers: bool = field(default=True, metadata={"description": "False: lines without numbers."})
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: ReadLines, sources: Sources) -> Gathered:
    """Returns the lines of a file, and evidence for exactly the lines that it returns. The excerpt ends before a line
    that would make it too long; `truncated` says so."""
    if params.dry_run:
        return dry_run_of(params)
    text = await sources.text(params.file_path)
    total = len(text.lines)
    start = max(params.start_line, 1)
    if start > max(total, 1):
        raise GatherError(f"{text.path} has {total} lines, so it has no line {start}.")
    asked = max(params.end_line if params.end_line is not None else start + _DEFAULT_LINES, start)
    end = min(asked, start + MAX_LINES - 1, total)
    shown: list[str] = []
    size = 0
    for number in range(start, end + 1):
        line = text.lines[number - 1]
        line = f"{number}: {line}" if params.include_line_numbers else line
        size += len(line) + 1
        if size > _MAX_CHARS and shown:
            break
        shown.append(line[:_MAX_CHARS])
    end = start + len(shown) - 1
    value = {
        "file_path": text.path,
        "start_line": start,
        "end_line": max(end, start),
        "total_lines": total,
        "include_line_numbers": params.include_line_numbers,
        "truncated": end < min(asked, total) or size > _MAX_CHARS,
        "excerpt": "\n".join(shown),
    }
    return Gathered(value, [sources.evidence(text, start, max(end, start))])
