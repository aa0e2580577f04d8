"""The state of a call as the result of `tools/call`."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp.server.context import HandlerResult
from mcp.shared.exceptions import MCPError

from demiurge.mcp.gateway.catalog import lists_output
from demiurge.mcp.gateway.handed_on import Marks, handed_on
from demiurge.mcp.gateway.port import Attached, CallState, Waiting
from demiurge.tools.errors import ToolErrorCode, failure_answer, failure_text
from demiurge.tools.spec import ToolSpec

__all__ = ["CALL_ID", "EARLIER", "AnswerForm", "Blob", "ToolForm", "meta_of", "unknown_tool", "waits_text"]

CALL_ID: Final = "demiurge/call"
"""The key in `_meta` of a result: the id of the call, by which its record is found."""

EARLIER: Final = "demiurge/earlier"
"""The key in `_meta` of a result that tells the outcome of a call that was asked for before; nothing ran now."""


Blob: TypeAlias = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How a client is told what came of a call: its end (an error is raised when the answer counts as given), a wait,
    or that there was none. `has_tasks`: the request may become a task."""

    ended: Callable[[CallState, Blob], Awaitable[HandlerResult | MCPError]]
    waits: Callable[[CallState, Waiting | None], HandlerResult]
    refused: Callable[[str, str], HandlerResult]
    has_tasks: bool = False


def unknown_tool(name: str) -> MCPError:
    """Returns the answer to a call of a tool that is not there for the caller, whether it is missing or denied."""
    return MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")


def _refused(code: str, message: str) -> types.CallToolResult:
    """Returns the result of a call that was not recorded."""
    if code in set(ToolErrorCode):
        answer = failure_answer(ToolErrorCode(code), message or None)
    else:
        answer = {"ok": False, "error_code": code, "message": message}
    return types.CallToolResult(
        content=[types.TextContent(text=failure_text(answer))], structured_content=answer, is_error=True
    )


@dataclass(frozen=True, slots=True)
class ToolForm:
    """The answers to calls of one tool. `name`: the client's; `spec`: as the caller's catalog has the tool, None if it
    is not there. Results with a listed output schema have structured content or are errors, because clients refuse
    others."""

    name: str
    spec: ToolSpec | None
    marks: Marks | None = None

    @property
    def form(self) -> AnswerForm:
        return AnswerForm(self.ended, self._waits, _refused, has_tasks=True)

    async def ended(self, state: CallState, blob: Blob) -> types.CallToolResult | MCPError:
        """Returns the result of a call that has ended."""
        if self.spec is None and state.error_code == ToolErrorCode.POLICY_DENIED:
            return unknown_tool(self.name)
        if state.verbatim is not None:
            parts = [await blob(part.ref) for part in state.attached]
            meta = meta_of(state)
            return handed_on(state.verbatim, parts, state.tool, self.spec, self.marks, note=state.note, meta=meta)
        result = await _ended(state, blob)
        return self._fitting(result) if result.structured_content is None else result

    def _waits(self, state: CallState, waiting: Waiting | None) -> types.CallToolResult:
        return self._fitting(_waits(state, waiting))

    def _fitting(self, result: types.CallToolResult) -> types.CallToolResult:
        return result.model_copy(update={"is_error": True}) if lists_output(self.spec) else result


async def _ended(state: CallState, blob: Blob) -> types.CallToolResult:
    """Returns the result of a call that has ended. A failure has our code and the safe message, in the same text that
    every model reads."""
    text = state.text or ("" if state.ok else failure_text(_failure(state)))
    content: list[types.ContentBlock] = [types.TextContent(text=text)] if text else []
    content += [await _block(part, blob) for part in state.attached]
    return types.CallToolResult(
        content=content or [types.TextContent(text="")],
        structured_content=_structured(state) if state.ok else _failure(state),
        is_error=not state.ok,
        _meta=meta_of(state),
    )


def _failure(state: CallState) -> dict[str, Any]:
    return {"ok": False, "error_code": state.error_code, "message": state.message}


def _structured(state: CallState) -> dict[str, Any] | None:
    """Returns the value as data, if it is an object that the text ends with. Some clients show a model nothing else
    than the data, so data with less than the text has would hide the rest."""
    whole = state.text.rpartition("\n\n")[2]
    if not isinstance(state.view, dict) or not whole.startswith("{"):
        return None
    try:
        return state.view if json.loads(whole) == state.view else None
    except ValueError:
        return None


def meta_of(state: CallState) -> dict[str, Any]:
    more = {EARLIER: True} if state.earlier else {}
    return {CALL_ID: state.call_id, **more}


async def _block(part: Attached, blob: Blob) -> types.ContentBlock:
    data = base64.b64encode(await blob(part.ref)).decode()
    if part.kind == "image":
        return types.ImageContent(data=data, mime_type=part.mime)
    if part.kind == "audio":
        return types.AudioContent(data=data, mime_type=part.mime)
    resource = types.BlobResourceContents(uri=f"demiurge:blob/{part.ref}", mime_type=part.mime, blob=data)
    return types.EmbeddedResource(resource=resource)


def _waits(state: CallState, waiting: Waiting | None) -> types.CallToolResult:
    """Returns the result of a call that waits for a person, was just decided, or still runs, for a client that can't be
    told later."""
    text = waits_text(waiting) if waiting is not None else DECIDED if state.status == "waiting" else RUNS
    status = "running" if waiting is None else "needs_answer" if waiting.questions else "awaiting_approval"
    data = {"status": status, "call_id": state.call_id, "message": text}
    if waiting is not None:
        data["approval"] = waiting.approval
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=data, is_error=False, _meta=meta_of(state)
    )


RUNS: Final = "The call is still running. Call the same tool again with the same arguments to read its result."

DECIDED: Final = (
    "A person has just decided on this call, or the time to decide has just ended. Call the same tool again with the "
    "same arguments to read its result."
)


def waits_text(waiting: Waiting) -> str:
    """Returns what waits, and how to ask again."""
    if waiting.questions:
        what = f"This call of {waiting.tool} has not ended: it asks a person something (id {waiting.approval})."
        does = "answers it"
        command = f"{waiting.command} approvals answer {waiting.approval[:12]}"
    else:
        what = (
            f"This call of {waiting.tool} has not run: it waits for the approval of a person (id {waiting.approval})."
        )
        does = "decides"
        command = f"{waiting.command} approvals approve {waiting.approval[:12]}"
    again = "Then call the same tool again with the same arguments: that reads the result, and runs nothing twice."
    return f"{what} A person {does} with `{command}`, or in the web shell. {again}"
