"""`canon_checker`: a scene beside the canon that it has to agree with. The comparison is left to the model.

Without readable canon files the tool lists those that exist, because a path of canon is never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from demiurge.registry.evidence import EvidenceItem
from demiurge.registry.pack.globs import is_selected
from demiurge.registry.pack.parameters import DRY_RUN, WORKSPACE
from demiurge.registry.pack.reading import distinct, passage_evidence, plain_text, require_paths
from demiurge.registry.pack.result import Gathered, GatherError, dry_run_of
from demiurge.registry.pack.sources import Sources, SourceText
from demiurge.registry.pack.story import story
from demiurge.registry.pack.text import Passage, excerpt_first

__all__ = ["CheckCanon", "category_of", "gather"]

_MAX_FILES: Final = 10
_MAX_LISTED: Final = 100
_MAX_EXCERPT, _MAX_SCENE = 600, 800
_MAX_CANON, _FEWEST_CANON = 1000, 200
_INSTRUCTION: Final = "Choose the files that the scene touches, and call the tool again with their paths."


@dataclass(frozen=True, slots=True)
class CheckCanon:
    scene_path: str = field(metadata={"description": "Path of the scene's file."})
    canon_paths: tuple[str, ...] = field(
        default=(), metadata={"description": f"Paths of up to {_MAX_FILES} canon files. Left out: list them."}
    )
    mode: Literal["strict", "lenient"] = field(
        default="strict", metadata={"description": "lenient: a gap in the canon is no finding."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)
    workspace: str = field(default="main", metadata=WORKSPACE)


async def gather(params: CheckCanon, sources: Sources) -> Gathered:
    """Returns the scene beside the named canon files; if none is named or none can be read, the canon files that there
    are."""
    paths = require_paths(params.canon_paths, 0, _MAX_FILES)
    if params.dry_run:
        return dry_run_of(params)
    scene = await sources.text(params.scene_path)
    limit = max(_FEWEST_CANON, _MAX_CANON // max(len(paths), 1))
    canon: list[dict[str, Any]] = []
    evidence: list[EvidenceItem] = []
    for path in paths:
        try:
            source = await sources.text(path)
        except GatherError as error:
            canon.append({"path": path, **error.to_json()})
            continue
        content = excerpt_first(plain_text(source), limit)
        canon.append({"path": source.path, "category": category_of(source.path), **_fields("content", source, content)})
        evidence += [sources.whole(source), passage_evidence(source, content)]
    is_comparison = bool(evidence)
    shown = excerpt_first(plain_text(scene), _MAX_SCENE if is_comparison else _MAX_EXCERPT)
    evidence = distinct([sources.whole(scene), passage_evidence(scene, shown), *evidence])
    value = {"mode": params.mode, "scene_path": scene.path, "canon": canon}
    if is_comparison:
        return Gathered({"phase": "compare", **value, **_fields("scene_content", scene, shown)}, evidence)
    found = await _available(sources)
    discovery = {"phase": "discovery", **value, **_fields("scene_excerpt", scene, shown), **found}
    return Gathered(discovery, evidence)


def category_of(path: str) -> str:
    """Returns the category of a canon file: by a folder of its path, else by the prefix of its name."""
    canon = story("files")["canon"]
    *folders, name = path.lower().split("/")
    by_folder = next((canon["folders"][folder] for folder in folders if folder in canon["folders"]), None)
    return str(by_folder or canon["prefixes"].get(name.partition("-")[0], canon["other"]))


async def _available(sources: Sources) -> dict[str, Any]:
    globs = story("files")["canon"]["globs"]
    found = [entry for entry in await sources.files() if is_selected(entry.path, globs)]
    listed = [
        {
            "path": entry.path,
            "name": PurePosixPath(entry.path).stem,
            "category": category_of(entry.path),
            "size_bytes": entry.size,
        }
        for entry in found[:_MAX_LISTED]
    ]
    return {"available_canon_files": listed, "total_canon_files": len(found), "instruction": _INSTRUCTION}


def _fields(name: str, source: SourceText, shown: Passage) -> dict[str, Any]:
    text = plain_text(source)
    return {name: shown.text, "truncated": len(shown.text) < len(text.strip()), "total_chars": len(text)}
