"""Session plans: a to-do list that the model keeps in its session. The plan is a fold of events; four tools change
and show it, and a section adds them to a prompt.

Imports what `prompts` may import, and of `prompts` only the sections.
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
