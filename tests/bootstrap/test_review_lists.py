"""The lists of proposals and issues: a unit that has not changed is not read again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.bootstrap.reviewed_worlds import approve, opened, propose, user_file
from tests.registry.prompt_tools import tool_of

from demiurge import World
from demiurge.errors import NotFound
from demiurge.registry.layers import write_layer
from demiurge.world.host import Host
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

COUNT = 20


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "w") as opened_world:
        yield opened_world


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The units whose state a host was asked for, but for the registry."""
    found: list[str] = []
    real = Host.state

    def state(self: Host, unit: Unit) -> UnitState:
        if unit.module != "sys/ToolRegistry@1":
            found.append(str(unit))
        return real(self, unit)

    monkeypatch.setattr(Host, "state", state)
    return found


async def test_of_many_proposals_only_the_one_that_changed_is_read(world: World, reads: list[str]) -> None:
    for number in range(COUNT):
        await propose(world, f"p{number}", id=f"tool_{number}")
    await world.settle()
    reads.clear()
    first = await world.prompt_tools.proposals()
    assert (len(first), len(reads)) == (COUNT, COUNT)
    assert await world.prompt_tools.proposals() == first
    assert len(reads) == COUNT
    await world.prompt_tools.withdraw("p7", next(view.digest for view in first if view.id == "p7"))
    reads.clear()
    states = {view.id: view.state for view in await world.prompt_tools.proposals()}
    assert states == {view.id: "withdrawn" if view.id == "p7" else "chief_review" for view in first}
    assert reads == ["sys/ToolProposal@1/p7"]
    assert [view.id for view in await world.prompt_tools.proposals(state="withdrawn")] == ["p7"]
    assert len(reads) == 1


async def test_the_state_of_the_layer_files_reads_only_the_proposals_that_changed(
    world: World, tmp_path: Path, reads: list[str]
) -> None:
    path = user_file(tmp_path / "w")
    path.parent.mkdir(parents=True)
    path.write_bytes(write_layer([tool_of(id=f"tool_{number}") for number in range(COUNT)]))
    names = (await world.prompt_tools.sync())[0].proposals
    await world.settle()
    await world.prompt_tools.proposals()
    view = await world.prompt_tools.proposal(names[0])
    await world.prompt_tools.withdraw(view.id, view.digest)
    reads.clear()
    assert (await world.prompt_tools.files())[0].proposals == names[1:]
    assert reads == [f"sys/ToolProposal@1/{names[0]}"]


async def test_of_many_issues_only_the_one_that_changed_is_read(world: World, reads: list[str]) -> None:
    opened_ones = [await world.issues.open(f"Issue {number}", "A text.") for number in range(COUNT)]
    assert len(await world.issues.list()) == COUNT
    changed = opened_ones[3].id
    await world.issues.comment(changed, "A remark.")
    reads.clear()
    counts = {view.id: view.comment_count for view in await world.issues.list()}
    assert counts == {view.id: int(view.id == changed) for view in opened_ones}
    assert reads == [f"sys/Issue@1/{changed}"]


async def test_a_list_says_what_is_live_now_of_proposals_that_did_not_change(world: World, reads: list[str]) -> None:
    await propose(world, "p1")
    await propose(world, "p2", goals="Another goal.")
    await world.settle()
    assert [view.is_stale for view in await world.prompt_tools.proposals()] == [False, False]
    await approve(world, "p1")
    [entry] = await world.prompt_tools.history("scene_pacer")
    reads.clear()
    found = {view.id: (view.is_stale, view.live_digest) for view in await world.prompt_tools.proposals()}
    assert found == {"p1": (False, entry.digest), "p2": (True, entry.digest)}
    assert reads == ["sys/ToolProposal@1/p1"]
    assert (await world.prompt_tools.proposal("p2")).is_stale


async def test_a_document_is_found_as_soon_as_it_is_approved(world: World) -> None:
    await propose(world, "p1")
    with pytest.raises(NotFound):
        await world.backend.read.approved_document((await world.prompt_tools.proposal("p1")).digest)
    await approve(world, "p1")
    [entry] = await world.prompt_tools.history("scene_pacer")
    for ref in (entry.snapshot, entry.digest):
        assert await world.backend.read.approved_document(ref)
