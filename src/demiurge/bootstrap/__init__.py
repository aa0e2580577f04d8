"""The composition root: binds adapters to ports, and holds the `World` that users import.

It chooses model, key and address from the environment, and may import everything below `cli`.
"""

from demiurge.bootstrap.call import CallOutcome
from demiurge.bootstrap.chat import Chat
from demiurge.bootstrap.chats import ChatSummary
from demiurge.bootstrap.reply import Reply, ToolCallView
from demiurge.bootstrap.world import World

__all__ = ["CallOutcome", "Chat", "ChatSummary", "Reply", "ToolCallView", "World"]
