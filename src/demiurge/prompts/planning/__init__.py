"""A to-do list that the model keeps in its session: the plan as a fold of events, four
tools, and a section that brings both.

Imports what `prompts` may import, and nothing of `prompts` but the sections.
"""

from demiurge.prompts.planning.plan import (
    AddStep,
    Plan,
    PlanStep,
    ReadPlan,
    SetupPlan,
    UpdateStep,
    fold_plans,
)
from demiurge.prompts.planning.section import PlanningConfig, PlanningToolsSection
from demiurge.prompts.planning.strategy import PlanningStrategy
from demiurge.prompts.planning.tools import planning_tools

__all__ = [
    "AddStep",
    "Plan",
    "PlanStep",
    "PlanningConfig",
    "PlanningStrategy",
    "PlanningToolsSection",
    "ReadPlan",
    "SetupPlan",
    "UpdateStep",
    "fold_plans",
    "planning_tools",
]
