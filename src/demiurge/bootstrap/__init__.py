"""The composition root: binds adapters to ports, and holds the `World` that users import.

It chooses model, key and address from the environment, and may import everything below `cli`.
"""

from demiurge.bootstrap.chat import Chat, Reply, ToolCallView
from demiurge.bootstrap.world import World

__all__ = ["Chat", "Reply", "ToolCallView", "World"]
