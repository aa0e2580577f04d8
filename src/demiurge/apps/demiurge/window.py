"""The messages of a chat that a request to its model tells: a window of whole turns, without those that failed because
of what is said in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from demiurge.apps.demiurge.notes import ROLE as NOTE
from demiurge.values.refs import Ref
from demiurge.world.reducer import Emit, ReducerContext

__all__ = ["chat_request", "left_out_after", "window"]


State = Mapping[str, Any]


def left_out_after(state: State, turn: State, code: str) -> list[int]:
    """Returns the turns that no later request tells of, after `turn` has failed with `code`. If the turn before it was
    too long as well, it may be the whole that is: then the oldest turn that was told goes with it, as when the window
    moves."""
    left_out = [*(state.get("left_out") or ()), turn["request_id"]]
    ids = list(dict.fromkeys(message["request_id"] for message in state["messages"]))
    before = ids[:-1]
    if code == "context_overflow" and before and before[-1] in left_out:
        oldest = next((request_id for request_id in before if request_id not in left_out), None)
        left_out += [oldest] if oldest is not None else []
    return left_out


def window(
    messages: Sequence[State], settings: State, left_out: Collection[int] = (), catalog_ref: Ref | None = None
) -> list[Ref]:
    """Returns the messages of the last `window_turns` turns, after the system message and the catalog. Whole turns: a
    call keeps its output. The turns `left_out` don't count; of them only notes are sent."""
    kept: list[Ref] = []
    turns: set[int] = set()
    for message in reversed(messages):
        if message["request_id"] in left_out:
            if message["role"] == NOTE:
                kept.append(message["message_ref"])
            continue
        turns.add(message["request_id"])
        if len(turns) > settings["window_turns"]:
            break
        kept.append(message["message_ref"])
    before = [settings.get("system_ref"), catalog_ref]
    return [*(Ref(ref) for ref in before if ref), *reversed(kept)]


def chat_request(state: State, turn: State, context: ReducerContext, choice: Any) -> Emit:
    """Returns the event that asks the chat's model for the next answer of a turn. `choice`: the tool choice."""
    refs = window(state["messages"], context.settings, state.get("left_out") or (), turn.get("catalog_ref"))
    value = {
        "chat_id": context.key,
        "request_id": turn["request_id"],
        "round": turn["round"],
        "message_refs": refs,
        "model": state["model"],
        "provider": state["provider"],
        "temperature": context.settings["temperature"],
        "max_tokens": state["max_tokens"],
        "tools_ref": turn.get("tools_ref") or state["tools_ref"],
        "tool_choice": choice,
    }
    return Emit("demiurge/ChatRequest@1", value)
