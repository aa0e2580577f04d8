"""The messages of a chat as its caller may see them (`Chat.messages`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from demiurge.bootstrap.backend.message_body import MessageBody
from demiurge.bootstrap.backend.visibility import sees_records
from demiurge.bootstrap.chat_state import ChatCell
from demiurge.bootstrap.decided_calls import with_decisions
from demiurge.bootstrap.message_body import load_body, load_findings, load_view
from demiurge.bootstrap.turn_outcome import messages_from

__all__ = ["shown_messages"]


async def shown_messages(cell: ChatCell, since: int) -> list[dict[str, Any]] | None:
    """Returns the messages from the request id `since` on, in the form that `Chat.messages` documents; None for a chat
    that was never created."""
    messages = await messages_from(cell, since)
    if messages is None:
        return None
    shown, whole = [], sees_records(cell.backend.caller)
    for message in messages:
        if (message.tool is not None or message.role == "system") and not whole:
            body = MessageBody()  # the text that only the model is given; of a result its public view is shown
        else:
            body = load_body(cell.backend, message.message_ref)
        entry = {"request_id": message.request_id, "role": message.role, "ref": message.message_ref}
        entry["text"] = body.text
        if message.tool is not None:
            result = load_view(cell.backend, message.tool.view_ref)
            told = {"content": body.text, "value": body.value} if whole else {}
            entry |= {"text": "", "tool": {**message.tool.shown, "result": result, **told}}
        if findings := load_findings(cell.backend, message.findings_ref):
            entry["findings"] = [asdict(finding) for finding in findings]
        entry |= {name: True for name in ("refused", "imported") if getattr(message, name)}
        for name in ("attachments", "tool_calls", "erased", "skip_tool_catalog"):
            if found := getattr(body, name):
                entry[name] = found
        shown.append(entry)
    return await with_decisions(cell.backend, cell.chat_id, shown)
