"""`scene_impact_analyzer`: the opening and the ending of a scene, and counts of what may give it force."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from demiurge.registry.pack.lexicon import word_pattern
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.reading import distinct, excerpt_fields, passage_evidence, plain_text, word_count
from demiurge.registry.pack.result import Gathered, dry_run_of
from demiurge.registry.pack.scene_match import find_beat
from demiurge.registry.pack.sources import Sources
from demiurge.registry.pack.text import dialogue_ratio, ending, opening, prose, prose_lines

__all__ = ["AnalyzeImpact", "gather"]

_MAX_EXCERPT: Final = 550
_MAX_LINES: Final = 20
_ELLIPSIS = re.compile(r"\.{3,}|\u2026")


@dataclass(frozen=True, slots=True)
class AnalyzeImpact:
    scene_path: str = field(metadata={"description": "Path of the scene's file."})
    outline_path: str | None = field(
        default=None, metadata={"description": "Path of the outline. Left out: the outline of the story."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: AnalyzeImpact, sources: Sources) -> Gathered:
    """Returns the opening, the ending, the counts, and the beat of the outline that the scene belongs to."""
    if params.dry_run:
        return dry_run_of(params)
    source = await sources.text(params.scene_path)
    text = plain_text(source)
    begin, end = opening(text, _MAX_EXCERPT), ending(text, _MAX_EXCERPT)
    match, _, beat_evidence = await find_beat(source.path, params.outline_path, sources)
    value = {
        "scene_path": source.path,
        "word_count": word_count(text),
        **excerpt_fields("opening", begin),
        **excerpt_fields("ending", end),
        "impact_signals": _signals(text),
        "outline_match": match,
    }
    passages = [passage_evidence(source, begin), passage_evidence(source, end)]
    return Gathered(value, distinct([sources.whole(source), *passages, *beat_evidence]))


def _signals(text: str) -> dict[str, Any]:
    plain, conflict = prose(text), word_pattern("conflict")
    lines = [number for number, line in prose_lines(text) if conflict.search(line)]
    return {
        "question_marks": plain.count("?"),
        "exclamation_marks": plain.count("!"),
        "ellipsis_count": len(_ELLIPSIS.findall(plain)),
        "dialogue_ratio": dialogue_ratio(text),
        "conflict_marker_lines": len(lines),
        "conflict_lines": lines[:_MAX_LINES],
    }
