"""`stakes_mapper`: the sentences of each scene that may say what is at stake."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

from pydantic import Field

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.lexicon import word_pattern
from demiurge.registry.pack.outline import outline_scenes, scene_body
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
from demiurge.registry.pack.result import Gathered, GatherError, dry_run_of
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.story import story
from demiurge.registry.pack.text import Passage, ending, opening, quote, sentences

__all__ = ["MapStakes", "gather"]

_MAX_SCENES: Final = 50
_MAX_EXCERPT: Final = 400
_IN_SCENE, _IN_OUTLINE, _FIRST_SENTENCES = 5, 3, 2


@dataclass(frozen=True, slots=True)
class MapStakes:
    outline_path: str | None = field(
        default=None, metadata={"description": "Path of the outline. Left out: the outline of the story."}
    )
    scene_paths: tuple[str, ...] = field(
        default=(), metadata={"description": "Paths of scene files. Left out: the scenes of the outline."}
    )
    max_scenes: Annotated[int, Field(ge=1, le=_MAX_SCENES)] = field(
        default=20, metadata={"description": "The most scenes to map."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: MapStakes, sources: Sources) -> Gathered:
    """Returns the candidates of each scene file, or, if no file is named, of each scene of the outline."""
    if not 1 <= params.max_scenes <= _MAX_SCENES:
        raise GatherError(f"max_scenes is 1 to {_MAX_SCENES}.")
    paths = require_paths(params.scene_paths, 0, _MAX_SCENES)
    if params.dry_run:
        return dry_run_of(params)
    return await (_of_files(paths, params, sources) if paths else _of_outline(params, sources))


async def _of_files(paths: tuple[str, ...], params: MapStakes, sources: Sources) -> Gathered:
    scenes: list[dict[str, Any]] = []
    evidence: list[EvidenceItem] = []
    for file in await read_files(paths[: params.max_scenes], sources):
        entry, items = _of_file(file, sources)
        scenes.append(entry)
        evidence += items
    value = {"source": "scenes", "scenes": scenes, "total_scenes": len(paths)}
    return Gathered(_with_note(value, len(paths), len(scenes)), distinct(evidence))


def _of_file(file: NamedFile, sources: Sources) -> tuple[dict[str, Any], list[EvidenceItem]]:
    if file.source is None:
        return file.error_json(), []
    text = plain_text(file.source)
    begin, end = opening(text, _MAX_EXCERPT), ending(text, _MAX_EXCERPT)
    fields, found = _candidates(sentences(text), _IN_SCENE)
    entry = {
        "path": file.source.path,
        "word_count": word_count(text),
        **excerpt_fields("opening", begin),
        **excerpt_fields("ending", end),
        **fields,
    }
    return entry, [sources.whole(file.source), *(passage_evidence(file.source, one) for one in (begin, end, *found))]


async def _of_outline(params: MapStakes, sources: Sources) -> Gathered:
    outline = await sources.text(params.outline_path or story("files")["outline"])
    scenes = outline_scenes(outline.lines)
    entries: list[dict[str, Any]] = []
    evidence = [sources.whole(outline)]
    for scene in scenes[: params.max_scenes]:
        body = [_moved(one, scene.start_line) for one in sentences(scene_body(outline.lines, scene))]
        fields, found = _candidates(body, _IN_OUTLINE)
        entries.append(
            {
                "scene_number": scene.number,
                "title": scene.title,
                **({"pov": scene.pov} if scene.pov else {}),
                "lines": [scene.start_line, scene.end_line],
                **fields,
            }
        )
        evidence += [passage_evidence(outline, one) for one in found]
    value = {"source": "outline", "outline_path": outline.path, "scenes": entries, "total_scenes": len(scenes)}
    return Gathered(_with_note(value, len(scenes), len(entries)), distinct(evidence))


def _candidates(found: list[Passage], most: int) -> tuple[dict[str, Any], list[Passage]]:
    """Returns the sentences with a word of stakes, or if none has one the first sentences, which then only begin the
    scene; `basis` says which."""
    pattern = word_pattern("stakes")
    hits = [(one, match[0].lower()) for one in found if (match := pattern.search(one.text))]
    chosen = hits[:most] or [(one, "") for one in found[:_FIRST_SENTENCES]]
    candidates = [
        {"text": quote(one.text), "line": one.first_line, **({"word": " ".join(word.split())} if word else {})}
        for one, word in chosen
    ]
    fields = {
        "basis": "stakes_words" if hits else "first_sentences",
        "candidates": candidates,
        "total_candidates": len(hits),
    }
    return fields, [one for one, _ in chosen]


def _moved(passage: Passage, lines: int) -> Passage:
    return replace(passage, first_line=passage.first_line + lines, last_line=passage.last_line + lines)


def _with_note(value: dict[str, Any], total: int, shown: int) -> dict[str, Any]:
    return {**value, "note": f"The first {shown} of {total} scenes."} if shown < total else value
