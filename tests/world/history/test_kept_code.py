"""An old history replays under the source it ran on, or is reported unchecked (architecture.md 2, rule 7)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.world.small_world import A, EchoAdapter, poke_event, running_host, small_manifest, stored_records

from demiurge.apps.demiurge import CHAT, app
from demiurge.errors import Divergence, InvalidValue
from demiurge.stores import MemoryStore, Store
from demiurge.values.refs import Ref, ref_of
from demiurge.world.history.kept_code import kept_reducer
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.workspace import workspace_reducer


def reducer_source(word: str) -> bytes:
    return f'''
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from demiurge.world.reducer import Emit, Step


@dataclass(frozen=True)
class Word:
    text: str
    kept: ClassVar[bool] = True


def reduce(state, event, context):
    count = {{"n": state["n"] + 1 if state is not None else 1}}
    value = event["$value"]
    if event["$tag"] == "Poke" and value["what"] == "ask":
        return Step(set=count, events=[Emit("ex/Ask@1", {{"room": context.key, "n": 1, "text": "x"}})])
    return Step(set=count, append={{"log": [Word("{word}").text]}})
'''.encode()


def run_any_source(_source: Ref) -> bool:
    return True


def manifest_of_source(word: str) -> Manifest:
    return small_manifest(reduce=kept_reducer(reducer_source(word)).reduce, source=reducer_source(word))


async def log_after_pokes(store: Store, manifest: Manifest, *words: str, kept_code: bool = False) -> Sequence[str]:
    """What the room has logged after these pokes."""
    async with running_host(store, manifest, [EchoAdapter()], tail_bytes=1 << 20, kept_code=kept_code) as host:
        for word in words:
            await host.submit("ex/Ev@1", poke_event(word))
        await host.settle()
        cell = host.state(A).cell
        assert cell is not None
        return list(cell["log"])


async def test_a_history_over_two_sources_replays_each_part_under_its_own(store: Store) -> None:
    assert await log_after_pokes(store, manifest_of_source("old"), "a", "b") == ["old", "old"]
    assert await log_after_pokes(store, manifest_of_source("new"), "c", kept_code=True) == ["old", "old", "new"]
    for manifest in (manifest_of_source("new"), manifest_of_source("old"), small_manifest(source=b"no Python (")):
        *_, last = Host(store, manifest, [], kept_code=run_any_source).replay()
        assert last.cell is not None
        assert list(last.cell["log"]) == ["old", "old", "new"]


async def test_without_leave_the_code_at_hand_is_used_and_what_differs_is_unchecked(store: Store) -> None:
    await log_after_pokes(store, manifest_of_source("old"), "a")
    with pytest.raises(Divergence) as raised:
        list(Host(store, manifest_of_source("new"), []).replay())
    assert raised.value.code == "unchecked"
    assert "ex/Room@1" in str(raised.value)


async def test_a_change_that_changed_nothing_is_no_difference(store: Store) -> None:
    await log_after_pokes(store, manifest_of_source("same"), "a")
    other = reducer_source("same") + b"\n# a comment\n"
    *_, last = Host(store, small_manifest(reduce=kept_reducer(other).reduce, source=other), []).replay()
    assert last.cell is not None


async def test_the_sources_are_kept_when_a_world_starts(store: Store) -> None:
    await log_after_pokes(store, manifest_of_source("old"), "a")
    await log_after_pokes(store, manifest_of_source("new"), kept_code=True)
    for word in ("old", "new"):
        assert store.get_blob(ref_of(reducer_source(word))) == reducer_source(word)
    [manifest] = [r for r in stored_records(store) if r.kind == "manifest"]
    assert ref_of(reducer_source("old")) in manifest.refs, "nobody cleans them away while a record needs them"


async def test_a_source_that_is_lost_is_reported_unchecked(memory: MemoryStore) -> None:
    await log_after_pokes(memory, manifest_of_source("old"), "a")
    del memory._blobs[ref_of(reducer_source("old"))]
    with pytest.raises(Divergence) as raised:
        list(Host(memory, manifest_of_source("new"), [], kept_code=run_any_source).replay())
    assert raised.value.code == "unchecked"


async def test_an_open_plan_goes_on_under_its_manifest_while_its_unit_takes_the_new_code(store: Store) -> None:
    async with running_host(
        store, manifest_of_source("old"), [EchoAdapter({"x": asyncio.Event()})], tail_bytes=1 << 20
    ) as host:
        await host.submit("ex/Ev@1", poke_event("ask"))
    assert await log_after_pokes(store, manifest_of_source("new"), kept_code=True) == ["new"]
    manifests = [r.body["ref"] for r in stored_records(store) if r.kind == "manifest"]
    assert manifests == [manifest_of_source("old").ref, manifest_of_source("new").ref]
    list(Host(store, manifest_of_source("new"), [], kept_code=run_any_source).replay())


@pytest.mark.parametrize("text", [b"(", b"\xff", b"x = 1", b"raise ValueError", b"import nowhere_at_all", b"\0"])
def test_a_value_that_is_no_module_with_a_reducer_cannot_be_run(text: bytes) -> None:
    before = set(sys.modules)
    with pytest.raises(InvalidValue) as raised:
        kept_reducer(text)
    assert raised.value.code == "unchecked"
    assert set(sys.modules) == before


def test_kept_sources_of_the_app_and_system_reducers_can_be_run() -> None:
    for reducer in (app().reducers[CHAT], workspace_reducer()):
        assert kept_reducer(reducer.source).reduce.__name__ == reducer.reduce.__name__ == "reduce"


async def test_only_what_may_be_run_is_run(memory: MemoryStore, tmp_path: Path) -> None:
    left = tmp_path / "ran"
    bad = reducer_source("bad") + f"\nopen({str(left)!r}, 'w').close()\n".encode()
    await log_after_pokes(memory, small_manifest(reduce=kept_reducer(bad).reduce, source=bad), "a")
    left.unlink()
    asked: list[Ref] = []

    def only_good(ref: Ref) -> bool:
        asked.append(ref)
        return ref == ref_of(reducer_source("good"))

    with pytest.raises(Divergence) as raised:
        list(Host(memory, manifest_of_source("new"), [], kept_code=only_good).replay())
    assert raised.value.code == "unchecked"
    assert set(asked) == {ref_of(bad)}
    assert not left.exists()


async def test_a_history_that_the_current_code_reproduces_needs_no_kept_code(memory: MemoryStore) -> None:
    await log_after_pokes(memory, manifest_of_source("same"), "a")
    other = reducer_source("same") + b"\n# a comment\n"

    def nobody_asks(_ref: Ref) -> bool:
        raise AssertionError

    host = Host(memory, small_manifest(reduce=kept_reducer(other).reduce, source=other), [], kept_code=nobody_asks)
    assert list(host.replay())


async def test_a_unit_that_old_code_wrote_has_a_snapshot_after_its_next_step(store: Store) -> None:
    await log_after_pokes(store, manifest_of_source("old"), "a", "b")
    assert store.latest_snapshot(str(A)) is None
    assert await log_after_pokes(store, manifest_of_source("new"), kept_code=True) == ["old", "old"]
    assert store.latest_snapshot(str(A)) is None, "looking writes nothing"
    assert await log_after_pokes(store, manifest_of_source("new"), "c", kept_code=True) == ["old", "old", "new"]
    assert await log_after_pokes(store, manifest_of_source("new"), "d") == ["old", "old", "new", "new"]


async def test_a_kept_source_has_the_function_that_the_code_at_hand_has(memory: MemoryStore) -> None:
    named = reducer_source("old").replace(b"def reduce(", b"def reserve(")
    old = kept_reducer(named, "reserve")
    await log_after_pokes(memory, small_manifest(reduce=old.reduce, source=named), "a")
    new = kept_reducer(named.replace(b'"old"', b'"new"'), "reserve")
    manifest = small_manifest(reduce=new.reduce, source=new.source)
    assert await log_after_pokes(memory, manifest, "b", kept_code=True) == ["old", "new"]
