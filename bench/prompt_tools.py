"""Reviewed prompt tools in worlds with few and with many approved versions: what one more approval, the lists and the
catalog of a message cost."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from demiurge import World

SIZES = (10, 100, 500)
ROUNDS = 20

CASE = {"kind": "example", "reply": 'The second is slow: "She waited."', "expect": {"must_match": ['"[^"]+"']}}
PACER: dict[str, Any] = {
    "id": "scene_pacer",
    "name": "Scene pacer",
    "usageNotes": "When a scene feels slow or rushed.",
    "prompt": "Name the paragraphs that slow the scene down, each with a quote.",
    "rationale": "Editors ask for the pace of a scene several times a week.",
    "examples": [{"input": "Is it slow?", "expected": "Some quotes."}, {"input": "Check it.", "expected": "A list."}],
    "testCases": [
        {"id": "quotes", "should": "pass", **CASE},
        {"id": "none", "should": "fail", **CASE, "reply": "Yes."},
    ],
}


async def _approve(world: World, number: int) -> None:
    """Proposes a version of the tool, has it checked, and approves it."""
    given = {**PACER, "prompt": f"{PACER['prompt']} At most {number}."}
    if number:
        given |= {"proposalType": "modify", "baseHash": (await world.prompt_tools.show(PACER["id"])).digest}
    made = await world.prompt_tools.propose(given)
    await world.settle()
    await world.prompt_tools.skip_review(made.id, made.digest, "It is a benchmark.")
    await world.prompt_tools.approve(made.id, made.digest, read=True)


async def _least_ms(do: Callable[[], Awaitable[object]]) -> float:
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        await do()
        taken.append(time.process_time() - begun)
    return min(taken) * 1e3


async def _measured(folder: Path) -> dict[str, list[float]]:
    """Returns for each figure its values in milliseconds of CPU, at each of the sizes."""
    found: dict[str, list[float]] = {}
    async with World.open(folder, environment={"HOME": str(folder.parent)}) as world:
        made = 0

        async def approve_one() -> None:
            nonlocal made
            await _approve(world, made)
            made += 1

        figures: dict[str, Callable[[], Awaitable[object]]] = {
            "one more version proposed, checked and approved": approve_one,
            "the list of proposals, nothing moved": world.prompt_tools.proposals,
            "the list of issues, nothing moved": world.issues.list,
            "the catalog of a message": world.backend.run.prompt_catalog,
        }
        for size in SIZES:
            while made < size - ROUNDS // 2:
                await approve_one()
            for name, do in figures.items():
                found.setdefault(name, []).append(await _least_ms(do))
    return found


def run() -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(_measured(Path(place) / "world"))
    return [
        (f"{name}, {size:,} versions", f"{value:,.2f} ms CPU", f"{value / values[0]:.2f}")
        for name, values in found.items()
        for size, value in zip(SIZES, values, strict=True)
    ]


if __name__ == "__main__":
    for what, figure, ratio in run():
        print(f"{what:<66} {figure:>18}  {ratio:>6}")
