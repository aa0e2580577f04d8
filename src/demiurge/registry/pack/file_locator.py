"""`file_locator`: finds the files that a request is about, by path or by content. Other tools need real paths."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.globs import checked_globs, is_selected
from demiurge.registry.pack.parameters import WORKSPACE
from demiurge.registry.pack.result import Gathered, GatherError
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.story import story
from demiurge.tools.capabilities import WorkspaceEntry

__all__ = ["MAX_SCANNED", "LocateFiles", "file_kind", "gather"]

MAX_SCANNED: Final = 200
"""The most files whose content one deep scan reads."""

_MAX_LINES: Final = 3
_MANY_FILES, _MANY_TOKENS = 6, 30_000
_BYTES_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class LocateFiles:
    search_criteria: str = field(metadata={"description": "Part of a path, name or text. Empty: all files."})
    scan_mode: Literal["FAST_SCAN", "DEEP_SCAN"] = field(
        default="FAST_SCAN", metadata={"description": "FAST_SCAN compares paths, DEEP_SCAN the content too."}
    )
    max_results: Annotated[int, Field(ge=1, le=100)] = field(
        default=12, metadata={"description": "The most files to return."}
    )
    include_globs: tuple[str, ...] = field(
        default=(), metadata={"description": "Globs of the paths to look at. Left out: the story's folders."}
    )
    dry_run: bool = field(default=False, metadata={"description": "True: show the paths alone and read no file."})
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: LocateFiles, sources: Sources) -> Gathered:
    """Returns the files whose path, or in a deep scan whose content, holds the criteria, without regard to case."""
    globs = checked_globs(params.include_globs) or tuple(story("files")["discovery"])
    everything = await sources.files()
    looked_at = [entry for entry in everything if is_selected(entry.path, globs)]
    wanted = params.search_criteria.strip().casefold()
    by_path = [entry for entry in looked_at if wanted in entry.path.casefold()]
    notes: list[str] = []
    if len(looked_at) < len(everything):
        left_out = len(everything) - len(looked_at)
        notes.append(f"Only {', '.join(globs)} were looked at; {left_out} other files need include_globs.")
    if params.dry_run:
        return _preview(params, by_path, notes)
    lines: dict[str, list[EvidenceItem]] = {}
    if params.scan_mode == "DEEP_SCAN" and wanted:
        lines = await _lines_with(wanted, looked_at[:MAX_SCANNED], sources, notes)
        if len(looked_at) > MAX_SCANNED:
            notes.append(f"Only the first {MAX_SCANNED} of {len(looked_at)} files were read: give include_globs.")
    named = {entry.path for entry in by_path}
    found = [entry for entry in looked_at if entry.path in named or entry.path in lines]
    shown = found[: params.max_results]
    notes += _size_notes(found, shown)
    value = {
        "search_criteria": params.search_criteria,
        "scan_mode": params.scan_mode,
        "files": [_described(entry, lines.get(entry.path, []), entry.path in named) for entry in shown],
        "total": len(found),
        "estimated_tokens": _tokens(shown),
        "notes": notes,
    }
    return Gathered(value, [item for entry in shown for item in lines.get(entry.path, [])])


def _preview(params: LocateFiles, found: list[WorkspaceEntry], notes: list[str]) -> Gathered:
    shown = found[: params.max_results]
    return Gathered(
        {
            "dry_run": True,
            "paths": [entry.path for entry in shown],
            "total": len(found),
            "estimated_tokens": _tokens(shown),
            "notes": notes,
        }
    )


async def _lines_with(
    wanted: str, entries: list[WorkspaceEntry], sources: Sources, notes: list[str]
) -> dict[str, list[EvidenceItem]]:
    """Returns the first lines of each file that hold the criteria. A file that is no text has a note."""
    found: dict[str, list[EvidenceItem]] = {}
    for entry in entries:
        try:
            text = await sources.text(entry.path)
        except GatherError as error:
            notes.append(f"{entry.path} was not read: {error.message}")
            continue
        numbers = [number for number, line in enumerate(text.lines, 1) if wanted in line.casefold()]
        if numbers:
            found[entry.path] = [sources.evidence(text, number, number) for number in numbers[:_MAX_LINES]]
    return found


def _described(entry: WorkspaceEntry, lines: list[EvidenceItem], is_named: bool) -> dict[str, Any]:
    """Returns what path and content say about a file; each guess has a confidence and its basis."""
    kind = file_kind(entry.path)
    parts = [part for part in re.split(r"[-_ ]+", PurePosixPath(entry.path).stem) if part]
    found: dict[str, Any] = {
        "path": entry.path,
        "match_basis": "PATH_MATCH" if is_named else "CONTENT_MATCH",
        "type": _guess(kind, 0.7, "METADATA_MATCH"),
        "size_bytes": entry.size,
        "keywords": _guess(parts, 0.4, "FILENAME_MATCH"),
    }
    if kind == "scene":
        number = next((int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 10), None)
        if number is not None:
            found["scene_number"] = _guess(number, 0.5, "FILENAME_MATCH")
        if len(parts) > 1 and parts[-1].isalpha():
            found["pov"] = _guess(parts[-1], 0.5, "FILENAME_MATCH")
    if lines:
        found["matching_lines"] = [{"line": item.start_line, "quote": item.quote} for item in lines]
    return found


def file_kind(path: str) -> str:
    """Returns what a file is by its path: `outline`, `canon`, `scene` or `file`."""
    return next((row["kind"] for row in story("files")["kinds"] if is_selected(path, row["globs"])), "file")


def _guess(value: Any, confidence: float, basis: str) -> dict[str, Any]:
    return {"value": value, "confidence": confidence, "match_basis": basis}


def _tokens(entries: list[WorkspaceEntry]) -> int:
    return sum(entry.size for entry in entries) // _BYTES_PER_TOKEN


def _size_notes(found: list[WorkspaceEntry], shown: list[WorkspaceEntry]) -> list[str]:
    notes = []
    if not found:
        notes.append("No file fits. Try a shorter part of the name, or DEEP_SCAN.")
    if len(found) > len(shown):
        notes.append(f"The first {len(shown)} of {len(found)} files.")
    if len(shown) > _MANY_FILES or _tokens(shown) > _MANY_TOKENS:
        notes.append(f"All of these are about {_tokens(shown)} tokens: read only what the request needs.")
    return notes
