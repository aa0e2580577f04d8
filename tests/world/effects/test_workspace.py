"""`workspace.*`: what a plan can do with a workspace, and what its grant keeps it from."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.effects.effect_asker import Asker, effect_asker, interrupt_effect
from tests.world.small_world import A

from demiurge.stores import MemoryStore, Store
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.world import trees
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.workspace import WorkspaceEffects
from demiurge.world.history.verify import verify
from demiurge.world.unit import Unit

GRANTS: dict[str, dict[str, Any]] = {"workspace": {}, "blob": {}}
HERE = {"workspace": "main"}


def workspace_grants(**params: Any) -> dict[str, dict[str, Any]]:
    return {"workspace": params, "blob": {}}


async def change_and_commit(asker: Asker, kind: str, /, *, workspace: str = "main", **params: Any) -> int:
    """Change a workspace and commit that; the new version."""
    made = await asker.payload(f"workspace.{kind}", workspace=workspace, **params)
    done = await asker.payload(
        "workspace.commit",
        workspace=workspace,
        expected_head=made["version"],
        root_hash=made["new_root_hash"],
        owner="nobody",
    )
    assert done["ok"]
    version: int = done["version"]
    return version


async def put_file(asker: Asker, path: str, data: bytes, *, workspace: str = "main") -> int:
    return await change_and_commit(
        asker, "write_bytes", workspace=workspace, path=path, bytes_ref=await asker.give(data)
    )


async def list_files(asker: Asker, path: str = "") -> list[str]:
    return [entry["path"] for entry in (await asker.payload("workspace.list", **HERE, path=path))["entries"]]


def workspace_asker(store: Store, grants: Any = GRANTS) -> Any:
    return effect_asker(store, [WorkspaceEffects(), BlobEffects()], grants)


async def test_a_workspace_and_its_versions_are_resolved(store: Store) -> None:
    async with workspace_asker(store) as asker:
        nothing = await asker.payload("workspace.resolve", **HERE)
        assert nothing["exists"] is False
        assert (nothing["resolved_version"], nothing["head"], nothing["root_hash"]) == (None, None, None)
        assert nothing["reading"] == {"unit": "sys/Workspace@1/main", "unit_seq": 0, "state_hash": None}
        await put_file(asker, "a", b"1")
        await put_file(asker, "b", b"2")
        head = await asker.payload("workspace.resolve", **HERE)
        old = await asker.payload("workspace.resolve", **HERE, version=1)
        assert [(r["exists"], r["resolved_version"], r["head"]) for r in (head, old)] == [(True, 2, 2), (True, 1, 2)]
        assert head["root_hash"] != old["root_hash"]
        assert (await asker.payload("workspace.resolve", **HERE, version=3))["exists"] is False
        assert verify(store).ok
        assert [state.seq for state in asker.host.replay()]


async def test_an_old_version_can_be_made_the_newest_again(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "a", b"1")
        await put_file(asker, "b", b"2")
        old = await asker.payload("workspace.resolve", **HERE, version=1)
        commit = {**HERE, "expected_head": 2, "owner": "x"}
        done = await asker.payload("workspace.commit", **commit, root_hash=old["root_hash"])
        assert (done["ok"], done["version"]) == (True, 3)
        assert await list_files(asker) == ["a"]
        late = await asker.payload("workspace.commit", **commit, root_hash=old["root_hash"])
        assert (late["ok"], late["version"], late["expected"]) == (False, 3, 2)


async def test_the_owner_is_who_acted_and_not_who_is_named(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "a", b"1")
        cell = asker.host.state(Unit("sys/Workspace@1", "main")).cell
        assert cell is not None
        assert [version["owner"] for version in cell["versions"]] == ["user"]


async def test_read_ref_returns_the_entry_at_a_path(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "d/a", b"hello")
        found = await asker.payload("workspace.read_ref", **HERE, path="d/a")
        assert found["entry"] == {"kind": "file", "hash": ref_of(b"hello"), "size": 5, "mode": 0o644}
        folder = await asker.payload("workspace.read_ref", **HERE, path="d")
        assert (folder["entry"]["kind"], folder["entry"]["size"]) == ("dir", 0)
        assert (await asker.payload("workspace.read_ref", **HERE, path="none"))["entry"] is None
        assert await asker.code("workspace.read_ref", **HERE, path="d/../d") == "bad_path"
        assert await asker.code("workspace.read_ref", **HERE, path="d", version=9) == "not_found"


async def test_files_and_empty_folders_are_removed(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "d/a", b"1")
        await put_file(asker, "b", b"2")
        assert await asker.code("workspace.remove", **HERE, path="d") == "not_empty"
        assert await asker.code("workspace.remove", **HERE, path="d/none") == "not_found"
        assert await asker.code("workspace.remove", **HERE, path="none/x") == "not_found"
        assert await asker.code("workspace.remove", **HERE, path="") == "bad_path"
        await change_and_commit(asker, "remove", path="d/a")
        assert (await list_files(asker), await list_files(asker, "d")) == (["b", "d"], [])
        await change_and_commit(asker, "remove", path="d")
        assert await change_and_commit(asker, "remove", path="b") == 5
        assert await list_files(asker) == []
        old = await asker.payload("workspace.read_bytes", **HERE, path="d/a", version=1)
        assert asker.host.get_blob(Ref(old["bytes_ref"])) == b"1"


async def test_versions_are_compared(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "d/same", b"0")
        await put_file(asker, "d/old", b"1")
        await put_file(asker, "x", b"2")
        await put_file(asker, "x", b"3")
        await put_file(asker, "d/e/new", b"4")
        await change_and_commit(asker, "remove", path="d/old")

        async def changes(**params: Any) -> list[tuple[str, str, bool, bool]]:
            found = await asker.payload("workspace.diff", **HERE, **{"path": "", "version_a": 2, **params})
            return [(c["path"], c["kind"], bool(c["old_hash"]), bool(c["new_hash"])) for c in found["changes"]]

        everything = [
            ("d/e", "dir", False, True),
            ("d/e/new", "file", False, True),
            ("d/old", "file", True, False),
            ("x", "file", False, True),
        ]
        assert await changes() == everything
        assert await changes(path="d") == everything[:3]
        assert await changes(path="x", version_a=3) == [("x", "file", True, True)]
        assert await changes(version_a=3, version_b=3) == []
        assert await changes(version_a=6, version_b=2) == [(p, k, new, old) for p, k, old, new in everything]
        assert await changes(path="none") == []
        found = await asker.payload("workspace.diff", **HERE, version_a=0, version_b=1, path="")
        assert (found["version_a"], found["version_b"], len(found["changes"])) == (0, 1, 2)
        assert await asker.code("workspace.diff", **HERE, version_a=7, path="") == "not_found"


async def test_annotations_belong_to_a_path_and_a_version(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "d/a", b"1")
        for path in ("d/a", "d", ""):
            await change_and_commit(asker, "annotations_set", path=path, patch={"of": path or "root", "gone": "soon"})
            await change_and_commit(asker, "annotations_set", path=path, patch={"gone": None, "more": "x"})
        await put_file(asker, "d/a", b"2")
        await put_file(asker, "d/b", b"3")

        async def annotations(path: str, version: int | None = None) -> Any:
            found = await asker.payload("workspace.annotations_get", **HERE, path=path, version=version)
            return found["annotations"]

        for path in ("d/a", "d", ""):
            assert await annotations(path) == {"of": path or "root", "more": "x"}
        assert await annotations("d/a", 1) == {}
        assert await annotations("d/b") == {}
        found = await asker.payload("workspace.diff", **HERE, version_a=1, version_b=7, path="")
        assert [change["path"] for change in found["changes"]] == ["", "d", "d/a"]
        assert await asker.code("workspace.annotations_get", **HERE, path="none") == "not_found"
        assert await asker.code("workspace.annotations_set", **HERE, path="none", patch={}) == "not_found"
        long = {"a": "x" * trees.ANNOTATIONS_BYTES}
        assert await asker.code("workspace.annotations_set", **HERE, path="d", patch=long) == "too_large"


async def test_a_grant_limits_bytes_and_entries(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        for name in ("a", "b", "c"):
            await put_file(asker, name, b"four")
    async with workspace_asker(memory, workspace_grants(max_bytes=3, max_entries=2)) as asker:
        assert await asker.code("workspace.read_bytes", **HERE, path="a") == "too_large"
        assert await asker.code("workspace.read_ref", **HERE, path="a") == "too_large"
        assert await asker.code("workspace.list", **HERE, path="") == "too_large"
        assert await asker.code("workspace.diff", **HERE, version_a=0, path="") == "too_large"
        four, three = await asker.give(b"four"), await asker.give(b"tri")
        assert await asker.code("workspace.write_bytes", **HERE, path="d", bytes_ref=four) == "too_large"
        await asker.payload("workspace.write_bytes", **HERE, path="d", bytes_ref=three)
        assert len((await asker.payload("workspace.diff", **HERE, version_a=1, path=""))["changes"]) == 2


async def test_a_plan_writes_only_what_its_unit_was_given(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        secret = await asker.host.put_blob(b"secret")
        assert await asker.code("workspace.write_bytes", **HERE, path="a", bytes_ref=secret) == "not_found"


async def test_a_tree_that_no_effect_made_is_not_published(memory: MemoryStore) -> None:
    """Else a tree written by hand could name any blob, and reading the file would show it."""
    async with workspace_asker(memory) as asker:
        secret = await asker.host.put_blob(b"secret")
        entry = {"name": "stolen", "kind": "file", "hash": secret, "size": 6, "mode": 0o644}
        forged = await asker.give(cbor.encode({"entries": [entry]}))
        commit = {"expected_head": None, "owner": "x", "root_hash": forged}
        assert await asker.code("workspace.commit", **HERE, **commit) == "not_found"
        assert await asker.code("workspace.commit", **HERE, **{**commit, "root_hash": ref_of(b"none")}) == "not_found"


async def test_a_tree_of_one_workspace_is_not_published_in_another(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        ref = await asker.give(b"1")
        made = await asker.payload("workspace.write_bytes", workspace="other", path="a", bytes_ref=ref)
        commit = {"expected_head": None, "owner": "x", "root_hash": made["new_root_hash"]}
        assert await asker.code("workspace.commit", **HERE, **commit) == "not_found"
        assert (await asker.payload("workspace.commit", workspace="other", **commit))["ok"]


async def test_a_workspace_can_be_emptied(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "a", b"1")
        commit = {"expected_head": 1, "owner": "x", "root_hash": ref_of(trees.EMPTY)}
        assert (await asker.payload("workspace.commit", **HERE, **commit))["version"] == 2
        assert await list_files(asker) == []
    assert verify(memory).ok


async def test_a_grant_for_some_paths_publishes_changes_to_those_alone(memory: MemoryStore) -> None:
    async with workspace_asker(memory) as asker:
        await put_file(asker, "docs/a", b"1")
        await put_file(asker, "keys/b", b"2")
        old = (await asker.payload("workspace.resolve", **HERE, version=1))["root_hash"]
    async with workspace_asker(memory, workspace_grants(path_prefixes=["docs"])) as asker:
        commit = {"expected_head": None, "owner": "x"}
        assert await asker.code("workspace.commit", **HERE, **commit, root_hash=old) == "path_not_allowed"
        assert await asker.code("workspace.remove", **HERE, path="keys/b") == "path_not_allowed"
        assert await asker.code("workspace.annotations_set", **HERE, path="", patch={}) == "path_not_allowed"
        assert await put_file(asker, "docs/c", b"3") == 3
        ref = await asker.give(b"4")
        stale = await asker.payload("workspace.write_bytes", **HERE, path="docs/c", bytes_ref=ref, version=1)
        root = stale["new_root_hash"]
        assert await asker.code("workspace.commit", **HERE, **commit, root_hash=root) == "path_not_allowed"
    async with workspace_asker(memory) as asker:
        assert await list_files(asker, "keys") == ["keys/b"]


@pytest.mark.parametrize("kind", ["resolve", "remove", "diff", "annotations_set"])
async def test_an_interrupted_workspace_effect_is_done_again(memory: MemoryStore, kind: str) -> None:
    asked: dict[str, dict[str, Any]] = {
        "resolve": {},
        "remove": {"path": "a"},
        "diff": {"version_a": 0, "path": ""},
        "annotations_set": {"path": "a", "patch": {"x": "y"}},
    }
    async with workspace_asker(memory) as asker:
        await put_file(asker, "a", b"1")
        before = asker.host.state(A).seq
    await interrupt_effect(memory, GRANTS, f"workspace.{kind}", **HERE, **asked[kind])
    async with workspace_asker(memory) as asker:
        await asker.host.settle()
        assert asker.outcome(before)["status"] == "ok"


@pytest.mark.parametrize("name", ["..", "...", "a b"])
async def test_nothing_is_made_or_committed_under_a_name_that_is_none(store: Store, name: str) -> None:
    async with workspace_asker(store) as asker:
        ref = await asker.give(b"x")
        asked: list[tuple[str, dict[str, Any]]] = [
            ("write_bytes", {"version": None, "path": "x", "bytes_ref": ref}),
            ("remove", {"version": None, "path": "x"}),
            ("commit", {"expected_head": None, "root_hash": ref_of(trees.EMPTY), "owner": "o"}),
        ]
        for kind, params in asked:
            told = (await asker.ask(f"workspace.{kind}", workspace=name, **params))["payload"]
            assert told["code"] == "invalid_workspace_name"
            assert "invalid workspace name" in told["message"]
        dots = await asker.ask("workspace.write_bytes", **HERE, version=None, path="a/.../x", bytes_ref=ref)
        assert dots["payload"]["code"] == "bad_path"
        assert (await asker.payload("workspace.resolve", workspace=name, version=None))["exists"] is False


async def test_workspaces_are_granted_by_name_and_a_commit_conflict_is_a_result(memory: MemoryStore) -> None:
    grants: dict[str, dict[str, Any]] = {"workspace": {"workspaces": ["main"]}, "blob": {}}
    async with effect_asker(memory, [WorkspaceEffects(), BlobEffects()], grants) as asker:
        text = await asker.give(b"text")
        assert (await asker.ask("workspace.list", workspace="other", path=""))["status"] == "denied"
        made = await asker.payload("workspace.write_bytes", workspace="main", path="a", bytes_ref=text)
        commit = {"workspace": "main", "expected_head": 0, "root_hash": made["new_root_hash"], "owner": "x"}
        done = [await asker.payload("workspace.commit", **commit) for _ in range(2)]
    assert [(one["ok"], one["version"]) for one in done] == [(True, 1), (False, 1)]
