"""`outline_analyzer`: the scenes of an outline with their lines, as the ground for an analysis of the structure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from demiurge.registry.pack.outline import outline_scenes
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.result import Gathered, dry_run_of
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.story import story

__all__ = ["AnalyzeOutline", "gather"]

_MAX_SCENES: Final = 200
_MAX_CONTENT: Final = 24_000


@dataclass(frozen=True, slots=True)
class AnalyzeOutline:
    outline_path: str | None = field(
        default=None, metadata={"description": "Path of the outline. Left out: the outline of the story."}
    )
    mode: Literal["structure", "full"] = field(
        default="structure", metadata={"description": "full: also the text of the outline."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: AnalyzeOutline, sources: Sources) -> Gathered:
    """Returns the scenes of an outline, how many there are for each point of view, and its text in mode `full`."""
    if params.dry_run:
        return dry_run_of(params)
    text = await sources.text(params.outline_path or story("files")["outline"])
    scenes = outline_scenes(text.lines)
    value: dict[str, Any] = {
        "outline_path": text.path,
        "total_scenes": len(scenes),
        "total_lines": len(text.lines),
        "scenes": [scene.to_json() for scene in scenes[:_MAX_SCENES]],
        "scenes_by_pov": dict(sorted(Counter(scene.pov for scene in scenes if scene.pov).items())),
    }
    if len(scenes) > _MAX_SCENES:
        value["note"] = f"The first {_MAX_SCENES} of {len(scenes)} scenes. Read the others with file_reader."
    if not scenes:
        value["note"] = "The file has no heading of level two (## ...), so it has no scenes."
    if params.mode == "full":
        value["content"] = text.text[:_MAX_CONTENT]
        value["truncated"] = len(text.text) > _MAX_CONTENT
    return Gathered(value, [sources.whole(text)])
