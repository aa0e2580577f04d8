"""Assertions about tool calls. A failure lists the calls that there were.

Invariant: nothing is run and nothing is changed; what is asserted on is read as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from demiurge.agents.turn import Turn
from demiurge.bootstrap.call import CallOutcome
from demiurge.bootstrap.reply import Reply, ToolCallView
from demiurge.bootstrap.world import World
from demiurge.errors import UsageError
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.ids import canonical_id
from demiurge.tools.record import ToolExecResult, ToolInvocationRecord
from demiurge.values import canonical_json
from demiurge.wire.items import ToolCall, ToolOutput
from demiurge.world.effect_kinds import TOOL

__all__ = [
    "Calls",
    "SeenCall",
    "assert_no_tool_called",
    "assert_tool_called",
    "assert_tool_denied",
    "assert_tool_not_called",
    "assert_waits_for_approval",
    "tool_calls",
]

WIDTH = 200
"""How many characters of a call's arguments a failure shows."""

WAITS = ToolErrorCode.APPROVAL_REQUIRED.value
DENIED = frozenset({"policy_denied", "not_offered", "approval_rejected", "authz_denied", "quarantined"})
"""The error codes of a denial."""

Calls: TypeAlias = (
    Reply | Turn | World | CallOutcome | ToolExecResult | ToolInvocationRecord | Iterable[ToolExecResult | CallOutcome]
)
"""A source of calls for the assertions: a Reply, a Turn, a World (all its calls), or the outcomes of calls."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """One proposed call. `arguments` None: not known here, or no JSON object. `ok` None: it has not ended.
    `error_code` is None for a call that succeeded; `waits`: a person has to decide."""

    tool: str
    arguments: Mapping[str, Any] | None
    ok: bool | None
    error_code: str | None = None
    message: str = ""

    @property
    def waits(self) -> bool:
        return self.ok is not True and self.error_code == WAITS

    def __str__(self) -> str:
        given = "..." if self.arguments is None else json.dumps(self.arguments, ensure_ascii=False, default=str)
        shown = given if len(given) <= WIDTH else f"{given[:WIDTH]}..."
        if self.waits:
            outcome = "waits for a person"
        elif self.ok is None:
            outcome = "has not ended"
        else:
            outcome = "ok" if self.ok else f"{self.error_code}: {self.message}"
        return f"{self.tool} {shown} -> {outcome}"


def tool_calls(of: Calls) -> list[SeenCall]:
    """Returns the calls of a reply, a turn, a world, or of outcomes, in the order in which they were proposed."""
    return list(_calls(of))


def assert_tool_called(
    of: Calls,
    tool_id: str,
    *,
    times: int | None = None,
    arguments: Mapping[str, Any] | Callable[[Mapping[str, Any]], bool] | None = None,
    ok: bool | None = None,
) -> SeenCall:
    """Asserts that a model, or a person, called the tool; returns the last such call.

    `times`: exactly so often; None: at least once. `arguments`: those that the call must have, others are ignored; or a
    function of all arguments. `ok`: True for calls that succeeded, False for those that did not; None for all, also
    those that wait or were denied."""
    __tracebackhide__ = True
    calls, name = tool_calls(of), canonical_id(tool_id)
    found = [call for call in calls if call.tool == name and _fits(call, arguments, ok)]
    if times == 0:
        raise UsageError("assert_tool_called returns a call: use assert_tool_not_called for a tool without calls.")
    if not found or (times is not None and len(found) != times):
        raise AssertionError(_failure(calls, name, _wanted(times, arguments, ok), len(found)))
    return found[-1]


def assert_tool_not_called(of: Calls, tool_id: str) -> None:
    """Asserts that nobody called the tool, not even in vain."""
    __tracebackhide__ = True
    calls, name = tool_calls(of), canonical_id(tool_id)
    found = sum(call.tool == name for call in calls)
    if found:
        raise AssertionError(_failure(calls, name, "no call", found))


def assert_no_tool_called(of: Calls) -> None:
    """Asserts that no tool was called."""
    __tracebackhide__ = True
    calls = tool_calls(of)
    if calls:
        raise AssertionError(f"No tool should have been called. {_listed(calls)}")


def assert_tool_denied(of: Calls, tool_id: str, *, code: str | None = None) -> SeenCall:
    """Asserts that a call of the tool was denied by the policy, by an authorizer or by a person; returns the last such
    call. `code`: the error code of the denial."""
    __tracebackhide__ = True
    calls, name = tool_calls(of), canonical_id(tool_id)
    codes = DENIED if code is None else {code}
    found = [call for call in calls if call.tool == name and not call.ok and call.error_code in codes]
    if not found:
        raise AssertionError(_failure(calls, name, f"a call that was denied ({', '.join(sorted(codes))})", 0))
    return found[-1]


def assert_waits_for_approval(of: Calls, tool_id: str) -> SeenCall:
    """Asserts that a call of the tool waits for a person; returns the last such call."""
    __tracebackhide__ = True
    calls, name = tool_calls(of), canonical_id(tool_id)
    found = [call for call in calls if call.tool == name and call.waits]
    if not found:
        raise AssertionError(_failure(calls, name, "a call that waits for a person", 0))
    return found[-1]


def _fits(
    call: SeenCall, arguments: Mapping[str, Any] | Callable[[Mapping[str, Any]], bool] | None, ok: bool | None
) -> bool:
    if ok is not None and call.ok is not ok:
        return False
    if arguments is None:
        return True
    given = call.arguments
    if given is None:
        return False
    if callable(arguments):
        return bool(arguments(given))
    return all(name in given and given[name] == value for name, value in arguments.items())


def _wanted(times: int | None, arguments: object, ok: bool | None) -> str:
    often = "a call" if times is None else "one call" if times == 1 else f"{times} calls"
    ends = "" if ok is None else " that succeeded" if ok else " that failed"
    fits = "" if arguments is None else f" with {'fitting arguments' if callable(arguments) else arguments}"
    return f"{often}{fits}{ends}"


def _failure(calls: list[SeenCall], name: str, wanted: str, found: int) -> str:
    return f"Expected {wanted} of {name}, found {found}. {_listed(calls)}"


def _listed(calls: list[SeenCall]) -> str:
    if not calls:
        return "No tool was called."
    return "\n".join(("The calls were:", *(f"  {call}" for call in calls)))


def _calls(of: Any) -> Iterator[SeenCall]:
    match of:
        case Reply():
            for call in of.tool_calls:
                yield _view(call, of.approvals)
        case Turn():
            yield from _of_turn(of)
        case World():
            yield from _of_world(of)
        case CallOutcome():
            yield SeenCall(of.tool, None, of.ok, of.error_code, of.message)
        case ToolExecResult():
            yield SeenCall(of.record.name, of.record.args, of.ok, of.error_code, of.safe_message or "")
        case ToolInvocationRecord():
            error = of.error or {}
            yield SeenCall(of.name, of.args, of.error is None, error.get("code"), error.get("message", ""))
        case str() | bytes() | Mapping():
            raise _unknown(of)
        case Iterable():
            for each in of:
                yield from _calls(each)
        case _:
            raise _unknown(of)


def _unknown(of: object) -> UsageError:
    kinds = "a Reply, a Turn, a World, the outcomes of calls, or records"
    return UsageError(f"The tool calls of {type(of).__name__} are not known here: give {kinds}.")


def _view(call: ToolCallView, approvals: tuple[str, ...]) -> SeenCall:
    code = call.error_code if call.ok is not None or not approvals else WAITS
    return SeenCall(call.name, _object(call.arguments_json), call.ok, code, call.message)


def _of_turn(turn: Turn) -> Iterator[SeenCall]:
    answers = {item.id: item for item in turn.items if isinstance(item, ToolOutput)}
    waiting = {call.id for call in turn.open_calls} if turn.approvals else set()
    for item in turn.items:
        if isinstance(item, ToolCall):
            answer = answers.get(item.id)
            ok = None if answer is None or item.id in waiting else not answer.is_error
            code = WAITS if item.id in waiting else None if ok is not False else "error"
            yield SeenCall(item.name, _object(item.arguments_json), ok, code, answer.content if answer else "")


def _of_world(world: World) -> Iterator[SeenCall]:
    """Yields the calls in the order of their intents. A call that a person changed is listed as it was run."""
    seen: dict[bytes, SeenCall] = {}
    for record in world.journal.read():
        body = record.body
        if record.kind == "intent" and body["kind"] == TOOL:
            params, waits = body["params"], body.get("approval") is not None
            seen.pop(body.get("leg", {}).get("after"), None)
            call = canonical_json.parse_object(world.blobs.get(params["call_ref"]))
            arguments = _object(call.get("arguments_json"))
            seen[body["id"]] = SeenCall(params["tool"], arguments, None, WAITS if waits else None)
        elif record.kind == "approval" and body.get("intent") in seen:
            found = seen[body["intent"]]
            seen[body["intent"]] = SeenCall(found.tool, found.arguments, None)
        elif record.kind == "receipt" and body["intent"] in seen:
            found, payload = seen[body["intent"]], body["payload"]
            code, message = payload.get("error_code", payload.get("code")), payload.get("message", "")
            seen[body["intent"]] = SeenCall(found.tool, found.arguments, bool(payload.get("ok")), code, message)
    yield from seen.values()


def _object(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
