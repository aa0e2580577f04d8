"""`consistency_checker`: the names, terms and times that several files share, side by side."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.markers import TimeMarker, time_markers
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.reading import (
    NamedFile,
    distinct,
    passage_evidence,
    plain_text,
    read_files,
    require_paths,
    word_count,
)
from demiurge.registry.pack.result import Gathered, dry_run_of
from demiurge.registry.pack.sources import Sources, SourceText
from demiurge.registry.pack.text import Entity, Passage, entities, excerpt_first, names_inside_sentences, terms
from demiurge.tools.execution.worker import in_thread

__all__ = ["CheckConsistency", "gather"]

_FEWEST_FILES, _MAX_FILES = 2, 10
_MAX_ENTITIES: Final = 30
_MAX_MARKERS: Final = 10
_MAX_REFERENCES: Final = 20
_MAX_TERMS: Final = 15
_MAX_CONTENT, _FEWEST_CONTENT = 2000, 200


@dataclass(frozen=True, slots=True)
class CheckConsistency:
    file_paths: tuple[str, ...] = field(
        metadata={"description": f"Paths of {_FEWEST_FILES} to {_MAX_FILES} files to compare."}
    )
    focus: Literal["characters", "terminology", "events", "general"] = field(
        default="general", metadata={"description": "Matter to compare; general: all."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


@dataclass(frozen=True, slots=True)
class _Analysed:
    source: SourceText
    text: str
    entities: list[Entity]
    markers: list[TimeMarker]
    content: Passage


async def gather(params: CheckConsistency, sources: Sources) -> Gathered:
    """Returns what each file holds of the focus, and what at least two of them share. Nothing is judged."""
    paths = require_paths(params.file_paths, _FEWEST_FILES, _MAX_FILES)
    if params.dry_run:
        return dry_run_of(params)
    files = await read_files(paths, sources)
    found: Gathered = await in_thread(partial(_gathered, files, params.focus, sources))
    return found


def _gathered(files: list[NamedFile], focus: str, sources: Sources) -> Gathered:
    """Returns what was found. Long files take seconds, so it runs in a thread of its own and stops no other call."""
    analysed = _analyse(files)
    evidence: list[EvidenceItem] = []
    entries: list[dict[str, Any]] = []
    for file in files:
        if file.source is None:
            entries.append(file.error_json())
            continue
        found = analysed[file.source.path]
        entries.append(_entry(found, focus))
        evidence += [sources.whole(file.source), passage_evidence(file.source, found.content)]
        if focus in ("events", "general"):
            evidence += [marker.evidence(file.source) for marker in found.markers[:_MAX_MARKERS]]
    value: dict[str, Any] = {"focus": focus, "files": entries}
    if focus in ("characters", "general"):
        value["cross_references"] = _cross_references(list(analysed.values()))
    if focus in ("terminology", "general"):
        value["shared_terms"] = _shared_terms(list(analysed.values()))
    if len(analysed) < _FEWEST_FILES:
        value["note"] = "Only one file could be read, so nothing could be compared."
    return Gathered(value, distinct(evidence))


def _analyse(files: list[NamedFile]) -> dict[str, _Analysed]:
    """Returns the analysis of each readable file. A name inside a sentence of one file is a name in all of them."""
    texts = {file.source.path: plain_text(file.source) for file in files if file.source}
    known = frozenset[str]().union(*(names_inside_sentences(text) for text in texts.values()))
    limit = max(_FEWEST_CONTENT, _MAX_CONTENT // max(len(files), 1))
    return {
        file.source.path: _Analysed(
            file.source,
            texts[file.source.path],
            entities(texts[file.source.path], known),
            time_markers(file.source),
            excerpt_first(texts[file.source.path], limit),
        )
        for file in files
        if file.source
    }


def _entry(found: _Analysed, focus: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": found.source.path, "word_count": word_count(found.text)}
    if focus in ("characters", "general"):
        entry["entities"] = [
            {"name": one.name, "count": one.count, "line": one.line} for one in found.entities[:_MAX_ENTITIES]
        ]
        entry["total_entities"] = len(found.entities)
    if focus in ("events", "general"):
        entry["event_markers"] = [marker.to_json() for marker in found.markers[:_MAX_MARKERS]]
        entry["total_event_markers"] = len(found.markers)
    entry["content"] = found.content.text
    entry["truncated"] = len(found.content.text) < len(found.text.strip())
    entry["total_chars"] = len(found.text)
    return entry


def _cross_references(analysed: list[_Analysed]) -> list[dict[str, Any]]:
    """Returns the names that at least two files hold, those of the most files first, with the real count in each."""
    places: dict[str, list[dict[str, Any]]] = {}
    for found in analysed:
        for one in found.entities:
            places.setdefault(one.name, []).append({"path": found.source.path, "count": one.count, "line": one.line})
    shared = [
        {"name": name, "total": sum(place["count"] for place in held), "files": held}
        for name, held in places.items()
        if len(held) >= _FEWEST_FILES
    ]
    return sorted(shared, key=lambda row: (-len(row["files"]), -row["total"], row["name"]))[:_MAX_REFERENCES]


def _shared_terms(analysed: list[_Analysed]) -> list[dict[str, Any]]:
    counts = {found.source.path: terms(found.text) for found in analysed}
    totals: Counter[str] = Counter()
    for counted in counts.values():
        totals.update(counted)
    shared = [
        {"term": term, "total": total, "files": {path: held[term] for path, held in counts.items() if held[term]}}
        for term, total in sorted(totals.items(), key=lambda entry: (-entry[1], entry[0]))
        if sum(term in held for held in counts.values()) >= _FEWEST_FILES
    ]
    return shared[:_MAX_TERMS]
