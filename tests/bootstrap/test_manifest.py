"""A world under a manifest of one's own: the shop of the docs, which has no chat."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from demiurge import World
from demiurge.errors import Conflict, DemiurgeError, Divergence, InvalidValue, NotFound
from demiurge.tools import ToolPolicy
from demiurge.world.effect import EffectCall, Restart, Result, succeeded
from demiurge.world.manifest import BadManifest, Manifest
from demiurge.world.state import OpenIntent

OWNER = """
import asyncio, sys
from demiurge import World

async def main():
    async with World.open(sys.argv[1], environment={}):
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
EXAMPLES = Path(__file__).parents[2] / "docs/examples"
ORDER = "shop/Order@1"


class Stock:
    """The adapter of `shop.reserve`."""

    kinds: tuple[str, ...] = ("shop.reserve",)

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        return succeeded(price=3)


class Model(Stock):
    """What a built-in adapter does."""

    kinds = ("llm.generate",)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    shutil.copytree(EXAMPLES / "shop", tmp_path / "shop")
    return tmp_path / "shop"


@pytest.fixture
def means(shop: Path) -> dict[str, Any]:
    """What a process of the shop brings, but for the manifest."""
    home = {"HOME": str(shop.parent / "home")}
    return {"reducers": {ORDER: import_module("shop_order").reduce}, "adapters": [Stock()], "environment": home}


def placed(order: str, count: int = 4) -> dict[str, Any]:
    return {"order": order, "part": "bolt", "count": count}


async def paid(world: World, order: str, amount: int) -> list[str]:
    await world.submit("shop/Paid@1", {"order": order, "amount": amount})
    await world.settle()
    state = await world.state(ORDER, order)
    assert state is not None
    return list(state["history"])


async def test_a_world_runs_its_own_events_plans_and_effects(shop: Path, means: dict[str, Any], tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", manifest=shop, **means) as world:
        accepted = await world.submit("shop/Placed@1", placed("A-1"))
        assert accepted.unit == f"{ORDER}/A-1"
        await world.settle()
        assert (await world.info())["missing"] == []
        with pytest.raises(NotFound, match="There is no module demiurge/Demiurge@1"):
            await world.chat().send("Hello.")
    async with World.open(tmp_path / "w", **means) as world:
        history = await paid(world, "A-1", 12)
        assert history[-1] == "Told shipped"
        assert (await world.replay())["ok"]
        assert world.journal.verify().ok


async def test_an_open_plan_ends_under_the_manifest_that_it_began_with(
    shop: Path, means: dict[str, Any], tmp_path: Path
) -> None:
    async with World.open(tmp_path / "w", manifest=shop, **means) as world:
        await world.submit("shop/Placed@1", placed("A-1"))
        await world.settle()
    order = json.loads((shop / "order.json").read_text())
    order[1]["steps"][4]["value"]["variant"]["value"]["record"]["what"] = "sent off"
    (shop / "order.json").write_text(json.dumps(order))
    async with World.open(tmp_path / "w", manifest=shop, **means) as world:
        await world.submit("shop/Placed@1", placed("A-2"))
        await world.settle()
        assert (await paid(world, "A-1", 12))[-1] == "Told shipped"
        assert (await paid(world, "A-2", 12))[-1] == "Told sent off"
        changed = [r for r in world.journal.read(f"{ORDER}/A-1") if r.kind == "manifest"]
        assert len(changed) == 2
        assert (await world.replay())["ok"]


async def test_a_world_without_its_code_is_looked_at_and_takes_nothing(
    shop: Path, means: dict[str, Any], tmp_path: Path
) -> None:
    async with World.open(tmp_path / "w", manifest=shop, **means) as world:
        await world.submit("shop/Placed@1", placed("A-1"))
        await world.settle()
        count = world.journal.verify().records
    async with World.open(tmp_path / "w", environment=means["environment"]) as world:
        assert (await world.info())["missing"] == [ORDER]
        assert await world.keys(ORDER) == ["A-1"]
        assert world.journal.verify().records == count
        with pytest.raises(NotFound, match="The code of shop/Order@1 is not here") as refused:
            await world.submit("shop/Placed@1", placed("A-2"))
        assert refused.value.code == "no_code"
        with pytest.raises(NotFound):
            await world.fork(tmp_path / "f")
        assert (await world.replay())["ok"], "this user has run what the world keeps"
    async with World.open(tmp_path / "w", environment={"HOME": str(tmp_path / "other")}) as world:
        with pytest.raises(Divergence, match=r"shop/Order@1 .*not what it ran on") as unchecked:
            await world.replay()
        assert unchecked.value.code == "unchecked"
        assert world.journal.verify().records == count


async def test_a_fork_keeps_the_manifest(shop: Path, means: dict[str, Any], tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", manifest=shop, **means) as world:
        await world.submit("shop/Placed@1", placed("A-1"))
        await world.settle()
        fork = await world.fork(tmp_path / "f")
        assert (await world.info())["origin"] is None
        first = (await world.info())["world_id"]
    async with World.open(fork, **means) as other:
        assert (await other.info())["origin"] == {"world_id": first, "position": fork.position}
        assert (await paid(other, "A-1", 12))[-1] == "Told shipped"


async def test_the_manifest_says_who_may_use_which_tools(shop: Path, means: dict[str, Any], tmp_path: Path) -> None:
    (shop / "tools.json").write_text(
        '{"$kind": "manifest", "tool_policy": {"allowed_tools": ["core__get_current_time"]}}'
    )
    async with World.open(tmp_path / "w", manifest=shop, **means) as world:
        assert [spec["name"] for spec in (await world.info())["catalog"]] == ["core__get_current_time"]
    async with World.open(tmp_path / "w", policy=ToolPolicy(), **means) as world:
        assert (await world.info())["catalog"] == []


async def test_the_shipped_app_may_come_back(shop: Path, means: dict[str, Any], tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        shipped = (await world.info())["manifest"]
    async with World.open(tmp_path / "w", manifest=shop, **means) as world:
        assert (await world.info())["manifest"] != shipped
    air = Path(import_module("demiurge.apps.demiurge").__file__ or "").with_name("air")
    for manifest in (air, None):
        async with World.open(tmp_path / "w", manifest=manifest, environment={}) as world:
            assert (await world.info())["manifest"] == shipped


@pytest.mark.parametrize("wrong", ["folder", "code", "text", "adapter", "lambda"])
async def test_problems_of_a_manifest_are_told_before_a_world_is_made(
    wrong: str, shop: Path, means: dict[str, Any], tmp_path: Path
) -> None:
    given: dict[str, Any] = {**means, "manifest": shop}
    error: type[DemiurgeError] = BadManifest
    match wrong:
        case "folder":
            given["manifest"] = tmp_path / "none"
        case "code":
            given["reducers"] = {}
        case "text":
            (shop / "order.json").write_text("{")
        case "adapter":
            given["adapters"], error = [Model()], InvalidValue
        case "lambda":
            given["reducers"], error = {ORDER: "no function"}, InvalidValue
    with pytest.raises(error):
        World.open(tmp_path / "w", **given)
    assert not (tmp_path / "w").exists()


async def test_a_process_that_names_a_manifest_takes_over_from_an_owner_that_lacks_its_code(
    shop: Path, tmp_path: Path
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "w")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        named: dict[str, Any] = {"manifest": shop, "reducers": {ORDER: import_module("shop_order").reduce}}
        with pytest.raises(Conflict, match="lacks the code of shop/Order@1"):  # it has no adapter either
            async with World.open(tmp_path / "w", **named):
                raise AssertionError
        async with World.open(tmp_path / "w", adapters=[Stock()], **named) as world:
            assert world.owned
            assert [entry["how"] for entry in world.manifest_log()] == ["manifest set"]
        child.communicate("")
