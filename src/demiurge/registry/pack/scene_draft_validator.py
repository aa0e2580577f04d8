"""`scene_draft_validator`: a scene beside its beat of the outline and the canon card of its point of view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.canon_checker import category_of
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.reading import distinct, passage_evidence, plain_text, word_count
from demiurge.registry.pack.result import Gathered, GatherError, dry_run_of
from demiurge.registry.pack.scene_match import Beat, find_beat, holds_name, name_parts, scene_name
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.story import story
from demiurge.registry.pack.text import excerpt_first

__all__ = ["ValidateDraft", "gather"]

_MAX_SCENE: Final = 800
_MAX_CARD: Final = 600


@dataclass(frozen=True, slots=True)
class ValidateDraft:
    scene_path: str = field(metadata={"description": "Path of the scene's file."})
    outline_path: str | None = field(
        default=None, metadata={"description": "Path of the outline. Left out: the outline of the story."}
    )
    include_canon: bool = field(default=True, metadata={"description": "False: without the canon card."})
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: ValidateDraft, sources: Sources) -> Gathered:
    """Returns the scene's beginning, its beat and its canon card. Nothing is validated: that is left to the reader."""
    if params.dry_run:
        return dry_run_of(params)
    source = await sources.text(params.scene_path)
    text = plain_text(source)
    content = excerpt_first(text, _MAX_SCENE)
    match, beat, beat_evidence = await find_beat(source.path, params.outline_path, sources)
    value: dict[str, Any] = {
        "scene_path": source.path,
        "scene_word_count": word_count(text),
        "scene_content": content.text,
        "truncated": len(content.text) < len(text.strip()),
        "total_chars": len(text),
        "outline_match": match,
    }
    evidence = [sources.whole(source), passage_evidence(source, content), *beat_evidence]
    if params.include_canon:
        value["canon_card"], card_evidence = await _card(_name_of(source.path, beat), sources)
        evidence += card_evidence
    return Gathered(value, distinct(evidence))


def _name_of(path: str, beat: Beat | None) -> str | None:
    """Returns the name of the point of view: the beat's, else the last word in the name of the scene's file."""
    if beat is not None and beat.scene.pov:
        return beat.scene.pov
    shortest = int(story("scenes")["shortest_name"])
    parts = [part for part in name_parts(scene_name(path)) if part.isalpha() and len(part) >= shortest]
    return parts[-1] if parts else None


async def _card(name: str | None, sources: Sources) -> tuple[dict[str, Any], list[EvidenceItem]]:
    """Returns the entry of the canon card and its evidence. A card that is not there or cannot be read has a reason."""
    if name is None:
        return {"found": False, "reason": "Neither the outline nor the file's name gives a point of view."}, []
    path = _card_of(
        name, [path for path in await sources.paths() if category_of(path) == story("scenes")["characters"]]
    )
    if path is None:
        return {"found": False, "name": name, "reason": "No character file has this name."}, []
    try:
        source = await sources.text(path)
    except GatherError as error:
        return {"found": False, "name": name, "path": path, "error": error.to_json()["error"]}, []
    text = plain_text(source)
    content = excerpt_first(text, _MAX_CARD)
    entry = {
        "found": True,
        "name": name,
        "path": source.path,
        "content": content.text,
        "truncated": len(content.text) < len(text.strip()),
        "total_chars": len(text),
    }
    return entry, [sources.whole(source), passage_evidence(source, content)]


def _card_of(name: str, paths: Sequence[str]) -> str | None:
    """Returns the file with the whole name, else the first one with a word of it, such as the first name."""
    parts = name_parts(name)
    for wanted in (parts, *((part,) for part in parts if len(part) >= int(story("scenes")["shortest_name"]))):
        for path in paths:
            if holds_name(name_parts(PurePosixPath(path).stem), wanted):
                return path
    return None
