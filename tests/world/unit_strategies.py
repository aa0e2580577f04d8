"""Lives that hypothesis makes up: what people, the outside and the machine may do to a unit, and to a chat."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from tests.world.recomputed_stores import assert_replay_agrees
from tests.world.small_world import (
    MAIN,
    SYSTEM,
    A,
    ChatClient,
    ScriptedModel,
    call_answer,
    chat_adapters,
    chat_manifest,
    echo_result,
    plain_data,
    poke_event,
    running_host,
    small_manifest,
    stored_records,
    text_answer,
)

from demiurge.errors import Unavailable
from demiurge.stores import MemoryStore
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.wire.items import Completion
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.host import Host
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent

__all__ = ["ACTIONS", "MANIFESTS", "TURNS", "Conversation", "HeldEcho", "apply_action", "assert_calls_are_answered"]


class HeldEcho:
    """Holds every echo until the test answers it. What begins with `!` can't be repeated."""

    kinds = ("ex.echo",)

    def __init__(self) -> None:
        self.waiting: list[tuple[OpenIntent, asyncio.Future[Result]]] = []

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "in_doubt" if intent.params["text"].startswith("!") else "retry"

    async def perform(self, call: EffectCall) -> Result:
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.waiting.append((call.intent, answer))
        return await answer


ANSWERS: dict[str, Any] = {
    "ok": echo_result("fine"),
    "error": failed("gone", "It is gone."),
    "invalid": succeeded(nonsense=1),
    "raised": RuntimeError("broken"),
    "unavailable": Unavailable("No line.", code="no_line"),
}
WORDS = st.sampled_from(["x", "y", "!z"])
POKES = st.one_of(
    st.lists(WORDS, min_size=1, max_size=3).map(lambda words: "ask:" + ",".join(words)),
    st.sampled_from(["fail:x", "hello", "forget", "post:n", "post:n,m"]),
)
ACTIONS = st.one_of(
    st.tuples(st.just("poke"), POKES),
    st.tuples(st.just("answer"), st.sampled_from(sorted(ANSWERS)), st.booleans()),
    st.tuples(st.just("duplicate"), st.booleans()),
    st.tuples(st.just("unknown")),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("restart"), st.sampled_from(["same", "denying", "other plan"])),
)
MANIFESTS = {
    "same": small_manifest(),
    "denying": small_manifest(rules=[{"when": {}, "decision": "deny"}]),
    "other plan": small_manifest([]),
}


async def apply_action(host: Host, held: HeldEcho, action: tuple[Any, ...], answered: list[OpenIntent]) -> None:
    live = host._units[A]
    match action:
        case ("poke", what):
            await host.submit("ex/Ev@1", poke_event(what))
        case ("answer", kind, newest) if held.waiting:
            intent, answer = held.waiting.pop(-1 if newest else 0)
            if not answer.done():
                given = ANSWERS[kind]
                answer.set_exception(given) if isinstance(given, Exception) else answer.set_result(given)
                answered.append(intent)
        case ("duplicate", same_id) if answered:
            intent = answered[-1]
            name = f"receipt:{intent.id.hex()}" if same_id else f"again:{len(stored_records(host.store))}"
            body = {"intent": intent.id, **echo_result("again")}
            await asyncio.sleep(0.002)
            await live.offer(Ingress("receipt", name, body, host._stamp(Caller("user"))))
        case ("unknown",):
            body = {"intent": b"?" * 32, **echo_result("x")}
            assert await live.offer(Ingress("receipt", "unknown", body, host._stamp(Caller("user")))) is None
        case ("cancel",):
            await host.cancel(A, reason="enough", caller=Caller("user"))
    for _ in range(3):
        await asyncio.sleep(0)


# -- chats -------------------------------------------------------------------------------------------------------------

PROPOSALS = st.lists(
    st.sampled_from(["read", "change", "asked", "denied", "ghost", "invalid", "breaks", "workspace__list"]),
    min_size=1,
    max_size=3,
)
TURNS = st.one_of(
    st.tuples(st.just("say"), st.lists(PROPOSALS, max_size=3)),
    st.tuples(st.just("say"), st.lists(PROPOSALS, max_size=3)),
    st.tuples(st.just("fail")),
    st.tuples(st.just("decide"), st.booleans()),
    st.tuples(st.just("cancel")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("forge")),
)


def chat_tools(ran: list[str]) -> list[Tool[Any, Any]]:
    def made(name: str, effect: ToolEffect) -> Tool[Any, Any]:
        async def handler(n: int) -> str:
            """Does something."""
            ran.append(f"{name} {n}")
            if name == "breaks":
                raise RuntimeError("broken")
            return f"{name} {n}"

        return Tool.wrap(handler, name=name, effect=effect)

    levels = {"read": ToolEffect.READ_ONLY, "change": ToolEffect.STATE_CHANGE, "asked": ToolEffect.STATE_CHANGE}
    return [
        made(n, levels.get(n, ToolEffect.EXTERNAL_SIDE_EFFECT)) for n in ("read", "change", "asked", "denied", "breaks")
    ]


POLICY = ToolPolicy(
    allowed_tools=("read", "change", "asked", "breaks", "ghost", "workspace__list"),
    require_approval_for_tools=("asked",),
)


def assert_calls_are_answered(talk: ChatClient) -> None:
    """Each proposed call is followed by its one output before anything else is said."""
    open_calls: list[str] = []
    for message in talk.state["messages"]:
        body = canonical_json.parse_object(talk.host.get_blob(message["message_ref"]))
        if message["role"] == "tool":
            assert body["tool_call_id"] == open_calls.pop(0)
            continue
        assert open_calls == []
        open_calls = [call["id"] for call in body.get("tool_calls", ())]
    if talk.turn is None or talk.turn["status"] not in ("model", "tools"):
        assert open_calls == []


class Conversation:
    """Plays what people, the model and the machine may do to one chat."""

    def __init__(self) -> None:
        self.store, self.model, self.numbers = MemoryStore("world_1"), ScriptedModel(), iter(range(10_000))
        self.ran: list[str] = []
        self.tools = chat_tools(self.ran)
        self.manifest = chat_manifest(self.tools, POLICY, settings={"max_tool_rounds": 2})
        self.store.put_blob(SYSTEM)

    def proposed(self, names: list[str]) -> Completion:
        calls = []
        for name in names:
            number = next(self.numbers)
            arguments = {} if name == "workspace__list" else {"n": "x" if name == "invalid" else number}
            calls.append((f"c{number}", "read" if name == "invalid" else name, arguments))
        return call_answer(*calls)

    async def play(self, talk: ChatClient, action: tuple[Any, ...]) -> None:
        busy = talk.state["turn"] is not None and talk.turn["status"] in ("model", "tools")
        match action:
            case ("say", rounds) if not busy:
                self.model.answers[:] = [
                    *map(self.proposed, rounds),
                    text_answer("done"),
                    text_answer("spare"),
                    text_answer("spare"),
                ]
                await talk.say("hello")
            case ("fail",) if not busy:
                self.model.answers[:] = [Unavailable("No line.", code="no_line")]
                await talk.say("hello")
            case ("decide", approve):
                await self.decide(talk, approve)
            case ("cancel",):
                request_id = talk.state["last_request_id"]
                await talk.host.submit("demiurge/TurnCancelled@1", {"chat_id": "main", "request_id": request_id})
                await talk.host.cancel(MAIN, reason="enough", caller=Caller("user"))
            case ("forge",):
                forged = {"request_id": talk.state["last_request_id"], "round": 1, "code": "c", "message": "m"}
                await talk.host.submit("demiurge/ChatFailed@1", {"chat_id": "main", **forged})
        await talk.host.settle()
        assert_calls_are_answered(talk)

    async def decide(self, talk: ChatClient, approve: bool) -> None:
        for _, intent in talk.host.approvals()[:1]:
            self.model.answers[:] = [text_answer("decided"), text_answer("spare")]
            await talk.host.decide(intent.id, approve=approve, reason="so", caller=Caller("anna"))

    async def part(self, actions: Sequence[tuple[Any, ...]]) -> None:
        """What happens between two starts of the process."""
        async with running_host(self.store, self.manifest, chat_adapters(self.model, self.tools)) as host:
            talk = ChatClient(host)
            if self.store.head(str(MAIN)) is None:
                await talk.create()
            for action in actions:
                await self.play(talk, action)
            live = plain_data(host.state(MAIN))
        assert_replay_agrees(self.store, self.manifest)
        assert plain_data(Host(self.store, self.manifest, []).state(MAIN)) == live
