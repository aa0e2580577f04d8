"""The beat of an outline that a scene's file belongs to, found by the file's name.

The ways, in this order: the title of the beat; the number of the scene, first as `scene-4`, then any number; the point
of view. A name that gives a scene number is taken at its word, so a number goes before a point of view, which many
scenes share; and a name with an explicit number that the outline lacks matches no beat. Names are compared by whole
words: `planning` does not name Ann.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.outline import OutlineScene, outline_scenes
from demiurge.registry.pack.result import GatherError
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.story import story

__all__ = ["Beat", "beat_of", "find_beat", "holds_name", "name_parts", "scene_name"]

_MAX_CANDIDATES: Final = 20
_SHORTEST_SLUG: Final = 3
_PARTS = re.compile(r"[^\W\d_]+|\d+")
_EXPLICIT = re.compile(r"scene[-_ ]*(\d{1,6})(?!\d)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<!\d)\d{1,6}(?!\d)")


@dataclass(frozen=True, slots=True)
class Beat:
    """The beat of a scene. `method`: the way it was found, `title_slug`, `scene_number` or `pov_name`."""

    scene: OutlineScene
    method: str

    def to_json(self) -> dict[str, Any]:
        scene = self.scene
        return {
            "matched": True,
            "scene_number": scene.number,
            "title": scene.title,
            **({"pov": scene.pov} if scene.pov else {}),
            "summary": scene.summary,
            "lines": [scene.start_line, scene.end_line],
            "match_method": self.method,
        }


async def find_beat(
    scene_path: str, outline_path: str | None, sources: Sources
) -> tuple[dict[str, Any], Beat | None, list[EvidenceItem]]:
    """Returns the entry of a result about the beat of a scene, the beat, and the beat's evidence. An outline that
    cannot be read, and a scene without a beat, give no beat: the entry says why."""
    path = outline_path or story("files")["outline"]
    try:
        outline = await sources.text(path)
    except GatherError as error:
        return {"matched": False, "outline_path": path, "error": error.to_json()["error"]}, None, []
    scenes = outline_scenes(outline.lines)
    beat = beat_of(scene_path, scenes)
    if beat is None:
        candidates = [{"scene_number": scene.number, "title": scene.title} for scene in scenes[:_MAX_CANDIDATES]]
        entry = {"matched": False, "outline_path": outline.path, "scenes": len(scenes), "candidates": candidates}
        return entry, None, []
    evidence = sources.evidence(outline, beat.scene.start_line, beat.scene.end_line)
    return {**beat.to_json(), "outline_path": outline.path}, beat, [evidence]


def beat_of(path: str, scenes: Sequence[OutlineScene]) -> Beat | None:
    """Returns the beat of the scene in the file `path`, None if the file's name gives none."""
    name = scene_name(path)
    parts = name_parts(name)
    if titled := [scene for scene in scenes if _is_titled(parts, name_parts(scene.title))]:
        return Beat(max(titled, key=lambda scene: len("".join(name_parts(scene.title)))), "title_slug")
    by_number = {scene.number: scene for scene in scenes}
    explicit = [int(number) for number in _EXPLICIT.findall(name)]
    bare = sorted(_NUMBER.findall(name), key=lambda number: number.startswith("0"))
    for number in explicit or map(int, bare):
        if number in by_number:
            return Beat(by_number[number], "scene_number")
    if not explicit:
        for scene in scenes:
            if scene.pov and holds_name(parts, name_parts(scene.pov)):
                return Beat(scene, "pov_name")
    return None


def scene_name(path: str) -> str:
    """Returns the name of a scene's file without the prefix of scenes and without its ending."""
    stem = PurePosixPath(path).stem
    prefix = str(story("scenes")["prefix"])
    return stem[len(prefix) :] if stem.lower().startswith(prefix.lower()) else stem


def name_parts(name: str) -> tuple[str, ...]:
    """Returns the words and the numbers of a name, in lower case."""
    return tuple(_PARTS.findall(name.lower()))


def holds_name(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Returns whether some neighbouring parts are the wanted name, written as one word or as several."""
    joined = "".join(wanted)
    if not joined:
        return False
    for start in range(len(parts)):
        rest = joined
        for part in parts[start:]:
            if not rest.startswith(part):
                break
            rest = rest[len(part) :]
            if not rest:
                return True
    return False


def _is_titled(parts: Sequence[str], title: Sequence[str]) -> bool:
    return holds_name(parts, title) or (len("".join(parts)) >= _SHORTEST_SLUG and holds_name(title, parts))
