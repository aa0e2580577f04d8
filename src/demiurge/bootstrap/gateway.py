"""A `World` for the gateway (`demiurge.mcp.gateway.port`): the catalog of a caller, and calls that outlive a client."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from demiurge.apps.demiurge import CALLS
from demiurge.bootstrap.backend import Frames
from demiurge.bootstrap.backend.asked_calls import AskedCall, new_call_id, question_of
from demiurge.bootstrap.backend.message_body import MessageBody
from demiurge.bootstrap.offered_tools import listed_tools, tokens_of
from demiurge.bootstrap.secrets import config_folder
from demiurge.bootstrap.world import World
from demiurge.errors import DemiurgeError, UsageError
from demiurge.mcp.gateway.port import AskedQuestion, Attached, CallLog, CallProgress, CallState, Completed, Waiting
from demiurge.stores.secret_key import read_or_make_key
from demiurge.tools.ids import ASK_USER, FIND_TOOLS
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemEntropy
from demiurge.values.refs import parse_ref
from demiurge.world.effects.deferred_tools import with_deferred
from demiurge.world.effects.edited_answer import edit_note
from demiurge.world.manifest_log import MANIFESTS
from demiurge.world.unit import Unit

__all__ = ["Catalogs", "GatewayWorld", "own_names", "saving", "searched", "user_key"]

MODEL_S_QUESTION: Final = "answer"
"""The key of the question that `core__ask_user` asks."""

LOOK_S: Final = 0.05
"""How long nobody looks for a change of the catalog after the last look, in seconds."""


def user_key() -> bytes:
    """Returns the key of the user's gateways, which lies in the user's config folder; makes it if there is none.
    Without a home folder it is a new key, which is good until this process ends. Raises Unavailable."""
    folder = config_folder(os.environ)
    if folder is None:
        return SystemEntropy().token(32)
    return bytes.fromhex(read_or_make_key(folder / "gateway.key", SystemEntropy()).reveal())


async def own_names(world: World, server: str | None) -> dict[str, str] | None:
    """Returns the names that one MCP server gave its tools, by their ids; None without a server. Raises NotFound
    (`no_mcp_server`)."""
    if server is None:
        return None
    return {each.tool_id: each.name for each in (await world.mcp.show(server)).tools if each.kind == "tool"}


def searched(catalog: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Returns what a list of tools describes of a catalog to a client that searches for the others."""
    found = listed_tools(catalog)
    return [with_deferred(spec, found.deferred) for spec in found.described]


def saving(catalog: Sequence[ToolSpec]) -> str:
    """Returns the sentence that says what `searched` saves."""
    found = listed_tools(catalog)
    deferred = frozenset(found.deferred)
    saved = sum(tokens_of(spec) for spec in catalog if spec.name in deferred)
    kept = sum(map(tokens_of, found.described))
    return (
        f"Clients are listed {len(found.described)} tools (about {kept} tokens), and find {len(deferred)} more with "
        f"{FIND_TOOLS}: about {saved} tokens less in each list."
    )


@dataclass
class Catalogs:
    """The catalogs of the callers of one world, read again when the log of manifests has grown, and when observing
    ends (`world.authority.observing`)."""

    _version: int = -1
    _until_ns: int | None = None
    _known: dict[Caller, Sequence[Sequence[ToolSpec]]] = field(default_factory=dict)

    async def of(self, world: World) -> Sequence[ToolSpec]:
        """Returns the tools that the policy lets the caller of `world` call."""
        return (await self._lists(world))[0]

    async def items_of(self, world: World) -> Sequence[ToolSpec]:
        """Returns the prompts, resources and templates that the policy lets the caller of `world` call."""
        return (await self._lists(world))[1]

    async def _lists(self, world: World) -> Sequence[Sequence[ToolSpec]]:
        caller = world.caller
        if not caller.has("agent"):
            return (), ()
        version, now_ns = await _version(world), world.opening.options.clock.now_ns()
        is_over = self._until_ns is not None and now_ns >= self._until_ns
        if version != self._version or version == 0 or is_over:
            self._known, self._version, self._until_ns = {}, version, None
        known = self._known
        found = known.get(caller)
        if found is None:
            info = await world.backend.read.info()
            lists = info["catalog"], info.get("mcp_items", ())
            found = [tuple(map(ToolSpec.from_json, each)) for each in lists]
            if known is self._known:  # else the log has grown meanwhile, and this may be the catalog before that
                until_ns = info.get("observe_until_ns")
                self._until_ns = until_ns if until_ns is not None and now_ns < until_ns else None
                known[caller] = found
        return found


async def _version(world: World) -> int:
    """Returns the length of the log of manifests."""
    read = world.backend.read.heads
    heads = read(str(MANIFESTS), 1) if world.owned else await asyncio.to_thread(read, str(MANIFESTS), 1)
    return heads[0].next_seq if heads else 0


@dataclass(frozen=True)
class GatewayWorld:
    """`demiurge.mcp.gateway.port.CallerWorld` for an open world and its caller. `is_good`: whether the token of the
    caller is still good; None for a caller without one. `command`: `demiurge.mcp.gateway.port.Waiting.command`."""

    world: World
    catalogs: Catalogs = field(default_factory=Catalogs)
    is_good: Callable[[], Awaitable[bool]] | None = None
    command: str = "demiurge"

    @property
    def caller(self) -> Caller:
        return self.world.caller

    async def world_id(self) -> str:
        return str((await self.world.backend.read.info())["world_id"])

    async def catalog(self) -> Sequence[ToolSpec]:
        await self.require_good()
        return await self.catalogs.of(self.world)

    async def items(self) -> Sequence[ToolSpec]:
        await self.require_good()
        return await self.catalogs.items_of(self.world)

    async def complete(self, tool: str, argument: str, value: str, given: Mapping[str, str]) -> Completed:
        await self.require_good()
        return Completed(**await self.world.backend.run.complete_argument(tool, argument, value, dict(given)))

    async def updates(self, tool: str, uri: str) -> AsyncGenerator[None, None]:
        await self.require_good()
        async with aclosing(self.world.backend.run.follow_resource(tool, uri)) as frames:
            async for _ in frames:
                await self.require_good()
                yield

    async def require_good(self) -> None:
        """Raises UsageError (`unauthorized`) once the caller's token was revoked or has expired."""
        if self.is_good is not None and not await self.is_good():
            why = "The token was revoked or has expired: use another, see `demiurge tokens add`."
            raise UsageError(why, code="unauthorized")

    def call(
        self, tool: str, arguments: Mapping[str, Any], *, client: str = "", shows: bool, answers: Sequence[str] = ()
    ) -> Held:
        text = json.dumps(arguments, ensure_ascii=False)
        call_id = new_call_id(self.caller, tool, text, self.world.opening.options.clock.now_ns())
        return Held(self, AskedCall(call_id, _asker(), tool, text, False, shows, True, tuple(answers), client))

    def take_up(
        self, call_id: str, *, shows: bool = False, waits: bool = True, answers: Sequence[str] | None = None
    ) -> Held:
        return Held(self, AskedCall(call_id, _asker(), takes_up=True, shows=shows, waits=waits, answers=answers))

    def asks_the_same(self, call_id: str, tool: str, arguments: Mapping[str, Any]) -> bool:
        return call_id.rsplit("-", 2)[0] == question_of(self.caller, tool, json.dumps(arguments, ensure_ascii=False))

    async def waiting(self, call_id: str) -> Waiting | None:
        own = await self.world.backend.run.own_request(call_id)
        if own is not None:
            questions, asker = _questions(own), _asker_of(own)
            return Waiting(own["id"], own.get("tool", ""), may_decide=True, questions=questions, asker=asker, own=True)
        found = await self.world.approvals(Unit(CALLS, call_id))
        if not found:
            return None
        call = found[0]
        withheld = bool(call.get("withheld"))
        return Waiting(
            call["id"],
            call.get("tool", ""),
            may_decide=not withheld and self.caller.has("approver"),
            arguments_json=None if withheld else call["arguments_json"],
            questions=_questions(call),
            asker=_asker_of(call),
            command=self.command,
        )

    async def decide(self, approval: str, *, approve: bool, reason: str) -> None:
        await self.world.decide(approval, approve=approve, reason=reason)

    async def answer(self, waiting: Waiting, answers: Mapping[str, Mapping[str, Any]]) -> None:
        run = self.world.backend.run
        if waiting.own:
            await run.answer_own(waiting.approval, {"answers": {key: dict(given) for key, given in answers.items()}})
            return
        if waiting.tool != ASK_USER:
            await run.answer(waiting.approval, None, {"answers": {key: dict(given) for key, given in answers.items()}})
            return
        given = answers[MODEL_S_QUESTION]
        if given["action"] == "accept":
            await run.answer(waiting.approval, str(given["content"].get("text", "")))
        else:
            await run.decide(waiting.approval, False, "")

    async def cancel(self, call_id: str) -> None:
        reason = "The client that asked for the call has withdrawn it."
        await self.world.backend.run.cancel(str(Unit(CALLS, call_id)), reason)

    async def blob(self, ref: str) -> bytes:
        read, wanted = self.world.backend.read.get_blob, parse_ref(ref)
        return read(wanted) if self.world.owned else await asyncio.to_thread(read, wanted)

    async def changes(self) -> AsyncGenerator[None, None]:
        version = await _version(self.world)
        async with aclosing(self.world.backend.read.appends()) as appends:
            async for _ in appends:
                before = version
                with suppress(DemiurgeError):  # the world changes hands; the next record asks again
                    version = await _version(self.world)
                if version != before:
                    yield
                await asyncio.sleep(LOOK_S)  # records that come meanwhile are looked at together


def _questions(call: Mapping[str, Any]) -> Sequence[AskedQuestion]:
    if call.get("input") is not None:
        return [
            AskedQuestion(each["key"], each["message"], each["url"], each["fields"] or None, each.get("request"))
            for each in call["input"]["questions"]
        ]
    asks = call.get("asks")
    if asks is None:
        return ()
    choices = f" ({', '.join(asks['choices'])})" if asks["choices"] else ""
    return [AskedQuestion(MODEL_S_QUESTION, f"{asks['question']}{choices}")]


def _asker_of(call: Mapping[str, Any]) -> str:
    server = (call.get("input") or {}).get("server")
    return f"The server {server} ({call.get('tool', '')})" if server else f"The tool {call.get('tool', '')}"


def _asker() -> str:
    return SystemEntropy().token(8).hex()


class Held:
    """`demiurge.mcp.gateway.port.HeldCall`: a call that somebody waits for."""

    def __init__(self, of: GatewayWorld, asked: AskedCall) -> None:
        self._of, self._asked, self.call_id = of, asked, asked.call_id
        self._frames: Frames | None = None
        self._left = False

    async def events(self) -> AsyncGenerator[CallProgress | CallLog | CallState, None]:
        """Yields the progress and the log of the call, and at last its state."""
        earlier = False
        await self._of.require_good()
        self._frames = frames = self._of.world.backend.run.ask_call(*self._asked)
        async for shown in frames:
            if shown["type"] == "call":
                self.call_id, earlier = shown["call_id"], shown["earlier"] and not self._asked.takes_up
            elif shown["type"] == "tool_progress":
                yield CallProgress(shown["done"], shown["total"], shown["message"] or "")
            elif shown["type"] == "tool_log":
                yield CallLog(shown["level"], shown["text"], shown["logger"])
            else:
                yield await self._state(shown, earlier=earlier)
                return

    async def _state(self, shown: Mapping[str, Any], *, earlier: bool) -> CallState:
        if shown["status"] != "ended":
            return CallState(self.call_id, shown["tool"], shown["status"], earlier=earlier)
        node = canonical_json.parse_object(shown["result"]) if shown["result"] is not None else {}
        body = MessageBody.decode(node)
        return CallState(
            self.call_id,
            shown["tool"],
            "ended",
            ok=shown["ok"],
            error_code=shown["error_code"],
            message=shown["message"],
            text=body.text,
            view=canonical_json.parse(shown["view"]) if shown["view"] is not None else None,
            attached=[Attached(part["type"], part["mime"], part["bytes_ref"]) for part in body.attachments],
            earlier=earlier,
            verbatim=await self._of.blob(body.verbatim_ref) if body.verbatim_ref is not None else None,
            note=edit_note(body.text),
        )

    async def leave(self, *, read: bool) -> bool:
        """Ends the wait; with `read`, the client was given the answer. Returns whether somebody else waits."""
        if self._left:
            return False
        self._left = True
        try:
            return await self._of.world.backend.run.leave_call(self.call_id, self._asked.asker, read)
        finally:
            if self._frames is not None:
                await self._frames.aclose()
