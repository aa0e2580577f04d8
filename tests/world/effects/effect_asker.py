"""A world whose one room asks for any effect that it is told to ask for: how the tests of effects reach them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.world.small_world import SCHEMAS, START_NS, A, await_receipt_step, plan, poke_event, small_manifest

from demiurge.stores import Store
from demiurge.stores.protocol import Attempt
from demiurge.values.clock import Clock, FixedClock, SeededEntropy
from demiurge.values.refs import Ref
from demiurge.world.effect import Adapter
from demiurge.world.host import Host
from demiurge.world.host.timers import Sleep
from demiurge.world.manifest import Manifest, system_definitions
from demiurge.world.manifest.parts import origins_of
from demiurge.world.record import Record
from demiurge.world.reducer import Emit, ReducerContext, Step

EVENT = SCHEMAS["ex/Ev@1"]["variant"] | {"Given": {"ref": "ex/Given@1"}}
EFFECTS = {
    d["kind"]: d
    for d in system_definitions()
    if d["$kind"] == "defeffect" and origins_of(d["origin_scope"]) >= {"plan", "tool"}
}
CAPS = {effect["cap_type"]: f"sys/{effect['cap_type']}@1" for effect in EFFECTS.values()}


def effect_asking_reducer(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """A poke says in JSON which effect to ask for; null empties the room."""
    count = {"n": state["n"] + 1 if state is not None else 1}
    if event["$tag"] != "Poke":
        return Step(set=count)
    wanted = json.loads(event["$value"]["what"])
    if wanted is None:
        return Step(delete=True)
    asked = {"room": context.key, "params": wanted["params"]}
    return Step(set=count, events=[Emit(f"ex/{wanted['kind']}@1", asked)])


def asking_manifest(grants: Mapping[str, Mapping[str, Any]], definitions: Sequence[Mapping[str, Any]] = ()) -> Manifest:
    """Every effect that a plan may ask for, under grants by cap type; without one there is no plan for it."""
    kinds = [kind for kind, effect in EFFECTS.items() if effect["cap_type"] in grants]
    schemas: dict[str, Any] = {
        f"ex/{kind}@1": {"record": {"room": {"text": {}}, "params": {"ref": EFFECTS[kind]["params_schema"]}}}
        for kind in kinds
    }
    plans = [_plan(kind, EFFECTS[kind]["cap_type"]) for kind in kinds]
    return small_manifest(
        plans,
        effect_asking_reducer,
        grants=[
            {"name": "echo", "cap": "ex/echo@1", "params": {}},
            *({"name": grant_name(cap), "cap": CAPS[cap], "params": params} for cap, params in grants.items()),
        ],
        triggers=[{"event": p["input"], "plan": p["name"]} for p in plans],
        schemas={
            **schemas,
            "ex/Ev@1": {"variant": EVENT},
            "ex/Given@1": {"record": {"room": {"text": {}}, "it": {"hash": {}}}},
        },
        definitions=definitions,
    )


def grant_name(cap: str) -> str:
    return cap.replace(".", "_")


def _plan(kind: str, cap: str) -> dict[str, Any]:
    params = {"ref": "@plan.input.params"}
    grant, bind = grant_name(cap), {"effect_id_as": "h"}
    go = {"id": "go", "op": "emit_effect", "kind": kind, "cap": grant, "params": params, "bind": bind}
    edges = [{"from": "go", "to": "wait", "when": True}]
    return plan([go, await_receipt_step("wait", "h", "r")], edges, name=f"ex/ask.{kind}@1", on=f"ex/{kind}@1")


class Asker:
    """One room of a running host."""

    def __init__(self, host: Host) -> None:
        self.host = host

    async def ask(self, kind: str, /, **params: Any) -> Mapping[str, Any]:
        """What came of one effect: `{status, payload}`; status `denied` with the code of who denied it."""
        before = len(list(self.host.records(A)))
        await self.submit_request(kind, **params)
        await self.host.settle()
        return self.outcome(before)

    async def submit_request(self, kind: str, /, **params: Any) -> None:
        await self.host.submit("ex/Ev@1", poke_event(json.dumps({"kind": kind, "params": params})))

    async def payload(self, kind: str, /, **params: Any) -> Mapping[str, Any]:
        result = await self.ask(kind, **params)
        assert result["status"] == "ok", result
        found: Mapping[str, Any] = result["payload"]
        return found

    async def code(self, kind: str, /, **params: Any) -> str:
        """Of a denial or an error."""
        result = await self.ask(kind, **params)
        assert result["status"] != "ok", result
        return str(result["payload"]["code"])

    async def give(self, data: bytes) -> Ref:
        """Store a blob and show it to the room."""
        ref = await self.host.put_blob(data)
        await self.host.submit("ex/Ev@1", {"$tag": "Given", "$value": {"room": "a", "it": ref}})
        return ref

    def outcome(self, from_seq: int = 0) -> Mapping[str, Any]:
        records = list(self.host.records(A, from_seq))
        for record in records:
            if record.kind == "decision":
                return {"status": "denied", "payload": record.body}
            if record.kind == "receipt":
                return {"status": record.body["status"], "payload": record.body["payload"]}
        raise AssertionError([record.body for record in records])

    def records_of(self, kind: str) -> list[Record]:
        return [record for record in self.host.records(A) if record.kind == kind]


@asynccontextmanager
async def effect_asker(
    store: Store,
    adapters: Sequence[Adapter],
    grants: Mapping[str, Mapping[str, Any]],
    *,
    clock: Clock | None = None,
    sleep: Sleep = asyncio.sleep,
    manifest: Manifest | None = None,
    perform: bool = True,
) -> AsyncIterator[Asker]:
    """The room on a started host, taken up where an earlier one left it."""
    beginning = START_NS + sum(head.next_seq for head in store.heads())
    host = Host(
        store,
        manifest or asking_manifest(grants),
        adapters,
        clock=clock or FixedClock(beginning, 1_000_000),
        entropy=SeededEntropy(beginning),
        perform=perform,
        sleep=sleep,
    )
    await host.start()
    try:
        yield Asker(host)
    finally:
        await host.close()


async def interrupt_effect(store: Store, grants: Mapping[str, Mapping[str, Any]], kind: str, /, **params: Any) -> None:
    """Leave `store` as a process leaves it that died while it performed an effect."""
    async with effect_asker(store, [], grants, perform=False) as asker:
        await asker.submit_request(kind, **params)
        store.append([], attempts=[Attempt(i, str(A), "gone", START_NS) for i in asker.host.state(A).intents])
