"""Sentences about the calls of a turn that are in doubt."""

from __future__ import annotations

from demiurge.bootstrap import Chat, Reply
from demiurge.bootstrap.doubts import BEGUN
from demiurge.cli.approval import SHORT
from demiurge.tools.errors import ToolErrorCode

__all__ = ["doubts_about"]


async def doubts_about(chat: Chat, reply: Reply) -> list[str]:
    """Returns a sentence for each call of the turn that is in doubt: how to find its outcome and say it. A caller who
    may not list doubts gets none."""
    unknown = {call.id for call in reply.tool_calls if call.error_code == ToolErrorCode.UNKNOWN_OUTCOME}
    if not unknown or not chat.backend.caller.has("agent", "approver"):
        return []
    return [
        f"Find out whether {doubt['tool']} took effect, then say so: "
        f'`demiurge doubts settle {doubt["id"][:SHORT]} --done --reason "how you know"`, or with --not-done.'
        for doubt in await chat.backend.read.doubts()
        if doubt["unit"] == str(chat.unit) and doubt["tool_call_id"] in unknown and doubt["code"] != BEGUN
    ]
