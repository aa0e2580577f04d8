"""The agent loop for programs without a world: a model, a runner and a conversation that the caller stores.

The loop decides nothing itself: the runner decides which calls may run, and `demiurge.wire.rounds` limits them, as in a
world's chat. May import `demiurge.models`, `wire`, `tools`, `values` and `errors`; `demiurge.world` has a loop of its
own, in records.
"""

from demiurge.agents.loop import AgentLoop
from demiurge.agents.run import AgentRun
from demiurge.agents.turn import Turn

__all__ = ["AgentLoop", "AgentRun", "Turn"]
