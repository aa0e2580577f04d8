"""The log of manifests, on every kind of store: what `Host.replace_manifest` writes, and how it is read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.small_world import A, EchoAdapter, poke_event, running_host, small_manifest

from demiurge import faults
from demiurge.stores import Store
from demiurge.values.caller import Caller
from demiurge.world.history.verify import verify
from demiurge.world.manifest_log import MANIFESTS, last_entry, manifest_entries

ADA = Caller("user:ada", roles=("user",))
OTHER: dict[str, Any] = {"ex/More@1": {"record": {"n": {"nat": {}}}}}


async def test_a_new_manifest_is_recorded_once_with_its_caller_and_the_one_before(store: Store) -> None:
    first, second = small_manifest(), small_manifest(schemas=OTHER)
    assert last_entry(store) is None
    async with running_host(store, first, [EchoAdapter()]) as host:
        await host.replace_manifest(first, "opened with", ADA)
        await host.replace_manifest(first, "opened with", ADA)
        await host.replace_manifest(second, "manifest set", ADA)
        assert host.manifest is second
        found = list(manifest_entries(store))
        assert [(entry.ref, entry.old, entry.how) for entry in found] == [
            (first.ref, None, "opened with"),
            (second.ref, first.ref, "manifest set"),
        ]
        assert last_entry(store) == found[-1]
        assert {entry.caller for entry in found} == {ADA}
        assert store.has_blob(first.ref)
        assert store.has_blob(second.ref)
        assert {state.unit for state in host.replay()} == {MANIFESTS}
    assert verify(store).ok


async def test_the_record_comes_before_any_step_under_the_new_manifest(store: Store) -> None:
    first, second = small_manifest(), small_manifest(schemas=OTHER)
    async with running_host(store, first, [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("one"))
        with faults.armed({"manifest.recorded": OSError("broken")}), pytest.raises(OSError, match="broken"):
            await host.replace_manifest(second, "manifest set", ADA)
        assert host.manifest is first
        assert [entry.ref for entry in manifest_entries(store)] == [second.ref]
        await host.submit("ex/Ev@1", poke_event("two"))
        await host.replace_manifest(second, "manifest set", ADA)
        await host.submit("ex/Ev@1", poke_event("three"))
        units = [row.unit for row in store.read_all() if row.kind == "manifest"]
        assert units == ["ex/Room@1/a", str(MANIFESTS), "ex/Room@1/a"]
        assert {state.unit for state in host.replay()} == {A, MANIFESTS}
    assert verify(store).ok
