"""The module `sys/Workspace@1`: who may edit, and that an edit is a tree made here."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.small_world import small_manifest

from demiurge.stores import MemoryStore
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world import trees
from demiurge.world.host import Host
from demiurge.world.record import Stamp
from demiurge.world.reducer import ReducerContext
from demiurge.world.unit import Unit
from demiurge.world.workspace import COMMITTED, EDIT, EDIT_REFUSED, REJECTED, WORKSPACE, workspace_reducer

MAIN = Unit(WORKSPACE, "main")


def edit(path: str, ref: Ref | None, expected: int | None = None) -> dict[str, Any]:
    return {"workspace": "main", "expected_head": expected, "path": path, "bytes_ref": ref}


async def said(host: Host, value: dict[str, Any], actor: str = "user") -> tuple[str, Any]:
    """The event that answers an edit."""
    accepted = await host.submit(EDIT, value, caller=Caller(actor))
    answers = [r.body for r in host.records(MAIN, accepted.seq + 1) if r.kind == "event"]
    [answer] = answers
    return answer["schema"], answer["value"]


@pytest.fixture
async def host(memory: MemoryStore) -> Any:
    running = Host(memory, small_manifest(), [])
    await running.start()
    yield running
    await running.close()


async def test_an_edit_makes_the_tree_that_it_names(host: Host) -> None:
    a, b = [await host.put_blob(text) for text in (b"a", b"bb")]
    assert (await said(host, edit("x/a", a)))[0] == COMMITTED
    assert (await said(host, edit("b", b, 1), "user:ada"))[1]["version"] == 2
    cell = host.state(MAIN).cell
    assert cell is not None
    versions = list(cell["versions"])
    assert [version["owner"] for version in versions] == ["user", "user:ada"]
    found = trees.find(host.get_blob, Ref(versions[1]["root_hash"]), "x/a")
    assert found is not None
    assert (found.ref, found.size) == (a, 1)
    for path in ("x/a", "x", "b"):
        assert (await said(host, edit(path, None)))[0] == COMMITTED
    cell = host.state(MAIN).cell
    assert cell is not None
    assert cell["versions"][-1]["root_hash"] == ref_of(trees.EMPTY)
    assert len(list(host.replay())) == 5


@pytest.mark.parametrize("actor", ["agent:1", "viewer", "ex/Room@1/a", "", "users"])
async def test_only_a_user_edits(actor: str, host: Host) -> None:
    schema, value = await said(host, edit("a", await host.put_blob(b"a")), actor)
    assert (schema, value["code"]) == (EDIT_REFUSED, "not_allowed")
    assert host.state(MAIN).cell is None


async def test_a_moved_head_and_a_bad_path_are_answers(host: Host) -> None:
    ref = await host.put_blob(b"a")
    assert (await said(host, edit("a", ref, 1)))[0] == REJECTED
    for path in ("", "../a", "a//b", "a b", "/".join("x" * 65)):
        assert (await said(host, edit(path, ref)))[0] == EDIT_REFUSED
    assert (await said(host, edit("a", None)))[1]["code"] == "not_found"
    assert host.state(MAIN).cell is None


async def test_two_writers_who_saw_the_same_version_do_not_both_win(host: Host) -> None:
    ref = await host.put_blob(b"a")
    answers = [await said(host, edit(path, ref, 0)) for path in ("a", "b")]
    assert [schema for schema, _ in answers] == [COMMITTED, REJECTED]


@pytest.mark.parametrize("origin", ["unit", "derived"])
def test_an_edit_that_a_unit_sends_is_no_persons(origin: Any) -> None:
    """A plan may raise any event; its way to a workspace is an effect under a grant."""
    context = ReducerContext(
        stamp=Stamp(1, b"", Caller("user")), key="main", origin=origin, settings={}, decide_tool=str, blobs={}, cause=1
    )
    wanted = edit("a", ref_of(b"a"))
    step = workspace_reducer().reduce(None, {"$tag": "Edit", "$value": wanted}, context)
    assert [(e.schema, e.value["code"]) for e in step.events] == [(EDIT_REFUSED, "not_allowed")]
    assert not step.append
