"""`timeline_validator`: the lines of several files that say when something happens, in reading order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.markers import time_markers
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.reading import distinct, read_files, require_paths
from demiurge.registry.pack.result import Gathered, dry_run_of
from demiurge.registry.pack.sources import Sources

__all__ = ["ValidateTimeline", "gather"]

_MAX_FILES: Final = 12
_MAX_MARKERS: Final = 30
_MAX_TIMELINE: Final = 60


@dataclass(frozen=True, slots=True)
class ValidateTimeline:
    file_paths: tuple[str, ...] = field(
        metadata={"description": f"Paths of 1 to {_MAX_FILES} files, in reading order."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: ValidateTimeline, sources: Sources) -> Gathered:
    """Returns the markers of time in each file and one list of all in reading order. No order of events is inferred."""
    paths = require_paths(params.file_paths, 1, _MAX_FILES)
    if params.dry_run:
        return dry_run_of(params)
    files: list[dict[str, Any]] = []
    timeline: list[dict[str, Any]] = []
    evidence: list[EvidenceItem] = []
    total = 0
    for file in await read_files(paths, sources):
        if file.source is None:
            files.append(file.error_json())
            continue
        found = time_markers(file.source)
        shown = found[:_MAX_MARKERS]
        total += len(found)
        files.append(
            {
                "path": file.source.path,
                "total_markers": len(found),
                "time_markers": [marker.to_json() for marker in shown],
            }
        )
        timeline += [{"file": file.source.path, "line": marker.line, "quote": marker.text} for marker in shown]
        evidence += [sources.whole(file.source), *(marker.evidence(file.source) for marker in shown)]
    value = {
        "files": files,
        "timeline": timeline[:_MAX_TIMELINE],
        "total_markers": total,
        "note": _note(total, min(len(timeline), _MAX_TIMELINE)),
    }
    return Gathered(value, distinct(evidence))


def _note(total: int, shown: int) -> str:
    if not total:
        return "No line has a marker of time. That alone is no fault."
    listed = f"The first {shown} of {total} markers are listed" if shown < total else f"All {total} markers are listed"
    return f"{listed} in reading order, which need not be the order of events."
