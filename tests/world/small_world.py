"""Parts that the tests of the world share: a small world of two modules, a driver for the bare kernel, a scripted
model, and a chat world on a store of the test's choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from demiurge.apps.demiurge import CHAT, app
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.models.request import GenerateRequest
from demiurge.stores import Attempt, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.ledger.ledger import Ledger
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import StaticToolSource
from demiurge.values import canonical_json
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import FixedClock, SeededEntropy, SystemEntropy
from demiurge.values.refs import Ref, ref_of
from demiurge.values.vector import Vector
from demiurge.wire.items import Completion, Item, Message, Text, ToolCall, Usage
from demiurge.world.authority.admission import decide_tool
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens
from demiurge.world.effect import Adapter, EffectCall, Restart, Result, succeeded
from demiurge.world.effects.introspect import Introspect
from demiurge.world.effects.llm import LlmGenerate
from demiurge.world.effects.tool_call import ToolCalls
from demiurge.world.effects.workspace import WorkspaceEffects
from demiurge.world.host import Host
from demiurge.world.kernel import advance
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Need
from demiurge.world.manifest import Manifest
from demiurge.world.messages import user_blob
from demiurge.world.record import Record, Stamp, decode_record
from demiurge.world.reducer import Emit, Reducer, ReducerContext, Step
from demiurge.world.secrets import Secrets
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.system_reducers import system_reducers
from demiurge.world.toolset import encode_toolset
from demiurge.world.unit import Unit

SECOND = 10**9
START_NS = 1_700_000_000 * SECOND
KEY = "sk-canary-0123456789abcdef"

# -- a small world: rooms that echo, and a board that rooms tell things to -------------------------------------------

ROOM, BOARD = "ex/Room@1", "ex/Board@1"
A = Unit(ROOM, "a")

SCHEMAS: Mapping[str, Any] = {
    "ex/Name@1": {"text": {}},
    "ex/State@1": {
        "record": {
            "n": {"nat": {}},
            "log": {"list": {"text": {}}},
            "last": {"option": {"text": {}}},
            "tags": {"option": {"set": {"text": {}}}},
            "box": {"option": {"record": {"items": {"list": {"nat": {}}}}}},
        }
    },
    "ex/Poke@1": {"record": {"room": {"text": {}}, "what": {"text": {}}}},
    "ex/Ask@1": {"record": {"room": {"text": {}}, "n": {"nat": {}}, "text": {"text": {}}}},
    "ex/Told@1": {"record": {"room": {"text": {}}, "status": {"text": {}}, "detail": {"text": {}}}},
    "ex/Ev@1": {
        "variant": {
            "Poke": {"ref": "ex/Poke@1"},
            "Told": {"ref": "ex/Told@1"},
            "PlanFailed": {"ref": "sys/PlanFailed@1"},
        }
    },
    "ex/Note@1": {"record": {"board": {"text": {}}, "text": {"text": {}}}},
    "ex/BoardEv@1": {"variant": {"Note": {"ref": "ex/Note@1"}}},
    "ex/BoardState@1": {"record": {"notes": {"list": {"text": {}}}}},
    "ex/EchoParams@1": {"record": {"text": {"text": {}}}},
    "ex/EchoReceipt@1": {"record": {"text": {"text": {}}, "blob": {"option": {"hash": {}}}}},
    "ex/Aside@1": {"text": {}},
}


def ref(path: str) -> dict[str, str]:
    return {"ref": path}


def raise_event_step(step_id: str, status: Any, detail: Any) -> dict[str, Any]:
    """A step that tells the room something."""
    told = {"record": {"room": ref("@plan.input.room"), "status": status, "detail": detail}}
    value = {"variant": {"tag": "Told", "value": told}}
    return {"id": step_id, "op": "raise_event", "event": "ex/Ev@1", "value": value}


def emit_effect_step(
    step_id: str, handle: str, text: Any, *, kind: str = "ex.echo", cap: str = "echo"
) -> dict[str, Any]:
    params = {"record": {"text": text}}
    bind = {"effect_id_as": handle}
    return {"id": step_id, "op": "emit_effect", "kind": kind, "cap": cap, "params": params, "bind": bind}


def await_receipt_step(step_id: str, handle: str, variable: str) -> dict[str, Any]:
    return {"id": step_id, "op": "await_receipt", "for": ref(f"@var:{handle}"), "bind": {"as": variable}}


def edge(source: str, target: str, when: Any = True) -> dict[str, Any]:
    return {"from": source, "to": target, "when": when}


def plan(
    steps: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]] = (),
    *,
    name: str = "ex/plan@1",
    on: str = "ex/Ask@1",
) -> dict[str, Any]:
    return {"$kind": "defplan", "name": name, "input": on, "steps": list(steps), "edges": list(edges)}


ECHO = plan(
    [
        emit_effect_step("go", "h", ref("@plan.input.text")),
        await_receipt_step("wait", "h", "r"),
        raise_event_step("ok", {"text": "ok"}, ref("@var:r.payload.text")),
        raise_event_step("bad", ref("@var:r.status"), ref("@var:r.payload.code")),
    ],
    [
        edge("go", "wait"),
        edge("wait", "ok", {"op": "eq", "args": [ref("@var:r.status"), "ok"]}),
        edge("wait", "bad", {"op": "ne", "args": [ref("@var:r.status"), "ok"]}),
    ],
)
"""Echo a text; tell the room what came of it."""


def ask_event(text: str, n: int = 1, room: str = "a") -> Emit:
    return Emit("ex/Ask@1", {"room": room, "n": n, "text": text})


def room_reducer(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Logs what it is told. `ask:a,b` asks for those echoes, `post:x` tells the board, `fail` breaks."""
    tag, value = event["$tag"], event["$value"]
    count = {"n": state["n"] + 1 if state is not None else 1}
    if tag == "Told":
        return Step(set=count, append={"log": [f"{value['status']}:{value['detail']}"]})
    if tag == "PlanFailed":
        return Step(set=count, append={"log": [f"plan failed:{value['correlation']}:{value['code']}"]})
    verb, _, rest = value["what"].partition(":")
    match verb:
        case "ask":
            return Step(
                set=count,
                append={"log": ["asked"]},
                events=[ask_event(text, room=context.key) for text in rest.split(",")],
            )
        case "post":
            notes = [Emit("ex/Note@1", {"board": "b", "text": text}) for text in rest.split(",")]
            return Step(set=count, events=notes)
        case "fail":
            raise RuntimeError(rest)
        case "forget":
            return Step(delete=True)
    return Step(set=count, append={"log": [value["what"]]})


def board_reducer(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    return Step(append={"notes": [event["$value"]["text"]]})


ReduceFunction = Callable[[Mapping[str, Any] | None, Any, ReducerContext], Step]


def _trigger(event: str, plan_name: str) -> dict[str, str]:
    """Correlated by `n` where the event has one."""
    correlation = {"correlate_by": "n"} if "n" in SCHEMAS[event].get("record", {}) else {}
    return {"event": event, "plan": plan_name, **correlation}


def small_manifest(
    plans: Iterable[Mapping[str, Any]] = (ECHO,),
    reduce: ReduceFunction = room_reducer,
    *,
    rules: Sequence[Mapping[str, Any]] | None = ({"when": {}, "decision": "allow"},),
    grants: Sequence[Mapping[str, Any]] = ({"name": "echo", "cap": "ex/echo@1", "params": {}},),
    triggers: Sequence[Mapping[str, Any]] | None = None,
    definitions: Iterable[Mapping[str, Any]] = (),
    schemas: Mapping[str, Any] = {},
    source: bytes = b"1",
    settings: Mapping[str, Any] = {},
    tool_policy: ToolPolicy | None = None,
    effects: Sequence[Mapping[str, Any]] = (),
    check: bool = True,
) -> Manifest:
    """The small world's manifest; `source` stands for the reducers' code, `effects` are those of rooms."""
    plans = list(plans)
    found: list[Mapping[str, Any]] = [
        *({"$kind": "defschema", "name": name, "type": form} for name, form in {**SCHEMAS, **schemas}.items()),
        _module(ROOM, "ex/State@1", "ex/Ev@1") | ({"effects": list(effects)} if effects else {}),
        _module(BOARD, "ex/BoardState@1", "ex/BoardEv@1"),
        {
            "$kind": "defeffect",
            "name": "ex/echo@1",
            "kind": "ex.echo",
            "params_schema": "ex/EchoParams@1",
            "receipt_schema": "ex/EchoReceipt@1",
            "cap_type": "echo",
            "origin_scope": "plan",
        },
        {"$kind": "defcap", "name": "ex/echo@1", "cap_type": "echo", "schema": {"record": {}}},
        *plans,
        *definitions,
    ]
    if rules is not None:
        found.append({"$kind": "defpolicy", "name": "ex/policy@1", "rules": list(rules)})
    root = {
        "defaults": {"cap_grants": list(grants)} | ({"policy": "ex/policy@1"} if rules is not None else {}),
        "routing": {
            "events": [
                {"event": "ex/Ev@1", "module": ROOM, "key_field": "$value.room"},
                {"event": "ex/BoardEv@1", "module": BOARD, "key_field": "$value.board"},
            ]
        },
        "triggers": triggers if triggers is not None else [_trigger(p["input"], p["name"]) for p in plans],
        "settings": dict(settings),
    }
    reducers = {
        ROOM: Reducer(reduce, source),
        BOARD: Reducer(board_reducer, source),
        **system_reducers(),
    }
    policy = tool_policy if tool_policy is not None else ToolPolicy()
    return Manifest.build(found, root, reducers, tool_policy=policy, check=check)


def _module(name: str, state: str, event: str) -> dict[str, Any]:
    abi = {"state": state, "event": event}
    return {"$kind": "defmodule", "name": name, "module_kind": "reducer", "key_schema": "ex/Name@1", "abi": abi}


def poke_event(what: str, room: str = "a") -> dict[str, Any]:
    return {"$tag": "Poke", "$value": {"room": room, "what": what}}


# -- the bare kernel --------------------------------------------------------------------------------------------------


def plain_data(value: Any) -> Any:
    """A value as bare data, so that two of them can be compared whatever they are made of."""
    if isinstance(value, UnitState | OpenIntent) or (is_dataclass(value) and not isinstance(value, type)):
        return {f.name: plain_data(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain_data(part) for key, part in value.items()}
    if isinstance(value, Vector | list | tuple):
        return [plain_data(part) for part in value]
    return value


class Kernel:
    """Drives `advance` for one unit by hand, and checks with every call that it is a pure function."""

    def __init__(self, manifest: Manifest, unit: Unit = A, *, world: str = "world_1") -> None:
        self.manifest = manifest
        self.state = UnitState(world, unit)
        self.records: list[Record] = []
        self.blobs: dict[Ref, bytes] = {manifest.ref: manifest.node}
        self.taken: list[tuple[Manifest, Ingress]] = []
        self.now_ns = START_NS
        self.last: Advance

    def put(self, data: bytes) -> Ref:
        self.blobs[ref_of(data)] = data
        return ref_of(data)

    def take(self, kind: str, body: Mapping[str, Any], *, cause: Any = None, actor: str = "user") -> list[Record]:
        """One ingress; the records of its step."""
        self.now_ns += SECOND
        stamp = Stamp(self.now_ns, self.now_ns.to_bytes(16, "big"), Caller(actor), self.manifest.ref)
        return self.step(Ingress(kind, f"i{len(self.taken)}", body, stamp, cause))

    def step(self, ingress: Ingress) -> list[Record]:
        before, asked = plain_data(self.state), plain_data(ingress)
        first, again = self._advance(ingress), self._advance(ingress)
        assert plain_data(self.state) == before, "advance changed the state that it was given"
        assert plain_data(ingress) == asked, "advance changed its ingress"
        assert plain_data(first) == plain_data(again), "the same inputs gave another outcome"
        self.taken.append((self.manifest, ingress))
        self.state, self.last = first.state, first
        self.records += first.records
        self.blobs |= {ref_of(data): data for data in first.new_blobs}
        return list(first.records)

    def _advance(self, ingress: Ingress) -> Advance:
        blobs: dict[Ref, bytes] = {}
        while True:
            outcome = advance(self.manifest, self.state, ingress, blobs)
            if isinstance(outcome, Advance):
                return outcome
            assert isinstance(outcome, Need)
            blobs[outcome.ref] = self.blobs[outcome.ref]

    def event(self, value: Any, *, schema: str = "ex/Ev@1", cause: Any = None, actor: str = "user") -> list[Record]:
        checked = self.manifest.schemas.validator(schema).normalise(value)
        return self.take("event", {"schema": schema, "value": checked}, cause=cause, actor=actor)

    def poke(self, what: str) -> list[Record]:
        return self.event(poke_event(what))

    def receipt(self, intent: OpenIntent | bytes, result: Result) -> list[Record]:
        intent_id = intent.id if isinstance(intent, OpenIntent) else intent
        return self.take("receipt", {"intent": intent_id, **result})

    @property
    def intents(self) -> list[OpenIntent]:
        return list(self.state.intents.values())

    @property
    def log(self) -> list[str]:
        """What the room has logged."""
        return list(self.state.cell["log"]) if self.state.cell is not None else []

    def kinds(self) -> list[str]:
        return [record.kind for record in self.records]

    def records_of(self, kind: str) -> list[Record]:
        return [record for record in self.records if record.kind == kind]


def echo_result(text: str) -> Result:
    return succeeded(text=text, blob=None)


# -- hosts ------------------------------------------------------------------------------------------------------------


class EchoAdapter:
    """The adapter of `ex.echo`: answers from `script` by text, else echoes. `performed` is what the outside saw."""

    kinds = ("ex.echo",)

    def __init__(self, script: Mapping[str, Any] = {}, restart: Restart = "retry") -> None:
        self.script, self._restart = script, restart
        self.performed: list[str] = []

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return self._restart

    async def perform(self, call: EffectCall) -> Result:
        text = call.intent.params["text"]
        self.performed.append(text)
        answer = self.script.get(text, echo_result(text))
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = echo_result(text)
        result: Result = answer
        return result


@asynccontextmanager
async def running_host(
    store: Store,
    manifest: Manifest,
    adapters: Sequence[Adapter],
    *,
    perform: bool = True,
    tail_bytes: int = 700,
    kept_code: bool = False,
) -> AsyncIterator[Host]:
    """A started host with a clock and entropy of the test's own, which takes snapshots after every few records."""
    beginning = START_NS + 3600 * SECOND * sum(head.next_seq for head in store.heads())
    clock = FixedClock(beginning, 1_000_000)
    entropy = SeededEntropy(beginning)
    host = Host(
        store,
        manifest,
        adapters,
        clock=clock,
        entropy=entropy,
        perform=perform,
        tail_bytes=tail_bytes,
        kept_code=lambda _source: kept_code,
    )
    await host.start()
    try:
        yield host
    finally:
        await host.close()


# -- chats ------------------------------------------------------------------------------------------------------------

MAIN = Unit(CHAT, "main")
SYSTEM = user_blob("Be brief.", role="system")


def stop_before_effect(host: Host, kind: str | None = None, *, attempted_in: Store | None = None) -> None:
    """From here on no effect of this kind (None: of any) is performed, as if the process had died; with `attempted_in`
    each has an attempt in that store by then."""
    start = host._dispatcher.start

    def die(live: Any, intent: OpenIntent, *, tried: bool) -> None:
        if kind not in (None, intent.kind):
            start(live, intent, tried=tried)
        elif attempted_in is not None:
            attempted_in.append([], attempts=[Attempt(intent.id, str(live.state.unit), "earlier", START_NS)])

    host._dispatcher.start = die  # type: ignore[method-assign]


def text_answer(text: str, *items: Item) -> Completion:
    """An answer in words."""
    message = Message("assistant", (Text(text),))
    return Completion(text, (), "stop", Usage(10, 5), (*items, message), "resp_1", "m1")


def call_answer(*calls: ToolCall | tuple[str, str, Mapping[str, Any]], items: Sequence[Item] = ()) -> Completion:
    """An answer that proposes calls: (id, tool, arguments)."""
    made = tuple(
        c if isinstance(c, ToolCall) else ToolCall(c[0], c[1], canonical_json.encode(c[2]).decode()) for c in calls
    )
    return Completion("", made, "tool_calls", Usage(10, 5), (*items, *made), "resp_1", "m1")


Answer = Completion | BaseException | Callable[[GenerateRequest], Completion]


class ScriptedModel:
    """A model that answers from a list, in order, and keeps the requests it was sent."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[GenerateRequest] = []

    async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Completion) else answer(request)


def chat_manifest(
    tools: Sequence[Tool[Any, Any]] = (),
    policy: ToolPolicy | None = None,
    *,
    settings: Mapping[str, Any] = {},
    definitions: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda definition: definition,
    grants: Mapping[str, Mapping[str, Any]] = {},
) -> Manifest:
    """The shipped app; `definitions` may replace or drop its parts, `grants` the parameters of its grants."""
    source = StaticToolSource((*CORE_TOOLS, *tools))
    allowed = ToolPolicy(allowed_tools=tuple(spec.name for spec in source.specs()))
    root = dict(app().root)
    given = [{**grant, **grants.get(grant["name"], {})} for grant in root["defaults"]["cap_grants"]]
    root["defaults"] = {**root["defaults"], "cap_grants": given}
    kept = [d for d in map(definitions, app().definitions) if d is not None]
    return Manifest.build(
        kept,
        root,
        {**app().reducers, **system_reducers()},
        tool_policy=policy if policy is not None else allowed,
        toolset=source.specs(),
        settings={"system_ref": ref_of(SYSTEM), **settings},
    )


class ChatClient:
    """A chat on a running host, as a client that only knows events and blobs sees it."""

    def __init__(self, host: Host, unit: Unit = MAIN) -> None:
        self.host, self.unit = host, unit

    async def create(self) -> None:
        value = {"chat_id": self.unit.key, "title": "t", "created_at_ms": 1}
        await self.host.submit("demiurge/ChatCreated@1", value)

    async def say(self, text: str, *, settle: bool = True, caller: Caller = USER, **over: Any) -> None:
        state = self.host.state(self.unit).cell
        manifest = self.host.manifest
        specs = [
            s
            for s in manifest.toolset.values()
            if decide_tool(manifest, s.name, caller=caller, now_ns=0).verdict != "deny"
        ]
        tools = await self.host.put_blob(encode_toolset("openai-responses", specs))
        value = {
            "chat_id": self.unit.key,
            "request_id": state["last_request_id"] + 1 if state is not None else 1,
            "text": text,
            "message_ref": await self.host.put_blob(user_blob(text)),
            "model": "m1",
            "provider": "openai-responses",
            "max_tokens": 100,
            "tools_ref": tools,
            "tool_choice": None,
        }
        await self.host.submit("demiurge/UserMessage@1", value | over, caller=caller)
        if settle:
            await self.host.settle()

    @property
    def state(self) -> Mapping[str, Any]:
        cell = self.host.state(self.unit).cell
        assert cell is not None
        return cell

    @property
    def turn(self) -> Mapping[str, Any]:
        turn: Mapping[str, Any] = self.state["turn"]
        return turn

    def records(self, kind: str | None = None) -> list[Record]:
        return [r for r in self.host.records(self.unit) if kind in (None, r.kind)]

    def events(self, schema: str) -> list[Any]:
        return [r.body["value"] for r in self.records("event") if r.body["schema"] == schema]

    def receipts(self, kind: str) -> list[Mapping[str, Any]]:
        """The receipts of the intents of this kind, in their order."""
        wanted = {r.body["id"] for r in self.records("intent") if r.body["kind"] == kind}
        return [r.body for r in self.records("receipt") if r.body["intent"] in wanted]

    def roles(self) -> list[str]:
        return [message["role"] for message in self.state["messages"]]

    def outputs(self) -> list[dict[str, Any]]:
        """What the model is told about its calls, in order: `{tool_call_id, content}`."""
        refs = [m["message_ref"] for m in self.state["messages"] if m["role"] == "tool"]
        return [canonical_json.parse_object(self.host.get_blob(r)) for r in refs]


def chat_adapters(
    model: ScriptedModel,
    tools: Sequence[Tool[Any, Any]] = (),
    *,
    environment: Mapping[str, str] = {"LLM_API_KEY": KEY},
    ledger: Ledger | None = None,
    credentials: ConnectionCredentials | None = None,
) -> list[Adapter]:
    source = StaticToolSource((*CORE_TOOLS, *tools))
    clock = FixedClock(START_NS, 1_000_000)
    tokens = None if credentials is None else ConnectionTokens(credentials, GuardedHttp(), clock, SystemEntropy())
    calls = ToolCalls(source, clock, ledger=ledger, credentials=tokens)
    return [LlmGenerate(model, Secrets(environment)), calls, WorkspaceEffects(), Introspect()]


@asynccontextmanager
async def chat_world(
    store: Store,
    model: ScriptedModel,
    tools: Sequence[Tool[Any, Any]] = (),
    *,
    manifest: Manifest | None = None,
    policy: ToolPolicy | None = None,
    environment: Mapping[str, str] = {"LLM_API_KEY": KEY},
    perform: bool = True,
    ledger: Ledger | None = None,
    credentials: ConnectionCredentials | None = None,
) -> AsyncIterator[ChatClient]:
    """A chat world on `store`, taken up where an earlier one left it."""
    store.put_blob(SYSTEM)
    manifest = manifest if manifest is not None else chat_manifest(tools, policy)
    adapters = chat_adapters(model, tools, environment=environment, ledger=ledger, credentials=credentials)
    async with running_host(store, manifest, adapters, perform=perform) as host:
        talk = ChatClient(host)
        if host.store.head(str(MAIN)) is None:
            await talk.create()
        yield talk


def stored_records(store: Store) -> list[Record]:
    """Every record of a store."""
    return [decode_record(row.data, position=row.position) for row in store.read_all()]
