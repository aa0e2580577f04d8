"""A world takes the objects of a program: resources, a model, a store for large results, a sink for spans."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from demiurge import Tool, ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap import opening
from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.models import GenerateRequest, OnEvent
from demiurge.models.scripted import ScriptedModel, call
from demiurge.tools import Budgets, ResourceRegistry, RunSummary, SpanSink, ToolSpan
from demiurge.tools.capabilities import HttpAccess, Workspaces
from demiurge.tools.limits.deadline import Deadline
from demiurge.values.refs import ref_of
from demiurge.wire.items import Completion, Message, Text


@dataclass
class Pool:
    """A pool of connections to the app's own database."""

    pieces: dict[str, int]


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str, context: ToolContext) -> str:
    """How many pieces of a part are in stock."""
    pool, spaces = context.resources.get(Pool), context.resources.get(Workspaces)
    return f"{pool.pieces[part] if pool else 'no pool'}, {'workspaces' if spaces else 'no workspaces'}"


@tool(effect=ToolEffect.READ_ONLY)
def long_list() -> str:
    """A long list."""
    return "bolt, " * 100


@tool(effect=ToolEffect.READ_ONLY)
def who_asks(context: ToolContext) -> str:
    """Says who asks."""
    return f"{context.caller.actor} of {context.caller.tenant}"


def opened(path: Path, *tools: Any, **more: Any) -> World:
    return World.open(path, tools, environment={"HOME": str(path.parent)}, **more)


@contextmanager
def as_guest() -> Iterator[None]:
    """Worlds that are opened in this block are joined."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "take_ownership", lambda *_args, **_options: None)
        yield


class Model:
    """A program's own model."""

    name = "my-gateway-7b"

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.asked = answer, 0

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Any:
        self.asked += 1
        said = (Message("assistant", (Text("Hello."),)),)
        return self.answer if self.answer is not None else Completion("Hello.", (), "stop", None, said)


@pytest.mark.parametrize("registry", [False, True])
async def test_handlers_get_a_resource_by_its_type_beside_the_capabilities(tmp_path: Path, registry: bool) -> None:
    given: Any = {Pool: Pool({"bolt": 120})}
    given = ResourceRegistry.build(given) if registry else given
    async with opened(tmp_path / "w", stock_count, resources=given) as world:
        assert (await world.call("stock_count", {"part": "bolt"})).content == "120, workspaces"
        assert (await world.replay())["ok"]
    async with opened(tmp_path / "w", stock_count) as world:
        assert (await world.replay())["ok"], "no object is needed to compute it again"
        assert (await world.call("stock_count", {"part": "bolt"})).content == "no pool, workspaces"


async def test_a_tool_that_needs_a_resource_is_unavailable_without_it(tmp_path: Path) -> None:
    needing: Tool[Any, Any] = replace(stock_count, capabilities=(Pool,))
    async with opened(tmp_path / "w", needing) as world:
        assert (await world.call("stock_count", {"part": "bolt"})).error_code == "unavailable"


async def test_a_subclass_and_a_generic_alias_are_no_surprise(tmp_path: Path) -> None:
    class Small(Pool):
        pass

    async with opened(tmp_path / "w", stock_count, resources={Small: Small({"bolt": 1})}) as world:
        assert (await world.call("stock_count", {"part": "bolt"})).content.startswith("no pool")


async def test_observers_among_the_resources_still_observe(tmp_path: Path) -> None:
    spans: list[ToolSpan] = []

    class Sink:
        def put(self, span: ToolSpan, /) -> None:
            spans.append(span)

    summary = RunSummary()
    given = {Pool: Pool({"bolt": 1}), RunSummary: summary}
    async with opened(tmp_path / "w", stock_count, resources=given, spans=Sink()) as world:
        await world.call("stock_count", {"part": "bolt"})
        assert [span.name for span in spans] == ["tool:stock_count"]
        assert world.summary is summary


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"resources": {"pool": 1}}, "resources"),
        ({"resources": [Pool]}, "resources"),
        ({"resources": {HttpAccess: object()}}, "resources.HttpAccess"),
        ({"resources": {Deadline: object()}}, "resources.Deadline"),
        ({"spans": object()}, "spans"),
        ({"spans": ScriptedModel(), "resources": {SpanSink: ScriptedModel()}}, "spans"),
        ({"blobs": object()}, "blobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"window_turns": True}, "window_turns"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
    ],
)
def test_an_object_that_does_not_fit_is_refused_before_the_world_is_made(
    tmp_path: Path, given: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidValue) as told:
        opened(tmp_path / "w", **given)
    assert told.value.path == path
    assert not (tmp_path / "w").exists()


async def test_a_store_of_the_program_gets_a_copy_of_each_large_result(tmp_path: Path) -> None:
    class Store(list[bytes]):
        def put(self, data: bytes, /) -> str:
            self.append(data)
            raise OSError("the store is full")

    store, policy = Store(), ToolPolicy(("long_list",), budgets=Budgets(max_result_bytes=100))
    async with opened(tmp_path / "w", long_list, policy=policy, blobs=store) as world:
        called = await world.call("long_list", {})
        assert called.ok
        assert [data for data in store if world.blobs.get(ref_of(data)) != data] == []
        assert any(ref_of(data) in called.content for data in store)
        assert (await world.replay())["ok"]


async def test_a_model_that_is_an_object_answers_without_a_key(tmp_path: Path) -> None:
    model = ScriptedModel([call("stock_count", part="bolt"), "There are 120."])
    async with opened(tmp_path / "w", stock_count, model=model, resources={Pool: Pool({"bolt": 120})}) as world:
        reply = await world.chat().send("How many bolts?")
        assert (reply.status, reply.text) == ("done", "There are 120.")
        assert (reply.cost_micros, reply.cost_usd) == (None, None)
        model.assert_told("120, workspaces")
        said = [record.body["params"] for record in world.journal.read() if record.kind == "intent"]
        asked = [params for params in said if "provider" in params]
        assert {(params["provider"], params["model"]) for params in asked} == {("python", "ScriptedModel")}
        assert (await world.replay())["ok"]
    async with opened(tmp_path / "w") as world:
        assert (await world.replay())["ok"]


async def test_a_program_names_its_model(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", model=Model()) as world:
        assert world.choice == ("python", "my-gateway-7b")
        assert (await world.chat().send("Hi.")).text == "Hello."


async def test_a_model_that_is_an_object_is_not_asked_in_another_process(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", model=Model()) as world:
        with as_guest(), pytest.raises(Conflict, match="an object that only this process has"):
            await asyncio.to_thread(opened, tmp_path / "w", model=Model())
        with as_guest():
            guest = opened(tmp_path / "w")
        async with guest:
            assert (await guest.info())["world_id"] == (await world.info())["world_id"]


async def test_a_turn_whose_model_is_elsewhere_fails_and_says_what_to_do(tmp_path: Path) -> None:
    model = Model()
    async with opened(tmp_path / "w", model=model, perform=False) as world:
        said = await world.chat().say("Hi.")
    async with opened(tmp_path / "w") as world:
        reply = await world.chat().wait(said.request_id)
        assert (reply.status, reply.error_code) == ("failed", "model_elsewhere")
        assert "World.open(model=...)" in (reply.message or "")
    async with opened(tmp_path / "w", model=model) as world:
        assert (await world.chat().send("Again.")).status == "done"
        assert model.asked == 1


@pytest.mark.parametrize(
    "given",
    [
        {"model": Model},
        {"model": 7},
        {"model": Model(), "provider": "anthropic"},
        {"model": Model(), "base_url": "http://127.0.0.1:9"},
        {"provider": "python", "model": "x"},
    ],
)
def test_an_object_that_is_no_model_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as told:
        opened(tmp_path / "w", **given)
    assert told.value.code in ("bad_model", "unknown_provider")
    assert not (tmp_path / "w").exists()


async def test_an_answer_that_is_no_completion_fails_the_turn_with_a_sentence(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", model=Model("Hello.")) as world:
        reply = await world.chat().send("Hi.")
        assert (reply.status, reply.error_code) == ("failed", "bad_model")
        assert reply.message == "Model.generate returned str, and no Completion."


async def test_options_replace_the_settings_of_the_manifest(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: f"{request.max_tokens} {request.temperature} {len(request.items)}")
    named = {"max_tokens": 77, "temperature": 0.25, "window_turns": 1}
    async with opened(tmp_path / "w", model=model, **named) as world:
        texts = [(await world.chat().send("Hi.")).text for _ in range(3)]
        assert [text.split()[:2] for text in texts] == [["77", "0.25"]] * 3
        assert texts[1] == texts[2], "the model is told one turn"
        settings = world.manifest()["root"]["settings"]
        assert {name: settings[name] for name in named} == {**named, "temperature": "0.25"}
        await world.refresh_tools()
        await world.set_policy(ToolPolicy(()))
        assert (await world.info())["settings"]["max_tokens"] == 77
        assert (await world.replay())["ok"]
    async with opened(tmp_path / "w", model=model) as world:
        assert (await world.info())["settings"]["max_tokens"] == 1024, "options are not remembered"


async def test_a_process_that_joins_with_other_settings_is_refused_and_a_successor_keeps_them(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", max_tokens=77) as world:
        await world.chat().create()
        with as_guest(), pytest.raises(Conflict, match="another max_tokens"):
            await asyncio.to_thread(opened, tmp_path / "w", max_tokens=78)
        with as_guest():
            same = await asyncio.to_thread(opened, tmp_path / "w", max_tokens=77)
        await same.close()
        with as_guest():
            successor = opened(tmp_path / "w")
        await successor.info()
        await world.set_policy(ToolPolicy(()))
    try:
        await successor.chat().create()
        await successor.chat("other").create()
        assert successor.owned
        assert (await successor.info())["settings"]["max_tokens"] == 77
    finally:
        await successor.close()


async def test_actor_and_tenant_reach_handlers_and_policy(tmp_path: Path) -> None:
    rules = {"name": "acme", "tenants": ["acme"], "allowed_tools": ["who_asks"]}
    policy = ToolPolicy.from_json({"allowed_tools": [], "rules": [rules]})
    async with opened(tmp_path / "w", who_asks, policy=policy, actor="user:ada", tenant="acme") as world:
        assert (await world.call("who_asks", {})).content == "user:ada of acme"
    async with opened(tmp_path / "w", who_asks, policy=policy, actor="user:ada") as world:
        assert (await world.call("who_asks", {})).error_code == "policy_denied"


@pytest.mark.parametrize("given", [{"part": {1, 2}}, {"part": float("nan")}, 7, None, ["part"]])
async def test_arguments_that_are_no_json_are_refused_before_anything_is_recorded(tmp_path: Path, given: Any) -> None:
    async with opened(tmp_path / "w", stock_count) as world:
        with pytest.raises(InvalidValue) as told:
            await world.call("stock_count", given)
        assert told.value.path == "arguments"
        assert list(world.journal.read()) == []
