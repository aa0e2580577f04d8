"""`beat_architect`: a scaffold of beats for the brief of a scene, or the questions that the brief leaves open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from demiurge.registry.pack.parameters import DRY_RUN
from demiurge.registry.pack.result import Gathered, GatherError, dry_run_of
from demiurge.registry.pack.story import story

__all__ = ["PlanBeats", "confidence_of", "gather"]

_FEWEST, _MOST = 3, 12
_MAX_BRIEF: Final = 8000
_MAX_ECHO: Final = 1200
_BASE, _STEP, _FULL = 50, 10, 100


@dataclass(frozen=True, slots=True)
class PlanBeats:
    scene_brief: str = field(metadata={"description": "Brief of the scene, in the user's words."})
    density: Literal["lean", "balanced", "dense"] | None = field(
        default=None, metadata={"description": "How many beats. Left out: balanced."}
    )
    max_clusters: Annotated[int, Field(ge=1, le=100)] | None = field(
        default=None, metadata={"description": "The most beats to plan, 3 to 12."}
    )
    dry_run: bool = field(default=False, metadata=DRY_RUN)


async def gather(params: PlanBeats) -> Gathered:
    """Returns a template of each beat if the brief says enough, else the questions to ask. No part of the story is
    made up."""
    brief = params.scene_brief.strip()
    if not brief or len(brief) > _MAX_BRIEF:
        raise GatherError(f"A brief has 1 to {_MAX_BRIEF} characters.")
    if params.dry_run:
        return dry_run_of(params)
    data = story("beats")
    confidence = confidence_of(brief)
    value: dict[str, Any] = {"confidence": confidence, "brief": brief[:_MAX_ECHO]}
    if confidence < data["needed_confidence"]:
        questions = [group["question"] for group in data["groups"] if not _is_named(group, brief)]
        questions += [data["density_question"]] if params.density is None else []
        return Gathered(
            {**value, "needs_clarification": True, "questions": questions, "instruction": data["instruction"]}
        )
    wanted = data["densities"][params.density or "balanced"]
    count = min(max(min(wanted, params.max_clusters or wanted), _FEWEST), _MOST)
    return Gathered(
        {
            **value,
            "needs_clarification": False,
            "density": params.density or "balanced",
            "clusters": count,
            "cluster_templates": [{"label": label, **data["hints"]} for label in _labels(count)],
        }
    )


def confidence_of(brief: str) -> int:
    """Returns how much of a scene a brief lays down, 50 to 100: points for each group of words that it has one of, and
    for its length."""
    data = story("beats")
    points = _BASE + _STEP * sum(_is_named(group, brief) for group in data["groups"])
    points += sum(row["points"] for row in data["lengths"] if len(brief) >= row["chars"])
    return min(int(points), _FULL)


def _is_named(group: dict[str, Any], brief: str) -> bool:
    plain = brief.casefold()
    return any(word in plain for word in group["words"])


def _labels(count: int) -> list[str]:
    return ["SCENE START", *(f"CONTINUATION {number}" for number in range(1, count - 1)), "SCENE ENDING"]
