"""A new kind of effect is added in one place: the description of the docs page works wherever kinds are known."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolPolicy, World
from demiurge.errors import InvalidValue
from demiurge.tools import Tool, ToolContext, ToolEffect, ToolResult
from demiurge.tools.redaction import Redaction
from demiurge.world.effect_kinds import registry, tables
from demiurge.world.effects import binding
from demiurge.world.manifest import BadManifest, system_definitions

DOCS = Path(__file__).parents[3] / "docs"


@dataclass(frozen=True)
class Page:
    number: str
    text: str


@dataclass(frozen=True)
class Sent:
    message: int


@pytest.fixture
def pager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the docs page, with its family at the end of the list of families."""
    monkeypatch.syspath_prepend(DOCS / "examples")
    monkeypatch.syspath_prepend(DOCS)
    module = import_module("pager")
    monkeypatch.setattr(registry, "FAMILIES", (*registry.FAMILIES, module.PAGER))
    tables.cache_clear()
    yield module
    module.network.clear()
    monkeypatch.undo()
    tables.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped manifest with a grant for the pager, and a policy that lets tools use it."""
    target = tmp_path / "manifest"
    with as_file(files("demiurge.apps.demiurge") / "air") as shipped:
        shutil.copytree(shipped, target)
    root = json.loads((target / "manifest.json").read_text())
    root["defaults"]["cap_grants"].append({"name": "page", "cap": "sys/pager@1", "params": {"numbers": ["112"]}})
    (target / "manifest.json").write_text(json.dumps(root))
    (policy,) = json.loads((target / "policy.json").read_text())
    policy["rules"].insert(0, {"when": {"effect_kind": "pager.send", "origin_kind": "tool"}, "decision": "allow"})
    (target / "policy.json").write_text(json.dumps([policy]))
    return target


def page_tool(pager: Any, effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT) -> Tool[Page, Sent]:
    async def send(params: Page, *, context: ToolContext) -> ToolResult[Sent]:
        found: Any = context.resources.get(pager.Pager)
        return ToolResult(message="sent", value=Sent(await found.send(params.number, params.text)))

    return Tool[Page, Sent](
        name="page",
        description="Page somebody.",
        handler=send,
        effect=effect,
        redaction=Redaction.allow("message"),
        capabilities=(pager.Pager,),
    )


def opened(path: Path, folder: Path, tool: Tool[Page, Sent]) -> World:
    return World.open(path, tools=[tool], policy=ToolPolicy(allowed_tools=("page",)), manifest=folder)


async def test_an_added_kind_is_admitted_performed_journaled_and_replayed(
    pager: Any, folder: Path, tmp_path: Path
) -> None:
    async with opened(tmp_path / "w", folder, page_tool(pager)) as world:
        done = await world.call("page", '{"number": "112", "text": "fire"}')
        assert done.status == "done"
        assert pager.network == [("112", "fire")]
        records = list(world.journal.read())
        (intent,) = [r for r in records if r.kind == "intent" and r.body["kind"] == "pager.send"]
        assert intent.body["params"] == {"number": "112", "text": "fire"}
        assert (intent.body["grant"], intent.body["origin"]["kind"]) == ("page", "tool")
        (receipt,) = [r for r in records if r.kind == "receipt" and r.body["intent"] == intent.body["id"]]
        assert receipt.body["payload"] == {"message": 1}
        assert (await world.replay())["ok"]
    assert pager.network == [("112", "fire")]


async def test_the_check_of_an_added_kind_denies_what_the_grant_does_not_cover(
    pager: Any, folder: Path, tmp_path: Path
) -> None:
    async with opened(tmp_path / "w", folder, page_tool(pager)) as world:
        done = await world.call("page", '{"number": "110", "text": "noise"}')
        assert (done.status, done.error_code) == ("failed", "policy_denied")
        (denied,) = [r for r in world.journal.read() if r.kind == "decision"]
        assert (denied.body["code"], denied.body["rule"]) == ("number_not_allowed", "grant page")
        assert (await world.replay())["ok"]
    assert pager.network == []


async def test_a_read_only_tool_may_not_ask_for_an_added_kind_that_changes(
    pager: Any, folder: Path, tmp_path: Path
) -> None:
    async with opened(tmp_path / "w", folder, page_tool(pager, ToolEffect.READ_ONLY)) as world:
        await world.call("page", '{"number": "112", "text": "fire"}')
        (denied,) = [r for r in world.journal.read() if r.kind == "decision"]
        assert denied.body["code"] == "effect_level"
    assert pager.network == []


def test_the_docs_tables_show_an_added_kind(pager: Any) -> None:
    shown = {name: list(lines()) for name, lines in import_module("effects_reference").TABLES.items()}
    assert shown["effect kinds"][-1] == (
        "| `pager.send` | `number`, `text` | `message` (its number at the network) | `pager` | plans, reducers, tools |"
    )
    assert shown["grants"][-1] == "| `pager` | `numbers` (absent means none) |"
    assert shown["capabilities"][-1] == "| `Pager` | `send(number, text)` |"
    assert shown["restarts"][-1] == "| `pager.send` | `unknown_outcome`: never a second time |"


@pytest.mark.usefixtures("pager")
def test_manifests_may_use_the_definitions_of_an_added_kind(folder: Path, tmp_path: Path) -> None:
    """Its definitions come after the others; an effect of a user's own needs what its cap type compares; and a module
    that asks for it needs an arm for its event."""
    names = [d["name"] for d in system_definitions()]
    assert names[-5:] == [
        "sys/PagerSendParams@1",
        "sys/PagerSendReceipt@1",
        "sys/PagerSent@1",
        "sys/pager.send@1",
        "sys/pager@1",
    ]
    own = {"$kind": "defeffect", "name": "me/shout@1", "kind": "me.shout", "cap_type": "pager"}
    schemas = {"params_schema": "me/Shout@1", "receipt_schema": "sys/PagerSendReceipt@1", "origin_scope": "plan"}
    shout = {"$kind": "defschema", "name": "me/Shout@1", "type": {"record": {"text": {"text": {}}}}}
    abi = {"state": "me/Shout@1", "event": "sys/WorkspaceEvent@1"}
    module = {"$kind": "defmodule", "name": "me/Room@1", "module_kind": "reducer", "abi": abi}
    asks = {"effects": [{"kind": "pager.send", "cap": "page"}]}
    (folder / "own.json").write_text(json.dumps([{**own, **schemas}, shout, {**module, **asks}]))
    with pytest.raises(BadManifest) as told:
        World.open(tmp_path / "w", manifest=folder)
    said = str(told.value)
    assert "me/Shout@1 has no field number, which pager is about" in said
    assert '"PagerSent": {"ref": "sys/PagerSent@1"}' in said


def test_another_adapter_for_an_added_kind_is_refused(pager: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"pager\.send is built in"):
        World.open(tmp_path / "w", adapters=[pager.PagerEffects()])


def test_kinds_and_cap_types_stand_once_and_their_entry_points_exist() -> None:
    kinds = [name for family in registry.FAMILIES for name in family.names]
    assert len(set(kinds)) == len(kinds) == len(tables().kinds)
    assert len(tables().families) == len(registry.FAMILIES)
    for family in registry.FAMILIES:
        adapter = binding._named(family.adapter)
        assert adapter.kinds == family.names
        if family.capability is not None:
            methods = {name for name in vars(family.capability.protocol) if not name.startswith("_")}
            assert methods <= set(dir(binding._named(family.capability.entry_point)))
            assert methods <= set(re.findall(r"[a-z_]+", family.capability.methods))
