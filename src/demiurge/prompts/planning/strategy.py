"""Planning strategies: how the model is told to think while it keeps a plan.

There is one text with one gap: only the paragraph on the way of thinking differs, so a change of strategy does not
change the text about the tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from demiurge.prompts.planning.plan import MAX_TEXT

__all__ = ["PlanningStrategy", "instructions"]


class PlanningStrategy(Enum):
    """`REACT`: think, act and observe in turns. `PLAN_ACT_REFLECT`: the whole plan first, then a reflection on each
    step. `GOAL_DECOMPOSE_ROUTE_SYNTHESISE`: understand, split, choose tools, combine."""

    REACT = "react"
    PLAN_ACT_REFLECT = "plan_act_reflect"
    GOAL_DECOMPOSE_ROUTE_SYNTHESISE = "goal_decompose_route_synthesise"


_MINDSETS: Mapping[PlanningStrategy, str] = MappingProxyType(
    {
        PlanningStrategy.REACT: """\
Work in short turns: think about what you need to know next, call a tool to find it out, and look at what came back
before you think on. A plan of a few steps is enough to begin with; let what you observe decide which steps are added
or renamed. Write each observation that matters into the notes of the step it belongs to.""",
        PlanningStrategy.PLAN_ACT_REFLECT: """\
Lay out the whole plan, from the first step to the last, before you act on any of it. Then carry the steps out one by
one. After each, stop and reflect: did it give what it was meant to give, and do the steps that are left still make
sense? Write that reflection into the notes of the step, and change the plan where it calls for that.""",
        PlanningStrategy.GOAL_DECOMPOSE_ROUTE_SYNTHESISE: """\
First say in your own words what is wanted; that is the objective. Split it into sub-problems, each a step that can be
solved by itself, and only when all are named decide which tool or which knowledge each one goes to. Write the partial
answer of a step into its notes. In the end, bring the partial answers together into one answer that hangs together,
and check it against the objective.""",
    }
)

_INSTRUCTIONS = """\
Keep a plan for work that takes several steps, and skip it for what can be answered at once. The plan is a to-do list
that stays with this session; nothing but these tools changes it.

**How to think.**
{mindset}

**Which tool when.**

- `planning_setup_plan`: at the start, with the objective and the steps that you know. It replaces the plan that is
  there, if any.
- `planning_add_step`: when more turns out to be needed. New steps come last.
- `planning_update_step`: when a step is begun or finished, when its title should say something else, and when
  something about it is worth a note.
- `planning_read_plan`: when you are not sure how the plan stands.

**Rules.**

- Set a step to `in_progress` when you begin it and to `done` when it is finished; work on one step at a time.
- Give the last note on a step in the same call that sets it to `done`: when all steps are done the plan is completed,
  and a completed plan can't be changed, only replaced.
- Refer to steps by their number. A number is never given to another step, not even in a new plan.
- An objective, a title or a note has at most {most} characters.
"""


def instructions(strategy: PlanningStrategy) -> str:
    """Returns the body of the planning section, in Markdown."""
    return _INSTRUCTIONS.format(mindset=_MINDSETS[strategy], most=MAX_TEXT)
