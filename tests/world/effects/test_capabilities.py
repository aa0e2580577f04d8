"""What a tool's handler can reach: each use is an effect under a grant (architecture.md 1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import find_values
from tests.world.effects.servers import SeenRequest, http_response, serving_site
from tests.world.effects.test_tool_call import output_contents, refusal_codes
from tests.world.effects.vaults import value_of, vault_at
from tests.world.small_world import (
    MAIN,
    START_NS,
    SYSTEM,
    ChatClient,
    ScriptedModel,
    call_answer,
    chat_adapters,
    running_host,
    stored_records,
    text_answer,
)

from demiurge.apps.demiurge import app
from demiurge.errors import DemiurgeError
from demiurge.stores import MemoryStore, Store
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.capabilities import BlobAccess, HttpAccess, SecretName, Timer, VaultAccess
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import StaticToolSource
from demiurge.values import canonical_json
from demiurge.values.clock import FixedClock, SystemEntropy
from demiurge.values.refs import Ref, ref_of
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.http import HttpRequests
from demiurge.world.effects.timer import TimerEffects
from demiurge.world.effects.tool_call import ToolCalls
from demiurge.world.effects.vault import VaultEffects
from demiurge.world.history.verify import verify
from demiurge.world.manifest import Manifest
from demiurge.world.messages import user_blob
from demiurge.world.sealing import Sealing
from demiurge.world.secrets import Secrets
from demiurge.world.workspace import WORKSPACE, workspace_reducer

CANARY = "canary-of-the-robot"
SECRET = {"$kind": "defsecret", "name": "web/robot@1", "binding_id": "env:ROBOT"}
KEPT = {"$kind": "defsecret", "name": "web/kept@*", "binding_id": "vault:web/kept"}
HTTP = {"hosts": ["127.0.0.1"], "schemes": ["http"], "internal_networks": ["127.0.0.0/8"], "secrets": ["web/robot@1"]}
BIG = bytes(range(256)) * 1024  # four times what one effect reads


async def fetch(url: str, method: str, *, context: ToolContext) -> str:
    """Fetches a page."""
    http = context.resources.get(HttpAccess)
    assert http is not None
    found = await http.request(method, url, headers={"Authorization": SecretName("web/robot", 1)}, timeout_s=5)
    return f"{found.status} {found.body.decode()}"


async def keep(ref: str, *, context: ToolContext) -> str:
    """Keeps a few bytes, and reads what it has no right to."""
    blobs = context.resources.get(BlobAccess)
    assert blobs is not None
    kept = await blobs.put(b"kept")
    return f"{(await blobs.get(Ref(ref))).decode()} {kept}"


async def size(ref: str, *, context: ToolContext) -> str:
    """Reads a large blob."""
    blobs = context.resources.get(BlobAccess)
    assert blobs is not None
    return str(ref_of(await blobs.get(Ref(ref))))


async def wait(seconds: int, *, context: ToolContext) -> str:
    """Waits."""
    timer, due_ns = context.resources.get(Timer), START_NS + seconds * 10**9
    assert timer is not None
    return str(await timer.wait_until(due_ns) >= due_ns)


TOOLS = [
    Tool.wrap(fetch, name="fetch"),
    Tool.wrap(fetch, name="look", effect=ToolEffect.READ_ONLY),
    Tool.wrap(keep, name="keep"),
    Tool.wrap(size, name="size", effect=ToolEffect.READ_ONLY),
    Tool.wrap(wait, name="wait", effect=ToolEffect.READ_ONLY),
]


def manifest(grants: Mapping[str, Mapping[str, Any]], tools: Sequence[Tool[Any, Any]] = TOOLS) -> Manifest:
    """The shipped app with further grants, whose effects its policy lets tools ask for."""
    root = dict(app().root)
    more = [
        {"name": f"cap_{cap.replace('.', '_')}", "cap": f"sys/{cap}@1", "params": params}
        for cap, params in grants.items()
    ]
    root["defaults"] = {**root["defaults"], "cap_grants": [*root["defaults"]["cap_grants"], *more]}
    kinds = ("http.request", "blob.put", "blob.get", "timer.set", "vault.put", "vault.rotate")
    rules = [{"when": {"effect_kind": kind, "origin_kind": "tool"}, "decision": "allow"} for kind in kinds]
    return Manifest.build(
        [{**d, "rules": [*rules, *d["rules"]]} if d["$kind"] == "defpolicy" else d for d in app().definitions]
        + [SECRET, KEPT],
        root,
        {**app().reducers, WORKSPACE: workspace_reducer()},
        tool_policy=ToolPolicy(allowed_tools=tuple(tool.name for tool in tools)),
        toolset=[tool.spec for tool in tools],
        settings={"system_ref": ref_of(SYSTEM)},
    )


def error_code_of(content: str) -> str:
    return str(canonical_json.parse_object(content)["error_code"])


@asynccontextmanager
async def chat_with_capabilities(
    store: Store,
    model: ScriptedModel,
    grants: Mapping[str, Mapping[str, Any]],
    tools: Sequence[Tool[Any, Any]] = TOOLS,
    vault: SecretVault | None = None,
) -> AsyncIterator[ChatClient]:
    store.put_blob(SYSTEM)
    clock = FixedClock(START_NS, 1_000_000)
    secrets, sealing = Secrets({"LLM_API_KEY": "k", "ROBOT": CANARY}, vault=vault), Sealing(vault, store.world_id)
    adapters = [
        *(adapter for adapter in chat_adapters(model, tools) if not isinstance(adapter, ToolCalls)),
        ToolCalls(StaticToolSource(tools), clock, sealing=sealing),
        HttpRequests(secrets, clock),
        BlobEffects(),
        TimerEffects(clock),
        VaultEffects(secrets, sealing, SystemEntropy()),
    ]
    async with running_host(store, manifest(grants, tools), adapters) as host:
        talk = ChatClient(host)
        await talk.create()
        yield talk


async def test_a_tool_asks_the_web_and_never_holds_the_secret_that_goes_along(memory: MemoryStore) -> None:
    async with serving_site({"/page": http_response(200, b"hello")}) as web:
        asked = {"url": f"http://127.0.0.1:{web.port}/page", "method": "GET"}
        model = ScriptedModel(call_answer(("c1", "look", asked)), text_answer("done"))
        async with chat_with_capabilities(memory, model, {"http.out": {**HTTP, "ports": [web.port]}}) as talk:
            await talk.say("go")
            assert "200 hello" in output_contents(talk)[0]
        assert web.asked[0].headers["authorization"] == f"Bearer {CANARY}"
    assert all(CANARY.encode() not in record.data for record in stored_records(memory))
    assert verify(memory).ok


@pytest.mark.parametrize(
    ("tool", "grants", "method"),
    [
        ("fetch", {}, "GET"),
        ("fetch", {"http.out": {**HTTP, "hosts": ["example.org"]}}, "GET"),
        ("fetch", {"http.out": {**HTTP, "internal_networks": []}}, "GET"),
        ("look", {"http.out": HTTP}, "POST"),
    ],
    ids=["no grant", "another host", "an address inside", "a read that changes something"],
)
async def test_a_request_that_no_grant_covers_is_not_sent(
    memory: MemoryStore, tool: str, grants: Mapping[str, Mapping[str, Any]], method: str
) -> None:
    async with serving_site({"/page": http_response(200, b"hello")}) as web:
        asked = {"url": f"http://127.0.0.1:{web.port}/page", "method": method}
        async with chat_with_capabilities(
            memory, ScriptedModel(call_answer(("c1", tool, asked)), text_answer("sorry")), grants
        ) as talk:
            await talk.say("go")
            assert refusal_codes(talk) == ["policy_denied"]
        assert web.asked == []


async def test_a_request_whose_fate_is_unknown_leaves_the_call_in_doubt(memory: MemoryStore) -> None:
    async with serving_site({"/page": b""}) as web:  # it takes the request and hangs up
        asked = {"url": f"http://127.0.0.1:{web.port}/page", "method": "POST"}
        async with chat_with_capabilities(
            memory, ScriptedModel(call_answer(("c1", "fetch", asked)), text_answer("hm")), {"http.out": HTTP}
        ) as talk:
            await talk.say("go")
            assert refusal_codes(talk) == ["unknown_outcome"]
        assert len(web.asked) == 1


async def test_a_tool_reads_blobs_that_its_unit_was_given_and_no_others(memory: MemoryStore) -> None:
    stranger, message = memory.put_blob(b"another's"), ref_of(user_blob("mine"))
    calls = call_answer(
        ("c1", "keep", {"ref": stranger}), ("c2", "keep", {"ref": message}), ("c3", "keep", {"ref": "x"})
    )
    async with chat_with_capabilities(memory, ScriptedModel(calls, text_answer("done")), {"blob": {}}) as talk:
        await talk.say("mine")
        first, second, third = output_contents(talk)
        assert (canonical_json.parse_object(first)["error_code"], canonical_json.parse_object(third)["error_code"]) == (
            "execution",
            "execution",
        )
        assert ref_of(b"kept") in second
        assert "mine" in second


async def test_a_large_blob_is_read_in_parts(memory: MemoryStore) -> None:
    async with serving_site({"/big": http_response(200, BIG)}) as web:
        asked = {"url": f"http://127.0.0.1:{web.port}/big", "method": "GET"}
        grants = {"http.out": HTTP, "blob": {}}
        calls = (
            call_answer(("c1", "look", asked)),
            call_answer(("c2", "size", {"ref": ref_of(BIG)})),
            text_answer("done"),
        )
        async with chat_with_capabilities(memory, ScriptedModel(*calls), grants) as talk:
            await talk.say("go")
            assert ref_of(BIG) in output_contents(talk)[1]
            kinds = [r.body["kind"] for r in talk.host.records(MAIN) if r.kind == "intent"]
            assert kinds.count("blob.get") == 1 + len(BIG) // (1 << 16)


async def test_a_tool_waits_for_a_time(memory: MemoryStore) -> None:
    model = ScriptedModel(call_answer(("c1", "wait", {"seconds": 0})), text_answer("done"))
    async with chat_with_capabilities(memory, model, {"timer": {}}) as talk:
        await talk.say("go")
        assert "True" in output_contents(talk)[0]


async def echo_secret(asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
    """A server that says again what it was told, wherever it can, and sends to another place with it."""
    told = asked.headers.get("authorization", "nothing").removeprefix("Bearer ")
    if asked.target == "/page":
        writer.write(http_response(302, location=f"/told?{told}", x_told=told))
    else:
        writer.write(http_response(200, f"{told} {told[:9]}".encode(), x_told=told, etag=f"W/{told}"))
    await writer.drain()


async def test_a_server_that_says_the_secret_again_tells_nobody(
    memory: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    shown: list[str] = []

    async def follow(url: str, *, context: ToolContext) -> str:
        """Follows a page to where it leads."""
        http = context.resources.get(HttpAccess)
        assert http is not None
        headers = {"authorization": SecretName("web/robot", 1)}
        found = await http.request("GET", url, headers=headers, max_redirects=3)
        shown.append(repr(found))
        return repr(found)

    caplog.set_level(logging.DEBUG, "demiurge")
    tools = [Tool.wrap(follow, name="fetch", effect=ToolEffect.READ_ONLY)]
    async with serving_site({"/page": echo_secret, "/told": echo_secret}) as web:
        model = ScriptedModel(
            call_answer(("c1", "fetch", {"url": f"http://127.0.0.1:{web.port}/page"})), text_answer("done")
        )
        async with chat_with_capabilities(memory, model, {"http.out": HTTP, "blob": {}}, tools) as talk:
            await talk.say("go")
            assert talk.turn["status"] == "done"
            said_to_the_model = output_contents(talk)[0]
        assert [asked.headers["authorization"] for asked in web.asked] == [f"Bearer {CANARY}"] * 2
    assert "status=200" in said_to_the_model
    assert CANARY not in said_to_the_model + "".join(shown) + caplog.text
    assert all(CANARY.encode() not in record.data for record in stored_records(memory))
    assert all(CANARY.encode() not in memory.get_blob(ref) for ref in memory.iter_blobs())


async def test_a_task_that_outlives_its_call_can_not_use_capabilities(memory: MemoryStore) -> None:
    over, left = asyncio.Event(), []

    async def leave(url: str, *, context: ToolContext) -> str:
        """Leaves something behind that goes on when the call is over."""
        resources = context.resources
        http, blobs, timer = resources.get(HttpAccess), resources.get(BlobAccess), resources.get(Timer)
        assert http is not None
        assert blobs is not None
        assert timer is not None

        async def later() -> tuple[Any, ...]:
            await over.wait()
            wishes = http.request("GET", url), blobs.put(b"late"), blobs.get(ref_of(SYSTEM)), timer.wait_until(0)
            return await asyncio.gather(*wishes, return_exceptions=True)

        left.append(asyncio.create_task(later()))
        return "left"

    tools = [Tool.wrap(leave, name="fetch")]
    async with serving_site({"/page": http_response(200, b"hello")}) as web:
        model = ScriptedModel(
            call_answer(("c1", "fetch", {"url": f"http://127.0.0.1:{web.port}/page"})), text_answer("done")
        )
        async with chat_with_capabilities(memory, model, {"http.out": HTTP, "blob": {}, "timer": {}}, tools) as talk:
            await talk.say("go")
            over.set()
            answers = await left[0]
            await talk.host.settle()
            asked_for = {record.body["kind"] for record in talk.host.records(MAIN) if record.kind == "intent"}
            assert asked_for == {"llm.generate", "tool.call"}
        assert all(isinstance(found, DemiurgeError) for found in answers)
        assert web.asked == []
    assert verify(memory).ok


# -- the vault ---------------------------------------------------------------------------------------------------------

TOKEN = "canary-of-a-new-token"
VAULT = {"vault": {"aliases": ["web/kept"]}, "http.out": {**HTTP, "secrets": ["web/kept@*"]}}


async def renew(url: str, alias: str, value: str, *, context: ToolContext) -> str:
    """Keeps a token and a random one, and shows itself with each."""
    vault, http = context.resources.get(VaultAccess), context.resources.get(HttpAccess)
    assert vault is not None
    assert http is not None
    names = [await vault.put(alias, Secret(TOKEN if value == "token" else value)), await vault.rotate(alias, size=24)]
    for name in names:
        await http.request("GET", url, headers={"x-key": name})
    return ", ".join(f"{name.alias}@{name.version}" for name in names)


def model_of_renewal(web: Any, **given: str) -> ScriptedModel:
    asked = {"url": f"http://127.0.0.1:{web.port}/page", "alias": "web/kept", "value": "token", **given}
    return ScriptedModel(call_answer(("c1", "keep", asked)), text_answer("done"))


async def test_a_tool_keeps_values_that_nothing_records(memory: MemoryStore, tmp_path: Path) -> None:
    vault, tools = vault_at(tmp_path), [Tool.wrap(renew, name="keep")]
    async with (
        serving_site({"/page": http_response(200)}) as web,
        chat_with_capabilities(memory, model_of_renewal(web), VAULT, tools, vault) as talk,
    ):
        await talk.say("go")
        assert "web/kept@1, web/kept@2" in output_contents(talk)[0]
        values = [value_of(vault, version, "web/kept") for version in (1, 2)]
        assert values[0] == TOKEN
        assert [asked.headers["x-key"] for asked in web.asked] == values
        kinds = [record.body["kind"] for record in talk.host.records(MAIN) if record.kind == "intent"]
        assert kinds[2:4] == ["vault.put", "vault.rotate"]
    kept = [row.data for row in memory.read_all()] + [memory.get_blob(ref) for ref in memory.iter_blobs()]
    assert find_values([value or "" for value in values], *kept) == []
    assert verify(memory).ok


@pytest.mark.parametrize(
    ("grants", "effect", "given", "code"),
    [
        ({}, ToolEffect.STATE_CHANGE, {}, "policy_denied"),
        ({"vault": {}}, ToolEffect.STATE_CHANGE, {}, "policy_denied"),
        (VAULT, ToolEffect.STATE_CHANGE, {"alias": "web/other"}, "policy_denied"),
        (VAULT, ToolEffect.STATE_CHANGE, {"alias": "no name"}, "execution"),
        (VAULT, ToolEffect.STATE_CHANGE, {"value": " "}, "execution"),
        (VAULT, ToolEffect.READ_ONLY, {}, "policy_denied"),
    ],
    ids=["no grant", "no alias", "another alias", "no name", "no value", "a tool that reads"],
)
async def test_a_value_that_may_not_be_kept_is_not(
    memory: MemoryStore,
    tmp_path: Path,
    grants: Mapping[str, Mapping[str, Any]],
    effect: ToolEffect,
    given: Mapping[str, str],
    code: str,
) -> None:
    vault, tools = vault_at(tmp_path), [Tool.wrap(renew, name="keep", effect=effect)]
    async with (
        serving_site({}) as web,
        chat_with_capabilities(memory, model_of_renewal(web, **given), grants, tools, vault) as talk,
    ):
        await talk.say("go")
        assert refusal_codes(talk) == [code]
    assert vault.names() == []


async def test_a_handler_that_is_run_again_would_ask_for_the_same(memory: MemoryStore, tmp_path: Path) -> None:
    """Its requests are recorded with their digest: a value that were sealed anew would be another request."""
    vault, tools = vault_at(tmp_path), [Tool.wrap(renew, name="keep")]
    async with (
        serving_site({"/page": http_response(200)}) as web,
        chat_with_capabilities(memory, model_of_renewal(web), VAULT, tools, vault) as talk,
    ):
        await talk.say("go")
        intents = [record.body for record in talk.host.records(MAIN) if record.kind == "intent"]
    [call] = [intent["id"] for intent in intents if intent["kind"] == "tool.call"]
    [asked] = [intent["params"] for intent in intents if intent["kind"] == "vault.put"]
    again = Sealing(vault, memory.world_id).seal("web/kept", Secret(TOKEN), call)
    assert asked["value_ref"] == ref_of(again)
