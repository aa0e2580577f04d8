"""The agent loop for programs that have no world: a model, a runner and a conversation that the caller keeps.

It decides nothing itself: which calls may run is the runner's to say, which come too often `demiurge.wire.rounds`',
as in a world's chat. May import `demiurge.models`, `wire`, `tools`, `values` and `errors`; `demiurge.world` has a
loop of its own, in records.
"""

from demiurge.agents.loop import AgentLoop
from demiurge.agents.run import AgentRun
from demiurge.agents.turn import Turn

__all__ = ["AgentLoop", "AgentRun", "Turn"]
