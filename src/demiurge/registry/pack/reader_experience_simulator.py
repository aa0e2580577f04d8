"""`reader_experience_simulator`: how scenes begin and end, and how each leads into the next. It simulates nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.reading import (
    NamedFile,
    distinct,
    excerpt_fields,
    passage_evidence,
    plain_text,
    read_files,
    require_paths,
    word_count,
)
from demiurge.registry.pack.result import Gathered, dry_run_of
from demiurge.registry.pack.sources import Sources, SourceText
from demiurge.registry.pack.text import Passage, dialogue_ratio, ending, entities, names_inside_sentences, opening
from demiurge.tools.execution.worker import in_thread

__all__ = ["SimulateReader", "gather"]

_MAX_SCENES: Final = 12
_MAX_EXCERPT: Final = 450
_MAX_ENTITIES: Final = 20


@dataclass(frozen=True, slots=True)
class SimulateReader:
    scene_paths: tuple[str, ...] = field(
        metadata={"description": f"Paths of 1 to {_MAX_SCENES} scenes, in reading order."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


@dataclass(frozen=True, slots=True)
class _Scene:
    path: str
    opening: Passage
    ending: Passage


async def gather(params: SimulateReader, sources: Sources) -> Gathered:
    """Returns each scene's opening, ending and names, and the passages at which one readable scene follows another. A
    transition over scenes that could not be read names them. A name inside a sentence of one scene is a name in all."""
    paths = require_paths(params.scene_paths, 1, _MAX_SCENES)
    if params.dry_run:
        return dry_run_of(params)
    files = await read_files(paths, sources)
    found: Gathered = await in_thread(partial(_gathered, files, sources))
    return found


def _gathered(files: list[NamedFile], sources: Sources) -> Gathered:
    """Returns what was found. Long scenes take seconds, so it runs in a thread of its own and stops no other call."""
    scenes: list[dict[str, Any]] = []
    transitions: list[dict[str, Any]] = []
    evidence: list[EvidenceItem] = []
    last: _Scene | None = None
    skipped: list[str] = []
    known = frozenset[str]().union(*(names_inside_sentences(plain_text(file.source)) for file in files if file.source))
    for file in files:
        if file.source is None:
            scenes.append(file.error_json())
            skipped.append(file.path)
            continue
        entry, scene = _read_scene(file.source, known)
        scenes.append(entry)
        passages = (scene.opening, scene.ending)
        evidence += [sources.whole(file.source), *(passage_evidence(file.source, one) for one in passages)]
        if last is not None:
            transitions.append(_transition(last, scene, skipped))
        last, skipped = scene, []
    return Gathered({"scenes": scenes, "transitions": transitions}, distinct(evidence))


def _read_scene(source: SourceText, known: frozenset[str]) -> tuple[dict[str, Any], _Scene]:
    text = plain_text(source)
    scene = _Scene(source.path, opening(text, _MAX_EXCERPT), ending(text, _MAX_EXCERPT))
    names = entities(text, known)
    entry = {
        "path": source.path,
        "word_count": word_count(text),
        "dialogue_ratio": dialogue_ratio(text),
        **excerpt_fields("opening", scene.opening),
        **excerpt_fields("ending", scene.ending),
        "entities": [{"name": one.name, "count": one.count, "line": one.line} for one in names[:_MAX_ENTITIES]],
        "total_entities": len(names),
    }
    return entry, scene


def _transition(last: _Scene, scene: _Scene, skipped: list[str]) -> dict[str, Any]:
    found = {
        "from": last.path,
        "to": scene.path,
        "from_ending": last.ending.text,
        "to_opening": scene.opening.text,
    }
    return {**found, "not_read": skipped} if skipped else found
