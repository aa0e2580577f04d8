"""The chat reducer: it owns a chat's state and decides what happens next; plans only carry out.

One turn is a user message and all that follows from it: a request to the model, the tool calls that the answer
proposes, one follow-up request when every call has its answer, and so on until the model answers in words
(seeds 000 and 001; architecture.md 4). State keeps refs, not texts. Results are fenced by (request_id, round), so a
late or repeated one changes nothing.

Each proposed call leaves an event, and a plan makes the effect `tool.call` of it: `ToolCallRequested` says that a call
is sound and may run, `ToolCallRefused` why it may not. So a refused call is decided, recorded and answered like any
other.

A message whose attachments the model can't be sent fails its turn, and is not sent again with the turns after it: else
one sound in a chat whose model hears none would end the chat. So does a turn that is too long for the model, or that
the provider's filter refuses to read, at any of its rounds. It stays in the chat for all to see.

A toolset narrows: of the tools that the policy allows, those that the chat's `tools_ref` names may be called. A
message's toolset becomes the chat's, unless it is refused; its tool choice is for that message alone. `ChatTools` sets
both for the chat, and clears what it leaves out. A chat keeps the toolset that `ChatTools` gave it (`own_tools_ref`): a
message may narrow it for its own turn, and is refused if it brings another tool.

A toolset may defer tools: they may be called, and are described only once a call of this turn has found them
(`found_tools`). The turn then has a toolset of its own (`tools_ref` of the turn).

An answer whose evidence does not hold comes with findings: it is marked, asked for again or refused (`evidence`).

A message's catalog text (`catalog_ref`) is for its own turn. Each request of that turn has it right after the system
message, so that a tool that is approved meanwhile is in the next turn alone. A message without one has no catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from demiurge.apps.demiurge.answer import failure_of
from demiurge.apps.demiurge.evidence import REFUSED_CODE, correction, refusal_note, verdict, why_refused
from demiurge.apps.demiurge.found_tools import toolset_with_found
from demiurge.apps.demiurge.notes import ROLE as NOTE
from demiurge.apps.demiurge.notes import doubt_note
from demiurge.apps.demiurge.proposal import Proposal, read_proposal
from demiurge.apps.demiurge.standing import (
    MAX_REQUEST_ID,
    OPEN,
    archived,
    asked_title,
    created,
    deleted,
    imported,
    not_taken,
    renamed,
    spoken_to,
    titled,
    tools_set,
)
from demiurge.apps.demiurge.window import chat_request, left_out_after
from demiurge.errors import InvalidValue
from demiurge.tools.errors import ToolErrorCode
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.arguments import MAX_CALLS
from demiurge.wire.attachments import attached
from demiurge.wire.items import Message, Text
from demiurge.wire.rounds import EMPTY_ANSWER, empty_answer, next_choice, refuse, too_many_rounds
from demiurge.world.messages import attachment_refs, expand
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.toolset import chosen_tag, narrowed

__all__ = ["reduce"]

State = Mapping[str, Any]
Event = Mapping[str, Any]

REFUSED = "demiurge/ToolCallRefused@1"
"""The event of a proposed call that must not run."""

FROM_OUTSIDE = (
    *("ChatRenamed", "ChatArchived", "ChatDeleted", "ChatImported", "ChatTools", "UserMessage", "TurnCancelled"),
)
"""What anybody may send to a chat that is there; the other events are reports of the world itself."""

REFUSALS = ("attachments_too_large", "context_overflow", "invalid_request", "unsupported_attachment")
"""What a request fails with when its attachments may be why: they are too large, or not for this model."""

TOOLS_BEFORE = "demiurge/ToolsBefore@1"
"""The toolset of a chat before a message brought one: none or one address. Older definitions lack it."""

BAD_TOOLSETS = ("bad_toolset", "unknown_tool")
"""What a request fails with because of its toolset. The chat then has the toolset that it had before."""

BLOCKING = ("content_filter", "context_overflow")
"""What a request fails with when something that is said in it may be why: with it, every later one would fail."""


def reduce(state: State | None, event: Event, context: ReducerContext) -> Step:
    """One step of a chat. Results that come from outside the world are refused: only plans report them."""
    tag, value = event["$tag"], event["$value"]
    if context.origin == "external" and tag not in ("ChatCreated", *FROM_OUTSIDE):
        why = f"A {tag} is reported by the world itself; from outside it is not taken."
        return Step(events=[not_taken({"chat_id": context.key, "request_id": 0}, "origin_not_allowed", why)])
    if state is None:
        return _absent(tag, value)
    if state.get("deleted") and tag in FROM_OUTSIDE:
        gone = not_taken(value, "chat_deleted", "This chat was deleted; say it in another one.")
        return Step(events=[gone] if tag != "ChatDeleted" else [])
    return _HANDLERS[tag](state, value, context)


def _absent(tag: str, value: Event) -> Step:
    if tag == "ChatCreated":
        return created(value)
    if tag in FROM_OUTSIDE:
        return Step(events=[not_taken(value, "chat_unknown", "There is no such chat; create it first.")])
    return Step()


def _on_chat_created(_state: State, value: Event, _context: ReducerContext) -> Step:
    why = "There is a chat with this id; it stays as it is."
    return Step(events=[not_taken({**value, "request_id": 0}, "chat_exists", why)])


def _on_user_message(state: State, value: Event, context: ReducerContext) -> Step:
    turn = state["turn"]
    if value["request_id"] <= state["last_request_id"]:
        return Step(events=[not_taken(value, "request_stale", "This chat has already had that request id.")])
    if value["max_tokens"] == 0:
        return Step(events=[not_taken(value, "bad_max_tokens", "An answer needs at least one token.")])
    if value["request_id"] > MAX_REQUEST_ID:
        return Step(events=[not_taken(value, "bad_request_id", "A request id is at most 2^53 - 1.")])
    if turn is not None and turn["status"] in OPEN:
        return Step(events=[not_taken(value, "chat_busy", "The last turn of this chat is still going on.")])
    try:
        items = expand(context.blob(value["message_ref"]), context.blob)
    except InvalidValue as error:
        if error.code == "bad_attachment":
            return Step(events=[not_taken(value, error.code, error.message)])
        return Step(events=[not_taken(value, "bad_message", f"The message blob is not a message: {error}.")])
    said = [item for item in items if isinstance(item, Message) and item.role == "user"]
    if all(part == Text("") for item in said for part in item.content) and len(said) == len(items):
        return Step(events=[not_taken(value, "bad_message", "The message is empty.")])
    if len(said) < len(items):
        return Step(events=[not_taken(value, "bad_message", "The message blob is not a user's message.")])
    own = state.get("own_tools_ref")
    if own and value["tools_ref"]:
        foreign = narrowed(context.blob(value["tools_ref"])) - narrowed(context.blob(own))
        if foreign:
            why = f"This chat's own toolset does not offer {min(foreign)}: leave it out, or set another toolset."
            return Step(events=[not_taken(value, "not_in_toolset", why)])
    message = _message(value["request_id"], "user", value["message_ref"])
    settings = {name: value[name] for name in ("model", "provider", "max_tokens")}
    settings["tools_ref"] = value["tools_ref"] or own or state["tools_ref"]
    if value.get("own_max_tokens") or state.get("own_max_tokens"):
        settings["own_max_tokens"] = value.get("own_max_tokens")
    turn = _new_turn(state, value, context)
    notes = [_message(value["request_id"], NOTE, ref) for ref in state.get("notes") or ()]
    after = {**state, **settings, "messages": state["messages"].extend([*notes, message])}
    told = spoken_to(state, value, context.blob(value["message_ref"]), context)
    told |= {"notes": None} if notes else {}
    return Step(
        set={**settings, **told, "last_request_id": value["request_id"], "turn": turn},
        append={"messages": [*notes, message]},
        events=[chat_request(after, turn, context, _choice(state, value, context))],
        blobs=list(dict.fromkeys(part.data for part in attached(items))),
    )


def _new_turn(state: State, value: Event, context: ReducerContext) -> dict[str, Any]:
    turn = {"request_id": value["request_id"], "round": 1, "status": "model", "calls": [], "seen": []}
    if value.get("catalog_ref"):
        turn["catalog_ref"] = value["catalog_ref"]
    if value["tools_ref"] and TOOLS_BEFORE in context.schemas:
        turn["tools_before"] = [ref for ref in (state["tools_ref"],) if ref]
    return turn


def _choice(state: State, value: Event, context: ReducerContext) -> Any:
    """The tool choice of a message's first request: its own, that of the toolset it brings, the chat's, that of the
    chat's toolset, else Auto. None without a toolset and without a choice."""
    own, brought, kept = value["tool_choice"], value["tools_ref"], state.get("own_tools_ref")
    choice = own or (brought and chosen_tag(context.blob(brought))) or state["tool_choice"]
    if not brought:
        kept = kept or state["tools_ref"]
    if choice is None and kept:
        choice = chosen_tag(context.blob(kept))
    return choice or ({"$tag": "Auto", "$value": None} if brought or kept else None)


def _on_turn_cancelled(state: State, value: Event, _context: ReducerContext) -> Step:
    turn = state["turn"]
    if turn is None or turn["status"] not in OPEN or turn["request_id"] != value["request_id"]:
        return Step()
    return _stopped(turn, "cancelled", "The turn was stopped.", ToolErrorCode.CANCELLED)


def _stopped(turn: State, code: str, message: str, unanswered: ToolErrorCode) -> Step:
    """Fail the turn; calls without an answer get one, so that the history stays well-formed."""
    blobs: list[bytes] = []
    calls = [c if c["result_ref"] else _answered(c, unanswered, blobs) for c in turn["calls"]]
    ended = {**turn, "calls": [], "status": "failed", "code": code, "message": message}
    messages = [_tool_message(turn, call) for call in calls]
    return Step(set={"turn": ended}, append={"messages": messages}, blobs=blobs)


def _on_chat_result(state: State, value: Event, context: ReducerContext) -> Step:
    turn = _current(state, value, "model")
    if turn is None:
        return Step()
    if len(value["tool_call_refs"] or ()) > MAX_CALLS:
        text = f"The model asked for more than {MAX_CALLS} tool calls at once."
        return Step(set={"turn": {**turn, "status": "failed", "code": "too_many_calls", "message": text}})
    message = _message(turn["request_id"], "assistant", value["output_ref"])
    message |= {"token_usage": value["token_usage"], "cost_cents": value["cost_cents"]}
    message |= {
        name: value[name] for name in ("finish_reason", "usage_ref", "findings_ref") if value.get(name) is not None
    }
    if value.get("empty"):  # only results of manifests that know the field say so: older turns stay as they ended
        text = empty_answer(value.get("finish_reason"), state["max_tokens"])
        failed = {**turn, "status": "failed", "code": EMPTY_ANSWER, "message": text}
        return Step(set={"turn": failed}, append={"messages": [message]})
    if not value["tool_call_refs"]:
        return _answer(state, turn, message, context)
    return _propose(state, {**turn, "status": "tools"}, message, value["tool_call_refs"], context)


def _answer(state: State, turn: State, message: State, context: ReducerContext) -> Step:
    """Take an answer in words: the turn is done, unless the evidence of the answer does not hold."""
    findings_ref, retries = message.get("findings_ref"), turn.get("evidence_retries") or 0
    choice = next_choice(turn["round"], context.settings["max_tool_rounds"])
    decided = verdict(context.settings, retries, may_ask=choice is not None) if findings_ref else "mark"
    if decided == "mark":
        asked, events = asked_title(state, context.key)
        return Step(set={"turn": {**turn, "status": "done"}, **asked}, append={"messages": [message]}, events=events)
    findings = context.blob(Ref(findings_ref or ""))
    told = refusal_note(findings) if decided == "refuse" else correction(findings)
    taken = [{**message, "refused": True}, _message(turn["request_id"], NOTE, ref_of(told))]
    if decided == "refuse":
        failed = {**turn, "status": "failed", "code": REFUSED_CODE, "message": why_refused(findings)}
        return Step(set={"turn": failed}, append={"messages": taken}, blobs=[told])
    following = {**turn, "round": turn["round"] + 1, "evidence_retries": retries + 1}
    after = {**state, "messages": state["messages"].extend(taken)}
    tagged = {"$tag": str(choice).capitalize(), "$value": None} if state["tools_ref"] else None
    return Step(
        set={"turn": following},
        append={"messages": taken},
        events=[chat_request(after, following, context, tagged)],
        blobs=[told],
    )


def _propose(state: State, turn: State, message: State, refs: Sequence[Ref], context: ReducerContext) -> Step:
    """Take the calls of one answer: refuse what must not run, ask for the rest."""
    offered = narrowed(context.blob(state["tools_ref"])) if state["tools_ref"] is not None else None
    blobs: list[bytes] = []
    events: list[Emit] = []
    calls: list[dict[str, Any]] = []
    seen = list(turn["seen"])
    for ref in refs:
        proposed = read_proposal(context.blob(ref), context.toolset)
        call = {"id": proposed.id, "name": proposed.tool, "call_ref": ref, "result_ref": None, "outcome": None}
        refusal = _refusal(turn, proposed, proposed.identity in seen, context, offered)
        seen.append(proposed.identity)
        fence = {"chat_id": context.key, "request_id": turn["request_id"], "round": turn["round"]}
        asked = {**fence, "tool_call_id": call["id"], "tool": call["name"], "call_ref": ref}
        if refusal is None:
            events.append(Emit("demiurge/ToolCallRequested@1", asked))
        elif REFUSED in context.schemas:
            events.append(Emit(REFUSED, {**asked, "code": refusal}))
        else:  # a manifest of a user's own, made from an app that did not have this event
            call = _answered(call, refusal, blobs)
        calls.append(call)
    after = {**turn, "calls": calls, "seen": seen}
    return _proceed(state, after, [message], context, events=events, blobs=blobs)


def _refusal(
    turn: State, call: Proposal, repeated: bool, context: ReducerContext, offered: Container[str] | None
) -> str | None:
    """The error code of a call that must not run; the allowlist is the tool policy, which alone decides whether the
    model is told more of a tool. `offered`: the tools of the chat's toolset, None without one."""
    refused = refuse(
        turn["round"],
        context.settings["max_tool_rounds"],
        denied=context.decide_tool(call.tool) == "deny",
        invalid=call.arguments is None,
        repeated=repeated,
    )
    spec = context.toolset.get(call.tool)
    is_barred = spec is None or spec.quarantined
    if is_barred and refused not in (ToolErrorCode.ROUNDS_EXCEEDED, ToolErrorCode.POLICY_DENIED):
        return ToolErrorCode.UNAVAILABLE if spec is None else ToolErrorCode.QUARANTINED
    is_offered = is_barred or offered is None or call.tool in offered
    if not is_offered and refused not in (ToolErrorCode.ROUNDS_EXCEEDED, ToolErrorCode.POLICY_DENIED):
        return ToolErrorCode.NOT_OFFERED
    if refused is None and spec is not None and not call.fits(spec):
        return ToolErrorCode.VALIDATION
    return refused


def _on_tool_result(state: State, value: Event, context: ReducerContext) -> Step:
    named = ("ok", "error_code", "message", "view_ref", "replayed")
    outcome = {name: value[name] for name in named if name in value}
    return _settle(state, value, context, lambda call, _blobs: _with(call, value["result_ref"], outcome))


def _on_tool_failed(state: State, value: Event, context: ReducerContext) -> Step:
    code, message = value["code"], value["message"]
    return _settle(state, value, context, lambda call, blobs: _answered(call, code, blobs, message))


def _settle(
    state: State,
    value: Event,
    context: ReducerContext,
    answer: Callable[[dict[str, Any], list[bytes]], dict[str, Any]],
) -> Step:
    """Note one call's answer."""
    turn = _current(state, value, "tools")
    if turn is None:
        return Step()
    blobs: list[bytes] = []
    calls = [
        answer(call, blobs) if call["id"] == value["tool_call_id"] and not call["result_ref"] else call
        for call in turn["calls"]
    ]
    return _proceed(state, {**turn, "calls": calls}, [], context, blobs=blobs)


def _proceed(
    state: State,
    turn: State,
    messages: list[State],
    context: ReducerContext,
    *,
    events: Sequence[Emit] = (),
    blobs: Sequence[bytes] = (),
) -> Step:
    """When every call has its answer: store the answers in call order and ask the model once more."""
    if not all(call["result_ref"] for call in turn["calls"]):
        return Step(set={"turn": turn}, append={"messages": messages}, events=events, blobs=blobs)
    messages = [*messages, *(_tool_message(turn, call) for call in turn["calls"])]
    choice = next_choice(turn["round"], context.settings["max_tool_rounds"])
    if choice is None:
        failed = {
            "status": "failed",
            "code": "rounds_exceeded",
            "message": too_many_rounds(context.settings["max_tool_rounds"]),
        }
        return Step(set={"turn": {**turn, "calls": [], **failed}}, append={"messages": messages}, blobs=blobs)
    following = {**turn, "calls": [], "round": turn["round"] + 1, "status": "model"}
    tools_ref = turn.get("tools_ref") or state["tools_ref"]
    loaded = toolset_with_found(tools_ref, turn["calls"], context) if tools_ref is not None else None
    if loaded is not None:
        following["tools_ref"] = ref_of(loaded)
    after = {**state, "messages": state["messages"].extend(messages)}
    return Step(
        set={"turn": following},
        append={"messages": messages},
        events=[*events, chat_request(after, following, context, {"$tag": choice.capitalize(), "$value": None})],
        blobs=[*blobs, *([loaded] if loaded is not None else [])],
    )


def _on_chat_failed(state: State, value: Event, context: ReducerContext) -> Step:
    turn = _current(state, value, "model")
    if turn is None:
        return Step()
    failed = {"turn": {**turn, "status": "failed", "code": value["code"], "message": value["message"]}}
    asked = state["messages"][-1]
    before = turn.get("tools_before")
    if value["code"] in BAD_TOOLSETS and turn["round"] == 1 and before is not None:
        return Step(set={**failed, "tools_ref": before[0] if before else None})
    if value["code"] in BLOCKING:
        return Step(set={**failed, "left_out": left_out_after(state, turn, value["code"])})
    if value["code"] in REFUSALS and turn["round"] == 1 and attachment_refs(context.blob(asked["message_ref"])):
        return Step(set={**failed, "left_out": [*(state.get("left_out") or ()), turn["request_id"]]})
    return Step(set=failed)


def _on_plan_failed(state: State, value: Event, _context: ReducerContext) -> Step:
    turn = state["turn"]
    if turn is None or turn["status"] not in OPEN or value["correlation"] != str(turn["request_id"]):
        return Step()
    return _stopped(turn, value["code"], value["message"], ToolErrorCode.UNKNOWN_OUTCOME)


def _on_step_failed(state: State, value: Event, _context: ReducerContext) -> Step:
    turn = state["turn"]
    if turn is None or turn["status"] not in OPEN:
        return Step()
    return _stopped(turn, value["code"], value["message"], ToolErrorCode.UNKNOWN_OUTCOME)


def _on_doubt_settled(state: State, value: Event, context: ReducerContext) -> Step:
    """Keep a note for the next turn; nothing is asked of the model now."""
    result = context.blob(value["result_ref"]) if value["result_ref"] else None
    note = doubt_note(value, result)
    return Step(set={"notes": [*(state.get("notes") or ()), ref_of(note)]}, blobs=[note])


_HANDLERS: Mapping[str, Callable[[State, Event, ReducerContext], Step]] = {
    "ChatCreated": _on_chat_created,
    "ChatRenamed": renamed,
    "ChatArchived": archived,
    "ChatDeleted": deleted,
    "ChatTitled": titled,
    "ChatImported": imported,
    "ChatTools": tools_set,
    "UserMessage": _on_user_message,
    "TurnCancelled": _on_turn_cancelled,
    "ChatResult": _on_chat_result,
    "ChatFailed": _on_chat_failed,
    "ToolResult": _on_tool_result,
    "ToolFailed": _on_tool_failed,
    "PlanFailed": _on_plan_failed,
    "StepFailed": _on_step_failed,
    "DoubtSettled": _on_doubt_settled,
}


def _current(state: State, value: Event, status: str) -> State | None:
    """The open turn, if `value` belongs to its present round; None makes the event stale."""
    turn: State | None = state["turn"]
    if turn is None or turn["status"] != status:
        return None
    same = (turn["request_id"], turn["round"]) == (value["request_id"], value["round"])
    return turn if same else None


def _message(request_id: int, role: str, ref: Ref) -> dict[str, Any]:
    return {"request_id": request_id, "role": role, "message_ref": ref}


def _tool_message(turn: State, call: State) -> dict[str, Any]:
    return {**_message(turn["request_id"], "tool", call["result_ref"]), "tool": call["outcome"]}


def _with(call: State, result_ref: Ref, outcome: Mapping[str, Any]) -> dict[str, Any]:
    named = {"id": call["id"], "name": call["name"], **outcome}
    return {**call, "result_ref": result_ref, "outcome": named}


def _answered(call: State, code: str, blobs: list[bytes], message: str = "") -> dict[str, Any]:
    """Answer a call that no runner answered, in the words and the bytes that the runner has for it."""
    code, why, blob = failure_of(call["id"], code, message)
    blobs.append(blob)
    return _with(call, ref_of(blob), {"ok": False, "error_code": code, "message": why, "view_ref": None})
