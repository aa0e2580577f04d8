"""Calls of the core tools that read prose, each on the files `a.md` and `b.md`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from demiurge.registry.pack import (
    consistency_checker,
    line_editor,
    prose_analyzer,
    reader_experience_simulator,
    scene_draft_validator,
    scene_impact_analyzer,
    stakes_mapper,
    timeline_validator,
)
from demiurge.registry.pack.result import Gathered
from demiurge.registry.pack.sources import Sources

CALLS: Final[dict[str, Callable[[Sources], Awaitable[Gathered]]]] = {
    "prose_analyzer": lambda s: prose_analyzer.gather(prose_analyzer.AnalyzeProse("a.md"), s),
    "consistency_checker": lambda s: consistency_checker.gather(
        consistency_checker.CheckConsistency(("a.md", "b.md")), s
    ),
    "scene_draft_validator": lambda s: scene_draft_validator.gather(
        scene_draft_validator.ValidateDraft("a.md", outline_path="a.md"), s
    ),
    "stakes_mapper": lambda s: stakes_mapper.gather(stakes_mapper.MapStakes(scene_paths=("a.md",)), s),
    "stakes_mapper of an outline": lambda s: stakes_mapper.gather(stakes_mapper.MapStakes(outline_path="a.md"), s),
    "line_editor": lambda s: line_editor.gather(line_editor.EditLines("a.md"), s),
    "scene_impact_analyzer": lambda s: scene_impact_analyzer.gather(
        scene_impact_analyzer.AnalyzeImpact("a.md", outline_path="a.md"), s
    ),
    "reader_experience_simulator": lambda s: reader_experience_simulator.gather(
        reader_experience_simulator.SimulateReader(("a.md", "b.md")), s
    ),
    "timeline_validator": lambda s: timeline_validator.gather(timeline_validator.ValidateTimeline(("a.md", "b.md")), s),
}
